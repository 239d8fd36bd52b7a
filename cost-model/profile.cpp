#include "cost-model/profile.h"

#include <algorithm>
#include <filesystem>

#include "cost-model/layout.h"

namespace tpplan {

const std::array<GpuConstantRow, 19> kGpuConstantTable{{
    {"gemm_16bit", &GpuConstants::gemm_16bit, "large 16-bit matrix products, fraction of the dense peak"},
    {"gemm_tf32", &GpuConstants::gemm_tf32, "large tf32 products, fraction of the dense peak"},
    {"gemm_fp8", &GpuConstants::gemm_fp8, "large fp8 products, fraction of the dense peak"},
    {"gemm_fp4", &GpuConstants::gemm_fp4, "large fp4 products, fraction of the dense peak"},
    {"gemm_k0", &GpuConstants::gemm_k0, "inner size at which a product takes twice its FLOP's time"},
    {"gemm_k0_narrow", &GpuConstants::gemm_k0_narrow, "the same for 8-bit and 4-bit products"},
    {"gemm_occupancy", &GpuConstants::gemm_occupancy, "exponent on the share of multiprocessors with a tile"},
    {"gemm_bytes", &GpuConstants::gemm_bytes, "fraction of memory bandwidth of a bandwidth-bound product"},
    {"batched_gemm", &GpuConstants::batched_gemm, "products of unfused attention, fraction of peak"},
    {"flash_forward", &GpuConstants::flash_forward, "fused attention forward, fraction of peak"},
    {"flash_backward", &GpuConstants::flash_backward, "fused attention backward, fraction of peak"},
    {"flash_tail_forward", &GpuConstants::flash_tail_forward, "query tiles per multiprocessor in the tail, forward"},
    {"flash_tail_backward", &GpuConstants::flash_tail_backward, "query tiles per multiprocessor in the tail, backward"},
    {"flash_d64", &GpuConstants::flash_d64, "time factor of head sizes up to 64"},
    {"memory_plain", &GpuConstants::memory_plain, "copies and adds, fraction of memory bandwidth"},
    {"memory_norm", &GpuConstants::memory_norm, "norms, fraction of memory bandwidth"},
    {"memory_adam", &GpuConstants::memory_adam, "fused Adam, fraction of memory bandwidth"},
    {"memory_dynamic", &GpuConstants::memory_dynamic, "kernels compiled for dynamic shapes, fraction of bandwidth"},
    {"power_factor", &GpuConstants::power_factor, "sustained peak of a power-limited part over the full part"},
}};

const std::vector<ProfileScalarRow>& profile_scalars() {
  using P = FrameworkProfile;
  static const std::vector<ProfileScalarRow> rows{
      {"elementwise_factor", &P::elementwise_factor, "time of memory-bound layer operations over their counted bytes"},
      {"fast_link_factor", &P::fast_link_factor, "bus bandwidth inside the fast domain over the link's constant"},
      {"network_factor", &P::network_factor, "bus bandwidth of the network over the link's constant"},
      {"collective_latency_s", &P::collective_latency_s, "seconds added to every collective inside a step"},
      {"launch_s", &P::launch_s, "host seconds per kernel launch"},
      {"kernels_forward", &P::kernels_forward, "launches of one layer forward"},
      {"kernels_backward", &P::kernels_backward, "launches of one layer backward"},
      {"collective_launches", &P::collective_launches, "launches one collective costs the host"},
      {"layer_host_s", &P::layer_host_s, "host seconds of a layer's forward pass beside its launches"},
      {"checkpoint_host_s", &P::checkpoint_host_s,
       "host seconds of checkpointing a layer beside its second forward pass"},
      {"kernel_gap_s", &P::kernel_gap_s, "GPU seconds idle between two kernels"},
      {"moe_host_forward_s", &P::moe_host_forward_s, "host seconds of a MoE layer's forward pass"},
      {"moe_host_backward_factor", &P::moe_host_backward_factor, "the same backward, in forward passes"},
      {"moe_host_proxied", &P::moe_host_proxied, "times that host time with deepep-proxied"},
      {"moe_host_graphed", &P::moe_host_graphed, "share of it that is left beside CUDA graphs"},
      {"permute_factor", &P::permute_factor, "time of sorting routed rows and summing them back over their bytes'"},
      {"routed_outputs_kept", &P::routed_outputs_kept,
       "1: outputs of the experts are kept for their weights' gradients"},
      {"loss_bytes_per_logit", &P::loss_bytes_per_logit, "memory traffic of the loss per logit"},
      {"weight_gradient_bytes", &P::weight_gradient_bytes, "traffic of gradient accumulation per parameter"},
      {"flash_forward_factor", &P::flash_forward_factor, "fused attention forward rate over the GPU constant"},
      {"flash_backward_factor", &P::flash_backward_factor, "fused attention backward rate over the GPU constant"},
      {"small_head_factor", &P::small_head_factor, "attention time of head sizes up to 64, 0: the GPU constant"},
      {"gemm_factor", &P::gemm_factor, "matrix product rate over the GPU constant"},
      {"score_bytes_forward", &P::score_bytes_forward, "unfused attention traffic per score, forward"},
      {"score_bytes_backward", &P::score_bytes_backward, "unfused attention traffic per score, backward"},
      {"misaligned_head_factor", &P::misaligned_head_factor, "unfused products with head size no multiple of 8"},
      {"tp_hidden", &P::tp_hidden, "share of tensor-parallel communication hidden with overlap"},
      {"tp_overlap_default", &P::tp_overlap_default, "1: tensor-parallel overlap is this framework's habit"},
      {"dp_overlap_default", &P::dp_overlap_default, "1: gradient-reduction overlap is this framework's habit"},
      {"pp_overlap_default", &P::pp_overlap_default, "1: pipeline-transfer overlap is this framework's habit"},
      {"dp_overlap_cost", &P::dp_overlap_cost, "cost of an overlapped gradient reduction over its isolated time"},
      {"fsdp_overlap_cost", &P::fsdp_overlap_cost, "cost of overlapped FSDP collectives over their isolated time"},
      {"pp_exposed_transfers", &P::pp_exposed_transfers, "exposed transfers per micro-batch and chunk, not overlapped"},
      {"pp_scatter_gather", &P::pp_scatter_gather, "1: a stage's output is sent in tp parts and gathered"},
      {"ep_exposed", &P::ep_exposed, "exposed share of expert all-to-all without overlap"},
      {"ep_exposed_overlapped", &P::ep_exposed_overlapped, "the same with overlap"},
      {"expert_gemm_factor_16bit", &P::expert_gemm_factor_16bit, "rate of 16-bit grouped products"},
      {"expert_gemm_factor", &P::expert_gemm_factor, "rate of grouped products over the GPU constant"},
      {"all_to_all_factor", &P::all_to_all_factor, "bus bandwidth of expert all-to-all over the link's constant"},
      {"optimizer_bytes", &P::optimizer_bytes, "optimizer traffic per local parameter"},
      {"step_fixed_s", &P::step_fixed_s, "seconds per step that nothing else explains"},
      {"selective_op_share", &P::selective_op_share, "share of products that per-operation recompute repeats"},
      {"cp_attention_factor", &P::cp_attention_factor, "attention time under context parallelism"},
      {"fp8_cast_bytes", &P::fp8_cast_bytes, "quantisation traffic of an input and an output element"},
      {"gradient_wire_bytes", &P::gradient_wire_bytes, "bytes of a reduced gradient"},
      {"owner_broadcast", &P::owner_broadcast, "1: updated weights travel in one broadcast per owner of a shard"},
      {"far_network_exponent", &P::far_network_exponent, "network bandwidth falls with (nodes/16)^-x beyond 16 nodes"},
      {"weight_bytes", &P::weight_bytes, "weights per parameter", true},
      {"gradient_bytes", &P::gradient_bytes, "gradients per parameter", true},
      {"optimizer_state_bytes", &P::optimizer_state_bytes, "optimizer states per parameter, divided by ZeRO", true},
      {"bf16_gradient_bytes", &P::bf16_gradient_bytes, "further resident bytes per parameter in bf16", true},
      {"sharded_gradient_bytes", &P::sharded_gradient_bytes, "further gradient bytes divided by ZeRO-1", true},
      {"bucket_bytes", &P::bucket_bytes, "gradient buckets per parameter when dp > 1", true},
      {"shards_gradients", &P::shards_gradients, "1: ZeRO-1 divides the gradients too", true},
      {"unsynced_gradients", &P::unsynced_gradients, "1: FSDP keeps unsharded gradients between micro-batches", true},
      {"loss_allocated_per_logit", &P::loss_allocated_per_logit, "bytes per logit alive at the loss", true},
      {"head_input_bytes", &P::head_input_bytes, "times hidden per token, alive at the loss", true},
      {"dummy_weight_gradients", &P::dummy_weight_gradients, "1: one 16-bit buffer per distinct weight shape", true},
      {"activation_factor", &P::activation_factor, "kept activations over the counted list", true},
      {"constant_gib", &P::constant_gib, "GiB that no term explains", true},
      {"constant_tp_gib", &P::constant_tp_gib, "the same when tp > 1", true},
      {"context_gib", &P::context_gib, "driver context and libraries, GiB", true},
      {"context_p2p_gib", &P::context_p2p_gib, "the same once point-to-point transfers are used, further GiB", true},
      {"workspace_gib", &P::workspace_gib, "library workspaces, GiB", true},
      {"stage_buffer_bytes", &P::stage_buffer_bytes, "times hidden per token and micro-batch in flight when pp > 1",
       true},
      {"reserved_factor", &P::reserved_factor, "reserved over allocated memory", true},
      {"reserved_loss_factor", &P::reserved_loss_factor, "reserved minus allocated in loss transients", true},
      {"replay_allocator", &P::replay_allocator, "1: reserved memory comes from a replay of PyTorch's allocator", true},
      {"fsdp_prefetch_layers", &P::fsdp_prefetch_layers, "gathered layers alive at once", true},
      {"fsdp_gradient_pool", &P::fsdp_gradient_pool, "1: reduced gradients sit in a pool of their own", true},
      {"fsdp_shard_bytes", &P::fsdp_shard_bytes, "weight shard per parameter beside the optimizer states", true},
      {"fsdp_gradient_bytes", &P::fsdp_gradient_bytes, "gradients per parameter under FSDP", true},
      {"adapter_bytes", &P::adapter_bytes, "per adapter parameter", true},
      {"adapter_gradient_bytes", &P::adapter_gradient_bytes, "gradients per adapter parameter", true},
      {"adapter_state_bytes", &P::adapter_state_bytes, "Adam's moments per adapter parameter", true},
      {"adapter_dropout", &P::adapter_dropout, "1: adapters keep a dropped-out copy of their input and a mask", true},
      {"adapter_output_bytes", &P::adapter_output_bytes, "kept per output of fused query/key/value adapters", true},
      {"adapter_loss_per_logit", &P::adapter_loss_per_logit, "bytes per logit at the loss with adapters", true},
      {"quantised_input_bytes", &P::quantised_input_bytes, "kept per input of a product with 4-bit weights", true},
      {"quantised_head", &P::quantised_head, "1: the head is quantised too", true},
      {"unquantised_bytes", &P::unquantised_bytes, "per weight of embedding, head and norms beside 4-bit ones", true},
      {"dequantised_copies", &P::dequantised_copies, "16-bit copies of the largest 4-bit matrix at once", true},
      {"flat_gradients", &P::flat_gradients, "1: FSDP gives frozen weights gradients too", true},
      {"paged_states", &P::paged_states,
       "1: with 4-bit weights the states are paged to the host, 2: on one device always", true},
  };
  return rows;
}

std::optional<Framework> framework_from(std::string_view name) {
  for (const auto& row : kFrameworkTable) {
    if (row.name == name) {
      return row.framework;
    }
  }
  return std::nullopt;
}

std::string_view name_of(Framework framework) {
  for (const auto& row : kFrameworkTable) {
    if (row.framework == framework) {
      return row.name;
    }
  }
  return "?";
}

namespace {

constexpr std::array<NameRow<ConstantSource>, 4> kConstantSourceNames{{{"measured", ConstantSource::measured},
                                                                       {"code", ConstantSource::code},
                                                                       {"fitted", ConstantSource::fitted},
                                                                       {"assumed", ConstantSource::assumed}}};
constexpr std::array<NameRow<ShardedBy>, 3> kShardedByNames{
    {{"nothing", ShardedBy::nothing}, {"tp", ShardedBy::tp}, {"sequence", ShardedBy::sequence}}};
constexpr std::array<NameRow<MemoryKind>, 4> kMemoryKindNames{{{"plain", MemoryKind::plain},
                                                               {"norm", MemoryKind::norm},
                                                               {"adam", MemoryKind::adam},
                                                               {"dynamic", MemoryKind::dynamic}}};

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) {
    names.emplace_back(row.name);
  }
  return names;
}

