#include "cost-model/mixed.h"

#include <algorithm>
#include <cmath>

#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

/// The part that pipeline rank `rank` lies on when no stage straddles two.
std::size_t part_of(const Job& job, const Layout& layout, int rank) {
  std::int64_t first = std::int64_t{rank} * (layout.world() / layout.pp);
  std::size_t part = 0;
  while (first >= job.cluster.parts[part].gpus()) {
    first -= job.cluster.parts[part].gpus();
    ++part;
  }
  return part;
}

struct Parts {
  std::vector<LayerCosts> costs;
  std::vector<ShardingLaws> sharding;
};

Parts parts_of(const Job& job, const Layout& layout) {
  Parts parts;
  for (const Job& part : job.parts) {
    parts.costs.push_back(layer_costs(part, layer_key(layout)));
    parts.sharding.push_back(sharding_laws(part, layout));
  }
  return parts;
}

/// A rank with `layers` layers of the model's mean mixture of dense and MoE.
StageContent content_of(const Job& job, const Layout& layout, int rank, int layers) {
  const int moe_layers = job.moe() ? job.moe_before.back() : 0;
  const int moe = static_cast<int>(std::lround(static_cast<double>(layers) * moe_layers / job.model.layers));
  return {layers - moe, moe, rank == 0, rank == layout.pp - 1, rank == layout.pp - 1 ? job.model.mtp_layers : 0};
}

/// Layers of every rank, by time within memory.
std::vector<int> balanced_layers(const Job& job, const Layout& layout, const Parts& parts) {
  const double micro_batches =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  const auto ranks = static_cast<std::size_t>(layout.pp);
  const auto priced = [&](std::size_t rank, int layers) {
    const int number = static_cast<int>(rank);
    const std::size_t part = part_of(job, layout, number);
    return stage_costs(parts.costs[part], content_of(job, layout, number, layers));
  };
  const auto holds = [&](std::size_t rank, int layers) {
    const int number = static_cast<int>(rank);
    const std::size_t part = part_of(job, layout, number);
    const StageGroup group{content_of(job, layout, number, layers), number, 1, static_cast<int>(part)};
    const auto memory = stage_memory(job.parts[part], layout, parts.costs[part], group, priced(rank, layers),
                                     parts.sharding[part].groups, micro_batches);
    return memory.total <= memory.at.capacity * (1 - job.training.memory_headroom);
  };
  std::vector<int> layers(ranks, job.model.layers >= layout.pp ? 1 : 0);
  std::vector<bool> full(ranks, false);
  int left = job.model.layers;
  for (const int given : layers) {
    left -= given;
  }
  while (left > 0) {
    std::size_t best = ranks;
    Seconds best_time;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (full[rank]) {
        continue;
      }
      const StageCosts stage = priced(rank, layers[rank] + 1);
      if (best == ranks || stage.forward + stage.backward < best_time) {
        best = rank;
        best_time = stage.forward + stage.backward;
      }
    }
    if (best == ranks) {
      full.assign(ranks, false);  // nothing holds them: by time alone, and the verdict says that it does not fit
      for (; left > 0; --left) {
        ++layers[static_cast<std::size_t>(left) % ranks];
      }
    } else if (holds(best, layers[best] + 1)) {
      ++layers[best];
      --left;
    } else {
      full[best] = true;
    }
  }
  return layers;
}

PipelineShape shape_of(const Job& job, const Layout& layout, const Parts& parts) {
  const auto& given = job.training.layers_per_stage;
  PipelineShape shape;
  shape.pp = layout.pp;
  shape.vpp = 1;
  shape.layers_per_stage = static_cast<int>(given.size()) == layout.pp ? given : balanced_layers(job, layout, parts);
  int begin = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    const int end = begin + shape.layers_per_stage[static_cast<std::size_t>(rank)];
    const int moe = job.moe_in(begin, end);
    const StageContent content{end - begin - moe, moe, rank == 0, rank == layout.pp - 1,
                               rank == layout.pp - 1 ? job.model.mtp_layers : 0};
    const int part = static_cast<int>(part_of(job, layout, rank));
    if (!shape.groups.empty() && shape.groups.back().content == content && shape.groups.back().part == part) {
      ++shape.groups.back().count;
    } else {
      shape.groups.push_back({content, rank, 1, part});
    }
    begin = end;
  }
  return shape;
}

}  // namespace

bool stages_keep_to_parts(const Job& job, const Layout& layout) {
  if (job.parts.empty() || layout.pp < 2 || layout.vpp > 1 || layout.schedule == Schedule::dualpipe ||
      layout.schedule == Schedule::zb_v || layout.ranks_order != RanksOrder::tp_cp_dp_pp ||
      layout.world() != job.cluster.gpus()) {
    return false;
  }
  const std::int64_t stage = layout.world() / layout.pp;
  return std::all_of(job.cluster.parts.begin(), job.cluster.parts.end(),
                     [stage](const ClusterSpec& part) { return part.gpus() % stage == 0; });
}

PipelineShape mixed_shape(const Job& job, const Layout& layout) { return shape_of(job, layout, parts_of(job, layout)); }

Estimate mixed_estimate(const Job& job, const Layout& layout) {
  const Parts parts = parts_of(job, layout);
  const PipelineShape shape = shape_of(job, layout, parts);
  return combine(job, layout, parts.costs, shape, parts.sharding);
}

FlopsPerSecond mean_peak(const Job& job) {
  if (job.parts.empty()) {
    return job.cluster.gpu.peak_of(job.training.precision);
  }
  FlopsPerSecond sum;
  for (const Job& part : job.parts) {
    sum += part.cluster.gpu.peak_of(job.training.precision) * static_cast<double>(part.cluster.gpus());
  }
  return sum / static_cast<double>(job.cluster.gpus());
}

}  // namespace tpplan
