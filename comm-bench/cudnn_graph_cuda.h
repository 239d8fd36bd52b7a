#pragma once

// Operation graphs of cuDNN 9 through its backend interface; declares nothing without the headers of both.
#if defined(TPPLAN_HAVE_CUDA) && __has_include(<cudnn_graph.h>)
#define TPPLAN_HAVE_CUDNN 1

#include <cudnn_graph.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tpplan::bench {

/// Functions of libcudnn by their own names; the types come from its header.
struct CudnnLibrary {
  decltype(&::cudnnCreate) create;
  decltype(&::cudnnDestroy) destroy;
  decltype(&::cudnnSetStream) set_stream;
  decltype(&::cudnnGetErrorString) error_string;
  decltype(&::cudnnGetLastErrorString) last_error_string;  ///< null where the library has none
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&::cudnnBackendSetAttribute) set_attribute;
  decltype(&::cudnnBackendGetAttribute) attribute;
  decltype(&::cudnnBackendFinalize) finalize;
  decltype(&::cudnnBackendExecute) execute;
  std::size_t version;  ///< 91900: 9.19.0

  /// Null with `problem` filled when the library is missing, older than 9, or lacks a function.
  static std::shared_ptr<const CudnnLibrary> open(std::string& problem);

  /// Throws CudnnError "CALL: STATUS (the library's own explanation)" on failure.
  void check(cudnnStatus_t status, const std::string& call) const;
};

/// A call that cuDNN refused: the measurement is left out, the program goes on.
class CudnnError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What plans are made for: a handle on this process's GPU, or, to make them where there is none, a finalized
/// description of a GPU (cuDNN 9.11 and later).
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
};

class CudnnDescriptor {
 public:
  CudnnDescriptor(std::shared_ptr<const CudnnLibrary> library, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count, const void* values);
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.handle_);
  }
  void finalize(const std::string& what);
  [[nodiscard]] cudnnBackendDescriptor_t handle() const { return handle_; }
  [[nodiscard]] const CudnnLibrary& library() const { return *library_; }

 private:
  std::shared_ptr<const CudnnLibrary> library_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// Sizes of a tensor's four dimensions (batch, head, row, column) and the elements between neighbours along each.
struct CudnnShape {
  std::array<std::int64_t, 4> size;
  std::array<std::int64_t, 4> stride;

  /// Without gaps, the last dimension innermost.
  static CudnnShape packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns);
  /// Rows and columns exchanged, the data where it is.
  [[nodiscard]] CudnnShape transposed() const;
};

/// A tensor of a graph; numbered from 1, which is also its name when the graph runs.
using CudnnTensor = std::int64_t;

/// An execution plan and its workspace.
struct CudnnPlan {
  CudnnDescriptor plan;
  std::size_t workspace_bytes;
};

/// Builds a graph of operations on tensors; every failure is a CudnnError.
class CudnnGraph {
 public:
  explicit CudnnGraph(std::shared_ptr<const CudnnLibrary> library) : library_(std::move(library)) {}

  /// In memory that the caller gives when the graph runs.
  CudnnTensor given(const CudnnShape& shape, cudnnDataType_t type);
  /// One float that the caller gives in host memory when the graph runs.
  CudnnTensor scalar();
  /// Exists only inside the graph.
  CudnnTensor inner(const CudnnShape& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT);

  void matmul(CudnnTensor a, CudnnTensor b, CudnnTensor c);
  /// y = op(x), or op(x, b).
  void pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, std::optional<CudnnTensor> b, CudnnTensor y,
                 cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT);
  /// y = row or column number of each element of x, for dimension `axis`.
  void index(CudnnTensor x, std::int64_t axis, CudnnTensor y);
  /// y = x where `choose`, else b.
  void select(CudnnTensor x, CudnnTensor b, CudnnTensor choose, CudnnTensor y);
  /// Over the dimensions that have one element in y.
  void reduce(cudnnReduceTensorOp_t operation, CudnnTensor x, CudnnTensor y);
  void reshape(CudnnTensor x, CudnnTensor y);

  /// The first plan that cuDNN's heuristics name and can build; the error of the last one tried when none can.
  [[nodiscard]] CudnnPlan plan(const CudnnTarget& target);

 private:
  enum class Storage { given, scalar, inner };
  CudnnTensor add(const CudnnShape& shape, cudnnDataType_t type, Storage storage);
  [[nodiscard]] const CudnnDescriptor& of(CudnnTensor tensor) const {
    return tensors_[static_cast<std::size_t>(tensor - 1)];
  }
  CudnnDescriptor pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic,
                                      std::optional<std::int64_t> axis);
  std::shared_ptr<const CudnnLibrary> library_;
  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> details_;     ///< what operations refer to
  std::vector<CudnnDescriptor> operations_;  ///< in the order of their addition
};

/// The memory of a graph's given tensors and scalars while it runs.
struct CudnnArguments {
  std::vector<std::int64_t> tensors;
  std::vector<void*> addresses;
  void add(CudnnTensor tensor, void* address) {
    tensors.push_back(tensor);
    addresses.push_back(address);
  }
};

/// Ready to run a plan with these arguments again and again.
CudnnDescriptor bind_arguments(const std::shared_ptr<const CudnnLibrary>& library, const CudnnArguments& arguments,
                               void* workspace);

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA and cuDNN
