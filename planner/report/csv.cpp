#include <algorithm>

#include "cost-model/units.h"
#include "planner/report/plan_report.h"

namespace tpplan {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') {
      quoted += '"';
    }
  }
  return quoted + "\"";
}

namespace {

/// One line of a comma-separated file; each cell is added with its column name.
class CsvRow {
 public:
  void add(std::string_view name, std::string_view cell) {
    names_ += (names_.empty() ? "" : ",") + csv_field(name);
    cells_ += (empty_ ? "" : ",") + csv_field(cell);
    empty_ = false;
  }
  void add(std::string_view name, double number) { add(name, std::string_view(shortest(number))); }
  [[nodiscard]] std::string header() const { return names_ + "\n"; }
  [[nodiscard]] std::string line() const { return cells_ + "\n"; }

 private:
  std::string names_, cells_;
  bool empty_ = true;
};

std::string joined(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) {
    text += (text.empty() ? "" : " ") + std::to_string(value);
  }
  return text;
}

CsvRow row_of(const Job& job, const Plan& plan, std::size_t rank, bool grouped) {
  const Layout& layout = plan.layout;
  const StepEstimate& step = plan.estimate.step;
  const MemoryEstimate& memory = plan.estimate.memory;
  CsvRow row;
  row.add("rank", static_cast<double>(rank));
  for (const AxisRow& axis : kAxes) {
    row.add(axis.key, layout.*axis.field);
  }
  if (grouped) {
    row.add("vpp_group", layout.vpp_group);
  }
  row.add("micro_batches", micro_batches(job, layout));
  row.add("zero", layout.zero);
  row.add("shard_group", layout.shard_group);
  row.add("sequence_parallel", std::string_view(layout.sequence_parallel ? "true" : "false"));
  row.add("recompute", std::string_view(recompute_text(layout)));
  row.add("recompute_layers", layout.recompute_layers);
  row.add("schedule", name_in(kScheduleNames, layout.schedule));
  row.add("layers_per_stage", std::string_view(joined(plan.layers_per_stage)));
  row.add("cp_type", name_in(kCpTypeNames, layout.cp_type));
  row.add("offload", name_in(kOffloadNames, layout.offload));
  row.add("optimizer", name_in(kOptimizerNames, layout.optimizer));
  row.add("ranks_order", name_in(kRanksOrderNames, layout.ranks_order));
  row.add("grad_reduce", name_in(kGradReduceNames, layout.grad_reduce));
  const double seconds = step.total().raw();
  const double tokens = tokens_per_second(job, step);
  row.add("step_time_s", seconds);
  row.add("step_time_low_s", interval80(seconds, step.step_error).low);
  row.add("step_time_high_s", interval80(seconds, step.step_error).high);
  row.add("tokens_per_s", tokens);
  row.add("tokens_per_s_per_gpu", tokens / static_cast<double>(layout.world()));
  row.add("mfu", mfu(job, layout, step));
  for (const StepTermRow& term : kStepTerms) {
    row.add(std::string(term.key) + "_s", (step.*term.field).raw());
  }
  for (const MemoryTermRow& term : kMemoryTerms) {
    row.add(std::string(term.key) + "_bytes", (memory.*term.field).raw());
  }
  row.add("total_bytes", memory.total().raw());
  row.add("allocated_bytes", memory.allocated().raw());
  row.add("reserved_bytes", memory.reserved().raw());
  row.add("low_bytes", interval80(memory.total().raw(), memory.error).low);
  row.add("high_bytes", interval80(memory.total().raw(), memory.error).high);
  row.add("capacity_bytes", memory.capacity.raw());
  row.add("host_bytes", memory.host_bytes.raw());
  const std::string simulated = plan.simulated_s > 0 ? shortest(plan.simulated_s) : "";
  row.add("simulated_step_time_s", std::string_view(simulated));
  row.add("fits", name_of(plan.fits));
  row.add("bound_by", bound_by(step));
  return row;
}

}  // namespace

std::string csv_report(const PlanReport& report, const Terminal&, std::string&) {
  std::string text;
  const auto& plans = report.result.plans;
  const bool grouped =
      std::any_of(plans.begin(), plans.end(), [](const Plan& plan) { return plan.layout.vpp_group > 0; });
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const CsvRow row = row_of(report.job, plans[i], i + 1, grouped);
    text += (i == 0 ? row.header() : "") + row.line();
  }
  return text;
}

}  // namespace tpplan
