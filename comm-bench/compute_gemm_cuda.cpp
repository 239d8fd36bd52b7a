#include "comm-bench/compute_gemm_cuda.h"

#if defined(TPPLAN_HAVE_CUDA)

#include <cublasLt.h>

#include <array>
#include <cmath>
#include <cstring>

#include "comm-bench/payload.h"

namespace tpplan::bench {

namespace {

constexpr std::size_t kWorkspaceNew = std::size_t{32} << 20;
constexpr std::size_t kWorkspaceOld = std::size_t{8} << 20;
constexpr int kSampledElements = 6;

struct BlasFunctions {
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtDestroy) destroy;
  decltype(&::cublasLtMatmul) matmul;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&::cublasLtMatmulDescCreate) desc_create;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set;

  static BlasFunctions open() {
    std::string problem;
    const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::cublas_lt, problem);
    if (!library) throw CommError(problem);
    BlasFunctions blas{};
    const auto bind = [&](auto& function, const char* name) {
      function = library->find<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
      if (function == nullptr) throw CommError(library->path() + " lacks " + name + ": cuBLAS 11 or later is needed");
    };
    bind(blas.create, "cublasLtCreate");
    bind(blas.destroy, "cublasLtDestroy");
    bind(blas.matmul, "cublasLtMatmul");
    bind(blas.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    bind(blas.desc_create, "cublasLtMatmulDescCreate");
    bind(blas.desc_destroy, "cublasLtMatmulDescDestroy");
    bind(blas.desc_set, "cublasLtMatmulDescSetAttribute");
    bind(blas.layout_create, "cublasLtMatrixLayoutCreate");
    bind(blas.layout_destroy, "cublasLtMatrixLayoutDestroy");
    bind(blas.preference_create, "cublasLtMatmulPreferenceCreate");
    bind(blas.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    bind(blas.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    return blas;
  }
};

struct TypeRow {
  const char* dtype;
  cudaDataType_t in, out;
  cublasComputeType_t compute;
  std::size_t in_bytes, out_bytes;
};
constexpr std::array<TypeRow, 4> kTypes{{{"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2, 2},
                                         {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 2, 2},
                                         {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4, 4},
                                         {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1, 2}}};

/// A column-major product C[rows, columns] = op(A) op(B), as cuBLAS sees a row-major one of the layer.
struct Product {
  int rows, columns, inner;
  bool a_transposed, b_transposed;
  [[nodiscard]] int lda() const { return a_transposed ? inner : rows; }
  [[nodiscard]] int ldb() const { return b_transposed ? columns : inner; }
  [[nodiscard]] std::size_t a_at(int row, int l) const { return a_transposed ? at(l, row, inner) : at(row, l, rows); }
  [[nodiscard]] std::size_t b_at(int l, int column) const {
    return b_transposed ? at(column, l, columns) : at(l, column, inner);
  }
  [[nodiscard]] std::size_t c_at(int row, int column) const { return at(row, column, rows); }
  static std::size_t at(int row, int column, int leading) {
    return static_cast<std::size_t>(column) * static_cast<std::size_t>(leading) + static_cast<std::size_t>(row);
  }
};

Product product_of(const ComputeItem& item) {
  // A row-major matrix is the transpose of a column-major one, so each result is computed transposed. 8-bit products
  // exist only as transposed times plain: frameworks keep transposed copies of the operands for the backward passes.
  const bool eight_bit = item.dtype == "fp8";
  if (item.pass == "dgrad") return {item.k, item.m, item.n, eight_bit, false};
  if (item.pass == "wgrad") return {item.k, item.n, item.m, eight_bit, !eight_bit};
  return {item.n, item.m, item.k, true, false};
}

std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

}  // namespace

struct CudaGemm::State {
  State(const CudaDevice& on, int capability_major, std::size_t bytes)
      : device(on),
        blas(BlasFunctions::open()),
        buffer_bytes(bytes),
        workspace_bytes(capability_major >= 9 ? kWorkspaceNew : kWorkspaceOld),
        a(allocate_device(device, bytes)),
        b(allocate_device(device, bytes)),
        c(allocate_device(device, bytes)),
        workspace(allocate_device(device, workspace_bytes)) {
    check(blas.create(&handle), "cublasLtCreate");
  }
  ~State() {
    if (handle != nullptr && std::uncaught_exceptions() == 0) blas.destroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void check(cublasStatus_t code, const char* call) const {
    if (code == CUBLAS_STATUS_SUCCESS) return;
    throw CommError(call, device.rank, device.place, "cuBLAS status " + std::to_string(static_cast<int>(code)));
  }

  [[nodiscard]] Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t kind, int rows, int columns, int leading) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(
        blas.layout_create(&made, kind, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), leading),
        "cublasLtMatrixLayoutCreate");
    return {made, blas.layout_destroy};
  }

  void fill(const TypeRow& row, cudaStream_t stream) {
    if (filled_with == row.dtype) return;
    const std::string format = std::strcmp(row.dtype, "tf32") == 0 ? "fp32" : row.dtype;
    const std::vector<std::byte> first = left.bits(format);
    const std::vector<std::byte> second = right.bits(format);
    fill_tiled(device, stream, a.handle(), buffer_bytes, first.data(), first.size());
    fill_tiled(device, stream, b.handle(), buffer_bytes, second.data(), second.size());
    filled_with = row.dtype;
  }

