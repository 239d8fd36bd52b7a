#include "planner/replay.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cost-model/estimate.h"
#include "cost-model/pipeline.h"

namespace tpplan {
namespace {

constexpr std::size_t kNamesShown = 8;

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

struct Interval {
  double start = 0, end = 0;
};

double overlap(const std::vector<Interval>& spans, double start, double end) {
  double most = 0;
  for (const Interval& span : spans) {
    most = std::max(most, std::min(end, span.end) - std::max(start, span.start));
  }
  return most;
}

/// The GPU with most time in kernels.
std::int32_t main_device(const KinetoTrace& trace, TraceTotals& totals) {
  std::map<std::int32_t, double> time;
  for (const TraceSpan& span : trace.spans) {
    if (span.kind == SpanKind::gpu) {
      time[span.device] += span.end - span.start;
    }
  }
  const auto most =
      std::max_element(time.begin(), time.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (time.size() > 1) {
    totals.remarks.push_back("the trace has kernels of " + std::to_string(time.size()) + " GPUs; GPU " +
                             std::to_string(most->first) + ", the busiest, is shown");
  }
  return most->first;
}

/// Collects what one GPU ran within the steps of a trace.
class Collector {
 public:
  Collector(const KinetoTrace& trace, TraceTotals& totals) : trace_(trace), totals_(totals) {
    device_ = main_device(trace, totals);
    for (const TraceSpan& span : trace.spans) {
      const std::string& name = trace.name_of(span);
      if (span.kind == SpanKind::launch && span.launch_id != 0) {
        launches_.emplace(span.launch_id, Interval{span.start, span.end});
      } else if (span.kind == SpanKind::annotation && starts_with(name, "ProfilerStep#")) {
        steps_.push_back({span.start, span.end});
      } else if (span.kind == SpanKind::annotation && name.find("DataLoader") != std::string::npos) {
        loads_.push_back({span.start, span.end});
      } else if (span.kind == SpanKind::annotation && starts_with(name, "Optimizer.step")) {
        ++optimizer_steps_;
      } else if (span.kind == SpanKind::gpu_range && starts_with(name, "Optimizer.step")) {
        optimizer_.push_back({span.start, span.end});
      }
    }
  }

  void run() {
    choose_steps();
    std::map<std::string_view, double> by_name;
    for (const TraceSpan& span : trace_.spans) {
      if (span.kind == SpanKind::gpu && span.device == device_ && within_steps(span)) {
        add(span);
        by_name[trace_.name_of(span)] += span.end - span.start;
      }
    }
    finish();
    for (const auto& [name, time] : by_name) {
      totals_.largest.emplace_back(name, time / totals_.steps);
      if (class_of_kernel(name) == KernelClass::unknown) {
        totals_.unknown.emplace_back(name, time / totals_.steps);
      }
    }
    for (auto* list : {&totals_.largest, &totals_.unknown}) {
      std::stable_sort(list->begin(), list->end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      list->resize(std::min(list->size(), kNamesShown));
    }
  }

 private:
  void choose_steps() {
    totals_.steps_named = !steps_.empty();
    totals_.steps = static_cast<int>(totals_.steps_named ? steps_.size() : std::max<std::size_t>(1, optimizer_steps_));
    if (totals_.steps_named) {
      window_ = {steps_.front().start, steps_.front().end};
      for (const Interval& step : steps_) {
        window_.end = std::max(window_.end, step.end);
      }
    }
  }

  [[nodiscard]] const Interval* launch_of(const TraceSpan& span) const {
    const auto found = launches_.find(span.launch_id);
    return found == launches_.end() ? nullptr : &found->second;
  }
  /// A kernel belongs to the step that launched it.
  [[nodiscard]] bool within_steps(const TraceSpan& span) const {
    const Interval* launch = launch_of(span);
    const double at = launch != nullptr ? launch->start : span.start;
    return !totals_.steps_named || (at >= window_.start && at <= window_.end);
  }

  [[nodiscard]] KernelClass class_of(const TraceSpan& span) const {
    const KernelClass by_name = class_of_kernel(trace_.name_of(span));
    if (by_name == KernelClass::communication || by_name == KernelClass::optimizer) {
      return by_name;
    }
    const double middle = (span.start + span.end) / 2;
    const bool in_optimizer = std::any_of(optimizer_.begin(), optimizer_.end(), [middle](const Interval& range) {
      return middle > range.start && middle < range.end;
    });
    return in_optimizer ? KernelClass::optimizer : by_name;
  }

  void add(const TraceSpan& span) {
    const double time = span.end - span.start;
    const auto kind = static_cast<std::size_t>(class_of(span));
    totals_.kernels[kind] += time;
    totals_.launches[kind] += 1;
    const bool communicates = kind == static_cast<std::size_t>(KernelClass::communication);
    if (communicates) {
      totals_.communication[static_cast<std::size_t>(communication_of_kernel(trace_.name_of(span)))] += time;
    }
    if (last_end_ < 0) {
      first_start_ = last_end_ = span.start;
      compute_end_ = span.start;
    }
    if (span.start > last_end_) {
      add_gap(span);
    }
    // Spans come in order of their starts: what lies past the latest end is new.
    totals_.busy += std::max(0.0, span.end - std::max(last_end_, span.start));
    if (!communicates) {
      computing_ += std::max(0.0, span.end - std::max(compute_end_, span.start));
      compute_end_ = std::max(compute_end_, span.end);
    }
    last_end_ = std::max(last_end_, span.end);
  }

  void add_gap(const TraceSpan& next) {
    const double gap = next.start - last_end_;
    const Interval* launch = launch_of(next);
    if (launch != nullptr && launch->end <= last_end_) {
      totals_.waits_in_queue += gap;
      return;
    }
    const double loading = std::max(0.0, overlap(loads_, last_end_, next.start));
    totals_.waits_for_data += loading;
    totals_.waits_for_host += gap - loading;
  }

  /// Sums over all steps become means.
  void finish() {
    const double span = last_end_ - first_start_;
    const double wall = totals_.steps_named ? window_.end - window_.start : span;
    totals_.waits_for_host += std::max(0.0, wall - span);
    totals_.communication_exposed = totals_.busy - computing_;
    const double n = totals_.steps;
    totals_.step = std::max(wall, totals_.steps_named ? 0 : span) / n;
    for (auto* list : {&totals_.kernels, &totals_.launches}) {
      for (double& value : *list) {
        value /= n;
      }
    }
    for (double& value : totals_.communication) {
      value /= n;
    }
    for (double* value : {&totals_.busy, &totals_.communication_exposed, &totals_.waits_for_data,
                          &totals_.waits_for_host, &totals_.waits_in_queue}) {
      *value /= n;
    }
  }

  const KinetoTrace& trace_;
  TraceTotals& totals_;
  std::int32_t device_ = 0;
  std::unordered_map<std::int64_t, Interval> launches_;
  std::vector<Interval> steps_, loads_, optimizer_;
  std::size_t optimizer_steps_ = 0;
  Interval window_;
  double first_start_ = 0, last_end_ = -1, compute_end_ = 0, computing_ = 0;
};

/// Adds the operations of a list, `times` per step, to the classes.
void add_operations(const Job& job, const LayerKey& key, const OperationList& list, double times,
                    SimulatedTotals& totals) {
  for (const Operation& op : list) {
    const bool again = key.recompute == RecomputeKind::full ||
                       (key.recompute == RecomputeKind::selective && (op.module & key.recompute_modules) != 0);
    double repeated = again ? 1 : 0;
    if (key.recompute == RecomputeKind::selective_op) {
      repeated = op.kind == OperationKind::gemm ? job.profile.selective_op_share : 1;
    }
    const Seconds time = op.forward * (1 + repeated) + op.input_gradient + op.weight_gradient;
    KernelClass kind = KernelClass::communication;
    if (op.kind == OperationKind::gemm) {
      kind = KernelClass::gemm;
    } else if (op.kind == OperationKind::attention) {
      kind = KernelClass::attention;
    } else if (op.kind == OperationKind::memory) {
      kind = std::string_view(op.name).find("norm") != std::string_view::npos ? KernelClass::norm
                                                                              : KernelClass::elementwise;
    }
    totals.kernels[static_cast<std::size_t>(kind)] += time.raw() * times;
  }
}

int pipeline_rank_of(const Layout& layout, int gpu) {
  const int inner = layout.tp * layout.cp;
  return layout.ranks_order == RanksOrder::tp_cp_pp_dp ? gpu / inner % layout.pp
                                                       : std::min(layout.pp - 1, gpu / (inner * layout.dp));
}

}  // namespace

TraceTotals totals_of(const KinetoTrace& trace) {
  TraceTotals totals;
  totals.remarks = trace.remarks;
  Collector(trace, totals).run();
  return totals;
}

SimulatedTotals simulated_totals(const Job& job, const Layout& layout, int gpu) {
  SimulatedTotals totals;
  totals.pipeline_rank = pipeline_rank_of(layout, gpu);
  const auto rank = static_cast<std::size_t>(totals.pipeline_rank);
  const LayerKey key = layer_key(layout);
  const auto shape = pipeline_shape(job, layout.pp, layout.vpp);
  const double layers = shape.layers_per_stage[rank];
  // Layers with experts are taken as spread evenly over the stages.
  const double moe = job.moe() ? layers * job.moe_in(0, job.model.layers) / job.model.layers : 0;
  const double micro_batches =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  add_operations(job, key, layer_operations(job, key, false), (layers - moe) * micro_batches, totals);
  if (moe > 0) {
    add_operations(job, key, layer_operations(job, key, true), moe * micro_batches, totals);
  }
  LayerKey ends = key;  // never computed again
  ends.recompute = RecomputeKind::none;
  if (rank == 0) {
    add_operations(job, ends, embedding_operations(job, key), micro_batches, totals);
  }
  if (rank + 1 == static_cast<std::size_t>(layout.pp)) {
    add_operations(job, ends, head_operations(job, key), micro_batches, totals);
  }
  totals.kernels[static_cast<std::size_t>(KernelClass::communication)] = 0;  // exposed time is told instead
  const auto estimated = estimate(job, layout).step;
  totals.kernels[static_cast<std::size_t>(KernelClass::optimizer)] = estimated.optimizer.raw();
  totals.communication_exposed =
      (estimated.tp_comm + estimated.cp_comm + estimated.ep_comm + estimated.dp_comm + estimated.pp_comm).raw();
  totals.waits_for_data = estimated.data.raw();
  totals.waits_for_host = estimated.host.raw();
  const auto step = simulate(job, layout);
  totals.step = step.makespan;
  totals.pipeline_idle = layout.pp > 1 ? std::max(0.0, step.passes_end - step.ranks[rank].passes) : 0;
  return totals;
}

}  // namespace tpplan
