#include "comm-bench/cudnn_graph_cuda.h"

#if defined(TPPLAN_HAVE_CUDNN)

#include <algorithm>
#include <utility>

#include "comm-bench/cuda_libs.h"

namespace tpplan::bench {

namespace {

constexpr std::size_t kOldestVersion = 90000;
constexpr std::int64_t kAlignment = 16;  ///< bytes; what cudaMalloc gives is aligned to more
constexpr std::int64_t kMostPlans = 16;
constexpr int kMessageBytes = 512;
constexpr std::array<cudnnBackendHeurMode_t, 2> kHeuristics{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};

// Newer headers mark these two names as deprecated, older libraries need them.
constexpr auto kGraphHandle = static_cast<cudnnBackendAttributeName_t>(800);
constexpr auto kPlanHandle = static_cast<cudnnBackendAttributeName_t>(400);
// cuDNN 9.11: plans for a described GPU.
constexpr auto kHeuristicsDevice = static_cast<cudnnBackendAttributeName_t>(204);
constexpr auto kPlanDevice = static_cast<cudnnBackendAttributeName_t>(407);

}  // namespace

std::shared_ptr<const CudnnLibrary> CudnnLibrary::open(std::string& problem) {
  const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::cudnn, problem);
  if (!library) {
    return nullptr;
  }
  auto dnn = std::make_shared<CudnnLibrary>();
  std::string missing;
  const auto bind = [&](auto& function, const char* name) {
    function = library->find<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
    if (function == nullptr) {
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
  };
  bind(dnn->last_error_string, "cudnnGetLastErrorString");
  missing.clear();  // may be missing
  bind(dnn->create, "cudnnCreate");
  bind(dnn->destroy, "cudnnDestroy");
  bind(dnn->set_stream, "cudnnSetStream");
  bind(dnn->error_string, "cudnnGetErrorString");
  bind(dnn->create_descriptor, "cudnnBackendCreateDescriptor");
  bind(dnn->destroy_descriptor, "cudnnBackendDestroyDescriptor");
  bind(dnn->set_attribute, "cudnnBackendSetAttribute");
  bind(dnn->attribute, "cudnnBackendGetAttribute");
  bind(dnn->finalize, "cudnnBackendFinalize");
  bind(dnn->execute, "cudnnBackendExecute");
  auto* version = library->find<std::size_t()>("cudnnGetVersion");
  dnn->version = version == nullptr ? 0 : version();
  if (missing.empty() && dnn->version >= kOldestVersion) {
    return dnn;
  }
  problem = library->path() + (missing.empty() ? " is older than cuDNN 9" : " lacks " + missing);
  return nullptr;
}

void CudnnLibrary::check(cudnnStatus_t status, const std::string& call) const {
  if (status == CUDNN_STATUS_SUCCESS) {
    return;
  }
  std::string text = call + ": " + error_string(status);
  if (last_error_string != nullptr) {
    std::array<char, kMessageBytes> reason{};
    last_error_string(reason.data(), reason.size());
    reason.back() = '\0';
    if (reason.front() != '\0') {
      text += std::string(" (") + reason.data() + ")";
    }
  }
  throw CudnnError(text);
}

CudnnDescriptor::CudnnDescriptor(std::shared_ptr<const CudnnLibrary> library, cudnnBackendDescriptorType_t type)
    : library_(std::move(library)) {
  library_->check(library_->create_descriptor(type, &handle_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) {
    library_->destroy_descriptor(handle_);
  }
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(std::move(other.library_)), handle_(std::exchange(other.handle_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(handle_, other.handle_);
  return *this;
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                          const void* values) {
  library_->check(library_->set_attribute(handle_, name, type, static_cast<std::int64_t>(count), values),
                  "cudnnBackendSetAttribute " + std::to_string(static_cast<int>(name)));
}

void CudnnDescriptor::finalize(const std::string& what) { library_->check(library_->finalize(handle_), what); }

CudnnShape CudnnShape::packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

CudnnShape CudnnShape::transposed() const {
  CudnnShape shape = *this;
  std::swap(shape.size[2], shape.size[3]);
  std::swap(shape.stride[2], shape.stride[3]);
  return shape;
}

CudnnTensor CudnnGraph::add(const CudnnShape& shape, cudnnDataType_t type, Storage storage) {
  const auto number = static_cast<CudnnTensor>(tensors_.size() + 1);
  CudnnDescriptor tensor(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape.size.size(), shape.size.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape.stride.size(), shape.stride.data());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, storage == Storage::inner);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, storage == Storage::scalar);
  tensor.finalize("tensor " + std::to_string(number));
  tensors_.push_back(std::move(tensor));
  return number;
}

CudnnTensor CudnnGraph::given(const CudnnShape& shape, cudnnDataType_t type) {
  return add(shape, type, Storage::given);
}
CudnnTensor CudnnGraph::scalar() { return add(CudnnShape::packed(1, 1, 1, 1), CUDNN_DATA_FLOAT, Storage::scalar); }
CudnnTensor CudnnGraph::inner(const CudnnShape& shape, cudnnDataType_t type) {
  return add(shape, type, Storage::inner);
}

void CudnnGraph::matmul(CudnnTensor a, CudnnTensor b, CudnnTensor c) {
  CudnnDescriptor& detail = details_.emplace_back(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  detail.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  detail.finalize("matmul");
  CudnnDescriptor operation(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, detail);
  operation.finalize("matmul operation");
  operations_.push_back(std::move(operation));
}

CudnnDescriptor CudnnGraph::pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic,
                                                std::optional<std::int64_t> axis) {
  CudnnDescriptor& detail = details_.emplace_back(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  detail.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  detail.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, arithmetic);
  if (axis) {
    detail.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *axis);
  }
  detail.finalize("pointwise " + std::to_string(static_cast<int>(mode)));
  CudnnDescriptor operation(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, detail);
  return operation;
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, std::optional<CudnnTensor> b, CudnnTensor y,
                           cudnnDataType_t arithmetic) {
  CudnnDescriptor operation = pointwise_operation(mode, arithmetic, std::nullopt);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  if (b) {
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(*b));
  }
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  operation.finalize("pointwise operation " + std::to_string(static_cast<int>(mode)));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::index(CudnnTensor x, std::int64_t axis, CudnnTensor y) {
  CudnnDescriptor operation = pointwise_operation(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  operation.finalize("index operation");
  operations_.push_back(std::move(operation));
}

void CudnnGraph::select(CudnnTensor x, CudnnTensor b, CudnnTensor choose, CudnnTensor y) {
  CudnnDescriptor operation = pointwise_operation(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, std::nullopt);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(choose));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  operation.finalize("select operation");
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operator_kind, CudnnTensor x, CudnnTensor y) {
  CudnnDescriptor& detail = details_.emplace_back(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  detail.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operator_kind);
  detail.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  detail.finalize("reduction");
  CudnnDescriptor operation(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, detail);
  operation.finalize("reduction operation");
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reshape(CudnnTensor x, CudnnTensor y) {
  CudnnDescriptor operation(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
  operation.finalize("reshape operation");
  operations_.push_back(std::move(operation));
}

CudnnPlan CudnnGraph::plan(const CudnnTarget& target) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnDescriptor& operation : operations_) {
    handles.push_back(operation.handle());
  }
  CudnnDescriptor graph(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles.size(), handles.data());
  if (target.handle != nullptr) {
    graph.set(kGraphHandle, CUDNN_TYPE_HANDLE, target.handle);
  }
  graph.finalize("operation graph");

  std::string refusal;  // of the plan that the heuristics prefer
  const auto refuse = [&](const CudnnError& error) {
    if (refusal.empty()) {
      refusal = error.what();
    }
  };
  for (const cudnnBackendHeurMode_t mode : kHeuristics) {
    try {
      CudnnDescriptor heuristics(library_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
      if (target.device != nullptr) {
        heuristics.set(kHeuristicsDevice, CUDNN_TYPE_BACKEND_DESCRIPTOR, target.device);
      }
      heuristics.finalize("heuristics");
      std::vector<CudnnDescriptor> engines;
      std::vector<cudnnBackendDescriptor_t> found;
      for (std::int64_t i = 0; i < kMostPlans; ++i) {
        engines.emplace_back(library_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        found.push_back(engines.back().handle());
      }
      std::int64_t count = 0;
      library_->check(library_->attribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostPlans, &count, found.data()),
                      "engines of the heuristics");
      for (std::size_t i = 0; i < static_cast<std::size_t>(std::min(count, kMostPlans)); ++i) {
        try {
          CudnnDescriptor plan(library_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
          plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[i]);
          if (target.handle != nullptr) {
            plan.set(kPlanHandle, CUDNN_TYPE_HANDLE, target.handle);
          }
          if (target.device != nullptr) {
            plan.set(kPlanDevice, CUDNN_TYPE_BACKEND_DESCRIPTOR, target.device);
          }
          plan.finalize("execution plan");
          std::int64_t workspace = 0;
          std::int64_t values = 0;
          library_->check(library_->attribute(plan.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                              1, &values, &workspace),
                          "workspace size");
          return {std::move(plan), static_cast<std::size_t>(workspace)};
        } catch (const CudnnError& error) {
          refuse(error);
        }
      }
    } catch (const CudnnError& error) {
      refuse(error);
    }
  }
  throw CudnnError(refusal.empty() ? "cuDNN's heuristics name no engine" : refusal);
}

CudnnDescriptor bind_arguments(const std::shared_ptr<const CudnnLibrary>& library, const CudnnArguments& arguments,
                               void* workspace) {
  CudnnDescriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, arguments.tensors.size(), arguments.tensors.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, arguments.addresses.size(),
           arguments.addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("arguments");
  return pack;
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDNN
