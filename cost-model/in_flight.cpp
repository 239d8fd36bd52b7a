#include "cost-model/in_flight.h"

#include <algorithm>
#include <cmath>

#include "cost-model/pipeline.h"

namespace tpplan {

ScheduleRequest order_request(const Job& job, const Layout& layout, const LayerCosts& costs, int micro_batches) {
  ScheduleRequest request;
  request.ranks = layout.pp;
  request.chunks = layout.vpp;
  request.micro_batches = micro_batches;
  request.group = layout.vpp_group;
  if (!row_of(layout.schedule).splits_backward) {
    return request;
  }
  const auto contents = stage_contents(job, layout.pp, layout.pp);
  const auto middle = stage_costs(costs, contents[static_cast<std::size_t>(layout.pp / 2)]);
  const double chunks = chunks_of(layout.schedule, 1);
  const Seconds transfer = layout.pp > 1 ? transfer_time(job, layout, costs, transfer_laws(job, layout)) : Seconds(0);
  request.times = {middle.forward.raw() / chunks, (middle.backward - middle.weight).raw() / chunks,
                   middle.weight.raw() / chunks, transfer.raw()};
  request.weight_share = costs.weight_share;
  return request;
}

bool holds_by_order(Schedule schedule) { return row_of(schedule).splits_backward && schedule != Schedule::dualpipe; }

HeldActivations held_by_rule(const Layout& layout, const LayerCosts& costs, int rank, double micro_batches) {
  double held = in_flight(layout.schedule, layout.pp, layout.vpp, rank, micro_batches, layout.vpp_group);
  double freed = 1.0 / chunks_of(layout.schedule, layout.vpp);  // by the pass that ends a backward
  if (layout.schedule == Schedule::zb_h1 || layout.schedule == Schedule::zb_1p) {
    const double whole = in_flight(Schedule::f1b1, layout.pp, 1, rank, micro_batches);
    held = whole + (held - whole) * costs.weight_share;
  }
  if (holds_by_order(layout.schedule) && layout.schedule != Schedule::zb_v) {
    freed = costs.weight_share;
  } else if (layout.schedule == Schedule::interleaved && rank == 0) {
    // The first stage's backward passes come last, after those of the later chunks of a whole group.
    const double group = first_group(rule_request(layout.pp, layout.vpp, micro_batches, layout.vpp_group));
    freed = std::max(freed, held - micro_batches + ((layout.vpp - 1) * group + 1) / layout.vpp);
  }
  return {held, held, held, held - freed};
}

namespace {

bool same(const HeldActivations& a, const HeldActivations& b) {
  constexpr double kClose = 1e-9;
  return std::abs(a.forward - b.forward) <= kClose && std::abs(a.loss - b.loss) <= kClose &&
         std::abs(a.backward - b.backward) <= kClose && std::abs(a.end - b.end) <= kClose;
}

}  // namespace

std::vector<HeldActivations> held_in_order(Schedule schedule, ScheduleRequest request) {
  // The middle of a long step repeats itself: when four periods more, of two ways through the pipeline each, change
  // nothing on any rank, no number of them does.
  const int whole = request.micro_batches;
  const int period = 2 * request.ranks;
  if (whole >= 24 * period) {
    request.micro_batches = whole % period + 4 * period;
    auto held = held_activations(make_schedule(schedule, request));
    request.micro_batches += 4 * period;
    const auto longer = held_activations(make_schedule(schedule, request));
    if (std::equal(held.begin(), held.end(), longer.begin(), same)) {
      return held;
    }
    request.micro_batches = whole;
  }
  return held_activations(make_schedule(schedule, request));
}

std::vector<HeldActivations> held_by_order(const Job& job, const Layout& layout, const LayerCosts& costs,
                                           double micro_batches) {
  if (!holds_by_order(layout.schedule) || micro_batches < 1) {
    return {};
  }
  return held_in_order(layout.schedule, order_request(job, layout, costs, static_cast<int>(micro_batches)));
}

}  // namespace tpplan
