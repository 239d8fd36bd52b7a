#include "planner/import/run_records.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cost-model/peft.h"
#include "planner/errors.h"
#include "planner/import/finetune_records.h"

namespace tpplan {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;

/// Joins values into one comparable text.
template <class... Values>
void note(std::string& text, const Values&... values) {
  std::ostringstream out;
  ((out << '|' << values), ...);
  text += out.str();
}

struct KernelRow {
  std::string_view name;
  AttentionKernel kernel;
  bool fused_norm;
};
constexpr std::array<KernelRow, 7> kKernels{{
    {"torch", AttentionKernel::unfused, false},
    {"fused", AttentionKernel::fused_softmax, false},
    {"flash_attentionv1.0.8", AttentionKernel::flash1, false},
    {"flash_attention", AttentionKernel::flash1, false},
    {"flash_attention2", AttentionKernel::flash, false},
    {"flash_attention2 + RMS kernel", AttentionKernel::flash, true},
    {"cudnn attention", AttentionKernel::flash, true},
}};

/// A missing key whose misspelt twin is there is reported as the twin's warning only: here it skips the record.
void require(const ObjectReader& in, std::string_view part, const std::vector<std::string_view>& keys,
             RunRecord& record) {
  for (const auto key : keys) {
    if (!in.has(key) && record.skipped.empty()) {
      record.skipped = std::string(part) + ": missing key \"" + std::string(key) + "\"";
    }
  }
}

/// The framework word of a record: "lab" is our plain PyTorch program, anything unknown is priced as plain FSDP.
Framework framework_of(const std::string& word, bool& known) {
  known = true;
  if (word == "lab") {
    return Framework::plain;
  }
  if (const auto framework = framework_from(word)) {
    return *framework;
  }
  known = word == "other" || word == "unknown";
  return Framework::fsdp;
}

void read_model(ObjectReader in, RunRecord& record) {
  auto& model = record.model;
  require(in, "model", {"layers", "hidden", "heads", "vocab"}, record);
  model.name = in.text("name", "unnamed");
  model.architecture = "tpplan";
  model.layers = static_cast<int>(in.count("layers", 1, 10000));
  model.hidden = static_cast<int>(in.count("hidden", 1, 1000000));
  model.heads = static_cast<int>(in.count("heads", 1, 100000));
  model.kv_heads = static_cast<int>(in.count("kv_heads", 1, 100000, model.heads));
  model.head_dim = static_cast<int>(in.count("head_dim", 1, 100000, model.heads > 0 ? model.hidden / model.heads : 1));
  model.vocab = static_cast<int>(in.count("vocab", 1, kMany));
  model.gated_mlp = in.flag("gated_mlp", true);
  model.tied_embeddings = in.flag("tied_embeddings", false);
  model.mtp_layers = static_cast<int>(in.count("mtp_layers", 0, 100, 0));
  if (auto moe = in.optional_object("moe")) {
    MoeSpec spec;
    spec.experts = static_cast<int>(moe->count("experts", 1, 100000));
    spec.top_k = static_cast<int>(moe->count("top_k", 1, 100000));
    spec.expert_ffn = static_cast<int>(moe->count("expert_ffn", 1, 1000000));
    spec.shared_ffn = static_cast<int>(moe->count("shared_ffn", 0, 1000000, 0));
    const int dense = static_cast<int>(moe->count("dense_layers", 0, 10000, 0));
    moe->close();
    model.moe_layers.assign(static_cast<std::size_t>(model.layers), 1);
    for (int layer = 0; layer < std::min(dense, model.layers); ++layer) {
      model.moe_layers[static_cast<std::size_t>(layer)] = 0;
    }
    model.moe = spec;
  }
  model.ffn_hidden =
      static_cast<int>(in.count("ffn_hidden", 1, 10000000, model.moe ? model.moe->expert_ffn : 4 * model.hidden));
  if (auto mla = in.optional_object("mla")) {
    LatentAttention latent;
    latent.q_lora = static_cast<int>(mla->count("q_lora", 0, 1000000, 0));
    latent.kv_lora = static_cast<int>(mla->count("kv_lora", 1, 1000000));
    latent.qk_nope = static_cast<int>(mla->count("qk_nope", 0, 100000));
    latent.qk_rope = static_cast<int>(mla->count("qk_rope", 0, 100000));
    latent.v = static_cast<int>(mla->count("v", 1, 100000));
    mla->close();
    model.latent = latent;
  }
  if (model.latent && model.moe && model.moe->experts == 256 && model.moe->top_k == 8) {
    // DeepSeek-V3 routes a token to at most 4 of 8 groups of experts (arXiv 2412.19437, section 2.1.2).
    model.moe->routing_groups = 8;
    model.moe->routing_group_limit = 4;
  }
  if (!model.gated_mlp) {
    // GPT-like shapes: biases and layer norms (a few parts in ten thousand of the parameters).
    model.norm = NormKind::layer;
    model.attention_bias = AttentionBias::all;
    model.output_bias = true;
    model.mlp_bias = true;
  }
  in.close();
}

std::string model_text(const ModelSpec& m) {
  std::string text;
  note(text, m.name, m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.ffn_hidden, m.vocab, m.gated_mlp,
       m.tied_embeddings, m.mtp_layers);
  if (m.moe) {
    note(text, "moe", m.moe->experts, m.moe->top_k, m.moe->expert_ffn, m.moe->shared_ffn);
    note(text, std::count(m.moe_layers.begin(), m.moe_layers.end(), 1));
  }
  if (m.latent) {
    note(text, "mla", m.latent->q_lora, m.latent->kv_lora, m.latent->qk_nope, m.latent->qk_rope, m.latent->v);
  }
  return text;
}

Switch read_switch(ObjectReader& in, std::string_view key) {
  if (!in.has(key)) {
    return Switch::by_profile;
  }
  return in.flag(key) ? Switch::on : Switch::off;
}

void read_recompute(ObjectReader& in, RunRecord& record) {
  auto& layout = record.layout;
  const auto text = in.text("recompute", "none");
  if (!set_recompute(layout, text)) {
    in.error("recompute", "unknown recomputation \"" + text + "\"");
    return;
  }
  if (layout.recompute == RecomputeKind::selective) {
    if (record.training.framework == Framework::torchtitan || record.training.framework == Framework::fsdp) {
      layout.recompute = RecomputeKind::selective_op;
    }
    if (in.has("recompute_modules")) {
      std::uint16_t mask = 0;
      for (auto name : in.texts("recompute_modules")) {
        name = name == "layernorm" ? "norm" : name;
        const auto module = value_in(kRecomputeModuleNames, name);
        if (!module) {
          in.warning("recompute_modules", "unknown module \"" + name + "\", not recomputed");
        }
        mask = static_cast<std::uint16_t>(mask | module.value_or(std::uint16_t{0}));
      }
      layout.recompute_modules = mask;
    }
  }
  in.ignore("recompute_modules");
  in.ignore("recompute_detail");
}

void read_training(ObjectReader in, RunRecord& record) {
  auto& training = record.training;
  require(in, "training", {"seq", "global_batch"}, record);
  training.seq = static_cast<int>(in.count("seq", 1, kMany));
  training.global_batch = static_cast<int>(in.count("global_batch", 1, kMany));
  record.layout.micro_batch = static_cast<int>(in.count("micro_batch", 1, kMany, 1));
  const auto precision = in.text("precision", "bf16");
  if (const auto found = precision_from(precision)) {
    training.precision = *found;
  } else {
    in.error("precision", "unknown precision \"" + precision + "\"");
  }
  training.fp8_recipe = in.text("fp8_recipe", "");
  training.flash_attention = in.flag("flash_attention", true);
  training.kernel = training.flash_attention ? AttentionKernel::flash : AttentionKernel::fused_softmax;
  record.kernel = in.text("kernel", "");
  const auto* kernel =
      std::find_if(kKernels.begin(), kKernels.end(), [&](const auto& row) { return row.name == record.kernel; });
  if (kernel != kKernels.end()) {
    training.kernel = kernel->kernel;
    training.fused_norm = kernel->fused_norm;
  } else if (!record.kernel.empty()) {
    in.warning("kernel", "unknown kernel \"" + record.kernel + "\", priced by flash_attention");
  }
  const auto compile = in.text("compile", "none");
  training.compiled = compile != "none";
  training.cuda_graphs = in.flag("cuda_graphs", false);
  const auto loss = in.text("loss", "");
  training.loss = loss == "plain"     ? Loss::plain
                  : loss == "fused"   ? Loss::fused
                  : loss == "chunked" ? Loss::chunked
                                      : Loss::by_profile;
  const auto dispatcher = in.text("dispatcher", "");
  if (const auto named = value_in(kDispatcherNames, dispatcher)) {
    training.dispatcher = *named;
  } else if (!dispatcher.empty()) {
    // deepep-uccl and deepep-nvshmem: DeepEP's interface over processes of the host.
    training.dispatcher = dispatcher.rfind("deepep", 0) == 0 ? Dispatcher::deepep_proxied : Dispatcher::all_to_all;
  }
  const auto optimizer = in.text("optimizer", "adam");
  if (const auto found = value_in(kOptimizerNames, optimizer)) {
    record.layout.optimizer = *found;
  } else {
    in.error("optimizer", "unknown optimizer \"" + optimizer + "\"");
  }
  const auto offload = in.text("offload", "none");
  if (offload != "none") {
    record.layout.offload = offload.find("optimizer") != std::string::npos ? Offload::optimizer : Offload::activations;
  }
  if (auto overlap = in.optional_object("overlap")) {
    training.overlap_dp_grad = read_switch(*overlap, "dp_grad");
    training.overlap_dp_param = read_switch(*overlap, "dp_param");
    training.overlap_tp = read_switch(*overlap, "tp");
    training.overlap_pp = read_switch(*overlap, "pp");
    training.overlap_ep = read_switch(*overlap, "ep");
    overlap->close();
  }
  if (auto peft = in.optional_object("peft")) {
    const auto method = peft->text("method", "lora");
    const auto known = value_in(kPeftNames, method);
    training.peft = known.value_or(PeftMethod::none);
    if (!known) {
      record.skipped = "adapters of the kind \"" + method + "\" are not known";
    }
    training.peft_rank = static_cast<int>(peft->count("rank", 1, 65536, 16));
    if (peft->has("targets")) {
      training.peft_targets = peft->texts("targets");
      for (const auto& problem : adapter_targets(training.peft_targets).problems) {
        record.skipped = problem;
      }
    }
    peft->ignore("alpha");
    peft->ignore("dropout");
    peft->close();
  }
  read_recompute(in, record);
  const auto routing = in.text("routing", "");
  const bool fp8_gather = in.flag("fp8_gather", false);
  in.close();

  note(record.sweep_key, training.seq, training.global_batch, precision, training.fp8_recipe, fp8_gather,
       training.flash_attention, record.kernel, compile, training.cuda_graphs, loss, dispatcher, optimizer, offload,
       routing);
  for (const auto overlap : {training.overlap_dp_grad, training.overlap_dp_param, training.overlap_tp,
                             training.overlap_pp, training.overlap_ep}) {
    note(record.sweep_key, static_cast<int>(overlap));
  }
}

void read_layout(ObjectReader in, RunRecord& record) {
  auto& layout = record.layout;
  for (const auto& axis : kAxes) {
    if (axis.key != "micro_batch") {
      layout.*axis.field = static_cast<std::int32_t>(in.count(axis.key, 1, kMany, 1));
    }
  }
  if (!in.has("etp") && record.model.moe) {
    layout.etp = layout.ep > 1 ? 1 : layout.tp;
  }
  layout.vpp_group = static_cast<std::int32_t>(in.count("vpp_group", 0, kMany, 0));
  layout.sequence_parallel = in.flag("sp", false) && layout.tp > 1;
  layout.zero = static_cast<std::uint8_t>(in.count("zero", 0, 3, 0));
  layout.shard_group =
      static_cast<std::int32_t>(in.count(in.has("hsdp_shard") ? "hsdp_shard" : "zero_group", 0, kMany, 0));
  const auto schedule = in.text("schedule", "1f1b");
  if (const auto found = value_in(kScheduleNames, schedule)) {
    layout.schedule = layout.vpp > 1 && *found == Schedule::f1b1 ? Schedule::interleaved : *found;
  } else {
    in.error("schedule", "unknown schedule \"" + schedule + "\"");
  }
  if (layout.vpp == 1 && layout.schedule == Schedule::interleaved) {
    layout.schedule = Schedule::f1b1;
  }
  if (layout.schedule != Schedule::interleaved) {
    layout.vpp_group = 0;  // a default that the run did not use
  }
  const auto reduce = in.text("grad_reduce", "auto");
  if (const auto found = value_in(kGradReduceNames, reduce)) {
    layout.grad_reduce = *found;
  } else {
    in.error("grad_reduce", "expected auto, each or last, not \"" + reduce + "\"");
  }
  if (in.has("layers_per_stage")) {
    for (const auto layers : in.counts("layers_per_stage", 0, 10000)) {
      record.training.layers_per_stage.push_back(static_cast<int>(layers));
    }
  }
  in.close();
}

/// The intra-node link the record names, when it is not the GPU's usual one.
void apply_intra(const std::string& intra, ClusterSpec& cluster) {
  if (intra.rfind("pcie", 0) == 0) {
    const double generation = intra.size() > 4 ? intra[4] - '0' : 4;
    const double lanes = generation >= 5 ? 64e9 : generation >= 4 ? 32e9 : 16e9;
    std::vector<NetworkTier> tiers;
    for (const auto& tier : cluster.tiers) {
      const bool inside = tier.span <= cluster.gpus_per_node;
      if (!inside) {
        tiers.push_back(tier);
      }
    }
    NetworkTier pcie;
    pcie.name = "PCIe";
    pcie.kind = LinkKind::pcie;
    pcie.topology = Topology::pcie;
    pcie.span = cluster.gpus_per_node;
    pcie.bandwidth = BytesPerSecond(lanes);
    pcie.latency = 5_us;
    tiers.insert(tiers.begin(), pcie);
    cluster.tiers = std::move(tiers);
  }
}

void read_hardware(ObjectReader in, RunRecord& record, const GpuCatalogue& catalogue) {
  require(in, "hardware", {"gpu", "gpus"}, record);
  record.gpu_id = in.text("gpu");
  const int gpus = static_cast<int>(in.count("gpus", 1, kMany));
  const int per_node = static_cast<int>(in.count("gpus_per_node", 1, 1024, 8));
  const int domain = static_cast<int>(in.count("fast_domain", 0, 100000, 0));
  const double gbps = in.number("inter_gbps_per_gpu", 0, 1e6, 0);
  const auto intra = in.text("intra", "nvlink");
  const auto network_name = in.text("network", "");
  in.close();
  note(record.sweep_key, record.gpu_id, gpus, per_node, domain, gbps, intra, network_name);
  const auto* gpu = catalogue.try_find(record.gpu_id);
  if (gpu == nullptr) {
    if (record.skipped.empty()) {
      record.skipped = "GPU \"" + record.gpu_id + "\" is not in the catalogue";
    }
    return;
  }
  const int nodes = (gpus + per_node - 1) / per_node;
  const std::optional<BytesPerSecond> network =
      gbps > 0 ? std::optional<BytesPerSecond>(BytesPerSecond(gbps * 1e9 / 8)) : std::nullopt;
  record.cluster = usual_cluster(*gpu, nodes, std::min(per_node, gpus), network, domain);
  apply_intra(intra, record.cluster);
}

void read_measured(ObjectReader in, Measured& measured) {
  const auto optional = [&](std::string_view key) -> std::optional<double> {
    return in.has(key) ? std::optional<double>(in.number(key, 0, 1e9)) : std::nullopt;
  };
  measured.step_s = optional("step_s");
  measured.peak_mem_gib = optional("peak_mem_gib");
  measured.reserved_gib = optional("reserved_gib");
  measured.device_used_gib = optional("device_used_gib");
  measured.out_of_memory = in.flag("oom", false);
  in.ignore("step_stat");
  const auto kind = in.text("peak_mem_kind", "unknown");
  for (const auto figure : {MemoryFigure::allocated, MemoryFigure::reserved, MemoryFigure::device}) {
    if (name_of(figure) == kind) {
      measured.peak_kind = figure;
    }
  }
  in.close();
}

RunRecord parse_line(const std::string& file, int line, const std::string& text, const GpuCatalogue& catalogue,
                     std::string& warnings) {
  RunRecord record;
  record.file = file;
  record.line = line;
  record.id = file + ":" + std::to_string(line);
  const auto place = file + ":" + std::to_string(line);
  try {
    auto document = SpecDocument::parse(place, text);
    auto in = document.root();
    record.id = in.text("id", record.id);
    record.group = in.text("group", std::filesystem::path(file).stem().string());
    record.framework = in.text("framework", "unknown");
    record.date = in.text("date", "");
    record.suspect = in.text("suspect", "");
    record.training.date = record.date;
    const bool finetune = is_finetune_row(in);
    bool known = true;
    record.training.framework = framework_of(record.framework, known);
    if (!known && !finetune) {
      warnings += place + ": warning: unknown framework \"" + record.framework + "\", priced as fsdp\n";
    }
    note(record.sweep_key, record.group, record.framework, record.date);
    if (finetune) {
      if (!in.has("group")) {
        record.group = finetune_group(record);
      }
      read_finetune_row(in, record, catalogue);
      record.sweep_key += model_text(record.model);
      note(record.sweep_key, record.gpu_id, record.training.seq, static_cast<int>(record.training.peft));
    } else {
      read_model(in.object("model"), record);
      record.sweep_key += model_text(record.model);
      read_hardware(in.object("hardware"), record, catalogue);
      read_training(in.object("training"), record);
      read_layout(in.object("layout"), record);
      read_measured(in.object("measured"), record.measured);
    }
    if (in.has("assumed")) {
      record.assumed = in.texts("assumed");
    }
    // TorchTitan checkpoints per operation unless told otherwise: its habit stands in for what a source does not state.
    // The trainer of captured graphs (2026) wraps no modules and keeps everything unless told.
    if (record.training.framework == Framework::torchtitan && record.training.date < "2026" &&
        record.layout.recompute == RecomputeKind::none &&
        std::find(record.assumed.begin(), record.assumed.end(), "training.recompute") != record.assumed.end()) {
      record.layout.recompute = RecomputeKind::selective_op;
    }
    for (const auto key : {"source", "notes", "profile_ms", "stated_bubble_rate", "measured_extra"}) {
      in.ignore(key);
    }
    in.close();
    for (const auto& diagnostic : document.diagnostics()) {
      const bool unknown_key = diagnostic.message.find("unknown key \"") != std::string::npos;
      if (diagnostic.severity == Diagnostic::Severity::error && !unknown_key) {
        if (record.skipped.empty()) {
          record.skipped = diagnostic.message;
        }
      } else {
        warnings +=
            place + ": warning: " + diagnostic.message + (diagnostic.hint.empty() ? "" : "; " + diagnostic.hint) + "\n";
      }
    }
  } catch (const SpecError& error) {
    record.skipped = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
    record.group = std::filesystem::path(file).stem().string();
  }
  record.input_key = record.sweep_key;
  note(record.input_key, to_text(record.layout));
  for (const int layers : record.training.layers_per_stage) {
    note(record.input_key, layers);
  }
  return record;
}

}  // namespace

std::string_view name_of(MemoryFigure figure) {
  constexpr std::array<std::string_view, 4> kNames{"allocated", "reserved", "device", "unknown"};
  return kNames[static_cast<std::size_t>(figure)];
}

std::vector<RunRecord> parse_runs(const std::string& file, const std::string& text, const GpuCatalogue& catalogue,
                                  std::string& warnings) {
  std::vector<RunRecord> records;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      records.push_back(parse_line(file, number, line, catalogue, warnings));
    }
  }
  return records;
}

std::vector<RunRecord> read_runs(const std::string& path, const GpuCatalogue& catalogue, std::string& warnings) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw SpecError("cannot read " + path);
  }
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_runs(path, text, catalogue, warnings);
}

}  // namespace tpplan
