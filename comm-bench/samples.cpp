#include "comm-bench/samples.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tpplan::bench {

namespace {

using Json = nlohmann::ordered_json;

/// At most 9 significant digits, as all machine output of this project.
Json number(double value) { return std::strtod(shortest(value).c_str(), nullptr); }
Json number(Seconds value) { return number(value.raw()); }

Json to_value(const GpuFacts& gpu) {
  return {{"name", gpu.name},
          {"uuid", gpu.uuid},
          {"pci", gpu.pci},
          {"memory_total_bytes", number(gpu.memory_total_bytes)},
          {"memory_used_bytes", number(gpu.memory_used_bytes)},
          {"utilization_percent", gpu.utilization_percent},
          {"other_processes", gpu.other_processes},
          {"sm_clock_mhz", gpu.sm_clock_mhz},
          {"max_sm_clock_mhz", gpu.max_sm_clock_mhz},
          {"memory_clock_mhz", gpu.memory_clock_mhz},
          {"throttled_by", gpu.throttled_by},
          {"power_limit_w", number(gpu.power_limit_w)},
          {"default_power_limit_w", number(gpu.default_power_limit_w)},
          {"temperature_c", gpu.temperature_c},
          {"ecc_enabled", gpu.ecc_enabled},
          {"ecc_uncorrected", gpu.ecc_uncorrected},
          {"remap_pending", gpu.remap_pending},
          {"remap_failed", gpu.remap_failed},
          {"mig", gpu.mig},
          {"numa_node", gpu.numa_node},
          {"nvlinks_active", gpu.nvlinks_active}};
}

Json to_value(const RankFacts& facts) {
  Json value{{"rank", facts.rank},
             {"local_rank", facts.local_rank},
             {"ranks_on_host", facts.ranks_on_host},
             {"host", facts.host},
             {"node", facts.node},
             {"world_ranks", facts.world_ranks},
             {"launcher_ranks", facts.launcher_ranks},
             {"mpi_library", facts.mpi_library},
             {"mpi_compiled", facts.mpi_compiled},
             {"kernel", facts.kernel},
             {"driver", facts.driver},
             {"driver_cuda", facts.driver_cuda},
             {"runtime_cuda", facts.runtime_cuda},
             {"nccl", facts.nccl},
             {"nccl_header", facts.nccl_header},
             {"nccl_path", facts.nccl_path},
             {"cublas_lt", facts.cublas_lt},
             {"cudnn", facts.cudnn},
             {"gpus_visible", facts.gpus_visible},
             {"nccl_backend", facts.nccl_backend},
             {"no_gpu_reason", facts.no_gpu_reason}};
  if (facts.gpu) value["gpu"] = to_value(*facts.gpu);
  value["peers"] = Json::array();
  for (const PeerFacts& peer : facts.peers) value["peers"].push_back({{"pci", peer.pci}, {"read", peer.read}});
  value["ports"] = Json::array();
  for (const PortFacts& port : facts.ports) {
    value["ports"].push_back({{"device", port.device},
                              {"state", port.state},
                              {"link_layer", port.link_layer},
                              {"gbit_per_s", number(port.gbit_per_s)}});
  }
  value["peer_memory"] = facts.peer_memory;
  value["cpus_allowed"] = facts.cpus_allowed;
  value["numa_nodes_allowed"] = facts.numa_nodes_allowed;
  value["numa_nodes"] = facts.numa_nodes;
  value["variables"] = facts.variables;
  return value;
}

/// `count` names the number of samples: `n`, but `samples` where n is a width.
Json to_value(const Summary& summary, const char* count) {
  return {{"median_s", number(summary.median)},
          {"p5_s", number(summary.p5)},
          {"p95_s", number(summary.p95)},
          {"min_s", number(summary.minimum)},
          {count, summary.count}};
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Fields of the run as a whole, taken from rank 0; where ranks differ, preflight warned.
Json versions_of(const std::vector<RankFacts>& facts) {
  if (facts.empty()) return Json::object();
  const RankFacts& first = facts.front();
  Json versions{{"kernel", first.kernel}, {"mpi", first.mpi_library}, {"mpi_compiled", first.mpi_compiled}};
  if (!first.driver.empty()) versions["driver"] = first.driver;
  if (first.driver_cuda > 0) versions["driver_cuda"] = cuda_version_text(first.driver_cuda);
  if (first.runtime_cuda > 0) versions["cuda_runtime"] = cuda_version_text(first.runtime_cuda);
  if (first.nccl > 0) versions["nccl"] = nccl_version_text(first.nccl);
  if (first.nccl_header > 0) versions["nccl_header"] = nccl_version_text(first.nccl_header);
  if (first.cublas_lt > 0) versions["cublas_lt"] = first.cublas_lt;
  if (first.cudnn > 0) versions["cudnn"] = first.cudnn;
  return versions;
}

Json hosts_of(const SampleHeader& header) {
  Json hosts = Json::array();
  const std::vector<std::vector<int>> by_node = header.topology.ranks_by_node();
  for (std::size_t node = 0; node < by_node.size(); ++node) {
    Json gpus = Json::array();
    for (const int rank : by_node[node]) {
      const auto at = static_cast<std::size_t>(rank);
      if (at >= header.facts.size() || !header.facts[at].gpu) continue;
      const GpuFacts& gpu = *header.facts[at].gpu;
      gpus.push_back({{"rank", rank}, {"name", gpu.name}, {"pci", gpu.pci}});
    }
    hosts.push_back({{"name", header.topology.node_names[node]}, {"ranks", by_node[node]}, {"gpus", gpus}});
  }
  return hosts;
}

Json clocks_of(const std::vector<RankFacts>& facts) {
  if (facts.empty() || !facts.front().gpu) return nullptr;
  const GpuFacts& gpu = *facts.front().gpu;
  return {{"sm_mhz", gpu.sm_clock_mhz},
          {"max_sm_mhz", gpu.max_sm_clock_mhz},
          {"memory_mhz", gpu.memory_clock_mhz},
          {"power_limit_w", number(gpu.power_limit_w)}};
}

std::string gpu_of(const std::vector<RankFacts>& facts) {
  return facts.empty() || !facts.front().gpu ? std::string() : facts.front().gpu->name;
}

bool names_a_place(const std::string& variable) {
  constexpr std::array<std::string_view, 7> kWords{"HOST", "FILE", "PATH", "ADDR", "COMM_ID", "IFNAME", "UUID"};
  if (variable.ends_with("_DIR") || variable.ends_with("_HOME")) return true;
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return variable.find(word) != std::string::npos; });
}

