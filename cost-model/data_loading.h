#pragma once

#include "cost-model/estimate.h"

namespace tpplan {

/// What bringing the tokens of a micro-batch costs on a rank that loads them: the first and the last pipeline stage.
struct DataLoading {
  Seconds per_micro_batch;
  int ahead = 0;  ///< micro-batches that are loaded before they are needed, beside the work; 0: when they are needed

  /// Seconds of a step that wait for tokens, when the rest of it takes `step`.
  [[nodiscard]] Seconds exposed(double micro_batches, Seconds step) const {
    const Seconds all = per_micro_batch * micro_batches;
    return ahead > 0 ? max(Seconds(0), all - step) : all;
  }
};

/// Every data-parallel rank reads its tokens, 2 bytes each where the vocabulary allows it and 4 otherwise, from storage
/// that all share at the cluster's rate (nothing where that is unknown), and copies them with their labels to the GPU,
/// 8 bytes each. Tokenising, shuffling and decompression are not known and not counted. How far ahead programs load is
/// their default: so many workers, each with PyTorch's two batches in hand (torch.utils.data.DataLoader,
/// prefetch_factor).
DataLoading data_loading(const Job& job, const Layout& layout);

}  // namespace tpplan
