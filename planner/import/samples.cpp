#include "planner/import/samples.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cost-model/spec_reader.h"
#include "planner/import/nccl_tests.h"

namespace tpplan {

namespace {

constexpr std::size_t kLookedAt = 4000;  // bytes of a file that tell its kind

std::string text_of(const std::string& path) {
  if (path == "-") {
    std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    return text;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SpecError(path + ": cannot be read");
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw SpecError(path + ": cannot be read");
  return text;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// A comma-separated header that names a size and a time, or rows of 11 to 13 cells.
bool looks_like_csv(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    const auto commas = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    if (commas < 3) return false;
    const bool rows = line[0] >= '0' && line[0] <= '9' && commas >= 10;
    return rows || (contains(line, "size") && contains(line, "time"));
  }
  return false;
}

/// Names a tool whose tables look alike but mean something else; empty when there is none.
std::string other_tool(const std::string& text) {
  if (contains(text, "data_size(Bytes)") && contains(text, "alg_bandwidth"))
    return "the HCCL performance test (Ascend)";
  if (contains(text, "nccom-test")) return "nccom-test (Trainium)";
  if (contains(text, "<html") || contains(text, "<!DOCTYPE")) return "a web page: save the text itself";
  return "";
}

}  // namespace

Samples parse_samples(const std::string& name, std::string text, const ImportOptions& options) {
  const std::string head = text.substr(0, kLookedAt);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw SpecError(name + ": the file is empty");
  if (head[first] == '{') {
    const std::size_t line_end = std::min(head.find('\n', first), head.size());
    const std::string line = head.substr(first, line_end - first);
    if (contains(head, "\"results\"") || contains(head, "\"nccl_version\"")) {
      return samples_of_log(parse_nccl_tests_json(name, text), options);
    }
    if (contains(line, "\"schema_version\"") && contains(line, "}")) return parse_comm_bench_samples(name, text);
    return parse_microbenchmark(name, std::move(text));
  }
  const std::string other = other_tool(head);
  if (contains(head, "OSU MPI") || contains(head, "Intel(R) MPI Benchmarks") || contains(head, "# Benchmarking")) {
    Samples samples = samples_of_log(parse_osu(name, text), options);
    if (samples.log->rows() > 0 || other.empty()) return samples;
  }
  if (looks_like_csv(text)) return samples_of_log(parse_benchmark_csv(name, text), options);
  Samples samples = samples_of_log(parse_nccl_tests(name, text), options);
  if (!samples.log->runs.empty() || !samples.warnings.empty()) return samples;
  if (!other.empty()) throw SpecError(name + ": output of " + other + ", which is not read");
  throw SpecError(name +
                  ": no table of measurements: expected output of nccl-tests, rccl-tests, OSU or IMB, comm-bench " +
                  "samples, or a microbenchmark list");
}

Samples read_samples(const std::string& path, const ImportOptions& options) {
  return parse_samples(path, text_of(path), options);
}

}  // namespace tpplan