/// Texts to hide and what stands in their place.
using Replacements = std::vector<std::pair<std::string, std::string>>;

bool in_word(const std::string& text, std::size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

/// Whole words only, so that a host named `a` does not spoil every other word.
std::string replaced(std::string text, const Replacements& replacements) {
  for (const auto& [from, to] : replacements) {
    if (from.empty()) continue;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      const bool whole = !(at > 0 && in_word(text, at - 1)) && !in_word(text, at + from.size());
      if (whole) text.replace(at, from.size(), to);
      at += whole ? to.size() : from.size();
    }
  }
  return text;
}

}  // namespace

SampleHeader anonymous(SampleHeader header) {
  Replacements hidden;
  for (std::size_t node = 0; node < header.topology.node_names.size(); ++node) {
    hidden.emplace_back(header.topology.node_names[node], "node" + std::to_string(node));
    header.topology.node_names[node] = hidden.back().second;
  }
  for (RankFacts& facts : header.facts) {
    facts.host = "node" + std::to_string(facts.node);
    hidden.emplace_back(facts.nccl_path, "(removed)");
    facts.nccl_path.clear();
    if (facts.gpu) facts.gpu->uuid.clear();
    for (auto& [name, value] : facts.variables) {
      if (!names_a_place(name)) continue;
      hidden.emplace_back(value, "(removed)");
      value = "(removed)";
    }
  }
  for (RankFacts& facts : header.facts) facts.kernel = replaced(facts.kernel, hidden);
  for (PreflightWarning& warning : header.warnings) {
    warning.message = replaced(warning.message, hidden);
    warning.fix = replaced(warning.fix, hidden);
  }
  for (std::size_t i = 0; i < header.command.size(); ++i) {
    std::string& word = header.command[i];
    if (i == 0 && word.find('/') != std::string::npos) word = word.substr(word.rfind('/') + 1);
    if (i > 0 && (header.command[i - 1] == "-o" || header.command[i - 1] == "--output")) word = "FILE";
    for (const std::string_view option : {"-o", "--output="}) {
      if (word.size() > option.size() && word.starts_with(option)) word = std::string(option) + "FILE";
    }
  }
  return header;
}

std::string to_json(const std::vector<RankFacts>& facts) {
  Json values = Json::array();
  for (const RankFacts& one : facts) values.push_back(to_value(one));
  return dumped(values);
}

std::string to_json(const SampleHeader& header) {
  Json warnings = Json::array();
  for (const PreflightWarning& warning : header.warnings) {
    warnings.push_back({{"id", warning.id},
                        {"severity", warning.is_note ? "note" : "warning"},
                        {"message", warning.message},
                        {"fix", warning.fix},
                        {"ranks", warning.ranks}});
  }
  Json facts = Json::array();
  for (const RankFacts& one : header.facts) facts.push_back(to_value(one));
  int most = 0;
  for (const auto& ranks : header.topology.ranks_by_node()) most = std::max(most, static_cast<int>(ranks.size()));
  return dumped({{"schema_version", kSampleSchemaVersion},
                 {"program", "comm-bench"},
                 {"version", TPPLAN_VERSION},
                 {"started", header.started},
                 {"command", header.command},
                 {"backend", header.backend},
                 {"backend_reason", header.backend_reason},
                 {"timing", header.timing},
                 {"mode", header.mode},
                 {"budget_s", number(header.budget_s)},
                 {"ranks", header.topology.ranks()},
                 {"gpu", gpu_of(header.facts)},
                 {"hosts", hosts_of(header)},
                 {"versions", versions_of(header.facts)},
                 {"variables", header.facts.empty() ? Json::object() : Json(header.facts.front().variables)},
                 {"topology",
                  {{"nodes", header.topology.nodes()}, {"gpus_per_node", most}, {"node_of", header.topology.node_of}}},
                 {"clocks", clocks_of(header.facts)},
                 {"preflight", {{"warnings", warnings}, {"facts", facts}}},
                 {"notes", header.notes}});
}

