#include "comm-bench/compute_attention_cuda.h"

#if defined(TPPLAN_HAVE_CUDA)

#include "comm-bench/cudnn_graph_cuda.h"

#if defined(TPPLAN_HAVE_CUDNN)

#include <array>
#include <cmath>
#include <iostream>
#include <limits>

#include "comm-bench/attention_reference.h"
#include "comm-bench/cudnn_attention_cuda.h"
#include "comm-bench/payload.h"

namespace tpplan::bench {

namespace {

constexpr int kCopiesInGraph = 2;
constexpr std::size_t kClearedSumsVersion = 90600;  ///< the first version that clears the sum of q's gradient itself
constexpr double kMostOfFreeMemory = 0.9;
/// Of the length of a row of results: bf16 rounds probabilities and results by up to 2^-9 each.
constexpr double kTolerance = 0.02;
constexpr int kKeyFromEnd = 2;
constexpr int kShortSequence =
    1024;  ///< up to here the gradient of the first key, which sums over all rows, is checked

/// Elements of q, k, v and the output's gradient: a random tile each, repeated.
struct Operand {
  explicit Operand(std::uint64_t seed) : tile(seed), bits(tile.bits("bf16")), values(RandomTile::kElements) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = tile.value("bf16", i);
    }
  }
  RandomTile tile;
  std::vector<std::byte> bits;
  std::vector<float> values;
};

struct Operands {
  Operand q{11}, k{12}, v{13}, output_gradient{14};
};

std::size_t product(std::initializer_list<int> factors) {
  std::size_t result = 1;
  for (const int factor : factors) {
    result *= static_cast<std::size_t>(factor);
  }
  return result;
}

/// Where the elements of one row of one head start in memory: batch, sequence, head, element.
std::size_t row_start(const ComputeItem& item, int batch, int row, int head, int heads) {
  return ((static_cast<std::size_t>(batch) * static_cast<std::size_t>(item.seq) + static_cast<std::size_t>(row)) *
              static_cast<std::size_t>(heads) +
          static_cast<std::size_t>(head)) *
         static_cast<std::size_t>(item.head_dim);
}

bool close(const std::vector<double>& expected, const std::vector<float>& got) {
  double difference = 0;
  double length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = static_cast<double>(got[i]) - expected[i];
    difference += error * error;
    length += expected[i] * expected[i];
  }
  return std::isfinite(difference) && difference <= kTolerance * kTolerance * length;
}

/// One shape's memory, its plans, and its check.
class Run {
 public:
  Run(const CudaDevice& device, std::shared_ptr<const CudnnLibrary> library, cudnnHandle_t handle,
      const ComputeItem& item)
      : device_(device),
        library_(std::move(library)),
        handle_(handle),
        item_(item),
        query_elements_(product({item.batch, item.seq, item.heads, item.head_dim})),
        key_elements_(product({item.batch, item.seq, item.kv_heads, item.head_dim})),
        rows_(product({item.batch, item.seq, item.heads})) {}

  /// Bytes of everything but the workspace: four tensors of bf16 and one of fp32 as large as q, four as large as k.
  [[nodiscard]] std::size_t bytes() const { return query_elements_ * 12 + key_elements_ * 8 + rows_ * 8; }

  void allocate() {
    for (DeviceMemory* memory : {&q_, &output_, &output_gradient_, &q_gradient_}) {
      *memory = allocate_device(device_, query_elements_ * 2);
    }
    for (DeviceMemory* memory : {&k_, &v_, &k_gradient_, &v_gradient_}) {
      *memory = allocate_device(device_, key_elements_ * 2);
    }
    q_gradient_sum_ = allocate_device(device_, query_elements_ * 4);
    log_sums_ = allocate_device(device_, rows_ * 4);
    row_products_ = allocate_device(device_, rows_ * 4);
  }

  void fill(const Operands& operands, cudaStream_t stream) {
    const auto fill_one = [&](const DeviceMemory& memory, std::size_t elements, const Operand& operand) {
      fill_tiled(device_, stream, memory.handle(), elements * 2, operand.bits.data(), operand.bits.size());
    };
    fill_one(q_, query_elements_, operands.q);
    fill_one(k_, key_elements_, operands.k);
    fill_one(v_, key_elements_, operands.v);
    fill_one(output_gradient_, query_elements_, operands.output_gradient);
  }