template <class Enum, std::size_t N>
Enum read_enum(ObjectReader& in, std::string_view key, const std::array<NameRow<Enum>, N>& table, Enum fallback) {
  const auto text = in.choice(key, names_of(table), std::string(name_in(table, fallback)));
  return value_in(table, text).value_or(fallback);
}

/// -1 when the key is absent, else the flag: conditions of a TokenBytes row.
std::int8_t condition(ObjectReader& in, std::string_view key) {
  return in.has(key) ? static_cast<std::int8_t>(in.flag(key) ? 1 : 0) : std::int8_t{-1};
}

TokenBytes read_token_bytes(ObjectReader in) {
  constexpr double kLimit = 1e4;
  TokenBytes row;
  row.name = in.text("name");
  row.h = in.number("h", -kLimit, kLimit, 0);
  row.q = in.number("q", -kLimit, kLimit, 0);
  row.kv = in.number("kv", -kLimit, kLimit, 0);
  row.f = in.number("f", -kLimit, kLimit, 0);
  row.heads = in.number("heads", -kLimit, kLimit, 0);
  row.scores = in.number("scores", -kLimit, kLimit, 0);
  row.constant = in.number("constant", -kLimit, kLimit, 0);
  row.sharded_by = read_enum(in, "sharded_by", kShardedByNames, ShardedBy::tp);
  row.kind = read_enum(in, "kind", kMemoryKindNames, MemoryKind::plain);
  if (in.has("module")) {
    const auto module = in.choice("module", names_of(kRecomputeModuleNames));
    row.module = value_in(kRecomputeModuleNames, module).value_or(std::uint16_t{0});
  }
  row.flash = condition(in, "flash");
  row.rms_kernel = condition(in, "fused_norm");
  row.tp_above_one = condition(in, "tp_above_one");
  row.frozen = condition(in, "frozen");
  row.grouped = condition(in, "grouped");
  row.f_plain = in.number("f_plain", 0, kLimit, -1);
  row.narrow = in.number("narrow", 0, 1, 1);
  row.rate_fraction = in.number("rate_fraction", 0, 2, 0);
  in.close();
  return row;
}