std::string to_json(const SampleRow& row) {
  const Operation& operation = row.cell.operation;
  Json value{{"collective", row_of(operation.collective).name},
             {"dtype", row_of(operation.dtype).name},
             {"bytes", operation.bytes},
             {"ranks", row.ranks()},
             {"group", row.set.name},
             {"placement",
              {{"nodes", row.set.placement.nodes},
               {"gpus_per_node", row.set.placement.gpus_per_node},
               {"stride", row.set.placement.stride}}},
             {"concurrent", row.set.concurrent},
             {"mode", kModeNames[static_cast<std::size_t>(row.mode)]},
             {"in_place", operation.in_place}};
  value.update(to_value(row.summary, "n"));
  value["stopped_by"] = name_of(row.stop);
  value["algbw_gbs"] = number(row.algorithm_bandwidth().raw() * 1e-9);
  value["busbw_gbs"] = number(row.bus_bandwidth().raw() * 1e-9);
  value["check"] = kCheckNames[static_cast<std::size_t>(row.check)];
  value["samples_s"] = Json::array();
  for (const Seconds sample : row.samples) value["samples_s"].push_back(number(sample));
  return dumped(value);
}

std::string to_json(const ComputeRow& row) {
  const ComputeItem& item = row.item;
  Json value{{"kind", kComputeKindNames[static_cast<std::size_t>(item.kind)]}, {"device", row.device}};
  if (!item.name.empty()) value[item.kind == ComputeKind::attention ? "kernel" : "name"] = item.name;
  if (!item.dtype.empty()) value["dtype"] = item.dtype;
  if (!item.pass.empty()) value["pass"] = item.pass;
  if (item.kind == ComputeKind::gemm) {
    value["m"] = item.m;
    value["n"] = item.n;
    value["k"] = item.k;
  }
  if (item.kind == ComputeKind::attention) {
    value["batch"] = item.batch;
    value["seq"] = item.seq;
    value["heads"] = item.heads;
    value["kv_heads"] = item.kv_heads;
    value["head_dim"] = item.head_dim;
    value["causal"] = true;
  }
  if (item.bytes.raw() > 0) value["bytes"] = number(item.bytes.raw());
  value.update(to_value(row.summary, "samples"));
  const double seconds = row.summary.median.raw();
  if (item.flops().raw() > 0) value["tflops"] = number(seconds > 0 ? item.flops().raw() / seconds * 1e-12 : 0);
  if (item.bytes.raw() > 0) value["gbs"] = number(seconds > 0 ? item.bytes.raw() / seconds * 1e-9 : 0);
  value["check"] = kCheckNames[static_cast<std::size_t>(row.check)];
  if (row.nodes > 1) {
    value["nodes"] = row.nodes;
    value["slowest_s"] = number(row.slowest);
    value["slowest_rank"] = row.slowest_rank;
  }
  return dumped(value);
}

std::string to_json(const SampleEnd& end) {
  Json drift = nullptr;
  if (!end.sweep.rechecked.empty()) {
    drift = {{"cell", end.sweep.rechecked},
             {"change", number(end.sweep.drift.change)},
             {"significant", end.sweep.drift.significant}};
  }
  return dumped({{"end",
                  {{"rows", end.sweep.rows},
                   {"wrong_rows", end.sweep.wrong_rows},
                   {"unmeasured", end.sweep.unmeasured},
                   {"drift", drift},
                   {"compute_rows", end.compute.rows},
                   {"compute_wrong_rows", end.compute.wrong_rows},
                   {"compute_unmeasured", end.compute.unmeasured},
                   {"compute_notes", end.compute.notes},
                   {"seconds", number(end.seconds)}}}});
}

SampleFile::SampleFile(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0) throw CommError("cannot write " + path + ": " + std::generic_category().message(errno));
}

SampleFile::~SampleFile() { close(file_); }

void SampleFile::write_line(const std::string& json) {
  const std::string line = json + "\n";
  // One write, so that a line is never interleaved; a short one (full disk) is completed or reported.
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = write(file_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw CommError("cannot write " + path_ + ": " + std::generic_category().message(errno));
    done += static_cast<std::size_t>(written);
  }
  // Pipes and some file systems cannot be synchronised; the line is then as safe as they make it.
  if (fsync(file_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOSYS) {
    throw CommError("cannot write " + path_ + ": " + std::generic_category().message(errno));
  }
}

}  // namespace tpplan::bench