  /// Makes ready to be enqueued; the scalars live in this object, which must not move.
  void prepare(bool backward) {
    const CudnnTarget target{handle_, nullptr};
    AttentionPlan made =
        backward ? plan_attention_backward(library_, target, item_) : plan_attention_forward(library_, target, item_);
    workspace_ = allocate_device(device_, made.plan.workspace_bytes);
    scale_ = 1 / std::sqrt(static_cast<float>(item_.head_dim));
    const AttentionTensors& t = made.tensors;
    CudnnArguments arguments;
    for (const auto& [tensor, address] : {std::pair<CudnnTensor, void*>{t.q, q_.handle()},
                                          {t.k, k_.handle()},
                                          {t.v, v_.handle()},
                                          {t.output, output_.handle()},
                                          {t.log_sums, log_sums_.handle()},
                                          {t.output_gradient, output_gradient_.handle()},
                                          {t.q_gradient, q_gradient_.handle()},
                                          {t.k_gradient, k_gradient_.handle()},
                                          {t.v_gradient, v_gradient_.handle()},
                                          {t.q_gradient_sum, q_gradient_sum_.handle()},
                                          {t.row_products, row_products_.handle()},
                                          {t.scale, &scale_},
                                          {t.excluded, &excluded_},
                                          {t.one, &one_}}) {
      if (tensor != 0) {
        arguments.add(tensor, address);
      }
    }
    arguments_.emplace(bind_arguments(library_, arguments, workspace_.handle()));
    plan_.emplace(std::move(made.plan.plan));
    clears_sum_ = backward && library_->version < kClearedSumsVersion;
  }

  /// Never throws, because it also runs while a CUDA graph is recorded; the first failure is kept.
  void enqueue(cudaStream_t stream) {
    if (clears_sum_) {
      device_.cuda->memset_async(q_gradient_sum_.handle(), 0, query_elements_ * 4, stream);
    }
    const cudnnStatus_t status = library_->execute(handle_, plan_->handle(), arguments_->handle());
    if (status != CUDNN_STATUS_SUCCESS && failure_ == CUDNN_STATUS_SUCCESS) {
      failure_ = status;
    }
  }
  void check_runs() const { library_->check(failure_, "cudnnBackendExecute"); }