std::vector<TokenBytes> read_rows(ArrayReader in) {
  std::vector<TokenBytes> rows;
  for (std::size_t i = 0; i < in.size(); ++i) {
    rows.push_back(read_token_bytes(in.object(i)));
  }
  return rows;
}

struct ProfileFile {
  SpecDocument document;
  FrameworkProfile profile;
};

void read_constants(ObjectReader in, FrameworkProfile& profile) {
  std::vector<std::string> known;
  for (const auto& row : profile_scalars()) {
    known.emplace_back(row.key);
    if (!in.has(row.key)) {
      continue;
    }
    auto entry = in.object(row.key);
    profile.*row.field = entry.number("value", -1e9, 1e9);
    const auto source = read_enum(entry, "source", kConstantSourceNames, ConstantSource::assumed);
    profile.sources.emplace_back(std::string(row.key), source);
    if (auto bounds = entry.optional_array("bounds")) {
      FrameworkProfile::Bounds b;
      b.key = std::string(row.key);
      if (bounds->size() == 2) {
        b.low = bounds->number(0, -1e9, 1e9);
        b.high = bounds->number(1, -1e9, 1e9);
      } else {
        entry.error("bounds", "expected [low, high]");
      }
      profile.free_constants.push_back(b);
    }
    if (auto interval = entry.optional_array("interval"); interval && interval->size() == 2) {
      profile.intervals.push_back(
          {std::string(row.key), interval->number(0, -1e9, 1e9), interval->number(1, -1e9, 1e9)});
    }
    if (entry.has("cite")) {
      profile.cites.emplace_back(std::string(row.key), entry.text("cite"));
    }
    entry.close();
  }
  for (const auto& key : in.keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const auto near = nearest_name(key, known);
      in.error_at_key(key, "unknown constant \"" + key + "\"", near ? "did you mean \"" + *near + "\"?" : "");
    }
  }
}

