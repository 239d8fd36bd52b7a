#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/spec_reader.h"
#include "cost-model/units.h"

namespace tpplan {

/// Number formats of the matrix units, as rows of the precision table.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4 };
inline constexpr std::size_t kPrecisions = 7;
struct PrecisionRow {
  std::string_view name;
  Precision precision;
  double gemm_bytes;        ///< bytes of a GEMM operand element
  double activation_bytes;  ///< bytes of a stored activation element outside GEMMs
};
inline constexpr std::array<PrecisionRow, kPrecisions> kPrecisionTable{{
    {"fp32", Precision::fp32, 4, 4},
    {"tf32", Precision::tf32, 4, 4},
    {"fp16", Precision::fp16, 2, 2},
    {"bf16", Precision::bf16, 2, 2},
    {"fp8", Precision::fp8, 1, 2},
    {"mxfp8", Precision::mxfp8, 1, 2},
    {"nvfp4", Precision::nvfp4, 0.5, 2},
}};
std::optional<Precision> precision_from(std::string_view name);
std::string_view name_of(Precision precision);

/// How the GPUs of a fast domain reach each other.
enum class Topology : std::uint8_t {
  none,           ///< no fast link
  switched,       ///< full bandwidth to any peer (NVSwitch)
  mesh,           ///< one link per peer: a group of n reaches (n-1) x per_peer
  bridged_pairs,  ///< full bandwidth between the two of a pair, PCIe beyond
  pcie,           ///< PCIe tree
  torus,
  other
};

enum class LinkKind : std::uint8_t { nvlink, xgmi, hccs, other_fast, pcie, infiniband, roce, ethernet };
inline constexpr std::size_t kLinkKinds = 8;
/// A kind of link and the latency of one hop that is assumed when a cluster file gives none: between NCCL's LL and
/// LL128 constants of that link (src/graph/tuning.cc); for xGMI, HCCS, RoCE and TCP from small all-reduces in public
/// logs.
struct LinkKindRow {
  std::string_view name;   ///< in files: "infiniband"
  std::string_view label;  ///< in reports: "InfiniBand"
  LinkKind kind;
  Seconds latency;
};
inline constexpr std::array<LinkKindRow, kLinkKinds> kLinkKindTable{{
    {"nvlink", "NVLink", LinkKind::nvlink, 1_us},
    {"xgmi", "xGMI", LinkKind::xgmi, 1.5_us},
    {"hccs", "HCCS", LinkKind::hccs, 2_us},
    {"fast_link", "fast link", LinkKind::other_fast, 2_us},
    {"pcie", "PCIe", LinkKind::pcie, 2.5_us},
    {"infiniband", "InfiniBand", LinkKind::infiniband, 5_us},
    {"roce", "RoCE", LinkKind::roce, 6_us},
    {"ethernet", "Ethernet", LinkKind::ethernet, 20_us},
}};
constexpr const LinkKindRow& row_of(LinkKind kind) { return kLinkKindTable[static_cast<std::size_t>(kind)]; }
std::string_view name_of(Topology topology);

/// Whether GPUs read each other's memory over PCIe: `driver` where only a changed driver allows it (GeForce), planned
/// as no.
enum class PeerToPeer : std::uint8_t { yes, no, driver };

/// One row of the GPU catalogue (clusters/gpus.json).
struct GpuSpec {
  std::string id;    ///< "a100-80gb-sxm"
  std::string name;  ///< "A100-SXM4-80GB"
  std::string vendor;
  std::string
      architecture;  ///< "volta", "ampere", "ada", "hopper", "blackwell", "cdna3", ...: selects efficiency constants
  Bytes memory;      ///< visible to the driver
  Bytes usable;      ///< what a process can get (cudaMemGetInfo's total)
  BytesPerSecond memory_bandwidth;
  std::array<FlopsPerSecond, kPrecisions> peak{};  ///< dense, per second; 0 = not offered
  int sms = 0;                                     ///< streaming multiprocessors (compute units), 0 unknown
  BytesPerSecond link;                             ///< fast link, one direction, all links of one device; 0 for none
  BytesPerSecond per_peer;                         ///< to one neighbour in a mesh, 0 when not a mesh
  Topology topology = Topology::none;
  std::string link_name;
  int fast_domain = 0;    ///< GPUs one fast domain joins at most whatever the server (GB200 NVL72: 72), 0: the server's
  int gpus_per_host = 8;  ///< of the usual server
  std::string pcie;       ///< "4.0x16", empty when it has no slot of its own
  PeerToPeer peer_to_peer = PeerToPeer::yes;
  BytesPerSecond host_link;      ///< to its host, one direction, where that is no PCIe slot (NVLink-C2C), else 0
  BytesPerSecond usual_network;  ///< network per GPU and direction of the usual server
  double tdp_watts = 0;
  std::string launch, confidence, source, note;
  std::vector<std::string> aliases;  ///< what the driver prints, what people write
  std::string unplannable;           ///< why no plan can be made with it (no known collective law), empty when it can
  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
};

/// A level of the network: all GPUs in blocks of `span` reach each other at this level.
struct NetworkTier {
  std::string name;  ///< "NVLink", "PCIe 4.0 x16", "InfiniBand"
  LinkKind kind = LinkKind::nvlink;
  Topology topology = Topology::switched;
  int span = 1;              ///< GPUs in one block of this tier; the last tier spans the whole cluster
  BytesPerSecond bandwidth;  ///< per GPU and direction
  BytesPerSecond per_peer;   ///< mesh only
  Seconds latency;           ///< one hop
  double oversubscription = 1;
  bool peer_to_peer = true;  ///< PCIe: GPUs read each other's memory directly
};

/// `nodes` hosts of `gpus_per_node` equal GPUs, joined by tiers ordered by span. A mixed cluster is a row of such
/// parts; seen as a whole it has the least of everything: what a layout that spreads equal work over unequal parts can
/// count on.
struct ClusterSpec {
  std::string name;
  GpuSpec gpu;
  int gpus_per_node = 1;
  int nodes = 1;
  std::vector<NetworkTier> tiers;              ///< 1 to 4, ascending span; the last spans gpus()
  Bytes host_memory;                           ///< per node, 0 unknown
  BytesPerSecond host_link;                    ///< PCIe or C2C between one GPU and its host, per direction
  BytesPerSecond storage_read, storage_write;  ///< whole cluster, 0 unknown
  std::vector<ClusterSpec> parts;              ///< of a mixed cluster, in rank order; empty when all nodes are alike
  std::string calibration;  ///< path of NAME.calibration.json beside the file, empty when there is none
  std::vector<std::string> assumed;
  [[nodiscard]] int gpus() const { return gpus_per_node * nodes; }
};

/// The shipped catalogue of GPUs: every row of clusters/gpus.json.
class GpuCatalogue {
 public:
  static GpuCatalogue load(const std::string& path);
  [[nodiscard]] const std::vector<GpuSpec>& rows() const { return rows_; }
  /// By id, case-insensitive; else by unambiguous tokens ("a100 sxm 80gb"). Throws SpecError naming near ids.
  [[nodiscard]] const GpuSpec& find(std::string_view id) const;
  /// The same without an error: nullptr when nothing or more than one row matches.
  [[nodiscard]] const GpuSpec* try_find(std::string_view id) const;
  /// Every row that carries all the words of `text`; one row when they are exactly a row's id, name or alias.
  [[nodiscard]] std::vector<const GpuSpec*> matches(std::string_view text) const;

