#include "planner/import/kernel_classes.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace tpplan {
namespace {

template <class Value>
struct NamePart {
  std::string_view part;  ///< in small letters
  Value value;
};

/// The first part that occurs decides, so that the special stand before the general. Sources of the names: cuBLAS
/// (nvjet, gemm, xmma), CUTLASS, cuDNN, FlashAttention, Transformer Engine, Apex, Liger, DeepEP, NCCL, RCCL and
/// PyTorch's ATen and Inductor kernels as they appear in profiler traces.
constexpr auto kParts = std::to_array<NamePart<KernelClass>>({
    {"nccl", KernelClass::communication},
    {"rccl", KernelClass::communication},
    {"deep_ep", KernelClass::communication},
    {"nvshmem", KernelClass::communication},
    {"cross_device_reduce", KernelClass::communication},
    {"multimem_", KernelClass::communication},
    {"userbuffers", KernelClass::communication},
    {"memcpy", KernelClass::copy},
    {"memset", KernelClass::copy},
    {"adam", KernelClass::optimizer},
    {"optimizer", KernelClass::optimizer},
    {"multi_tensor", KernelClass::optimizer},
    {"multitensor", KernelClass::optimizer},
    {"muon", KernelClass::optimizer},
    {"normtwoops", KernelClass::optimizer},  // the sum of squares of PyTorch's gradient clipping
    {"sgd", KernelClass::optimizer},
    {"flash", KernelClass::attention},
    {"fmha", KernelClass::attention},
    {"attention", KernelClass::attention},
    {"attn", KernelClass::attention},
    {"sdpa", KernelClass::attention},
    {"compute_dot_do_o", KernelClass::attention},
    {"convert_dq_to", KernelClass::attention},
    {"flex_", KernelClass::attention},
    {"softmax_warp", KernelClass::attention},
    {"scaled_masked_softmax", KernelClass::attention},
    {"scaled_upper_triang", KernelClass::attention},
    {"dot_do_o", KernelClass::attention},
    {"layer_norm", KernelClass::norm},
    {"layernorm", KernelClass::norm},
    {"rms_norm", KernelClass::norm},
    {"rmsnorm", KernelClass::norm},
    {"gammabeta", KernelClass::norm},
    {"ln_fwd", KernelClass::norm},
    {"ln_bwd", KernelClass::norm},
    {"cucomputegradinput", KernelClass::norm},
    {"cuapplylayernorm", KernelClass::norm},
    {"nvjet", KernelClass::gemm},
    {"gemm", KernelClass::gemm},
    {"gemv", KernelClass::gemm},
    {"cublas", KernelClass::gemm},
    {"cutlass", KernelClass::gemm},
    {"xmma", KernelClass::gemm},
    {"splitk", KernelClass::gemm},
    {"cijk_", KernelClass::gemm},
    {"s16816", KernelClass::gemm},
    {"s1688", KernelClass::gemm},
    {"triton_mm", KernelClass::gemm},
    {"_mm_kernel", KernelClass::gemm},
    {"matmul", KernelClass::gemm},
    {"grouped_mm", KernelClass::gemm},
    {"triton_", KernelClass::elementwise},
    {"elementwise", KernelClass::elementwise},
    {"at::native", KernelClass::elementwise},
    {"reduce_kernel", KernelClass::elementwise},
    {"catarray", KernelClass::elementwise},
    {"embedding", KernelClass::elementwise},
    {"gather", KernelClass::elementwise},
    {"scatter", KernelClass::elementwise},
    {"softmax", KernelClass::elementwise},
    {"cross_entropy", KernelClass::elementwise},
    {"dropout", KernelClass::elementwise},
    {"swiglu", KernelClass::elementwise},
    {"geglu", KernelClass::elementwise},
    {"gelu", KernelClass::elementwise},
    {"silu", KernelClass::elementwise},
    {"rope", KernelClass::elementwise},
    {"rotary", KernelClass::elementwise},
    {"cast", KernelClass::elementwise},
    {"transpose", KernelClass::elementwise},
    {"quantize", KernelClass::elementwise},
    {"permute", KernelClass::elementwise},
    {"cub::", KernelClass::elementwise},
    {"thrust::", KernelClass::elementwise},
    {"radix", KernelClass::elementwise},
    {"fill", KernelClass::elementwise},
    {"copy", KernelClass::elementwise},
    {"transformer_engine", KernelClass::elementwise},
});

constexpr auto kCommunicationParts = std::to_array<NamePart<CommunicationKind>>({
    {"allreduce", CommunicationKind::all_reduce},
    {"all_reduce", CommunicationKind::all_reduce},
    {"cross_device_reduce", CommunicationKind::all_reduce},
    {"allgather", CommunicationKind::all_gather},
    {"all_gather", CommunicationKind::all_gather},
    {"reducescatter", CommunicationKind::reduce_scatter},
    {"reduce_scatter", CommunicationKind::reduce_scatter},
    {"alltoall", CommunicationKind::all_to_all},
    {"dispatch", CommunicationKind::all_to_all},
    {"combine", CommunicationKind::all_to_all},
    {"sendrecv", CommunicationKind::send_recv},
    {"broadcast", CommunicationKind::broadcast},
});

template <class Table, class Value>
Value first_in(const Table& table, std::string_view name, Value otherwise) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& row : table) {
    if (small.find(row.part) != std::string::npos) {
      return row.value;
    }
  }
  return otherwise;
}

}  // namespace

KernelClass class_of_kernel(std::string_view name) { return first_in(kParts, name, KernelClass::unknown); }

CommunicationKind communication_of_kernel(std::string_view name) {
  return first_in(kCommunicationParts, name, CommunicationKind::other);
}

}  // namespace tpplan
