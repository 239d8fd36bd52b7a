#include "planner/commands/clusters.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "cost-model/file_text.h"
#include "planner/import/topology.h"
#include "planner/report/json_writer.h"
#include "planner/report/output.h"
#include "planner/report/text_table.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

struct Listed {
  std::string name, path;
  ClusterSpec cluster;
};

/// "8 NVLink 300 GB/s, 512 InfiniBand 25 GB/s".
std::string tiers_text(const ClusterSpec& cluster) {
  std::string text;
  for (const NetworkTier& tier : cluster.tiers) {
    text += (text.empty() ? "" : ", ") + std::to_string(tier.span) + " by " + tier.name + " " + format(tier.bandwidth);
  }
  return text;
}

std::string table_of(const std::vector<Listed>& clusters, bool details, const PlannerOptions& options,
                     std::ostream& err) {
  TextTable table;
  table.columns = {
      {"cluster", false, 9}, {"GPUs", true, 7}, {"nodes", true, 6}, {"GPU", false, 8}, {"tiers", false, 5}};
  for (const Listed& row : clusters) {
    const ClusterSpec& cluster = row.cluster;
    table.rows.push_back({row.name, with_separators(cluster.gpus()), with_separators(cluster.nodes), cluster.gpu.id,
                          tiers_text(cluster)});
  }
  std::vector<std::string> dropped;
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  std::string text = table.render(terminal, 0, &dropped);
  err << left_out_note(dropped, terminal, "json has");
  if (details) {
    for (const Listed& row : clusters) {
      for (const std::string& line : row.cluster.assumed) {
        text += wrap(row.name + " assumed: " + line, terminal.width, 2) + "\n";
      }
    }
  } else {
    text += wrap("NODESxGPUSxGPU names any other, such as 16x8xh100-80gb-sxm; clusters/README.md explains the files.",
                 terminal.width, 2) +
            "\n";
  }
  return text;
}

void write_tier(JsonWriter& json, const NetworkTier& tier) {
  json.begin_line_object();
  json.field("name", tier.name).field("kind", row_of(tier.kind).name).field("topology", name_of(tier.topology));
  json.field("span", tier.span);
  json.field("bandwidth_bytes_per_s", tier.bandwidth.raw());
  if (tier.per_peer > BytesPerSecond{}) json.field("per_peer_bytes_per_s", tier.per_peer.raw());
  json.field("latency_s", tier.latency.raw());
  json.field("oversubscription", tier.oversubscription);
  if (tier.kind == LinkKind::pcie) json.field("peer_to_peer", tier.peer_to_peer);
  json.end_object();
}

std::string json_of(const std::vector<Listed>& clusters) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("clusters").begin_array();
  for (const Listed& row : clusters) {
    const ClusterSpec& cluster = row.cluster;
    json.begin_object();
    json.field("name", row.name).field("file", row.path).field("gpu", cluster.gpu.id);
    json.field("gpus", cluster.gpus()).field("gpus_per_node", cluster.gpus_per_node).field("nodes", cluster.nodes);
    json.key("tiers").begin_array();
    for (const NetworkTier& tier : cluster.tiers) write_tier(json, tier);
    json.end_array();
    json.field("host_memory_bytes", static_cast<std::int64_t>(cluster.host_memory.raw()));
    json.field("host_link_bytes_per_s", cluster.host_link.raw());
    json.field("calibration", cluster.calibration);
    json.key("assumed").begin_array();
    for (const std::string& line : cluster.assumed) json.value(line);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

int list_clusters(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const GpuCatalogue catalogue = shipped_gpus();
  const bool named = !options.operands.empty();
  std::vector<Listed> clusters;
  for (const std::string& name : named ? options.operands : shipped("cluster")) {
    std::string warnings;
    const auto path = try_find_spec("cluster", name);
    clusters.push_back({name, path.value_or(""), resolve_cluster(name, catalogue, &warnings)});
    if (!warnings.empty()) err << warnings << "\n";
  }
  const bool json = chosen_format(options) == OutputFormat::json;
  write_result(options, json ? json_of(clusters) : table_of(clusters, named, options, err), out);
  return 0;
}

void write_imported(const PlannerOptions& options, const ImportedCluster& imported, std::ostream& out,
                    std::ostream& err) {
  if (!imported.warnings.empty()) err << imported.warnings << "\n";
  write_result(options, imported.json, out);
  err << "guessed (also in the file, under \"guessed\"; correct it there):\n";
  for (const std::string& guess : imported.guesses) err << "  " << guess << "\n";
}

QueryFile read_query(const std::string& path) { return {path == "-" ? "standard input" : path, file_text(path)}; }

int import_files(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (options.operands.empty()) throw UsageError({"clusters --from needs at least one file"}, "clusters");
  std::vector<QueryFile> files;
  for (const std::string& path : options.operands) files.push_back(read_query(path));
  write_imported(options, import_cluster(files, shipped_gpus()), out, err);
  return 0;
}

/// What a command prints; nothing when it cannot run or fails.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

int detect(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.operands.empty()) throw UsageError({"clusters --detect takes no files"}, "clusters");
  if (!output_of("command -v nvidia-smi")) {
    throw EnvironmentError(
        "no nvidia-smi on this machine: run tpplan clusters --detect on a node with GPUs, or hand the "
        "output of nvidia-smi topo -m to tpplan clusters --from");
  }
  const auto query = output_of(
      "nvidia-smi --query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max,pcie.link.width.current "
      "--format=csv");
  if (!query) throw EnvironmentError("nvidia-smi is here but does not work; run it to see its message");
  std::vector<QueryFile> files{{"nvidia-smi --query-gpu", *query}};
  if (auto topology = output_of("nvidia-smi topo -m")) files.push_back({"nvidia-smi topo -m", *std::move(topology)});
  if (auto peers = output_of("nvidia-smi topo -p2p r")) files.push_back({"nvidia-smi topo -p2p r", *std::move(peers)});
  for (const std::string ports : {"ibstat", "ibv_devinfo -v"}) {
    if (auto text = output_of(ports); text && !text->empty()) {
      files.push_back({ports, *std::move(text)});
      break;
    }
  }
  write_imported(options, import_cluster(files, shipped_gpus()), out, err);
  return 0;
}

}  // namespace

int run_clusters(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (options.from && options.detect) throw UsageError({"--from and --detect exclude each other"}, "clusters");
  if (options.from) return import_files(options, out, err);
  if (options.detect) return detect(options, out, err);
  return list_clusters(options, out, err);
}

}  // namespace tpplan
