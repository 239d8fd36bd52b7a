#include "planner/import/finetune_records.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "cost-model/peft.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;
constexpr int kMany = 1'000'000'000;

/// Who ran it: the program whose memory and speed apply, the figure its memory column shows, and what stands in its
/// examples where a row is silent.
struct ProgramRow {
  std::string_view word, program;
  MemoryFigure figure;
  int seq = 0, batch = 0;  ///< of every example; 0: they differ
  int rank = 0;            ///< 0: set by apply_litgpt(), apply_torchtune()
  bool flash = true;
  std::string_view source;  ///< of these
};
constexpr std::string_view kPeftExample =
    "huggingface/peft examples/causal_language_modeling/peft_lora_clm_accelerate_ds_zero3_offload.py of 2023-02: batch "
    "8, 64 tokens, rank 8, fp32, peak of allocated memory";
// Of the comparison of Unsloth with Hugging Face programs its notebooks alone tell batch and sequence.
constexpr std::string_view kUnslothBlog =
    "huggingface/blog unsloth-trl.md: rank 16 on every matrix of the layers, gradient checkpointing";
constexpr std::array<ProgramRow, 8> kPrograms{{
    {"torchtune", "torchtune", MemoryFigure::reserved, 0, 0, 0, true, ""},
    {"LitGPT", "litgpt", MemoryFigure::allocated, 0, 0, 0, true, ""},  // prints torch.cuda.max_memory_allocated
    {"PEFT", "peft", MemoryFigure::allocated, 64, 8, 8, false, kPeftExample},
    {"Hugging Face", "huggingface", MemoryFigure::reserved, 0, 0, 16, false, kUnslothBlog},
    {"Flash Attention 2", "huggingface", MemoryFigure::reserved, 0, 0, 16, true, kUnslothBlog},
    {"Transformers", "huggingface", MemoryFigure::reserved, 0, 0, 16, true, ""},
    {"Unsloth", "unsloth", MemoryFigure::reserved, 0, 0, 16, true, kUnslothBlog},
    {"Unsloth Open", "unsloth", MemoryFigure::reserved, 0, 0, 16, true, kUnslothBlog},
}};

/// Names of models as such rows write them, letters and digits only, and the shipped model of that shape.
struct ModelRow {
  std::string_view name, shipped;
};
constexpr std::array<ModelRow, 27> kModels{{
    {"llama27b", "7b"},
    {"llama213b", "13b"},
    {"llama270b", "70b"},
    {"llama38b", "llama3-8b"},
    {"llama370b", "llama3-70b"},
    {"llama318b", "llama3-8b"},
    {"llama3170b", "llama3-70b"},
    {"llama31405b", "llama3-405b"},
    {"llama321b", "llama3.2-1b"},
    {"llama323b", "llama3.2-3b"},
    {"codellama34b", "codellama-34b"},
    {"tinyllama", "tiny-llama"},
    {"tinyllama11b", "tiny-llama"},
    {"mistral7b", "mistral-7b"},
    {"mistral7bv02", "mistral-7b"},
    {"stablelmbasealpha3b", "stablelm-base-alpha-3b"},
    {"stablelmalpha3b", "stablelm-base-alpha-3b"},
    {"stablelmalpha", "stablelm-base-alpha-3b"},
    {"falcon7b", "falcon-7b"},
    {"falcon40b", "falcon-40b"},
    {"gemma2b", "gemma-2b"},
    {"gemma7b", "gemma-7b"},
    {"gemma29b", "gemma-2-9b"},
    {"phi15", "phi-1.5"},
    {"phi2", "phi-2"},
    {"phi3mini4kinstruct", "phi-3-mini"},
    {"bigsciencebloomz7b1", "bloomz-7b1"},
}};

struct GpuRow {
  std::string_view word, id;
};
constexpr std::array<GpuRow, 6> kGpus{{{"A10G-24GB", "a10g"},
                                       {"A100", "a100-80gb-sxm"},
                                       {"A100-80GB", "a100-80gb-sxm"},
                                       {"A100-40GB", "a100-40gb-sxm"},
                                       {"A100-40GB-SXM", "a100-40gb-sxm"},
                                       {"A100-80GB-SXM", "a100-80gb-sxm"}}};