 private:
  std::vector<GpuSpec> rows_;
};

/// Reads a cluster file. Throws SpecError with every problem.
ClusterSpec load_cluster(const std::string& path, const GpuCatalogue& catalogue, std::string* warnings = nullptr);
ClusterSpec parse_cluster(std::string name, std::string source, const GpuCatalogue& catalogue,
                          std::string* warnings = nullptr);

/// Why the peaks of `gpu` look like sparse figures given as dense ones, in words; empty when they do not. Dense rates
/// of one GPU stand as bf16 : tf32 : fp8 = 2 : 1 : 4; `reference` (the catalogue's row) is compared too when not null.
std::string sparse_peak_suspicion(const GpuSpec& gpu, const GpuSpec* reference = nullptr);

/// Nominal bandwidth of a PCIe slot such as "4.0x16", one direction: 1 GB/s a lane for 3.0, doubled per generation.
/// 0 for a text of another form.
BytesPerSecond pcie_bandwidth(std::string_view slot);

/// A cluster of `nodes` usual servers of that GPU: fast domain, PCIe and network tiers from the GPU's row
/// (a GB200/GB300 NVLink domain is up to 72 whatever `gpus_per_node` says; bridged cards are taken without bridges).
/// `network` (per GPU and direction) overrides the row's usual network, `fast_domain` (GPUs, 1 for none) the usual fast
/// domain. Throws SpecError for a GPU that cannot be planned.
ClusterSpec usual_cluster(const GpuSpec& gpu, int nodes, int gpus_per_node,
                          std::optional<BytesPerSecond> network = std::nullopt, int fast_domain = 0);

/// "16x8xh100-80gb-sxm" (nodes x GPUs x GPU id, case-insensitive) or "8xa100-80gb-sxm", several of them joined by "+"
/// for a mixed cluster; nothing when the text has another form; throws SpecError when the form fits but the GPU is
/// unknown.
std::optional<ClusterSpec> cluster_from_name(std::string_view text, const GpuCatalogue& catalogue);

}  // namespace tpplan
