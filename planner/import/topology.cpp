#include "planner/import/topology.h"

#include <algorithm>
#include <cmath>

#include "planner/import/topology_links.h"
#include "planner/import/topology_matrix.h"
#include "planner/import/topology_query.h"
#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

/// One input file and what was found in it.
struct Reading {
  std::string name, text;
  std::optional<TopologyMatrix> matrix;
  std::optional<PeerTable> peers;
  std::vector<QueriedGpu> gpus;
  std::vector<NetworkPort> ports;
  std::vector<Diagnostic> notes;

  void note(std::size_t offset, std::string message, std::string hint = "") {
    notes.push_back({Diagnostic::Severity::warning, std::move(message), std::move(hint), offset});
  }
  [[noreturn]] void refuse(std::size_t offset, std::string message, std::string hint = "") const {
    throw SpecError(name, text, {{Diagnostic::Severity::error, std::move(message), std::move(hint), offset}});
  }
};

/// Blanks for the colours that nvidia-smi writes even into pipes, so that places stay what they are.
std::string without_colors(std::string text) {
  for (std::size_t at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b', at)) {
    const std::size_t end = text.find_first_of("mK\n", at);
    const std::size_t stop = end == std::string::npos ? text.size() : text[end] == '\n' ? end : end + 1;
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(stop), ' ');
  }
  return text;
}