/// What the configuration files of Lightning-AI/litgpt, config_hub/finetune, set apart from the usual rank 32 on
/// queries and values on one device.
struct HubRow {
  std::string_view folder;
  int rank;
  bool all_matrices;
  int full_devices;  ///< of full fine-tuning, which also has a global batch of its own
  int full_batch;
};
constexpr std::array<HubRow, 9> kHub{{{"tiny-llama", 32, true, 1, 32},
                                      {"phi-2", 8, true, 2, 8},
                                      {"phi-3", 8, true, 1, 8},
                                      {"gemma-2b", 8, true, 4, 16},
                                      {"gemma-7b", 16, true, 4, 16},
                                      {"gemma2-9b", 16, true, 4, 16},
                                      {"stablelm-base-alpha-3b", 32, false, 2, 8},
                                      {"llama-2-7b", 32, false, 4, 64},
                                      {"llama-3-8b", 32, false, 4, 64}}};

constexpr std::string_view kPackedSince = "2024-10";  ///< torchtune rows on packed data
constexpr int kUnpackedLongest = 1024;                ///< assumed: Alpaca's longest has 1,304, few batches hold it

std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

void skip(RunRecord& record, const std::string& reason) {
  if (record.skipped.empty()) {
    record.skipped = reason;
  }
}

void read_shape(ObjectReader in, RunRecord& record) {
  const auto name = in.text("name", "unnamed");
  const auto key = plain(name);
  const auto row = std::find_if(kModels.begin(), kModels.end(), [&](const ModelRow& r) { return r.name == key; });
  const bool whole = in.has("layers") && in.has("hidden") && in.has("heads") && in.has("vocab");
  if (row != kModels.end()) {
    record.model = resolve_model(std::string(row->shipped));
    record.assumed.emplace_back("model: the published shape of " + std::string(row->shipped));
  } else if (const auto file = try_find_spec("model", name)) {
    record.model = resolve_model(name);
  } else if (whole) {
    auto& model = record.model;
    model.architecture = "tpplan";
    model.layers = static_cast<int>(in.count("layers", 1, 10000));
    model.hidden = static_cast<int>(in.count("hidden", 1, 1000000));
    model.heads = static_cast<int>(in.count("heads", 1, 100000));
    model.kv_heads = static_cast<int>(in.count("kv_heads", 1, 100000, model.heads));
    model.head_dim = model.hidden / std::max(1, model.heads);
    model.ffn_hidden = static_cast<int>(in.count("ffn", 1, 10000000, 4 * model.hidden));
    model.vocab = static_cast<int>(in.count("vocab", 1, kMany));
    model.gated_mlp = in.flag("gated_mlp", true);
    model.tied_embeddings = in.flag("tied_embeddings", false);
  } else if (key.find("mt0") != std::string::npos || key.find("t5") != std::string::npos) {
    skip(record, "\"" + name + "\" has an encoder: only decoder-only transformers are priced");
  } else {
    skip(record, "the shape of \"" + name + "\" is neither stated nor known");
  }
  record.model.name = name;
  for (const auto& other : in.keys()) {
    in.ignore(other);
  }
  in.close();
}

/// Rank, targets and devices of a LitGPT run from its configuration, or from the script's defaults (rank 8).
void apply_litgpt(const std::string& config, int gpus, RunRecord& record) {
  auto& training = record.training;
  auto& layout = record.layout;
  const bool full = training.peft == PeftMethod::none;
  training.peft_rank = config.empty() ? 8 : 32;
  training.peft_targets = {"q", "v"};
  layout.dp = config.empty() ? gpus : 1;
  int batch = config.empty() ? 128 : 8;
  const auto folder = config.substr(0, config.find('/'));
  for (const auto& row : kHub) {
    if (row.folder != folder) {
      continue;
    }
    training.peft_rank = row.rank;
    if (row.all_matrices) {
      training.peft_targets = {"all", "head"};
    }
    layout.dp = full ? std::min(row.full_devices, gpus) : 1;
    batch = full ? row.full_batch : batch;
  }
  // Llama-like shapes keep a head of their own, tied or not; norms are unfused; Gemma 2 caps its scores.
  record.model.tied_embeddings = false;
  training.fused_norm = record.model.norm != NormKind::rms;
  training.flash_attention = plain(record.model.name) != "gemma29b";
  training.kernel = training.flash_attention ? AttentionKernel::flash : AttentionKernel::fused_softmax;
  layout.zero = layout.dp > 1 ? 3 : 0;
  layout.recompute = layout.dp > 1 ? RecomputeKind::full : RecomputeKind::none;
  training.global_batch = std::max(batch, layout.dp * layout.micro_batch);
  record.assumed.emplace_back("adapters and devices: the program's configuration files");
}