template <class Named>
const Named* by_name(const std::vector<Named>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Named& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

template <class Named>
std::vector<std::string> row_names(const std::vector<Named>& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    names.push_back(row.name);
  }
  return names;
}

std::vector<GpuConstants> read_gpu_constants(const std::string& path,
                                             std::vector<std::pair<std::string, std::vector<std::string>>>& sources) {
  auto document = SpecDocument::load(path);
  auto root = document.root();
  auto rows = root.array("gpus");
  std::vector<GpuConstants> gpus;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto in = rows.object(i);
    GpuConstants gpu;
    gpu.id = in.text("id");
    if (in.has("same_as")) {
      const auto base = in.text("same_as");
      const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const auto& row) { return row.id == base; });
      if (found == gpus.end()) {
        in.error("same_as", "no row \"" + base + "\" above this one");
      } else {
        const auto id = gpu.id;
        gpu = *found;
        gpu.id = id;
      }
    }
    for (const auto& row : kGpuConstantTable) {
      gpu.*row.field = in.number(row.key, 0, 1e4, gpu.*row.field);
    }
    std::vector<std::string> cites;
    if (in.has("sources")) {
      cites = in.texts("sources");
    }
    sources.emplace_back(gpu.id, std::move(cites));
    in.close();
    gpus.push_back(std::move(gpu));
  }
  root.close();
  document.finish();
  return gpus;
}

