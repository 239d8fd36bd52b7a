#include "cost-model/step_trace.h"

#include <algorithm>
#include <deque>

#include "cost-model/step_program.h"

namespace tpplan {
namespace {

/// What optimizer states and accumulated gradients displace is reserved anew in the second step, under FSDP2 in the
/// third too; later ones reserve nothing.
constexpr int kSteps = 3;

}  // namespace

/// Norm output and, under sequence parallelism, its gathered copy.
TensorRef StepProgram::linear_input(const LayerTensors& l) {
  TensorRef output = make(s_.sequence_parallel ? l.residual : l.linear_input);
  return s_.sequence_parallel ? make(l.linear_input) : output;
}

/// Output of a row-parallel product, reduced (in place, or scattered under sequence parallelism).
TensorRef StepProgram::leave(const LayerTensors& l) {
  TensorRef output = make(l.linear_input);
  return s_.sequence_parallel ? make(l.residual) : output;
}

/// One layer; keeps in `saved` what the backward pass needs, nothing when it is null. A recomputed layer stops once the
/// last kept tensor exists.
TensorRef StepProgram::forward_layer(const LayerTensors& l, TensorRef input, SavedLayer* saved, bool stops_early) {
  SavedLayer unsaved;
  SavedLayer& keep = saved != nullptr ? *saved : unsaved;
  keep.input = std::move(input);
  keep.statistic = make(l.norm_statistic);
  TensorRef norm_output = linear_input(l);
  TensorRef qkv = make(l.qkv);
  TensorRef query = make(l.query);
  TensorRef key = make(l.key);
  TensorRef output = make(l.attention);
  keep.statistics = make(l.statistics);
  if (l.extra.raw() > 0) {
    keep.extra = make(l.extra);
  }
  if (saved != nullptr) {
    keep.linear_input = l.keeps_linear_input ? norm_output : nullptr;
    keep.qkv = qkv;
    keep.query = query;
    keep.key = key;
    keep.attention = output;
  }
  output = leave(l);
  TensorRef middle = make(l.residual);
  keep.middle_statistic = make(l.norm_statistic);
  norm_output = linear_input(l);
  if (saved != nullptr) {
    keep.middle = middle;
    keep.ffn_input = l.keeps_linear_input ? norm_output : nullptr;
  }
  TensorRef up = make(l.up);
  TensorRef product = make(l.product);
  if (saved != nullptr && l.keeps_ffn) {
    keep.up = up;
    keep.product = product;
  }
  up.reset();
  if (stops_early) {
    return nullptr;
  }
  TensorRef down = leave(l);
  product.reset();
  output = std::move(down);
  return make(l.residual);
}

/// Gradient of parameter `slot` of a layer (or of the root): added to the main gradient and freed at once, kept until
/// the unit is done under FSDP2.
void StepProgram::weight_gradient(double elements, int unit, std::size_t slot) {
  TensorRef gradient = make_of(elements, 2);
  if (s_.fully_sharded) {
    auto& gradients = units_[static_cast<std::size_t>(unit)].gradients;
    gradients.resize(std::max(gradients.size(), slot + 1));
    gradients[slot] = std::move(gradient);
  }
}

/// Through the collective before a column-parallel product: scattered, or copied and reduced.
TensorRef StepProgram::input_gradient(const LayerTensors& l, TensorRef gradient) {
  if (s_.sequence_parallel) {
    return make(l.residual);
  }
  return s_.tensor_parallel ? make(l.linear_input) : std::move(gradient);
}

TensorRef StepProgram::backward_layer(const LayerTensors& l, SavedLayer& saved, TensorRef gradient, int index) {
  if (index < s_.recomputed_layers) {
    const TensorRef input = saved.input;
    saved = SavedLayer{};
    (void)forward_layer(l, input, &saved, true);
  }
  const auto gathered = [&]() { return s_.sequence_parallel ? make(l.linear_input) : gradient; };
  // FFN.
  TensorRef output = gathered();
  if (!l.keeps_linear_input) {
    saved.ffn_input = make(l.linear_input);
  }
  if (!l.keeps_ffn) {
    saved.up = make(l.up);
    saved.product = make(l.product);
  }
  TensorRef product = make(l.product);
  weight_gradient(l.down_weight, index, 5);
  saved.product.reset();
  output.reset();
  TensorRef up = make(l.up);
  product.reset();
  saved.up.reset();
  TensorRef linear = make(l.linear_input);
  weight_gradient(l.up_weight, index, 4);
  if (l.other_weights > 0) {
    weight_gradient(l.other_weights, index, 6);
  }
  saved.ffn_input.reset();
  up.reset();
  TensorRef local = input_gradient(l, linear);
  linear.reset();
  TensorRef norm = make(l.residual);
  weight_gradient(l.norm_weight, index, 1);
  saved.middle.reset();
  saved.middle_statistic.reset();
  local.reset();
  if (gradient.use_count() > 1) {
    gradient = make(l.residual);  // someone else holds it: the sum of both paths is a new tensor
  }
  norm.reset();
  // Attention.
  output = gathered();
  if (!l.keeps_linear_input) {
    saved.linear_input = make(l.linear_input);
  }
  TensorRef attention = make(l.attention);
  weight_gradient(l.output_weight, index, 3);
  output.reset();
  TensorRef query = make(l.query);
  TensorRef key = make(l.key);
  TensorRef value = make(l.key);
  attention.reset();
  saved.query.reset();
  saved.key.reset();
  saved.qkv.reset();
  saved.attention.reset();
  saved.statistics.reset();
  saved.extra.reset();
  {
    TensorRef unrotated_key = make(l.key);
    key.reset();
    TensorRef unrotated_query = make(l.query);
    query.reset();
    up = make(l.qkv);
  }
  value.reset();
  linear = make(l.linear_input);
  weight_gradient(l.qkv_weight, index, 2);
  saved.linear_input.reset();
  up.reset();
  local = input_gradient(l, linear);
  linear.reset();
  norm = make(l.residual);
  weight_gradient(l.norm_weight, index, 0);
  saved.input.reset();
  saved.statistic.reset();
  local.reset();
  return gradient;
}

TensorRef StepProgram::forward(TensorRef input, SavedPass& graph) {
  const auto& ends = s_.dense;
  if (s_.fully_sharded) {
    start_gather(root());
    finish_gather(root(), true);
  }
  TensorRef x = std::move(input);
  TensorRef indices;
  if (s_.embedding) {
    if (s_.tensor_parallel) {
      indices = make_of(s_.tokens, 8);
      graph.indices = make_of(s_.tokens, 8);
    }
    x = make(ends.linear_input);
    if (s_.tensor_parallel) {
      x = make(ends.linear_input);
    }
    if (s_.sequence_parallel) {
      x = make(ends.residual);
    }
  }
  if (!forward_workspace_) {
    forward_workspace_ = make(s_.workspace / 2);
  }
  graph.layers.resize(static_cast<std::size_t>(layer_count_));
  for (int i = 0; i < layer_count_; ++i) {
    auto& saved = graph.layers[static_cast<std::size_t>(i)];
    if (s_.fully_sharded) {
      start_gather(units_[static_cast<std::size_t>(i)]);
      finish_gather(units_[static_cast<std::size_t>(i)], true);
    }
    TensorRef output = forward_layer(layer(i), x, i < s_.recomputed_layers ? nullptr : &saved, false);
    saved.input = x;
    x = std::move(output);
    if (s_.fully_sharded) {
      units_[static_cast<std::size_t>(i)].gathered.clear();
    }
  }
  if (s_.head) {
    graph.last = x;
    graph.last_statistic = make(ends.norm_statistic);
    x = linear_input(ends);
    graph.head_input = x;
    TensorRef logits = make(s_.logits);
    if (s_.softmax.raw() > 0) {
      graph.softmax = make(s_.softmax);
      const TensorRef largest = make_of(s_.tokens, 4);
      const TensorRef in_range = make_of(s_.tokens, 1);
      graph.labels = make_of(s_.tokens, 8);
      const TensorRef picked = make_of(s_.tokens, 4);
      const TensorRef sums = make_of(s_.tokens, 4);
    } else {
      graph.logits = logits;
    }
    x = nullptr;
    last_gather_.reset();
    return nullptr;
  }
  last_gather_.reset();
  return x;
}

TensorRef StepProgram::backward_head(SavedPass& graph) {
  const auto& ends = s_.dense;
  TensorRef gradient = s_.softmax.raw() > 0 ? make(s_.logits) : graph.logits;
  graph.softmax.reset();
  graph.labels.reset();
  graph.logits.reset();
  if (!backward_workspace_) {
    backward_workspace_ = make(s_.workspace / 2);
  }
  TensorRef linear = make(ends.linear_input);
  weight_gradient(s_.head_weight > 0 ? s_.head_weight : s_.embedding_weight, layer_count_, s_.embedding ? 2 : 1);
  graph.head_input.reset();
  gradient.reset();
  TensorRef local = input_gradient(ends, linear);
  linear.reset();
  TensorRef norm = make(ends.residual);
  weight_gradient(ends.norm_weight, layer_count_, s_.embedding ? 1 : 0);
  graph.last.reset();
  graph.last_statistic.reset();
  return norm;
}

void StepProgram::backward_embedding() {
  const auto& ends = s_.dense;
  TensorRef whole = s_.sequence_parallel ? make(ends.linear_input) : nullptr;
  TensorRef masked = s_.tensor_parallel ? make(ends.linear_input) : nullptr;
  whole.reset();
  TensorRef sorted = make_of(s_.tokens, 8);
  TensorRef order = make_of(s_.tokens, 8);
  weight_gradient(s_.embedding_weight, layer_count_, 0);
}

TensorRef StepProgram::backward(SavedPass& graph, TensorRef gradient) {
  if (s_.head) {
    gradient = backward_head(graph);
  }
  if (!backward_workspace_) {
    backward_workspace_ = make(s_.workspace / 2);
  }
  for (int i = layer_count_ - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    if (s_.fully_sharded) {
      auto& unit = units_[index];
      if (!unit.gather) {
        start_gather(unit);
      }
      finish_gather(unit, false);
      if (i > 0) {
        start_gather(units_[index - 1]);
      }
    }
    gradient = backward_layer(layer(i), graph.layers[index], std::move(gradient), i);
    if (s_.fully_sharded) {
      after_backward(units_[index]);
    }
  }
  if (s_.embedding) {
    backward_embedding();
    gradient.reset();
  }
  if (s_.fully_sharded) {
    after_backward(root());
    reduce_input_.reset();
  }
  return gradient;
}

void StepProgram::whole_step() {
  for (int i = 0; i < s_.micro_batches; ++i) {
    reduces_ = !s_.accumulates_unsharded || i + 1 == s_.micro_batches;
    SavedPass graph;
    (void)forward(nullptr, graph);
    (void)backward(graph, nullptr);
  }
}

/// One rank of a pipeline: warm-up, one forward and one backward pass in turn, cool-down. What is sent and received
/// stays referenced until its variable is bound anew.
void StepProgram::pipeline_step() {
  struct InFlight {
    TensorRef input, output;
    SavedPass graph;
  };
  std::deque<InFlight> queue;
  const auto& ends = s_.dense;
  const bool first = s_.rank == 0;
  const bool last = s_.head;
  const int warm = s_.all_forward_first ? s_.micro_batches : std::min(s_.pp - s_.rank - 1, s_.micro_batches);
  const auto receive = [&]() { return make(ends.residual); };
  const auto forward_one = [&](TensorRef input) {
    InFlight entry;
    entry.input = input;
    entry.output = forward(std::move(input), entry.graph);
    TensorRef output = entry.output;
    queue.push_back(std::move(entry));
    return output;
  };
  const auto backward_one = [&](const TensorRef& gradient) {
    InFlight entry = std::move(queue.front());
    queue.pop_front();
    return backward(entry.graph, gradient);
  };
  TensorRef output;
  TensorRef input;
  TensorRef gradient;
  TensorRef input_gradient;
  for (int i = 0; i < warm; ++i) {
    output = forward_one(first ? nullptr : receive());
  }
  if (s_.micro_batches > warm && !first) {
    input = receive();
  }
  for (int i = warm; i < s_.micro_batches; ++i) {
    output = forward_one(input);
    gradient.reset();
    if (!last) {
      gradient = receive();
    }
    input_gradient = backward_one(gradient);
    if (!first && i + 1 < s_.micro_batches) {
      input = receive();
    }
  }
  for (int i = s_.micro_batches - warm; i < s_.micro_batches; ++i) {
    gradient.reset();
    if (!last) {
      gradient = receive();
    }
    input_gradient = backward_one(gradient);
  }
}

ReplayResult StepProgram::run() {
  if (s_.fully_sharded) {
    build_sharded();
  } else {
    build();
  }
  for (int i = 0; i < 2 * s_.micro_batches; ++i) {
    data_.push_back(make_of(s_.tokens, 8));
  }
  for (int step = 0; step < kSteps; ++step) {
    if (s_.pp == 1) {
      whole_step();
    } else {
      pipeline_step();
    }
    begin_optimizer_states();
    for (auto& unit : units_) {
      unit.reduced.reset();
    }
  }
  return {memory_.peak_allocated(), memory_.reserved()};
}

ReplayResult replay_steps(const StepSizes& sizes) {
  StepSizes capped = sizes;
  if (!sizes.all_forward_first) {
    capped.micro_batches = std::min(sizes.micro_batches, sizes.pp - sizes.rank + 2);
  }
  return StepProgram(capped).run();
}

}  // namespace tpplan
