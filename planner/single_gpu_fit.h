#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// What a model is used for on one GPU.
struct FitModeRow {
  std::string_view key;      ///< "inference-int4"
  std::string_view meaning;  ///< one line for readers
  double weight_bytes;       ///< per weight of the layers' matrices, inference only; 0: training
  PeftMethod peft;           ///< of training
};
extern const std::array<FitModeRow, 7> kFitModes;

/// One use on one GPU at the reference batch and sequence.
struct FitCell {
  const FitModeRow* mode = nullptr;
  MemoryEstimate memory;  ///< inference: weights, key/value cache under activations, the prefill's buffers under loss
  Fits fits = Fits::no;   ///< fits: with the headroom; tight: without
  int longest_seq = 0;    ///< tokens of one sequence that fit, 0: none; kLongestTried: at least so many
  int largest_batch = 0;  ///< sequences of the reference length that fit, 0: none
  Seconds step;           ///< training: one micro-batch forward, backward and update; 0 for inference
  double step_error = 0;  ///< half width of its 80 % interval, relative
  /// The most the GPU holds while the checkpoint is loaded, with its context: matrices arrive in 16 bits one after the
  /// other (from_pretrained of transformers with a device map or a quantisation), each stands beside the 4-bit or fp32
  /// one it becomes until that is made. 0: not known, the program loads in host memory first.
  Bytes load_peak;
  std::string impossible;  ///< why the GPU cannot run it at all; empty when it can
  [[nodiscard]] Bytes low() const { return memory.total() * (1 / (1 + memory.error)); }
  [[nodiscard]] Bytes high() const { return memory.total() * (1 + memory.error); }
};
struct FitRow {
  GpuSpec gpu;
  std::vector<FitCell> cells;  ///< in the order of kFitModes
};

constexpr int kLongestTried = 1 << 20;
constexpr int kLargestBatchTried = 4096;

/// What is asked: the reference, and how the training modes train.
struct FitRequest {
  ModelSpec model;
  TrainingSpec training;  ///< sequence, adapters, headroom, program; precision and method are set per mode
  Layout layout;          ///< micro-batch of the reference, recomputation, optimizer
};

/// The table of one model on each GPU alone.
std::vector<FitRow> single_gpu_fits(const FitRequest& request, const std::vector<const GpuSpec*>& gpus,
                                    const ProfileSet& profiles);

/// Bytes of weights when the matrices of the layers take `matrix_bytes` each and the rest `other_bytes`.
Bytes inference_weights(const ModelSpec& model, double matrix_bytes, double other_bytes);
/// Key/value cache in 16 bits of `tokens` tokens: two of kv_heads x head size a layer, or the compressed pair and its
/// rotary part of latent attention; sliding-window layers hold their window at most.
Bytes key_value_cache(const ModelSpec& model, int seq, int batch);

}  // namespace tpplan
