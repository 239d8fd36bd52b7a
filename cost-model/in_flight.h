#pragma once

#include <vector>

#include "cost-model/schedules.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

/// What the order of passes of a layout is made for: times of a middle stage, without recomputed choices of single
/// stages, and of a transfer between neighbours. Orders are planned for one set of times, as those of arXiv 2401.10241
/// are; only schedules that split the backward pass look at them. `costs` are of layer_key(layout).
ScheduleRequest order_request(const Job& job, const Layout& layout, const LayerCosts& costs, int micro_batches);

/// Whether what a rank holds follows from the order of passes that suits the times, not from the schedule's name.
bool holds_by_order(Schedule schedule);

/// Most that rank `rank` of a schedule holds, in closed form: exact where !holds_by_order(), else the limit that orders
/// keep to, which the search uses to look at many layouts. ZB-H1 and ZB-1p hold p micro-batches on every rank, but past
/// the p - r that 1F1B holds too only for delayed weight gradients (arXiv 2401.10241, section 2.3: (p - r) M_B + r
/// M_W).
HeldActivations held_by_rule(const Layout& layout, const LayerCosts& costs, int rank, double micro_batches);

/// Most that every rank holds in the order that make_schedule() plans for a request. Of a long step two shorter ones
/// tell it where they agree.
std::vector<HeldActivations> held_in_order(Schedule schedule, ScheduleRequest request);

/// The same of every rank counted in the order of passes that make_schedule() plans for the layout: what the simulator
/// runs. Empty where !holds_by_order(), or where no such order exists.
std::vector<HeldActivations> held_by_order(const Job& job, const Layout& layout, const LayerCosts& costs,
                                           double micro_batches);

}  // namespace tpplan
