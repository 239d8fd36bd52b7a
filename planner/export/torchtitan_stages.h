#pragma once

#include <vector>

namespace tpplan {

/// How TorchTitan is told to cut a pipeline: what the ends are counted as in layers, and layers per stage, from which
/// it derives the number of stages.
struct TorchtitanCut {
  int first = 0, last = 0;
  int layers_per_stage = 0;  ///< 0: no value makes that many stages
  bool exact = false;        ///< it deals out the layers as planned
};

/// The cut that gives as many stages as `stage_layers` has, with as many layers each if any cut does
/// (TorchTitan distributed/pipeline_parallel.py).
TorchtitanCut torchtitan_cut(int layers, const std::vector<int>& stage_layers);

/// Whether a layout's number of stages can be had: that many layers per stage exist, or it is what TorchTitan takes by
/// itself (one stage per rank, two in schedules of several).
bool torchtitan_reaches(int layers, int pp, int stages);

}  // namespace tpplan
