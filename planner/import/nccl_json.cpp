#include <array>
#include <cctype>
#include <limits>

#include "cost-model/spec_reader.h"
#include "planner/import/nccl_tests.h"

namespace tpplan {

namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 53;

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// Puts quotes around the bare inf and nan that the tool writes, which are no JSON.
std::string quote_bare_numbers(const std::string& text) {
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) in_string = !in_string;
    if (!in_string && (c == 'i' || c == 'n') && (i == 0 || !letter(text[i - 1]))) {
      const std::string word = text.substr(i, 3);
      const bool ends = i + 3 >= text.size() || !letter(text[i + 3]);
      if ((word == "inf" || word == "nan") && ends) {
        const bool negative = !result.empty() && result.back() == '-';
        if (negative) result.pop_back();
        result += negative ? "\"-" : "\"";
        result += word + '"';
        i += 2;
        continue;
      }
    }
    result += c;
  }
  return result;
}

/// Where a file that was cut while being written can be closed: after the last complete element of "results", with the
/// brackets that are open there. Empty when the text is complete or was cut before any result.
std::string closed_after_last_result(const std::string& text) {
  const std::size_t results = text.find("\"results\"");
  if (results == std::string::npos) return "";
  int depth = 0;
  bool in_string = false;
  std::size_t last_element = std::string::npos;
  for (std::size_t i = text.find('[', results); i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && text[i - 1] != '\\') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == '}' && depth == 1) last_element = i;
    if (depth == 0) break;
  }
  return last_element == std::string::npos ? "" : text.substr(0, last_element + 1) + "]}";
}

bool complete_json(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return depth == 0 && !in_string;
}

std::optional<double> figure(ObjectReader& place, std::string_view key) {
  if (!place.has(key)) {
    place.ignore(key);
    return std::nullopt;
  }
  if (place.is_text(key)) return number_in(place.text(key));
  constexpr double kLargest = std::numeric_limits<double>::max();
  return place.number(key, -kLargest, kLargest);
}

std::optional<PlaceFigures> place_figures(ObjectReader& row, std::string_view key, bool& cpu_time) {
  if (!row.has(key)) {
    row.ignore(key);
    return std::nullopt;
  }
  ObjectReader place = row.object(key);
  PlaceFigures figures;
  cpu_time = cpu_time || place.has("cpu_time");
  figures.time_us = figure(place, place.has("cpu_time") ? "cpu_time" : "time").value_or(0);
  figures.algbw = figure(place, "alg_bw").value_or(0);
  figures.busbw = figure(place, "bus_bw").value_or(0);
  figures.wrong = figure(place, "nwrong");
  place.ignore_rest();
  return figures;
}

std::string trimmed(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  return words.empty() ? "" : words[0];
}

BenchmarkRow result_row(ObjectReader row, bool& cpu_time) {
  BenchmarkRow result;
  result.size = row.count("size", 0, kMany);
  result.count = row.count("count", 0, kMany, 0);
  result.type = trimmed(row.text("type", ""));
  result.redop = trimmed(row.text("redop", ""));
  if (row.is_text("root")) {
    const std::optional<std::int64_t> root = integer_in(trimmed(row.text("root")));
    if (root) result.root = static_cast<int>(*root);
  } else if (row.has("root")) {
    result.root = static_cast<int>(row.count("root", -1, 1 << 30));
  }
  result.out_of_place = place_figures(row, "out_of_place", cpu_time);
  result.in_place = place_figures(row, "in_place", cpu_time);
  row.ignore_rest();
  return result;
}

void read_config(ObjectReader config, BenchmarkRun& run) {
  static constexpr std::array<const char*, 11> kKeys{
      "nthreads",     "ngpus",      "minimum_bytes",         "maximum_bytes", "step_factor", "step_bytes",
      "warmup_iters", "iterations", "aggregated_iterations", "validation",    "graph"};
  for (const char* const key : kKeys) {
    if (config.is_number(key)) run.configuration[key] = std::to_string(config.count(key, 0, kMany));
  }
  run.graph = run.configuration["graph"] != "0" && !run.configuration["graph"].empty();
  run.blocking = config.is_text("blocking_collectives") && config.text("blocking_collectives") == "true";
  if (std::optional<ArrayReader> devices = config.optional_array("devices")) {
    for (std::size_t i = 0; i < devices->size(); ++i) {
      ObjectReader reader = devices->object(i);
      BenchmarkDevice device;
      device.rank = static_cast<int>(reader.count("rank", 0, 1 << 30));
      device.group = static_cast<int>(reader.count("group", 0, 1 << 30, 0));
      device.host = reader.text("hostname", "");
      device.device = static_cast<int>(reader.count("device", 0, 1 << 20, 0));
      device.bus_id = reader.text("device_hex", "");
      device.model = reader.text("device_info", "");
      reader.ignore_rest();
      run.devices.push_back(std::move(device));
    }
  }
  config.ignore_rest();
}

void read_environment(ArrayReader environment, BenchmarkRun& run) {
  for (std::size_t i = 0; i < environment.size(); ++i) {
    const std::string entry = environment.is_text(i) ? environment.text(i) : "";
    const std::size_t equals = entry.find('=');
    if (entry.rfind("NCCL_", 0) == 0 && equals != std::string::npos) {
      run.variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
}

std::string version_text(std::int64_t number) {
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

}  // namespace

BenchmarkLog parse_nccl_tests_json(const std::string& name, const std::string& text) {
  BenchmarkLog log;
  log.name = name;
  log.tool = "nccl-tests";
  std::string json = quote_bare_numbers(text);
  const bool cut = !complete_json(json);
  if (cut) {
    const std::string closed = closed_after_last_result(json);
    if (!closed.empty()) {
      json = closed;
      log.warnings.push_back({0, "the file ends in the middle (a killed run): the results up to there are used"});
    }
  }
  SpecDocument document = SpecDocument::parse(name, std::move(json));
  ObjectReader root = document.root();
  BenchmarkRun run;
  run.summary = !cut;
  root.count("version", 1, 1000, 1);
  if (std::optional<ArrayReader> arguments = root.optional_array("args")) {
    if (arguments->size() > 0) run.program = arguments->text(0);
  }
  run.collective = benchmark_collective(run.program.substr(run.program.find_last_of('/') + 1));
  if (std::optional<ArrayReader> environment = root.optional_array("env")) read_environment(*environment, run);
  if (root.has("nccl_version")) run.variables["NCCL version"] = version_text(root.count("nccl_version", 0, kMany));
  if (std::optional<ObjectReader> config = root.optional_object("config")) read_config(*config, run);
  ArrayReader results = root.array("results");
  for (std::size_t i = 0; i < results.size(); ++i) run.rows.push_back(result_row(results.object(i), run.cpu_time));
  if (std::optional<ObjectReader> bounds = root.optional_object("out_of_bounds")) {
    run.out_of_bounds = bounds->count("count", 0, kMany, 0);
    bounds->ignore_rest();
  }
  if (std::optional<ObjectReader> average = root.optional_object("average_bus_bandwidth")) {
    run.average_busbw = figure(*average, "bandwidth");
    average->ignore_rest();
  }
  if (std::optional<ArrayReader> errors = root.optional_array("errors")) {
    for (std::size_t i = 0; i < errors->size(); ++i) {
      if (errors->is_text(i)) log.failures.push_back({0, errors->text(i)});
    }
  }
  root.ignore_rest();
  document.finish();
  log.runs.push_back(std::move(run));
  return log;
}

}  // namespace tpplan
