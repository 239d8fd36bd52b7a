#include "cost-model/data_loading.h"

#include <array>

namespace tpplan {
namespace {

constexpr int kBatchesPerWorker = 2;  ///< prefetch_factor of torch.utils.data.DataLoader
/// Token files of larger vocabularies have 4 bytes a token: megatron/core/datasets/indexed_dataset.py.
constexpr int kLargestTwoByteVocabulary = 65536;
constexpr Bytes kTokenAndLabel(16);  ///< 64-bit integers

struct LoaderRow {
  Framework framework;
  int workers;  ///< by default; 0: the training process loads
};
constexpr std::array<LoaderRow, kFrameworkTable.size()> kLoaders{{
    {Framework::megatron, 2},            // --num-workers, megatron/training/arguments.py
    {Framework::megatron_deepspeed, 2},  // the same option
    {Framework::deepspeed, 2},           // num_local_io_workers: two for a process of one GPU, runtime/dataloader.py
    {Framework::fsdp, 0},                // torch.utils.data.DataLoader
    {Framework::torchtitan, 0},          // its loader sets no workers, torchtitan/components/dataloader.py
    {Framework::nanotron, 1},            // num_loading_workers, config/config.py
    {Framework::internevo, 4},           // num_worker, internlm/data/build_dataloader.py; of whole steps
    {Framework::plain, 0},               // torch.utils.data.DataLoader
}};

}  // namespace

DataLoading data_loading(const Job& job, const Layout& layout) {
  DataLoading out;
  out.ahead = kLoaders[static_cast<std::size_t>(job.training.framework)].workers * kBatchesPerWorker;
  const double tokens = static_cast<double>(layout.micro_batch) * job.training.seq;
  const auto& cluster = job.cluster;
  if (cluster.storage_read.raw() > 0) {
    const double bytes = job.model.vocab <= kLargestTwoByteVocabulary ? 2 : 4;
    out.per_micro_batch += Bytes(bytes * tokens * layout.dp) / cluster.storage_read;
  }
  if (cluster.host_link.raw() > 0) {
    out.per_micro_batch += kTokenAndLabel * tokens / cluster.host_link;
  }
  return out;
}

}  // namespace tpplan