void apply_torchtune(const std::string& date, RunRecord& record) {
  auto& training = record.training;
  auto& layout = record.layout;
  const bool packed = date >= kPackedSince;
  // lora_attn_modules q_proj and v_proj; the recipes of 70B and above adapt the output and the FFN too.
  const bool large = record.model.layers >= 80;
  training.peft_rank = large ? 16 : 8;
  training.peft_targets = large ? std::vector<std::string>{"q", "v", "o", "mlp"} : std::vector<std::string>{"q", "v"};
  layout.recompute = RecomputeKind::full;
  if (packed && record.cluster.gpu.id == "rtx-a6000") {
    layout.recompute = RecomputeKind::none;
    record.assumed.emplace_back("recompute: none on the card with 48 GB, whose rows need twice the others' memory");
  }
  if (!packed) {
    training.seq = std::min(training.seq, kUnpackedLongest);
    record.assumed.emplace_back("training.seq: samples are not packed; longest of a batch 1,024 tokens");
  }
  if (training.peft == PeftMethod::none && layout.dp == 1) {
    layout.optimizer = Optimizer::adam_8bit;  // PagedAdamW8bit
  }
  training.compiled = true;
  training.double_quantisation = true;
  training.global_batch = layout.dp * layout.micro_batch;
  record.assumed.emplace_back("adapters and recomputation: the program's recipes");
}

/// Programs of the examples around Hugging Face models.
void apply_example(const ProgramRow& program, RunRecord& record) {
  auto& training = record.training;
  training.peft_rank = program.rank;
  training.flash_attention = program.flash;
  training.kernel = program.flash ? AttentionKernel::flash : AttentionKernel::unfused;
  if (training.program == "peft") {
    // MergedLinear adapts queries and values of the fused matrix; from_pretrained loads in fp32, mixed precision is
    // off.
    training.peft_targets = {"q", "v"};
    training.precision = Precision::fp32;
    if (record.layout.offload != Offload::none) {
      skip(record, "what DeepSpeed holds on the GPU beside weights offloaded from a single one is not known");
    }
  } else {
    record.layout.recompute = RecomputeKind::full;
    record.layout.optimizer = training.program == "unsloth" ? Optimizer::adam_8bit : Optimizer::adamw;
    training.double_quantisation = true;
  }
  if (!program.source.empty()) {
    record.assumed.emplace_back(program.source);
  }
}

void read_method(ObjectReader& layout, RunRecord& record) {
  auto& training = record.training;
  auto method = layout.text("peft", "full");
  std::replace(method.begin(), method.end(), '_', '-');
  const auto known = value_in(kPeftNames, method);
  training.peft = known.value_or(PeftMethod::none);
  if (!known && method != "full") {
    skip(record, "adapters of the kind \"" + method + "\" are not priced");
  }
  const auto quant = layout.text("quant", training.peft == PeftMethod::qlora ? "bnb.nf4" : "None");
  training.nf4_weights = quant.compare(0, 7, "bnb.nf4") == 0;
  training.double_quantisation = quant.size() > 3 && quant.compare(quant.size() - 3, 3, "-dq") == 0;
}

void read_result(ObjectReader in, const ProgramRow& program, bool packed, RunRecord& record) {
  auto& measured = record.measured;
  measured.peak_kind = program.figure;
  if (in.has("peak_mem_kind")) {
    const auto kind = in.text("peak_mem_kind");
    for (const auto figure : {MemoryFigure::allocated, MemoryFigure::reserved, MemoryFigure::device}) {
      measured.peak_kind = name_of(figure) == kind ? figure : measured.peak_kind;
    }
  }
  if (in.has("peak_mem_gib")) {
    measured.peak_mem_gib = in.number("peak_mem_gib", 0, 1e6);
  }
  measured.out_of_memory = in.flag("oom", false);
  if (in.has("step_s")) {
    measured.step_s = in.number("step_s", 0, 1e9);
  } else if (in.has("tokens_per_s_per_gpu") && packed && record.layout.micro_batch > 0) {
    // Of all GPUs together: taken per GPU the rows of 70B models would beat the peak of theirs several times.
    const double tokens = static_cast<double>(record.training.seq) * record.layout.micro_batch * record.layout.dp;
    measured.step_s = tokens / std::max(1e-9, in.number("tokens_per_s_per_gpu", 0, 1e9));
  }
  for (const auto& other : in.keys()) {
    in.ignore(other);
  }
  in.close();
}

