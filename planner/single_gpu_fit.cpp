#include "planner/single_gpu_fit.h"

#include <algorithm>

#include "cost-model/peft.h"

namespace tpplan {

const std::array<FitModeRow, 7> kFitModes{{
    {"inference-fp32", "inference, 4 bytes a weight", 4, PeftMethod::none},
    {"inference-bf16", "inference, 2 bytes a weight", 2, PeftMethod::none},
    {"inference-int8", "inference, 1 byte a weight of the layers, the rest 2", 1, PeftMethod::none},
    {"inference-int4", "inference, NF4 with double quantisation in the layers, the rest 2 bytes",
     quantised_weight_bytes(true), PeftMethod::none},
    {"qlora", "adapters beside NF4 weights", 0, PeftMethod::qlora},
    {"lora", "adapters beside 16-bit weights", 0, PeftMethod::lora},
    {"full", "every weight trained, fp32 weights and optimizer states", 0, PeftMethod::none},
}};

namespace {

constexpr double kGib = 1073741824.0;
constexpr double kInferenceError = 0.05;  // half width of the interval, assumed

Precision usual_precision(const GpuSpec& gpu) {
  return gpu.peak_of(Precision::bf16).raw() > 0 ? Precision::bf16 : Precision::fp16;
}

/// The job of one mode on one GPU; `seq` and `batch` are the only sizes that change between the trials of a mode.
Job training_job(const FitRequest& request, const FitModeRow& mode, const GpuSpec& gpu, const ProfileSet& profiles) {
  TrainingSpec training = request.training;
  training.peft = mode.peft;
  training.precision = usual_precision(gpu);
  training.global_batch = 1;
  return make_job(request.model, usual_cluster(gpu, 1, 1), training, profiles);
}

Estimate train(Job& job, const Layout& base, int seq, int batch) {
  Layout layout = base;
  layout.micro_batch = batch;
  job.training.seq = seq;
  job.training.global_batch = batch;
  return estimate(job, layout);
}

MemoryEstimate infer(const FitRequest& request, const FitModeRow& mode, const GpuSpec& gpu,
                     const FrameworkProfile& profile, int seq, int batch) {
  const auto& model = request.model;
  const double element = mode.weight_bytes == 4 ? 4 : 2;
  MemoryEstimate m;
  m.capacity = gpu.usable;
  m.error = kInferenceError;
  m.weights = inference_weights(model, mode.weight_bytes, element);
  m.activations = key_value_cache(model, seq, batch) * (element / 2);
  // Prefill of the whole prompt: residual, norm output and the widest pair of buffers of a layer; logits of the last
  // token of each sequence in fp32.
  const double tokens = static_cast<double>(seq) * batch;
  const double ffn = model.moe ? static_cast<double>(model.moe->expert_ffn) * model.moe->top_k : model.ffn_hidden;
  const double qkv = static_cast<double>(model.head_dim) * (model.heads + 2.0 * model.kv_heads);
  const double width = std::max((model.gated_mlp ? 3 : 2) * ffn, qkv + model.hidden);
  m.loss = Bytes(element * tokens * (2.0 * model.hidden + width) + 4.0 * batch * model.vocab);
  if (mode.weight_bytes < 1) {
    m.workspace = Bytes(2.0 * model.hidden * std::max(model.ffn_hidden, model.heads * model.head_dim));
  }
  m.workspace += Bytes(profile.workspace_gib * kGib);
  m.allocator_slack = m.allocated() * (profile.reserved_factor - 1);
  m.context = Bytes(profile.context_gib * kGib);
  return m;
}

/// The largest value up to `most` that still fits when more never needs less memory.
template <class FitsAt>
int largest(int most, FitsAt fits_at) {
  if (!fits_at(1)) {
    return 0;
  }
  int low = 1;
  int high = 2;
  while (high <= most && fits_at(high)) {
    low = high;
    high = high > most / 2 ? most + 1 : high * 2;
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits_at(middle) ? low : high) = middle;
  }
  return std::min(low, most);
}

int longest_for(const ModelSpec& model) {
  return model.learned_positions > 0 ? std::min(model.learned_positions, kLongestTried) : kLongestTried;
}

/// Elements of the largest matrix of a kind: a product of the layers, or embedding and head.
double largest_of_layers(const ModelSpec& model) {
  const double ffn = std::max<double>(model.ffn_hidden, model.moe ? model.moe->expert_ffn : 0);
  return static_cast<double>(model.hidden) * std::max(ffn, static_cast<double>(model.heads) * model.head_dim);
}

/// Weights of layers and ends as they are loaded and held, and what the last matrix needs besides.
Bytes load_peak_of(const FitRequest& request, const FitModeRow& mode, const FrameworkProfile& profile) {
  const auto& model = request.model;
  const double ends = static_cast<double>(model.vocab) * model.hidden;
  const double layers = largest_of_layers(model);
  const double packed = quantised_weight_bytes(request.training.double_quantisation);
  Bytes peak(0);
  if (mode.peft == PeftMethod::qlora) {
    // First everything in its place with 16-bit ends, then the ends are widened one by one.
    const Bytes packing = inference_weights(model, packed, 2) + Bytes(2 * layers);
    const Bytes widening = inference_weights(model, packed, profile.unquantised_bytes) + Bytes(2 * ends);
    peak = max(packing, profile.unquantised_bytes > 2 ? widening : packing);
  } else if (mode.peft == PeftMethod::lora || mode.weight_bytes == 2) {
    peak = inference_weights(model, 2, 2);
  } else if (mode.weight_bytes > 0 && mode.weight_bytes < 2) {
    peak = inference_weights(model, mode.weight_bytes, 2) + Bytes(2 * layers);
  } else {
    return Bytes(0);
  }
  return peak + Bytes(profile.context_gib * kGib);
}

FitCell cell_of(const FitRequest& request, const FitModeRow& mode, const GpuSpec& gpu, const ProfileSet& profiles) {
  FitCell cell;
  cell.mode = &mode;
  const double headroom = request.training.memory_headroom;
  const int seq = request.training.seq;
  const int batch = request.layout.micro_batch;
  const auto fits = [&](const MemoryEstimate& memory) { return verdict(memory, headroom) == Fits::fits; };
  if (mode.weight_bytes > 0) {
    const auto& profile = profiles.find_program(request.training.program, request.training.date);
    const auto at = [&](int s, int b) { return infer(request, mode, gpu, profile, s, b); };
    cell.memory = at(seq, batch);
    cell.longest_seq = largest(longest_for(request.model), [&](int s) { return fits(at(s, 1)); });
    cell.largest_batch = largest(kLargestBatchTried, [&](int b) { return fits(at(seq, b)); });
  } else {
    Job job;
    try {
      job = training_job(request, mode, gpu, profiles);
    } catch (const SpecError& error) {
      cell.impossible = error.what();
      return cell;
    }
    const auto at = [&](int s, int b) { return train(job, request.layout, s, b).memory; };
    const auto reference = train(job, request.layout, seq, batch);
    cell.memory = reference.memory;
    cell.step = reference.step.total();
    cell.step_error = reference.step.step_error;
    cell.longest_seq = largest(longest_for(request.model), [&](int s) { return fits(at(s, 1)); });
    cell.largest_batch = largest(kLargestBatchTried, [&](int b) { return fits(at(seq, b)); });
  }
  cell.fits = verdict(cell.memory, headroom);
  cell.load_peak = load_peak_of(request, mode, profiles.find_program(request.training.program, request.training.date));
  if (cell.load_peak > cell.memory.capacity) {
    cell.fits = Fits::no;
    cell.longest_seq = 0;
    cell.largest_batch = 0;
  }
  return cell;
}

}  // namespace

