#include <algorithm>

#include "cost-model/step_program.h"

namespace tpplan {
namespace {

// Streams of FSDP2 with a pool of blocks each.
constexpr std::size_t kGatherStream = 1;
constexpr std::size_t kReduceStream = 2;
/// Gradient buckets are closed at so many parameters.
constexpr double kBucketParameters = 40e6;

std::vector<double> weights_of(const LayerTensors& l) {
  std::vector<double> weights{l.norm_weight, l.norm_weight, l.qkv_weight, l.output_weight, l.up_weight, l.down_weight};
  if (l.other_weights > 0) {
    weights.push_back(l.other_weights);
  }
  return weights;
}

}  // namespace

/// Parameters are made one by one, then copied into flat buffers; what they leave free serves the activations. Master
/// weights exist before the first step.
void StepProgram::build() {
  std::vector<double> ends;  // embedding, final norm, head: before the layers in parameter order
  std::vector<double> weights;
  std::vector<TensorRef> single;
  const auto create = [&](double elements) {
    if (elements > 0) {
      single.push_back(make_of(elements, s_.weight_bytes));
    }
  };
  if (s_.embedding) {
    ends.push_back(s_.embedding_weight);
    create(s_.embedding_weight);
  }
  for (int i = 0; i < layer_count_; ++i) {
    for (const double weight : weights_of(layer(i))) {
      weights.push_back(weight);
      create(weight);
    }
  }
  if (s_.head) {
    ends.push_back(s_.dense.norm_weight);
    create(s_.dense.norm_weight);
    if (s_.head_weight > 0) {
      ends.push_back(s_.head_weight);
    }
    create(s_.head_weight);
  }
  ends.insert(ends.end(), weights.begin(), weights.end());
  double total = 0;
  double open = 0;
  for (auto weight = ends.rbegin(); weight != ends.rend(); ++weight) {
    open += *weight;
    total += *weight;
    if (open >= kBucketParameters) {
      buckets_.push_back(open);
      open = 0;
    }
  }
  if (open > 0) {
    buckets_.push_back(open);
  }
  states_.push_back(make_of(total, s_.weight_bytes));
  states_.push_back(make_of(total, s_.gradient_bytes));
  single.clear();
  if (s_.master_bytes > 0) {
    for (const double bucket : buckets_) {
      states_.push_back(make_of(bucket / s_.shards, s_.master_bytes));
    }
  }
}

void StepProgram::build_sharded() {
  std::vector<std::vector<TensorRef>> whole;
  const auto create = [&](const Unit& unit, std::size_t from, std::size_t to) {
    std::vector<TensorRef> tensors;
    for (std::size_t i = s_.builds_whole ? from : to; i < to; ++i) {
      tensors.push_back(make_of(unit.weights[i], 4));
    }
    return tensors;
  };
  Unit root;
  std::vector<TensorRef> root_whole;
  if (s_.embedding) {
    root.weights.push_back(s_.embedding_weight);
    root_whole = create(root, 0, 1);
  }
  for (int i = 0; i < layer_count_; ++i) {
    Unit unit;
    unit.weights = weights_of(layer(i));
    whole.push_back(create(unit, 0, unit.weights.size()));
    units_.push_back(std::move(unit));
  }
  if (s_.head) {
    const auto from = root.weights.size();
    root.weights.push_back(s_.dense.norm_weight);
    if (s_.head_weight > 0) {
      root.weights.push_back(s_.head_weight);
    }
    for (auto& tensor : create(root, from, root.weights.size())) {
      root_whole.push_back(tensor);
    }
  }
  units_.push_back(std::move(root));
  whole.push_back(std::move(root_whole));
  for (std::size_t i = 0; i < units_.size(); ++i) {
    for (const double weight : units_[i].weights) {
      units_[i].shards.push_back(make_of(weight / s_.shards, 4));
    }
    whole[i].clear();
  }
}

void StepProgram::begin_optimizer_states() {
  if (!moments_.empty() || s_.moment_bytes <= 0) {
    return;
  }
  const auto add = [&](double elements) {
    moments_.push_back(make_of(elements, s_.moment_bytes / 2));
    moments_.push_back(make_of(elements, s_.moment_bytes / 2));
  };
  if (s_.fully_sharded) {
    // Parameters of the root first, then layer by layer.
    const auto add_unit = [&](const Unit& unit) {
      for (const double weight : unit.weights) {
        add(weight / s_.shards);
      }
    };
    add_unit(root());
    for (std::size_t i = 0; i + 1 < units_.size(); ++i) {
      add_unit(units_[i]);
    }
    return;
  }
  for (const double bucket : buckets_) {
    add(bucket / s_.shards);
  }
}

void StepProgram::start_gather(Unit& unit) {
  if (!unit.gathered.empty()) {
    return;
  }
  std::vector<TensorRef> casts;
  for (const double weight : unit.weights) {
    casts.push_back(make_of(weight / s_.shards, 2, kGatherStream));
  }
  unit.gather = make_of(unit.elements(), 2, kGatherStream);
}

/// Copies a gathered unit out of its buffer. In the forward pass the buffer stays until the next unit's is copied out.
void StepProgram::finish_gather(Unit& unit, bool forward) {
  if (!unit.gathered.empty()) {
    return;
  }
  if (forward) {
    last_gather_.reset();
  }
  for (const double weight : unit.weights) {
    unit.gathered.push_back(make_of(weight, 2));
  }
  if (forward) {
    last_gather_ = unit.gather;
  }
  unit.gather.reset();
}

/// After a unit's backward pass: its parameters are freed and its gradients reduced, or kept in fp32 for later.
void StepProgram::after_backward(Unit& unit) {
  unit.gathered.clear();
  if (!reduces_) {
    unit.accumulated.resize(unit.gradients.size());
    for (std::size_t i = 0; i < unit.gradients.size(); ++i) {
      if (unit.gradients[i] && !unit.accumulated[i]) {
        unit.accumulated[i] = make_of(unit.weights[std::min(i, unit.weights.size() - 1)], 4);
      }
      unit.gradients[i].reset();
    }
    return;
  }
  reduce_input_.reset();
  reduce_input_ = make_of(unit.elements(), 4);
  unit.gradients.clear();
  unit.accumulated.clear();
  TensorRef reduced = make_of(unit.elements() / s_.shards, 4, kReduceStream);
  if (!unit.reduced) {
    unit.reduced = std::move(reduced);
  }
}

}  // namespace tpplan
