#include "planner/commands/explain.h"

#include <unistd.h>

#include <ostream>

#include "planner/report/explain_report.h"
#include "planner/report/output.h"

namespace tpplan {

int run_explain(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (options.layout.empty()) {
    throw UsageError({"explain needs a layout: --layout \"tp=8 pp=2 micro-batch=1\""}, "explain");
  }
  std::vector<Assumption> assumed;
  std::string file_warnings;
  Job job = job_from(options, &assumed, &file_warnings);
  err << file_warnings;
  const Layout layout =
      parse_layout(options.layout, job.cluster.gpus(), usual_layout(job), &job.training.layers_per_stage);
  const Explanation explanation = explain(job, layout, options.measured_step);
  const ExplainReport report{
      .job = job, .explanation = explanation, .assumed = assumed, .inputs_text = options_text(options, "explain")};
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  const bool json = chosen_format(options) == OutputFormat::json;
  std::string notes;
  write_result(options, json ? explain_json(report) : explain_table(report, terminal, notes), out);
  err << notes;
  return explanation.broken.empty() && explanation.plan.fits != Fits::no ? 0 : 1;
}

}  // namespace tpplan
