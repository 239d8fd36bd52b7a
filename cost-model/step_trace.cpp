#include "cost-model/step_trace.h"

#include <algorithm>
#include <deque>

#include "cost-model/allocator.h"

namespace tpplan {
namespace {

// Streams of FSDP2 with a pool of blocks each.
constexpr std::size_t kGatherStream = 1;
constexpr std::size_t kReduceStream = 2;
/// What optimizer states and accumulated gradients displace is reserved anew in the second step, under FSDP2 in the
/// third too; later ones reserve nothing.
constexpr int kSteps = 3;
/// Gradient buckets are closed at so many parameters.
constexpr double kBucketParameters = 40e6;

/// What one layer keeps of a micro-batch.
struct Saved {
  TensorRef input, statistic, linear_input, qkv, query, key, attention, statistics, extra;
  TensorRef middle, middle_statistic, ffn_input, up, product;
};

/// What one micro-batch keeps on a rank.
struct Graph {
  std::vector<Saved> layers;
  TensorRef indices;                                            // tensor parallel: clamped tokens and their mask
  TensorRef last, last_statistic, head_input, softmax, labels;  // head
  TensorRef logits;                                             // only where the loss works in place
};

/// The program, written as an eager one runs: a local variable lives until it is bound anew or its function returns,
/// a kept tensor until the backward pass has used it.
class Program {
 public:
  explicit Program(const StepSizes& sizes) : s_(sizes), layer_count_(sizes.dense_layers + sizes.moe_layers) {}

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
  TensorRef forward_layer(const LayerTensors& l, TensorRef input, Saved* saved, bool stops_early);
  TensorRef backward_layer(const LayerTensors& l, Saved& saved, TensorRef gradient, int index);
  TensorRef linear_input(const LayerTensors& l);
  TensorRef leave(const LayerTensors& l);
  TensorRef input_gradient(const LayerTensors& l, TensorRef gradient);
  void weight_gradient(double elements, int unit, std::size_t slot);
  TensorRef forward(TensorRef input, Graph& graph);
  TensorRef backward(Graph& graph, TensorRef gradient);
  TensorRef backward_head(Graph& graph);
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

std::vector<double> weights_of(const LayerTensors& l) {
  std::vector<double> weights{l.norm_weight, l.norm_weight, l.qkv_weight, l.output_weight, l.up_weight, l.down_weight};
  if (l.other_weights > 0) {
    weights.push_back(l.other_weights);
  }
  return weights;
}

/// Parameters are made one by one, then copied into flat buffers; what they leave free serves the activations. Master
/// weights exist before the first step.
void Program::build() {
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

void Program::build_sharded() {
  std::vector<std::vector<TensorRef>> whole;
  const auto create = [&](const Unit& unit, std::size_t from, std::size_t to) {
    std::vector<TensorRef> tensors;
    for (std::size_t i = from; i < to; ++i) {
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

void Program::begin_optimizer_states() {
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

/// Norm output and, under sequence parallelism, its gathered copy.
TensorRef Program::linear_input(const LayerTensors& l) {
  TensorRef output = make(s_.sequence_parallel ? l.residual : l.linear_input);
  return s_.sequence_parallel ? make(l.linear_input) : output;
}

/// Output of a row-parallel product, reduced (in place, or scattered under sequence parallelism).
TensorRef Program::leave(const LayerTensors& l) {
  TensorRef output = make(l.linear_input);
  return s_.sequence_parallel ? make(l.residual) : output;
}

/// One layer; keeps in `saved` what the backward pass needs, nothing when it is null. A recomputed layer stops once the
/// last kept tensor exists.
TensorRef Program::forward_layer(const LayerTensors& l, TensorRef input, Saved* saved, bool stops_early) {
  Saved unsaved;
  Saved& keep = saved != nullptr ? *saved : unsaved;
  keep.input = input;
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
void Program::weight_gradient(double elements, int unit, std::size_t slot) {
  TensorRef gradient = make_of(elements, 2);
  if (s_.fully_sharded) {
    auto& gradients = units_[static_cast<std::size_t>(unit)].gradients;
    gradients.resize(std::max(gradients.size(), slot + 1));
    gradients[slot] = std::move(gradient);
  }
}

/// Through the collective before a column-parallel product: scattered, or copied and reduced.
TensorRef Program::input_gradient(const LayerTensors& l, TensorRef gradient) {
  if (s_.sequence_parallel) {
    return make(l.residual);
  }
  return s_.tensor_parallel ? make(l.linear_input) : gradient;
}

TensorRef Program::backward_layer(const LayerTensors& l, Saved& saved, TensorRef gradient, int index) {
  if (index < s_.recomputed_layers) {
    const TensorRef input = saved.input;
    saved = Saved{};
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

TensorRef Program::forward(TensorRef input, Graph& graph) {
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

TensorRef Program::backward_head(Graph& graph) {
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

void Program::backward_embedding() {
  const auto& ends = s_.dense;
  TensorRef whole = s_.sequence_parallel ? make(ends.linear_input) : nullptr;
  TensorRef masked = s_.tensor_parallel ? make(ends.linear_input) : nullptr;
  whole.reset();
  TensorRef sorted = make_of(s_.tokens, 8);
  TensorRef order = make_of(s_.tokens, 8);
  weight_gradient(s_.embedding_weight, layer_count_, 0);
}

TensorRef Program::backward(Graph& graph, TensorRef gradient) {
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

void Program::start_gather(Unit& unit) {
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
void Program::finish_gather(Unit& unit, bool forward) {
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
void Program::after_backward(Unit& unit) {
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

void Program::whole_step() {
  for (int i = 0; i < s_.micro_batches; ++i) {
    reduces_ = !s_.accumulates_unsharded || i + 1 == s_.micro_batches;
    Graph graph;
    (void)forward(nullptr, graph);
    (void)backward(graph, nullptr);
  }
}

/// One rank of a pipeline: warm-up, one forward and one backward pass in turn, cool-down. What is sent and received
/// stays referenced until its variable is bound anew.
void Program::pipeline_step() {
  struct InFlight {
    TensorRef input, output;
    Graph graph;
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

ReplayResult Program::run() {
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

}  // namespace

ReplayResult replay_steps(const StepSizes& sizes) {
  StepSizes capped = sizes;
  if (!sizes.all_forward_first) {
    capped.micro_batches = std::min(sizes.micro_batches, sizes.pp - sizes.rank + 2);
  }
  return Program(capped).run();
}

}  // namespace tpplan