/// Weights, gradients and moments of a full fine-tuning in 16 bits do not fit into the figure: its settings are others.
void check_states(RunRecord& record) {
  const auto& measured = record.measured;
  if (record.training.program != "litgpt" || record.training.peft != PeftMethod::none || record.layout.dp != 1 ||
      !measured.peak_mem_gib) {
    return;
  }
  const double states = 8 * static_cast<double>(parameter_counts(record.model).total) / kGib;
  if (states > *measured.peak_mem_gib) {
    record.suspect = "weights, gradients and moments of the stated configuration alone exceed the measured memory";
  }
}

}  // namespace

bool is_finetune_row(const ObjectReader& in) { return in.has("gpu") && !in.has("hardware") && !in.has("training"); }

std::string finetune_group(const RunRecord& record) {
  std::string word;
  for (const char c : record.framework) {
    word += std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '-';
  }
  return "finetune-" + word + (record.date.empty() ? "" : "-" + record.date);
}

void read_finetune_row(ObjectReader& in, RunRecord& record, const GpuCatalogue& catalogue) {
  auto& training = record.training;
  const auto program = std::find_if(kPrograms.begin(), kPrograms.end(),
                                    [&](const ProgramRow& row) { return row.word == record.framework; });
  training.framework = Framework::fsdp;
  if (program == kPrograms.end()) {
    const bool closed = record.framework.compare(0, 7, "Unsloth") == 0;
    skip(record, closed ? "\"" + record.framework + "\" is a closed program: what it keeps in memory is not known"
                        : "the memory of the program \"" + record.framework + "\" is not known");
  } else {
    training.program = std::string(program->program);
  }
  read_shape(in.object("model"), record);

  const auto word = in.text("gpu");
  const auto gpu_row = std::find_if(kGpus.begin(), kGpus.end(), [&](const GpuRow& row) { return row.word == word; });
  record.gpu_id = gpu_row != kGpus.end() ? std::string(gpu_row->id) : word;
  const int gpus = static_cast<int>(in.count("gpus", 1, kMany, 1));
  const int per_node = static_cast<int>(in.count("gpus_per_node", 1, 1024, std::min(gpus, 8)));
  const auto* gpu = catalogue.try_find(record.gpu_id);
  if (gpu == nullptr) {
    skip(record, "GPU \"" + record.gpu_id + "\" is not in the catalogue");
  } else {
    record.gpu_id = gpu->id;
    record.cluster = usual_cluster(*gpu, (gpus + per_node - 1) / per_node, std::min(per_node, gpus), std::nullopt, 0);
  }

  const int usual_seq = program == kPrograms.end() ? 0 : program->seq;
  const int usual_batch = program == kPrograms.end() ? 0 : program->batch;
  if ((!in.has("seq") && usual_seq == 0) || (!in.has("mbs") && usual_batch == 0)) {
    skip(record, "neither the row nor an example of its program in text states batch and sequence");
  }
  training.seq = static_cast<int>(in.count("seq", 1, kMany, std::max(1, usual_seq)));
  record.layout.micro_batch = static_cast<int>(in.count("mbs", 1, kMany, std::max(1, usual_batch)));
  const auto precision = in.text("precision", "bf16");
  if (const auto found = precision_from(precision)) {
    training.precision = *found;
  }
  if (const auto offload = in.text("offload", ""); !offload.empty()) {
    record.layout.offload = Offload::optimizer;
  }
  auto layout = in.object("layout");
  record.layout.dp = static_cast<std::int32_t>(layout.count("dp", 1, kMany, gpus));
  record.layout.tp = static_cast<std::int32_t>(layout.count("tp", 1, kMany, 1));
  record.layout.zero = static_cast<std::uint8_t>(layout.count("zero", 0, 3, record.layout.dp > 1 ? 3 : 0));
  read_method(layout, record);
  const auto config = layout.text("config", "");
  for (const auto& other : layout.keys()) {
    layout.ignore(other);
  }
  layout.close();
  training.global_batch = record.layout.dp * record.layout.micro_batch;
  if (training.program == "litgpt") {
    apply_litgpt(config, gpus, record);
  } else if (training.program == "torchtune") {
    apply_torchtune(record.date, record);
  } else if (program != kPrograms.end()) {
    apply_example(*program, record);
  }
  const bool packed = training.program == "torchtune" && record.date >= kPackedSince;
  if (in.has("measured")) {
    read_result(in.object("measured"), program == kPrograms.end() ? kPrograms[2] : *program, packed, record);
  }
  check_states(record);
  for (const auto& other : in.keys()) {
    in.ignore(other);
  }
}

}  // namespace tpplan