Reading read(const QueryFile& file) {
  Reading reading;
  reading.name = file.name;
  reading.text = without_colors(file.text);
  if (reading.text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw SpecError(file.name + ": error: empty file");
  if (const auto failure = driver_failure(reading.text)) {
    reading.refuse(*failure, "nvidia-smi failed on that machine, this is its message",
                   "run it where the driver works, or describe the cluster by hand (clusters/README.md)");
  }
  reading.matrix = topology_matrix(reading.text, reading.notes);
  reading.peers = peer_table(reading.text);
  reading.gpus = queried_gpus(reading.text, reading.notes);
  reading.ports = network_ports(reading.text, reading.notes);
  if (!reading.matrix && !reading.peers && reading.gpus.empty() && reading.ports.empty()) {
    reading.refuse(
        0, "neither a topology nor a GPU query",
        "expected the output of nvidia-smi topo -m, nvidia-smi --query-gpu=name,memory.total,... --format=csv, "
        "nvidia-smi -L, rocm-smi --showtopo, ibstat or ibv_devinfo");
  }
  return reading;
}

std::string number(double value) { return shortest(value); }
std::string rate_text(BytesPerSecond rate) { return number(rate.raw() / 1e9) + " GB/s"; }
std::string plural(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

/// Puts the cluster together, one part after the other, and notes what it guesses.
class Draft {
 public:
  Draft(std::vector<Reading>& readings, const GpuCatalogue& catalogue) : readings_(readings), catalogue_(catalogue) {}

  std::string compose() {
    find_gpu();
    count_hosts();
    write_gpu();
    write_fast_domain();
    write_pcie();
    write_network();
    if (nodes_ == 1) guess("nodes: 1 (the files show one host)");
    json_.key("guessed").begin_array();
    for (const std::string& text : guesses_) json_.value(text);
    json_.end_array();
    std::string names;
    for (const Reading& reading : readings_) names += (names.empty() ? "" : ", ") + reading.name;
    json_.field("source", "read from " + names);
    json_.end_object();
    return json_.text();
  }
  [[nodiscard]] const std::vector<std::string>& guesses() const { return guesses_; }

 private:
  void guess(std::string text) { guesses_.push_back(std::move(text)); }

  [[nodiscard]] const TopologyMatrix* matrix() const {
    for (const Reading& reading : readings_) {
      if (reading.matrix) return &*reading.matrix;
    }
    return nullptr;
  }

  /// The catalogue row of a queried GPU; memory decides between rows of one name.
  const GpuSpec& row_of_query(const Reading& reading, const QueriedGpu& gpu) const {
    auto rows = catalogue_.matches(gpu.name);
    if (rows.size() > 1 && gpu.memory_mib) {
      const auto distance = [&](const GpuSpec* row) {
        return std::fabs(row->memory.raw() / 1048576 - *gpu.memory_mib);
      };
      std::stable_sort(rows.begin(), rows.end(),
                       [&](const GpuSpec* a, const GpuSpec* b) { return distance(a) < distance(b); });
      if (distance(rows[0]) < distance(rows[1])) return *rows[0];
    }
    try {
      return catalogue_.find(gpu.name);
    } catch (const SpecError& problem) {
      reading.refuse(gpu.offset, problem.what(), "write the cluster file by hand with a \"gpu\" of the catalogue");
    }
  }

  void find_gpu() {
    for (const Reading& reading : readings_) {
      for (const QueriedGpu& gpu : reading.gpus) {
        const GpuSpec& row = row_of_query(reading, gpu);
        if (gpu_ != nullptr && gpu_->id != row.id) {
          reading.refuse(gpu.offset, "a second kind of GPU: " + row.id + " beside " + gpu_->id,
                         "a cluster has one kind; give the lines of one of them");
        }
        gpu_ = &row;
        if (query_ == nullptr) query_ = &gpu;
      }
    }
    if (gpu_ == nullptr) guess_from_matrix();
    if (!gpu_->unplannable.empty()) throw SpecError(gpu_->id + " cannot be planned with: " + gpu_->unplannable);
  }

  void guess_from_matrix() {
    for (const Reading& reading : readings_) {
      TopologyMatrix shown;
      if (reading.matrix) {
        shown = *reading.matrix;
      } else if (!reading.peers) {
        continue;
      }
      const GpuGuess found = guess_gpu(shown, reading.name, catalogue_);
      if (found.gpu == nullptr) continue;
      gpu_ = found.gpu;
      guess("gpu: " + gpu_->id + " (" + found.reason + "; a GPU query beside it settles this)");
      return;
    }
    throw SpecError(
        "these files tell the network only; add the output of nvidia-smi topo -m or of "
        "nvidia-smi --query-gpu=name,memory.total --format=csv");
  }

  /// Hosts: one per matrix, or one per query file; all with as many GPUs.
  void count_hosts() {
    std::size_t matrices = 0, queries = 0;
    for (Reading& reading : readings_) {
      if (reading.matrix) {
        ++matrices;
        check_count(reading, reading.matrix->gpus.size());
      }
    }
    for (Reading& reading : readings_) {
      if (reading.gpus.empty()) continue;
      ++queries;
      if (matrices == 0) {
        check_count(reading, reading.gpus.size());
      } else if (reading.gpus.size() != gpus_per_node_) {
        reading.note(
            reading.gpus.front().offset,
            plural(reading.gpus.size(), "GPU") + " here, " + std::to_string(gpus_per_node_) + " in the topology",
            "the topology is used");
      }
    }
    for (const Reading& reading : readings_) {
      if (gpus_per_node_ == 0 && reading.peers) {
        gpus_per_node_ = reading.peers->gpus;
      }
    }
    nodes_ = std::max<std::size_t>({matrices, queries, 1});
    if (nodes_ > 1) guess("nodes: " + std::to_string(nodes_) + " (one host per file)");
  }

  void check_count(const Reading& reading, std::size_t count) {
    if (gpus_per_node_ != 0 && gpus_per_node_ != count) {
      reading.refuse(0, plural(count, "GPU") + " here, " + std::to_string(gpus_per_node_) + " in the file before",
                     "hosts of one cluster have as many GPUs each");
    }
    gpus_per_node_ = count;
  }

  void write_gpu() {
    json_.begin_object();
    const std::size_t all = nodes_ * gpus_per_node_;
    json_.field("name", std::to_string(all) + "x" + gpu_->id);
    const double known = gpu_->memory.raw() / 1048576;
    if (query_ != nullptr && query_->memory_mib && std::fabs(*query_->memory_mib / known - 1) > 0.01) {
      json_.key("gpu").begin_line_object();
      json_.field("id", gpu_->id);
      json_.field("memory", number(*query_->memory_mib) + " MiB");
      json_.end_object();
      guess("gpu.usable: in proportion (the query shows " + number(*query_->memory_mib) + " MiB where " + gpu_->id +
            " has " + number(known) + ")");
    } else {
      json_.field("gpu", gpu_->id);
    }
    json_.field("gpus_per_node", static_cast<std::int64_t>(gpus_per_node_));
    json_.field("nodes", static_cast<std::int64_t>(nodes_));
  }

  void write_fast_domain() {
    const TopologyMatrix* shown = matrix();
    const int count = static_cast<int>(gpus_per_node_);
    if (shown == nullptr) {
      const bool joined = gpu_->topology == Topology::switched || gpu_->topology == Topology::mesh;
      if (joined && count > 1) {
        guess("fast domain: what usual servers of " + gpu_->id +
              " have (no topology given: nvidia-smi topo -m shows it)");
      } else if (gpu_->topology == Topology::bridged_pairs && count > 1) {
        guess("fast domain: none, cards without bridges (no topology given: nvidia-smi topo -m shows it)");
      }
      return;
    }
    const MatrixDomain domain = domain_of(*shown, *gpu_);
    for (const std::string& text : domain.guesses) guess(text);
    domain_ = domain.gpus;
    json_.key("fast_domain").begin_line_object();
    json_.field("gpus", domain.gpus);
    if (domain.gpus > 1) {
      json_.field("topology", name_of(domain.topology));
      json_.field("bandwidth", rate_text(domain.bandwidth));
      if (domain.topology == Topology::mesh) json_.field("per_peer", rate_text(domain.per_peer));
      guess("fast domain bandwidth: " + rate_text(domain.bandwidth) + " (links of the matrix times the rated speed)");
    }
    json_.end_object();
  }

  void write_pcie() {
    std::string version;
    int lanes = 0;
    if (query_ != nullptr) {
      const auto generation = query_->pcie_generation;
      if (generation && *generation >= 3 && *generation <= 6) version = std::to_string(*generation) + ".0";
      lanes = query_->pcie_lanes.value_or(0);
      const int now = query_->current_pcie_lanes.value_or(0);
      if (now > 0 && now < lanes) {
        guess("pcie.lanes: " + std::to_string(now) + " (the link runs on fewer than its " + std::to_string(lanes) +
              " lanes: look at the slot)");
      }
      if (now > 0) lanes = now;
      if (!generation && query_->current_pcie_generation) {
        guess("pcie.version: that of " + gpu_->id +
              " (a GPU at rest shows a lower generation than it can; "
              "pcie.link.gen.max shows that)");
      }
    }
    const PeerTable* peers = nullptr;
    for (const Reading& reading : readings_) {
      if (reading.peers) peers = &*reading.peers;
    }
    const bool matters = domain_ < static_cast<int>(gpus_per_node_) && (domain_ > 0 || !joined_by_default());
    if (matters && peers == nullptr) {
      const std::string usual = gpu_->peer_to_peer == PeerToPeer::yes ? "on" : "off, as the stock driver has it";
      guess("pcie.p2p: " + usual + " (nvidia-smi topo -p2p r shows it)");
    }
    if (const TopologyMatrix* shown = matrix(); matters && shown != nullptr && shown->worst_path() >= Path::phb) {
      guess("PCIe bandwidth between GPUs: that of one slot (the farthest path is " +
            std::string(name_of(shown->worst_path())) + ", through the processors: measure it with nccl-tests)");
    }
    if (version.empty() && (lanes < 1 || lanes > 16) && peers == nullptr) return;
    json_.key("pcie").begin_line_object();
    if (!version.empty()) json_.field("version", version);
    if (lanes >= 1 && lanes <= 16) json_.field("lanes", lanes);
    if (peers != nullptr) {
      json_.field("p2p", peers->all_ok ? "yes" : "no");
      if (!peers->all_ok)
        guess("pcie.p2p: no (the peer table says " + peers->refusal + "; that of -p2p n would only mean no NVLink)");
    }
    json_.end_object();
  }

  [[nodiscard]] bool joined_by_default() const {
    return gpu_->topology == Topology::switched || gpu_->topology == Topology::mesh;
  }

  void write_network() {
    std::vector<NetworkPort> active;
    bool infiniband = true;
    double sum = 0;
    for (Reading& reading : readings_) {
      for (const NetworkPort& port : reading.ports) {
        if (!port.active) {
          reading.note(port.offset, "port of " + (port.device.empty() ? "a NIC" : port.device) + " is not active",
                       "left out");
          continue;
        }
        active.push_back(port);
        infiniband = infiniband && port.infiniband;
        sum += port.gbit_per_second;
      }
    }
    const TopologyMatrix* shown = matrix();
    const std::size_t near = shown == nullptr ? 0 : near_nics(*shown);
    const std::size_t nics = near > 0 ? near : shown == nullptr ? 0 : shown->nics.size();
    if (active.empty() && nics == 0) {
      if (nodes_ > 1)
        guess("network: that of usual servers of " + gpu_->id + " (no NIC is shown; ibstat shows its rate)");
      return;
    }
    if (shown != nullptr && near > 0 && near < shown->nics.size() && shown->missing_rows.empty()) {
      guess("NICs: " + std::to_string(near) + " of " + std::to_string(shown->nics.size()) +
            " (those behind a PCIe switch of a GPU; the others are taken for storage and management)");
    }
    json_.key("network").begin_line_object();
    if (active.empty()) {
      write_guessed_rate(nics);
    } else {
      const bool alike = std::all_of(active.begin(), active.end(), [&](const NetworkPort& port) {
        return port.gbit_per_second == active.front().gbit_per_second;
      });
      if (nics > 0 && nics != active.size() && alike) {
        sum = active.front().gbit_per_second * static_cast<double>(nics);
        guess("network.per_node: " + number(sum) + " Gbit/s (" + plural(nics, "NIC") + " at the " +
              number(active.front().gbit_per_second) + " Gbit/s of the " + plural(active.size(), "port") + " listed)");
      } else if (nics == 0) {
        guess("network.per_node: " + number(sum) + " Gbit/s (" + plural(active.size(), "port") +
              " listed, all taken to serve GPUs)");
      }
      json_.field("kind", infiniband ? "infiniband" : "roce");
      json_.field("per_node", number(sum) + " Gbit/s");
    }
    json_.end_object();
    guess("network oversubscription: none (no query shows it: measure all nodes with nccl-tests)");
  }

  /// NICs that serve GPUs. Rows that are cut off are taken to have as many of their own as the others.
  std::size_t near_nics(const TopologyMatrix& shown) {
    const std::size_t seen = shown.gpus.size() - shown.missing_rows.size();
    const std::size_t near = shown.near_nics();
    if (shown.missing_rows.empty() || near == 0 || near % seen != 0) return near;
    const std::size_t all = std::min(near / seen * shown.gpus.size(), shown.nics.size());
    guess("NICs: " + std::to_string(all) + " of " + std::to_string(shown.nics.size()) + " (" + std::to_string(near) +
          " behind PCIe switches of the " + std::to_string(seen) +
          " GPUs whose rows are there, as many for the others)");
    return all;
  }

  void write_guessed_rate(std::size_t nics) {
    const bool usual = gpu_->usual_network > BytesPerSecond{};
    const double gbit = usual ? gpu_->usual_network.raw() * 8e-9 : 100;
    const double sum = gbit * static_cast<double>(nics);
    guess("network.per_node: " + number(sum) + " Gbit/s (" + plural(nics, "NIC") + " at " + number(gbit) + " Gbit/s, " +
          (usual ? "usual with " + gpu_->id : "an ordinary rate") + "; ibstat shows the real one)");
    const std::string kind = usual ? "infiniband" : "ethernet";
    guess("network.kind: " + kind + " (ibstat shows the link layer)");
    json_.field("kind", kind);
    json_.field("per_node", number(sum) + " Gbit/s");
  }

  std::vector<Reading>& readings_;
  const GpuCatalogue& catalogue_;
  const GpuSpec* gpu_ = nullptr;
  const QueriedGpu* query_ = nullptr;
  std::size_t gpus_per_node_ = 0, nodes_ = 1;
  int domain_ = 0;  ///< 0: no matrix tells
  JsonWriter json_;
  std::vector<std::string> guesses_;
};

}  // namespace

ImportedCluster import_cluster(const std::vector<QueryFile>& files, const GpuCatalogue& catalogue) {
  std::vector<Reading> readings;
  std::string problems;
  for (const QueryFile& file : files) {
    try {
      readings.push_back(read(file));
    } catch (const SpecError& problem) {
      problems += (problems.empty() ? "" : "\n") + std::string(problem.what());
    }
  }
  if (!problems.empty()) throw SpecError(problems);
  Draft draft(readings, catalogue);
  ImportedCluster result;
  result.json = draft.compose();
  result.guesses = draft.guesses();
  for (const Reading& reading : readings) {
    if (reading.notes.empty()) continue;
    result.warnings += (result.warnings.empty() ? "" : "\n") + render(reading.name, reading.text, reading.notes);
  }
  parse_cluster("imported.json", result.json, catalogue);  // what cannot be read back is not written
  return result;
}

}  // namespace tpplan