  /// Rows of the first and the last head and batch against the host's arithmetic on the same data: output, or gradients
  /// of queries, keys and values.
  [[nodiscard]] bool right(const Operands& operands, bool backward, cudaStream_t stream) const {
    const int rows = item_.seq;
    const int shared_by = item_.heads / item_.kv_heads;
    std::vector<std::pair<int, int>> places{{0, 0}};  // batch, head of the keys
    if (item_.batch * item_.kv_heads > 1) {
      places.emplace_back(item_.batch - 1, item_.kv_heads - 1);
    }
    for (const auto& [batch, kv_head] : places) {
      const AttentionHead first = head_of(operands, batch, kv_head * shared_by);
      for (const int row : {0, rows / 2 + 1, rows - 1}) {
        const AttentionRow expected = attention_row(first, row);
        const std::size_t start = row_start(item_, batch, row, kv_head * shared_by, item_.heads);
        if (!close(backward ? expected.query_gradient : expected.output,
                   read_row(backward ? q_gradient_ : output_, start, stream))) {
          // The first row sees one key: its score has no gradient, and any rounding is larger.
          if (!backward || row > 0) {
            return false;
          }
        }
      }
      if (backward && !keys_right(operands, batch, kv_head, rows - kKeyFromEnd, stream)) {
        return false;
      }
      if (backward && rows <= kShortSequence && !keys_right(operands, batch, kv_head, 0, stream)) {
        return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] bool keys_right(const Operands& operands, int batch, int kv_head, int key, cudaStream_t stream) const {
    const int shared_by = item_.heads / item_.kv_heads;
    std::vector<double> keys(static_cast<std::size_t>(item_.head_dim));
    std::vector<double> values(keys.size());
    for (int i = 0; i < shared_by; ++i) {
      const KeyGradients added = key_gradients(head_of(operands, batch, kv_head * shared_by + i), key);
      for (std::size_t at = 0; at < keys.size(); ++at) {
        keys[at] += added.key[at];
        values[at] += added.value[at];
      }
    }
    const std::size_t start = row_start(item_, batch, key, kv_head, item_.kv_heads);
    return close(keys, read_row(k_gradient_, start, stream)) && close(values, read_row(v_gradient_, start, stream));
  }

  [[nodiscard]] AttentionHead head_of(const Operands& operands, int batch, int head) const {
    AttentionHead result;
    result.width = item_.head_dim;
    const auto gather = [&](const Operand& operand, int heads, int which, std::vector<float>& to) {
      to.reserve(product({item_.seq, item_.head_dim}));
      for (int row = 0; row < item_.seq; ++row) {
        const std::size_t start = row_start(item_, batch, row, which, heads);
        for (std::size_t i = 0; i < static_cast<std::size_t>(item_.head_dim); ++i) {
          to.push_back(operand.values[(start + i) % RandomTile::kElements]);
        }
      }
    };
    const int kv_head = head / (item_.heads / item_.kv_heads);
    gather(operands.q, item_.heads, head, result.queries);
    gather(operands.k, item_.kv_heads, kv_head, result.keys);
    gather(operands.v, item_.kv_heads, kv_head, result.values);
    gather(operands.output_gradient, item_.heads, head, result.output_gradients);
    return result;
  }

  [[nodiscard]] std::vector<float> read_row(const DeviceMemory& memory, std::size_t start, cudaStream_t stream) const {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(item_.head_dim));
    device_.check(device_.cuda->memcpy_async(bits.data(), static_cast<const std::uint16_t*>(memory.handle()) + start,
                                             bits.size() * sizeof bits[0], cudaMemcpyDeviceToHost, stream),
                  "cudaMemcpyAsync");
    device_.check(device_.cuda->stream_synchronize(stream), "cudaStreamSynchronize");
    std::vector<float> values;
    for (const std::uint16_t bit : bits) {
      values.push_back(from_bf16(bit));
    }
    return values;
  }

  CudaDevice device_;
  std::shared_ptr<const CudnnLibrary> library_;
  cudnnHandle_t handle_;
  ComputeItem item_;
  std::size_t query_elements_, key_elements_, rows_;
  DeviceMemory q_, k_, v_, output_, log_sums_, output_gradient_, q_gradient_, k_gradient_, v_gradient_, q_gradient_sum_,
      row_products_, workspace_;
  float scale_ = 1;
  float excluded_ = std::numeric_limits<float>::lowest();  ///< score of a key after its query
  float one_ = 1;
  std::optional<CudnnDescriptor> plan_, arguments_;
  bool clears_sum_ = false;
  cudnnStatus_t failure_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace

struct CudaAttention::State {
  State(const CudaDevice& on, std::shared_ptr<const CudnnLibrary> opened) : device(on), library(std::move(opened)) {
    library->check(library->create(&handle), "cudnnCreate");
  }
  ~State() {
    if (handle != nullptr && std::uncaught_exceptions() == 0) {
      library->destroy(handle);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  CudaDevice device;
  std::shared_ptr<const CudnnLibrary> library;
  cudnnHandle_t handle = nullptr;
  Operands operands;
};

std::unique_ptr<CudaAttention> CudaAttention::open(const CudaDevice& device, std::string& problem) {
  const std::shared_ptr<const CudnnLibrary> library = CudnnLibrary::open(problem);
  if (!library) {
    return nullptr;
  }
  try {
    return std::unique_ptr<CudaAttention>(new CudaAttention(std::make_unique<State>(device, library)));
  } catch (const CudnnError& error) {
    problem = error.what();
    return nullptr;
  }
}

CudaAttention::CudaAttention(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaAttention::~CudaAttention() = default;

ComputeResult CudaAttention::measure(const ComputeItem& item, GraphTimer& timer, const Poll& poll) {
  State& s = *state_;
  const bool backward = item.pass == "backward";
  ComputeResult result;
  Run run(s.device, s.library, s.handle, item);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  s.device.check(s.device.cuda->memory_info(&free_bytes, &total), "cudaMemGetInfo");
  if (static_cast<double>(run.bytes()) > kMostOfFreeMemory * static_cast<double>(free_bytes)) {
    result.unsupported = "needs " + format(Bytes(static_cast<double>(run.bytes())));
    return result;
  }
  try {
    s.library->check(s.library->set_stream(s.handle, timer.stream()), "cudnnSetStream");
    run.allocate();
    run.fill(s.operands, timer.stream());
    run.prepare(false);
    const Enqueue enqueue = [&](cudaStream_t stream) { run.enqueue(stream); };
    if (backward) {
      // The backward pass reads the output and the sums that a forward pass leaves.
      run.enqueue(timer.stream());
      timer.finish(poll);
      run.check_runs();
      run.prepare(true);
    }
    run.enqueue(timer.stream());
    timer.finish(poll);
    run.check_runs();
    result.samples = timer.time(enqueue, kCopiesInGraph, poll);
    run.check_runs();
    result.check = run.right(s.operands, backward, timer.stream()) ? Check::ok : Check::wrong;
  } catch (const CudnnError& error) {
    result.samples.clear();
    result.unsupported = error.what();
  }
  return result;
}

}  // namespace tpplan::bench

#else

namespace tpplan::bench {

struct CudaAttention::State {};

std::unique_ptr<CudaAttention> CudaAttention::open(const CudaDevice& /*device*/, std::string& problem) {
  problem = "comm-bench was built without cuDNN's headers: build it where cudnn_graph.h of cuDNN 9 is found";
  return nullptr;
}
CudaAttention::CudaAttention(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaAttention::~CudaAttention() = default;
ComputeResult CudaAttention::measure(const ComputeItem& /*item*/, GraphTimer& /*timer*/, const Poll& /*poll*/) {
  return {};
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDNN

#endif  // TPPLAN_HAVE_CUDA