std::vector<LinkConstants> read_links(const std::string& path) {
  auto document = SpecDocument::load(path);
  auto root = document.root();
  auto rows = root.array("links");
  std::vector<LinkConstants> links;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto in = rows.object(i);
    LinkConstants link;
    link.link = in.text("link");
    link.all_reduce = in.number("all_reduce", 0.01, 2);
    link.gather = in.number("gather", 0.01, 2);
    link.all_to_all = in.number("all_to_all", 0.01, 2);
    link.send_recv = in.number("send_recv", 0.01, 2);
    link.beyond_four = in.number("beyond_four", 0.01, 1, 1);
    link.shared = in.number("shared", 0, 4, 0);
    link.base = in.seconds("base");
    link.step = in.seconds("step");
    in.ignore("sources");
    in.close();
    links.push_back(std::move(link));
  }
  root.close();
  document.finish();
  return links;
}

}  // namespace

FrameworkProfile ProfileSet::read_profile(const std::string& path) const {
  auto document = SpecDocument::load(path);
  auto root = document.root();
  FrameworkProfile profile;
  profile.name = root.text("name");
  const auto framework = root.choice("framework", names_of(kFrameworkTable));
  profile.framework = framework_from(framework).value_or(Framework::plain);
  profile.program = root.text("program", "");
  profile.since = root.text("since");
  if (root.has("architectures")) {
    profile.architectures = root.texts("architectures");
  }
  if (root.has("dispatchers")) {
    profile.dispatchers = root.texts("dispatchers");
  }
  profile.only_by_date = root.flag("only_by_date", false);
  profile.compiled = root.has("compiled") ? (root.flag("compiled") ? 1 : 0) : -1;
  profile.inventory = root.choice("inventory", row_names(inventories));
  if (const auto* inventory = by_name(inventories, profile.inventory)) {
    profile.elementwise_forward = inventory->forward;
    profile.elementwise_backward = inventory->backward;
  }
  profile.activation_list = root.choice("activations", row_names(activation_lists));
  if (const auto* list = by_name(activation_lists, profile.activation_list)) {
    profile.activations = list->tensors;
  }
  if (root.has("selective_op_activations")) {
    profile.selective_op_list = root.choice("selective_op_activations", row_names(activation_lists));
    if (const auto* list = by_name(activation_lists, profile.selective_op_list)) {
      profile.activations_selective_op = list->tensors;
    }
  }
  read_constants(root.object("constants"), profile);
  if (auto interval = root.optional_object("interval")) {
    profile.step_error = interval->number("step", 0, 2);
    profile.memory_error = interval->number("memory", 0, 2);
    profile.step_error_known = interval->flag("from_residuals", false) ? 1 : 0;
    profile.memory_error_known = interval->flag("memory_from_residuals", false) ? 1 : 0;
    profile.interval_note = interval->text("note", "");
    interval->close();
  }
  profile.fitted_on = root.text("fitted_on", "");
  if (root.has("citations")) {
    profile.citations = root.texts("citations");
  }
  root.close();
  document.finish();
  return profile;
}

ProfileSet ProfileSet::load(const std::string& folder) {
  ProfileSet set;
  {
    auto document = SpecDocument::load(folder + "/inventories.json");
    auto root = document.root();
    auto rows = root.array("inventories");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto in = rows.object(i);
      Inventory inventory;
      inventory.name = in.text("name");
      inventory.forward = read_rows(in.array("forward"));
      inventory.backward = read_rows(in.array("backward"));
      inventory.citations = in.texts("citations");
      in.close();
      set.inventories.push_back(std::move(inventory));
    }
    auto lists = root.array("activation_lists");
    for (std::size_t i = 0; i < lists.size(); ++i) {
      auto in = lists.object(i);
      ActivationList list;
      list.name = in.text("name");
      list.tensors = read_rows(in.array("tensors"));
      list.citations = in.texts("citations");
      in.close();
      set.activation_lists.push_back(std::move(list));
    }
    root.close();
    document.finish();
  }
  set.gpus = read_gpu_constants(folder + "/gpu-constants.json", set.gpu_sources);
  set.links = read_links(folder + "/links.json");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && name != "inventories.json" && name != "gpu-constants.json" &&
        name != "links.json") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    set.frameworks.push_back(set.read_profile(path));
  }
  return set;
}

