#pragma once

#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// Whether the pipeline of the layout puts every stage on one part of a mixed cluster: then all groups but the pipeline
/// stay on equal GPUs, and stages get layers by the speed of theirs. Any other layout of a mixed cluster does equal
/// work on every GPU, and is priced as if all were the least of them. False on a cluster of equal nodes.
bool stages_keep_to_parts(const Job& job, const Layout& layout);

/// estimate() of such a layout: each stage with the costs, links and memory of its part, the transfers between stages
/// over the joining network.
Estimate mixed_estimate(const Job& job, const Layout& layout);

/// pipeline_shape() of such a layout: layers go one by one to the stage that is fastest with one more, among those
/// whose memory still holds it, which makes the slowest stage as fast as whole layers can; or as the user gave them.
PipelineShape mixed_shape(const Job& job, const Layout& layout);

/// Dense peak of a GPU at the job's precision, the mean over the GPUs of a mixed cluster.
FlopsPerSecond mean_peak(const Job& job);

}  // namespace tpplan
