#pragma once

#include <vector>

#include "cost-model/allocator.h"
#include "cost-model/step_trace.h"

namespace tpplan {

/// What one layer keeps of a micro-batch.
struct SavedLayer {
  TensorRef input, statistic, linear_input, qkv, query, key, attention, statistics, extra;
  TensorRef middle, middle_statistic, ffn_input, up, product;
};

/// What one micro-batch keeps on a rank.
struct SavedPass {
  std::vector<SavedLayer> layers;
  TensorRef indices;                                            // tensor parallel: clamped tokens and their mask
  TensorRef last, last_statistic, head_input, softmax, labels;  // head
  TensorRef logits;                                             // only where the loss works in place
};

/// The program, written as an eager one runs: a local variable lives until it is bound anew or its function returns,
/// a kept tensor until the backward pass has used it.
class StepProgram {
 public:
  explicit StepProgram(const StepSizes& sizes) : s_(sizes), layer_count_(sizes.dense_layers + sizes.moe_layers) {}

  ReplayResult run();

 private:
  TensorRef make(Bytes size, std::size_t stream = 0) { return std::make_shared<const Tensor>(memory_, size, stream); }
  TensorRef make_of(double elements, double bytes, std::size_t stream = 0) {
    return make(Bytes(elements * bytes), stream);
  }
  [[nodiscard]] const LayerTensors& layer(int index) const { return index < s_.dense_layers ? s_.dense : s_.moe; }

  void build();
  void build_sharded();
  void begin_optimizer_states();
  TensorRef forward_layer(const LayerTensors& l, TensorRef input, SavedLayer* saved, bool stops_early);
  TensorRef backward_layer(const LayerTensors& l, SavedLayer& saved, TensorRef gradient, int index);
  TensorRef linear_input(const LayerTensors& l);
  TensorRef leave(const LayerTensors& l);
  TensorRef input_gradient(const LayerTensors& l, TensorRef gradient);
  void weight_gradient(double elements, int unit, std::size_t slot);
  TensorRef forward(TensorRef input, SavedPass& graph);
  TensorRef backward(SavedPass& graph, TensorRef gradient);
  TensorRef backward_head(SavedPass& graph);
  void backward_embedding();
  void whole_step();
  void pipeline_step();

  // FSDP2.
  struct Unit {
    std::vector<double> weights;
    std::vector<TensorRef> shards;
    std::vector<TensorRef> gathered;     // 16-bit parameters
    TensorRef gather;                    // all-gather buffer on its own stream
    std::vector<TensorRef> gradients;    // 16-bit, of this backward pass
    std::vector<TensorRef> accumulated;  // fp32, unsharded
    TensorRef reduced;                   // gradient shards, on their own stream
    [[nodiscard]] double elements() const {
      double sum = 0;
      for (const double weight : weights) {
        sum += weight;
      }
      return sum;
    }
  };
  void start_gather(Unit& unit);
  void finish_gather(Unit& unit, bool forward);
  void after_backward(Unit& unit);
  [[nodiscard]] Unit& root() { return units_.back(); }

  const StepSizes& s_;
  int layer_count_;
  CachingAllocator memory_;  // before every tensor: it is destroyed last
  std::vector<TensorRef> states_, moments_, data_;
  std::vector<double> buckets_;
  TensorRef forward_workspace_, backward_workspace_;
  std::vector<Unit> units_;  // one per layer, the root last
  TensorRef last_gather_, reduce_input_;
  bool reduces_ = true;
};

}  // namespace tpplan
