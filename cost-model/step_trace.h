#pragma once

#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// Sizes of the tensors of one transformer layer on one rank, per micro-batch, in the order an eager program makes
/// them.
struct LayerTensors {
  Bytes residual;        ///< input and output of the layer, and of its second half; divided under sequence parallelism
  Bytes linear_input;    ///< norm output as the products take it: gathered under sequence parallelism
  Bytes norm_statistic;  ///< of one norm
  Bytes qkv;             ///< output of the qkv product; values stay a view of it
  Bytes query, key;      ///< rotated copies
  Bytes attention;       ///< attention output
  Bytes statistics;      ///< softmax statistics
  Bytes extra;           ///< what the profile's list of kept tensors holds beyond this structure
  Bytes up;              ///< output of the first FFN product (gate and up together)
  Bytes product;         ///< input of the second FFN product
  bool keeps_linear_input = true;  ///< false: the norms are recomputed
  bool keeps_ffn = true;           ///< false: the FFN is recomputed
  double norm_weight = 0, qkv_weight = 0, output_weight = 0, up_weight = 0, down_weight = 0;  ///< elements
  double other_weights = 0;  ///< elements of everything else: experts, router, biases

  /// Bytes kept for the backward pass.
  [[nodiscard]] Bytes kept() const {
    return residual * 2.0 + (keeps_linear_input ? linear_input * 2.0 : Bytes(0)) + norm_statistic * 2.0 + qkv + query +
           key + attention + statistics + extra + (keeps_ffn ? up + product : Bytes(0));
  }
  [[nodiscard]] double weights() const {
    return 2 * norm_weight + qkv_weight + output_weight + up_weight + down_weight + other_weights;
  }
};

/// What one rank of a plain PyTorch program allocates in a step: sizes only.
struct StepSizes {
  LayerTensors dense, moe;
  int dense_layers = 0, moe_layers = 0;
  bool embedding = false, head = false;
  double embedding_weight = 0, head_weight = 0;  ///< elements; 0 for a head that shares the embedding
  double tokens = 0;                             ///< of one micro-batch on this rank
  Bytes logits;                                  ///< 16-bit
  Bytes softmax;                                 ///< fp32 copy that becomes the softmax; 0: the loss works in place
  bool sequence_parallel = false;
  bool tensor_parallel = false;
  int recomputed_layers = 0;  ///< so many layers, the first ones, keep their input only
  int pp = 1, rank = 0;
  bool all_forward_first = false;  ///< GPipe; else 1F1B
  int micro_batches = 1;
  double shards = 1;                  ///< ranks that share the optimizer states
  bool fully_sharded = false;         ///< FSDP2: fp32 shards, 16-bit gathered copies
  bool builds_whole = true;           ///< FSDP2: parameters are made whole, then sharded; else as shards
  bool accumulates_unsharded = true;  ///< FSDP2: gradients are reduced after the last micro-batch only
  double weight_bytes = 2, gradient_bytes = 4, master_bytes = 4, moment_bytes = 8;  ///< per parameter
  Bytes workspace;  ///< of both threads that launch products

  [[nodiscard]] double parameters() const {
    return dense.weights() * dense_layers + moe.weights() * moe_layers + (embedding ? embedding_weight : 0) +
           (head ? head_weight + dense.norm_weight : 0);
  }
};

/// Peaks of a replay.
struct ReplayResult {
  Bytes allocated;
  Bytes reserved;
};

/// Runs three training steps of the program through a model of the caching allocator. One is not enough: optimizer
/// states made after the first backward pass are cut out of blocks that activations had used. Steady micro-batches
/// repeat themselves: at most two more than the pipeline holds are replayed.
ReplayResult replay_steps(const StepSizes& sizes);

}  // namespace tpplan