const FrameworkProfile& ProfileSet::find(Framework framework, const GpuSpec& gpu, std::string_view date, bool compiled,
                                         std::string_view dispatcher) const {
  const FrameworkProfile* best = nullptr;
  const FrameworkProfile* earliest = nullptr;
  const auto covers = [&](const FrameworkProfile& profile) {
    if (profile.compiled >= 0 && (profile.compiled == 1) != compiled) {
      return false;
    }
    return profile.architectures.empty() || std::find(profile.architectures.begin(), profile.architectures.end(),
                                                      gpu.architecture) != profile.architectures.end();
  };
  const auto dispatches = [&](const FrameworkProfile& profile) {
    return profile.dispatchers.empty() ||
           std::find(profile.dispatchers.begin(), profile.dispatchers.end(), dispatcher) != profile.dispatchers.end();
  };
  // A profile of the GPU's own architecture beats a general one of the same era.
  const auto better = [&](const FrameworkProfile& a, const FrameworkProfile& b) {
    return a.since != b.since ? a.since > b.since : a.architectures.size() > b.architectures.size();
  };
  for (const bool any_architecture : {false, true}) {
    for (const auto& profile : frameworks) {
      if (profile.framework != framework || !profile.program.empty() || (!any_architecture && !covers(profile)) ||
          !dispatches(profile) || (date.empty() && profile.only_by_date)) {
        continue;
      }
      if (earliest == nullptr || profile.since < earliest->since) {
        earliest = &profile;
      }
      if ((date.empty() || profile.since <= date) && (best == nullptr || better(profile, *best))) {
        best = &profile;
      }
    }
    if (best != nullptr) {
      return *best;
    }
    if (earliest != nullptr) {
      return *earliest;
    }
  }
  throw SpecError("no efficiency profile for framework " + std::string(name_of(framework)));
}

const FrameworkProfile& ProfileSet::find_program(std::string_view program, std::string_view date) const {
  const FrameworkProfile* best = nullptr;
  for (const auto& profile : frameworks) {
    if (profile.program != program) {
      continue;
    }
    const bool covers = date.empty() || profile.since <= date;
    const bool newer = best == nullptr || profile.since > best->since;
    // Before the first era its profile stands in.
    if (best == nullptr || (covers && newer) || (!date.empty() && best->since > date && profile.since < best->since)) {
      best = &profile;
    }
  }
  if (best == nullptr) {
    throw SpecError("no efficiency profile for the fine-tuning program " + std::string(program));
  }
  return *best;
}

GpuConstants ProfileSet::constants_of(const GpuSpec& gpu) const {
  for (const std::string_view key :
       {std::string_view(gpu.id), std::string_view(gpu.architecture), std::string_view("generic")}) {
    for (const auto& row : gpus) {
      if (row.id == key) {
        return row;
      }
    }
  }
  return {};
}

LinkConstants ProfileSet::link_of(const NetworkTier& tier, const GpuSpec& gpu) const {
  static constexpr std::array<std::string_view, 8> kKinds{"nvlink", "xgmi",       "hccs", "fast",
                                                          "pcie",   "infiniband", "roce", "ethernet"};
  const auto kind = std::string(kKinds[static_cast<std::size_t>(tier.kind)]);
  const auto no_p2p = kind + (tier.peer_to_peer ? "" : "-no-p2p");
  for (const auto& key : {kind + "-" + gpu.architecture, no_p2p, kind, std::string("generic")}) {
    for (const auto& row : links) {
      if (row.link == key) {
        return row;
      }
    }
  }
  return {};
}

int FrameworkProfile::fitted_count() const {
  return static_cast<int>(std::count_if(sources.begin(), sources.end(),
                                        [](const auto& entry) { return entry.second == ConstantSource::fitted; }));
}

std::string_view name_of(ConstantSource source) { return name_in(kConstantSourceNames, source); }

}  // namespace tpplan