Bytes inference_weights(const ModelSpec& model, double matrix_bytes, double other_bytes) {
  const auto counts = parameter_counts(model);
  double matrices = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const auto params = layer_parameters(model, model.is_moe_layer(layer));
    matrices += static_cast<double>(params.total() - params.norms - params.router);
  }
  return Bytes(matrix_bytes * matrices + other_bytes * (static_cast<double>(counts.total) - matrices));
}

Bytes key_value_cache(const ModelSpec& model, int seq, int batch) {
  const double width = model.latent ? static_cast<double>(model.latent->kv_lora) + model.latent->qk_rope
                                    : 2.0 * model.kv_heads * model.head_dim;
  double tokens = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const bool full = model.attention_window <= 0 ||
                      (model.full_attention_every > 0 && (layer + 1) % model.full_attention_every == 0);
    tokens += full ? seq : std::min(seq, model.attention_window);
  }
  return Bytes(2 * width * tokens * batch);
}

std::vector<FitRow> single_gpu_fits(const FitRequest& request, const std::vector<const GpuSpec*>& gpus,
                                    const ProfileSet& profiles) {
  std::vector<FitRow> rows;
  for (const GpuSpec* gpu : gpus) {
    FitRow row;
    row.gpu = *gpu;
    for (const auto& mode : kFitModes) {
      row.cells.push_back(cell_of(request, mode, *gpu, profiles));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tpplan
