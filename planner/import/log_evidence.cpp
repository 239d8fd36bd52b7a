#include "planner/import/log_evidence.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "cost-model/fit.h"

namespace tpplan {

namespace {

struct TypeRow {
  std::string_view name;
  int bytes;
};
constexpr std::array<TypeRow, 19> kTypeTable{{{"int8", 1},
                                              {"uint8", 1},
                                              {"char", 1},
                                              {"f8e4m3", 1},
                                              {"f8e5m2", 1},
                                              {"fp8_e4m3", 1},
                                              {"fp8_e5m2", 1},
                                              {"half", 2},
                                              {"bfloat16", 2},
                                              {"fp16", 2},
                                              {"bf16", 2},
                                              {"float", 4},
                                              {"fp32", 4},
                                              {"int32", 4},
                                              {"uint32", 4},
                                              {"int", 4},
                                              {"double", 8},
                                              {"int64", 8},
                                              {"uint64", 8}}};

/// How the payload of an operation relates to its count argument and its bus bandwidth.
struct OperationRow {
  std::string_view name;
  double bus_scale;
  bool bus_ring;           // times (n-1)/n
  bool count_is_per_rank;  // size = count * n elements
};
constexpr std::array<OperationRow, 10> kOperations{{
    {"all_reduce", 2, true, false},
    {"all_gather", 1, true, true},
    {"reduce_scatter", 1, true, true},
    {"alltoall", 1, true, true},
    {"alltoallv", 1, true, true},
    {"gather", 1, true, true},
    {"scatter", 1, true, true},
    {"broadcast", 1, false, false},
    {"reduce", 1, false, false},
    {"sendrecv", 1, false, false},
}};

const OperationRow* row_of_operation(const std::string& name) {
  for (const OperationRow& row : kOperations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

double median(std::vector<double> values) { return nearest_rank(std::move(values), 0.5); }

/// size / (count * element size): the ranks where the count is per rank, else 1. 0 when the rows do not tell.
double size_over_count(const RowGroup& group) {
  const int element = bytes_of_type(group.type);
  std::vector<double> ratios;
  for (const BenchmarkRow* row : group.rows) {
    if (row->count > 0 && row->size > 0 && element > 0) {
      ratios.push_back(static_cast<double>(row->size) / (static_cast<double>(row->count) * element));
    }
  }
  return ratios.empty() ? 0 : median(ratios);
}

template <typename Use>
void each_place(const RowGroup& group, Use use) {
  for (const BenchmarkRow* row : group.rows) {
    if (row->out_of_place) use(*row, *row->out_of_place);
    if (row->in_place) use(*row, *row->in_place);
  }
}

/// Median busbw/algbw of the rows whose printed bandwidth is large enough to divide, each with the precision it allows:
/// only the upper half by bandwidth counts. 0 when all are too small.
double bus_ratio(const RowGroup& group) {
  std::vector<std::pair<double, double>> by_bandwidth;  // algbw, ratio
  each_place(group, [&](const BenchmarkRow&, const PlaceFigures& figures) {
    if (figures.algbw >= 0.5 && std::isfinite(figures.busbw)) {
      by_bandwidth.emplace_back(figures.algbw, figures.busbw / figures.algbw);
    }
  });
  if (by_bandwidth.empty()) return 0;
  std::sort(by_bandwidth.begin(), by_bandwidth.end());
  std::vector<double> ratios;
  for (std::size_t i = by_bandwidth.size() / 2; i < by_bandwidth.size(); ++i) ratios.push_back(by_bandwidth[i].second);
  return median(ratios);
}

/// In-place results of all-to-all and send/recv are never checked: "N/A" beside checked out-of-place ones.
bool only_in_place_unchecked(const RowGroup& group) {
  bool unchecked = false;
  for (const BenchmarkRow* row : group.rows) {
    if (!row->in_place || !row->out_of_place || !row->out_of_place->wrong) return false;
    if (row->in_place->wrong) return false;
    unchecked = true;
  }
  return unchecked;
}

/// The operations that rows of this shape can be, the likeliest first.
std::vector<std::string> possible_operations(const RowGroup& group) {
  const double per_rank = size_over_count(group);
  const double ratio = bus_ratio(group);
  const bool unchecked = only_in_place_unchecked(group);
  const bool reduces = !group.redop.empty() && group.redop != "none";
  if (per_rank > 1.5) {
    if (unchecked) return {"alltoall", "scatter", "gather", "all_gather"};
    if (reduces) return {"reduce_scatter"};
    if (group.redop.empty()) return {"all_gather", "alltoall", "gather", "scatter"};
    return {"all_gather", "alltoall", "gather", "scatter"};
  }
  if (group.root && *group.root >= 0)
    return reduces ? std::vector<std::string>{"reduce", "broadcast"} : std::vector<std::string>{"broadcast", "reduce"};
  if (ratio > 1.02) return {"all_reduce"};
  if (unchecked) return {"sendrecv", "alltoall"};
  if (reduces) return {"all_reduce", "sendrecv", "reduce_scatter", "reduce"};
  return {"broadcast", "sendrecv", "all_gather", "alltoall", "all_reduce"};
}

/// The collective that comments above a table name, when they name only one.
std::string collective_in_remarks(const std::vector<ImportNote>& remarks) {
  std::string found;
  for (const ImportNote& remark : remarks) {
    for (const std::string& word : words_of(remark.text)) {
      if (word.find('/') != std::string::npos) continue;  // paths and addresses name other things
      const std::string name = benchmark_collective(word);
      if (name.empty() || name == found) continue;
      if (!found.empty()) return "";
      found = name;
    }
  }
  return found;
}

/// Bounds of the bus factor that all rows allow within their printed digits: bus bandwidth has two decimals, size over
/// time is exact to the time's.
struct RatioBounds {
  double low = 0, high = 0;
};
RatioBounds ratio_bounds(const RowGroup& group) {
  std::vector<RatioBounds> rows;
  each_place(group, [&](const BenchmarkRow& row, const PlaceFigures& figures) {
    if (row.size <= 0 || !(figures.time_us > 0) || !std::isfinite(figures.time_us) || !(figures.busbw >= 0.05)) return;
    double algbw = static_cast<double>(row.size) / figures.time_us * 1e-3;
    const double time_digits = figures.time_us < 100 ? 0.005 : figures.time_us < 1e4 ? 0.05 : 0.5;
    double relative = time_digits / figures.time_us;
    if (std::abs(algbw - figures.algbw) > 0.02 * algbw + 0.006) {  // the time is the host's: the printed figure then
      if (figures.algbw < 0.5) return;
      algbw = figures.algbw;
      relative = 0.0051 / algbw;
    }
    rows.push_back(
        {(figures.busbw - 0.0051) / (algbw * (1 + relative)), (figures.busbw + 0.0051) / (algbw * (1 - relative))});
  });
  if (rows.empty()) return {};
  RatioBounds bounds{0, 1e9};
  for (const RatioBounds& row : rows) {
    bounds.low = std::max(bounds.low, row.low);
    bounds.high = std::min(bounds.high, row.high);
  }
  if (bounds.low <= bounds.high) return bounds;
  // Rows that contradict each other: the middle of the narrowest half, to be checked row by row later.
  std::sort(rows.begin(), rows.end(),
            [](const RatioBounds& a, const RatioBounds& b) { return a.high - a.low < b.high - b.low; });
  std::vector<double> middles;
  for (std::size_t i = 0; i <= rows.size() / 2 && i < rows.size(); ++i)
    middles.push_back((rows[i].low + rows[i].high) / 2);
  const double middle = median(middles);
  return {middle * (1 - 1e-4), middle * (1 + 1e-4)};
}

/// Ranks n with scale (n-1)/n inside the bounds.
std::optional<int> ranks_in_bounds(double scale, const RatioBounds& bounds) {
  if (bounds.low <= 0 || bounds.low >= scale) return std::nullopt;
  const double fewest = scale / (scale - bounds.low);
  const double most = bounds.high >= scale ? 1e12 : scale / (scale - bounds.high);
  const double middle = scale / (scale - (bounds.low + std::min(bounds.high, scale)) / 2);
  if (most > 1.6 * fewest + 1) return std::nullopt;  // not told
  for (const int multiple : {8, 2}) {
    const double candidate = std::round(middle / multiple) * multiple;
    if (candidate >= fewest - 1e-6 && candidate <= most + 1e-6 && candidate >= multiple)
      return static_cast<int>(candidate);
  }
  return std::max(1, static_cast<int>(std::lround(middle)));
}

std::string file_name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// ---- ranks and placement
// ----------------------------------------------------------------------------------------------

/// Ranks of group 0 by host, in rank order.
std::map<std::string, std::vector<const BenchmarkDevice*>> hosts_of_group(const BenchmarkRun& run, int group) {
  std::map<std::string, std::vector<const BenchmarkDevice*>> hosts;
  for (const BenchmarkDevice& device : run.devices) {
    if (device.group == group) hosts[device.host].push_back(&device);
  }
  return hosts;
}

std::optional<int> configured_gpus(const BenchmarkRun& run);

/// GPUs that each listed device stands for: JSON lists the first one of a process only, so ranks are then multiples of
/// the GPUs per process.
int gpus_per_line(const BenchmarkRun& run) {
  const int configured = configured_gpus(run).value_or(1);
  const bool first_ones = std::all_of(run.devices.begin(), run.devices.end(),
                                      [&](const BenchmarkDevice& device) { return device.rank % configured == 0; });
  return first_ones ? configured : 1;
}

struct DeviceCount {
  int listed = 0;
  int implied = 0;  // highest rank + 1, more than listed when lines were left out
};

DeviceCount count_devices(const BenchmarkRun& run) {
  std::set<int> ranks;
  int highest = -1;
  bool grouped = false;
  for (const BenchmarkDevice& device : run.devices) {
    grouped = grouped || device.group != 0;
    if (device.group == 0) ranks.insert(device.rank);
    highest = std::max(highest, device.rank);
  }
  const int listed = static_cast<int>(ranks.size());
  const int each = run.devices.empty() ? 1 : gpus_per_line(run);
  return {listed * each, grouped ? listed * each : highest + each};
}

int group_count(const BenchmarkRun& run) {
  std::set<int> groups;
  for (const BenchmarkDevice& device : run.devices) groups.insert(device.group);
  return std::max(1, static_cast<int>(groups.size()));
}

/// Distance in rank order between neighbours of a group on one host, or between hosts when it has one GPU on each.
int stride_of(const BenchmarkRun& run) {
  std::vector<int> ranks;
  for (const BenchmarkDevice& device : run.devices) {
    if (device.group == 0) ranks.push_back(device.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks.size() > 1 && group_count(run) > 1 ? std::max(1, ranks[1] - ranks[0]) : 1;
}

/// GPUs of one host as far as the device list shows: the widest span of ranks or device numbers on a host.
int gpus_per_listed_host(const BenchmarkRun& run) {
  int most = 0;
  for (const auto& [host, devices] : hosts_of_group(run, 0)) {
    int low = devices[0]->rank;
    int high = low;
    for (const BenchmarkDevice* device : devices) {
      low = std::min(low, device->rank);
      high = std::max(high, device->rank);
    }
    most = std::max(most, high - low + gpus_per_line(run));
  }
  return most;
}

bool sizes_repeat(const RowGroup& group) {
  std::set<std::int64_t> sizes;
  std::size_t rows = 0;
  for (const BenchmarkRow* row : group.rows) {
    if (row->size <= 0) continue;
    sizes.insert(row->size);
    ++rows;
  }
  return sizes.size() < rows;
}

/// "2-node", "4 nodes", "nodes=8" in a separator line.
std::optional<int> nodes_in(const std::string& section) {
  const std::size_t word = section.find("node");
  if (word == std::string::npos) return std::nullopt;
  std::string digits;
  for (const char c : section) {
    if (c >= '0' && c <= '9') {
      digits += c;
    } else if (!digits.empty()) {
      break;
    }
  }
  const std::optional<std::int64_t> value = integer_in(digits);
  if (!value || *value < 1 || *value > (1 << 20)) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> configured_gpus(const BenchmarkRun& run) {
  const auto number = [&](const char* a, const char* b) -> std::optional<std::int64_t> {
    auto at = run.configuration.find(a);
    if (at == run.configuration.end()) at = run.configuration.find(b);
    return at == run.configuration.end() ? std::nullopt : integer_in(at->second);
  };
  const std::optional<std::int64_t> threads = number("nThread", "nthreads");
  const std::optional<std::int64_t> gpus = number("nGpus", "ngpus");
  if (!threads || !gpus || *threads < 1 || *gpus < 1 || *threads * *gpus > (1 << 20)) return std::nullopt;
  return static_cast<int>(*threads * *gpus);
}

int ranks_of_group(const BenchmarkRun& run, const RowGroup& group, const std::string& operation,
                   const ImportOptions& options, const RemarkedMachine& remarked, PlacementEvidence& evidence) {
  if (options.ranks) return *options.ranks;
  const DeviceCount devices = count_devices(run);
  const std::optional<int> by_rows = ranks_from_rows(operation, group);
  if (by_rows && devices.listed > 0 && *by_rows != devices.listed && *by_rows != devices.implied) {
    evidence.warning = "the device list says " + std::to_string(devices.implied) + " ranks, the bandwidths say " +
                       std::to_string(*by_rows) + ": " + std::to_string(*by_rows) + " is used";
  }
  if (by_rows) return *by_rows;
  if (devices.listed > 0) return run.nranks.value_or(devices.implied);
  if (run.nranks) return *run.nranks;
  if (remarked.ranks) {
    evidence.warning =
        std::to_string(*remarked.ranks) + " ranks by the comment in line " + std::to_string(remarked.line);
    return *remarked.ranks;
  }
  const std::optional<int> configured = configured_gpus(run);
  if (configured && *configured > 1) {
    evidence.warning = "no device list: " + std::to_string(*configured) +
                       " ranks by the configuration line, if it ran "
                       "as one process";
    return *configured;
  }
  return 0;
}

int nodes_of_group(const BenchmarkRun& run, int ranks, const ImportOptions& options, const RemarkedMachine& remarked,
                   PlacementEvidence& evidence) {
  if (options.nodes) return *options.nodes;
  if (run.nnodes) return *run.nnodes;
  if (run.local_ranks && *run.local_ranks > 0 && ranks % *run.local_ranks == 0) return ranks / *run.local_ranks;
  const std::optional<int> section = nodes_in(run.section);
  if (section && ranks % *section == 0) return *section;
  const auto hosts = hosts_of_group(run, 0);
  const DeviceCount devices = count_devices(run);
  if (!hosts.empty() && devices.listed == ranks) return static_cast<int>(hosts.size());
  const int per_host = gpus_per_listed_host(run);
  if (hosts.size() > 1 && per_host > 0 && ranks % per_host == 0) return ranks / per_host;
  const auto add_warning = [&](const std::string& text) {
    evidence.warning += (evidence.warning.empty() ? "" : "; ") + text;
  };
  if (remarked.nodes && ranks % *remarked.nodes == 0) {
    add_warning(std::to_string(*remarked.nodes) + (*remarked.nodes == 1 ? " node" : " nodes") +
                " by the comment in line " + std::to_string(remarked.line));
    return *remarked.nodes;
  }
  const int assumed = ranks <= 8 || ranks % 8 != 0 ? 1 : ranks / 8;
  add_warning("the hosts are not listed: assumed " +
              (assumed == 1 ? std::string("one node") : std::to_string(assumed) + " nodes of 8") +
              " (--nodes N sets it)");
  return assumed;
}

}  // namespace

int bytes_of_type(const std::string& type) {
  for (const TypeRow& row : kTypeTable) {
    if (row.name == type) return row.bytes;
  }
  return 0;
}

double bus_factor(const std::string& operation, int ranks) {
  const OperationRow* const row = row_of_operation(operation);
  if (row == nullptr) return 1;
  return row->bus_ring ? row->bus_scale * (ranks - 1) / ranks : row->bus_scale;
}

std::vector<RowGroup> row_groups(const BenchmarkRun& run) {
  std::vector<RowGroup> groups;
  for (const BenchmarkRow& row : run.rows) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const RowGroup& group) {
      return group.type == row.type && group.redop == row.redop && group.root == row.root;
    });
    if (same != groups.end()) {
      same->rows.push_back(&row);
    } else {
      groups.push_back({row.type, row.redop, row.root, {&row}});
    }
  }
  return groups;
}

std::optional<int> ranks_from_rows(const std::string& operation, const RowGroup& group) {
  const OperationRow* const row = row_of_operation(operation);
  if (row == nullptr) return std::nullopt;
  const double per_rank = size_over_count(group);
  if (row->count_is_per_rank && per_rank >= 1) return static_cast<int>(std::lround(per_rank));
  if (!row->bus_ring) return std::nullopt;
  return ranks_in_bounds(row->bus_scale, ratio_bounds(group));
}

OperationEvidence operation_of(const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group,
                               const ImportOptions& options) {
  if (!options.collective.empty()) return {benchmark_collective(options.collective), ""};
  const std::vector<std::string> possible = possible_operations(group);
  const auto fits = [&](const std::string& name) {
    return std::find(possible.begin(), possible.end(), name) != possible.end();
  };
  if (!run.collective.empty()) {
    const bool telling = size_over_count(group) > 0;
    if (!telling || fits(run.collective) || row_of_operation(run.collective) == nullptr) return {run.collective, ""};
    return {run.collective, "the rows look like " + possible.front() + ", the program is " + run.collective};
  }
  const std::string remarked = collective_in_remarks(log.remarks);
  if (!remarked.empty() && fits(remarked)) return {remarked, ""};
  const std::string named = benchmark_collective(file_name_of(log.name));
  if (!named.empty() && fits(named)) return {named, ""};
  if (possible.size() == 1) return {possible.front(), ""};
  return {possible.front(), "the file does not name the collective: taken for " + possible.front() +
                                " by its columns (--collective NAME sets it)"};
}

RemarkedMachine machine_in_remarks(const std::vector<ImportNote>& remarks) {
  RemarkedMachine machine;
  for (const ImportNote& remark : remarks) {
    std::vector<int> multiples;  // of "16x V100" and the like
    const std::vector<std::string> words = words_of(remark.text);
    std::optional<int> nodes;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string word = words[i].substr(std::min(words[i].find_first_not_of('('), words[i].size() - 1));
      std::size_t digits = 0;
      while (digits < word.size() && std::isdigit(static_cast<unsigned char>(word[digits])) != 0) ++digits;
      const std::optional<std::int64_t> number = integer_in(word.substr(0, digits));
      const bool small = number && *number >= 1 && *number <= (1 << 20);
      if (small && digits + 1 == word.size() && word[digits] == 'x') multiples.push_back(static_cast<int>(*number));
      const auto names_nodes = [&](std::size_t at) { return at < words.size() && words[at].rfind("node", 0) == 0; };
      if (small && digits == word.size() && (names_nodes(i + 1) || names_nodes(i + 2)))
        nodes = static_cast<int>(*number);
      if (word == "one" && names_nodes(i + 1)) nodes = 1;
    }
    if (multiples.empty()) continue;
    machine.line = remark.line;
    machine.ranks = multiples[0];
    if (!nodes && multiples.size() == 2 && multiples[0] % multiples[1] == 0) nodes = multiples[1];
    machine.nodes = nodes;
    return machine;
  }
  return machine;
}

PlacementEvidence placement_of(const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group,
                               const std::string& operation, const ImportOptions& options) {
  PlacementEvidence evidence;
  if (run.processes_without_mpi > 1 && sizes_repeat(group)) {
    evidence.refusal = "rank 0 appears " + std::to_string(run.processes_without_mpi) +
                       " times: the benchmark was built without MPI, so these are independent one-GPU runs; rebuild it "
                       "with MPI=1";
    return evidence;
  }
  const RemarkedMachine remarked = machine_in_remarks(log.remarks);
  const int ranks = ranks_of_group(run, group, operation, options, remarked, evidence);
  if (ranks == 0) {
    evidence.refusal = "the number of ranks is nowhere in the file: give --ranks N";
    return evidence;
  }
  if (ranks == 1) {
    evidence.refusal = "one rank: nothing was sent over a link";
    return evidence;
  }
  evidence.concurrent_groups = group_count(run);
  const int nodes = nodes_of_group(run, ranks, options, remarked, evidence);
  if (nodes < 1 || ranks % nodes != 0) {
    evidence.refusal = std::to_string(ranks) + " ranks do not spread evenly over " + std::to_string(nodes) + " nodes";
    return evidence;
  }
  evidence.placement = {nodes, ranks / nodes, stride_of(run)};
  return evidence;
}

}  // namespace tpplan