  CudaDevice device;
  BlasFunctions blas;
  std::size_t buffer_bytes, workspace_bytes;
  DeviceMemory a, b, c, workspace;
  RandomTile left{1}, right{2};
  std::string filled_with;
  cublasLtHandle_t handle = nullptr;
  // The prepared product.
  Owned<cublasLtMatmulDesc_t> desc{nullptr, nullptr};
  Owned<cublasLtMatrixLayout_t> a_layout{nullptr, nullptr}, b_layout{nullptr, nullptr}, c_layout{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm{};
};

CudaGemm::CudaGemm(const CudaDevice& device, int capability_major, std::size_t buffer_bytes)
    : state_(std::make_unique<State>(device, capability_major, buffer_bytes)) {}
CudaGemm::~CudaGemm() = default;
CudaGemm::CudaGemm(CudaGemm&&) noexcept = default;
CudaGemm& CudaGemm::operator=(CudaGemm&&) noexcept = default;

std::string CudaGemm::prepare(const ComputeItem& item, cudaStream_t stream) {
  State& s = *state_;
  const TypeRow* row = nullptr;
  for (const TypeRow& candidate : kTypes) {
    if (item.dtype == candidate.dtype) row = &candidate;
  }
  if (row == nullptr) return "no such type: " + item.dtype;
  const Product product = product_of(item);
  const std::size_t needed = std::max({elements(product.rows, product.inner) * row->in_bytes,
                                       elements(product.inner, product.columns) * row->in_bytes,
                                       elements(product.rows, product.columns) * row->out_bytes});
  if (needed > s.buffer_bytes) return "needs an operand of " + format(Bytes(static_cast<double>(needed)));
  s.fill(*row, stream);

  cublasLtMatmulDesc_t desc = nullptr;
  s.check(s.blas.desc_create(&desc, row->compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  s.desc = {desc, s.blas.desc_destroy};
  const cublasOperation_t a_operation = product.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b_operation = product.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  s.check(s.blas.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &a_operation, sizeof a_operation), "TRANSA");
  s.check(s.blas.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &b_operation, sizeof b_operation), "TRANSB");
  s.a_layout = s.layout(row->in, product.a_transposed ? product.inner : product.rows,
                        product.a_transposed ? product.rows : product.inner, product.lda());
  s.b_layout = s.layout(row->in, product.b_transposed ? product.columns : product.inner,
                        product.b_transposed ? product.inner : product.columns, product.ldb());
  s.c_layout = s.layout(row->out, product.rows, product.columns, product.rows);

  cublasLtMatmulPreference_t made = nullptr;
  s.check(s.blas.preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(made, s.blas.preference_destroy);
  s.check(s.blas.preference_set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &s.workspace_bytes,
                                sizeof s.workspace_bytes),
          "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t code = s.blas.heuristic(s.handle, desc, s.a_layout.get(), s.b_layout.get(), s.c_layout.get(),
                                               s.c_layout.get(), made, 1, &found, &count);
  if (code != CUBLAS_STATUS_SUCCESS || count == 0) return "cuBLASLt has no algorithm for it";
  s.algorithm = found.algo;
  return {};
}

void CudaGemm::enqueue(cudaStream_t stream) {
  const State& s = *state_;
  const float one = 1;
  const float zero = 0;
  s.check(s.blas.matmul(s.handle, s.desc.get(), &one, s.a.handle(), s.a_layout.get(), s.b.handle(), s.b_layout.get(),
                        &zero, s.c.handle(), s.c_layout.get(), s.c.handle(), s.c_layout.get(), &s.algorithm,
                        s.workspace.handle(), s.workspace_bytes, stream),
          "cublasLtMatmul");
}

Check CudaGemm::verify(const ComputeItem& item, cudaStream_t stream) {
  State& s = *state_;
  const Product product = product_of(item);
  const bool single = item.dtype == "tf32";
  const std::string format = single ? "fp32" : item.dtype;
  for (int i = 0; i < kSampledElements; ++i) {
    // Corners and points inside, far apart in both directions.
    const int row = static_cast<int>(static_cast<long long>(product.rows - 1) * i / (kSampledElements - 1));
    const int column = static_cast<int>(static_cast<long long>(product.columns - 1) * (i * 3 % kSampledElements) /
                                        (kSampledElements - 1));
    double expected = 0;
    for (int l = 0; l < product.inner; ++l) {
      expected += static_cast<double>(s.left.value(format, product.a_at(row, l))) *
                  static_cast<double>(s.right.value(format, product.b_at(l, column)));
    }
    const std::size_t bytes = single ? 4 : 2;
    std::array<std::byte, 4> bits{};
    s.device.check(s.device.cuda->memcpy_async(
                       bits.data(), static_cast<const std::byte*>(s.c.handle()) + product.c_at(row, column) * bytes,
                       bytes, cudaMemcpyDeviceToHost, stream),
                   "cudaMemcpyAsync");
    s.device.check(s.device.cuda->stream_synchronize(stream), "cudaStreamSynchronize");
    float got = 0;
    if (single) {
      std::memcpy(&got, bits.data(), sizeof got);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, bits.data(), sizeof half);
      got = item.dtype == "fp16" ? from_fp16(half) : from_bf16(half);
    }
    // Rounding of the result (2^-8 in bf16) and of the sum; products of normal values add up to about sqrt(inner).
    const double tolerance = 0.01 * std::abs(expected) + 0.01 * std::sqrt(static_cast<double>(product.inner));
    if (!(std::abs(static_cast<double>(got) - expected) <= tolerance)) return Check::wrong;
  }
  return Check::ok;
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
