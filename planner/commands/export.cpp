#include "planner/commands/export.h"

#include <filesystem>
#include <ostream>

#include "planner/export/export_target.h"
#include "planner/inputs.h"
#include "planner/report/output.h"

namespace tpplan {
namespace {

/// Tells every reason why the framework or the target cannot run the layout; false when there is none.
bool tell_refusals(const ExportTarget& target, const Job& job, const Layout& layout, std::ostream& err) {
  const std::vector<int> broken = broken_rules(job, layout);
  for (const int index : broken) {
    const Rule& rule = rules()[static_cast<std::size_t>(index)];
    err << "tpplan: " << rule.name << ": " << rule.arithmetic(job, layout) << "\n";
  }
  if (!broken.empty()) {
    err << "tpplan: this layout cannot run, nothing was written; tpplan explain says more\n";
    return true;
  }
  const std::vector<Refusal> refusals = export_refusals(target.target, target.expresses, job, layout);
  for (const Refusal& refusal : refusals) {
    err << "tpplan: " << refusal.rule << ": " << refusal.arithmetic << "\n";
  }
  if (!refusals.empty()) {
    err << "tpplan: " << target.program << " cannot run this layout, nothing was written\n";
  }
  return !refusals.empty();
}

/// "run.yaml" -> "run.launch.sh".
std::string launch_file(const std::string& file) {
  return std::filesystem::path(file).replace_extension(".launch.sh").string();
}

}  // namespace

int run_export(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.target || options.layout.empty()) {
    throw UsageError({"export needs a target and a layout: --to megatron --layout \"tp=8 pp=2 micro-batch=1\""},
                     "export");
  }
  const ExportTarget& target = row_of(*options.target);
  PlannerOptions planned = options;
  planned.framework = options.framework.value_or(target.framework);
  std::string file_warnings;
  Job job = job_from(planned, nullptr, &file_warnings);
  err << file_warnings;
  const Layout layout =
      parse_layout(options.layout, job.cluster.gpus(), usual_layout(job), &job.training.layers_per_stage);
  if (tell_refusals(target, job, layout, err)) {
    return 1;
  }
  const bool to_file = !options.output.empty() && options.output != "-";
  ExportRequest request{.job = job, .plan = plan_of(job, layout), .launcher = options.launcher};
  request.command = "tpplan export " + options_text(options, "export", {"output"});
  request.file =
      to_file ? std::filesystem::path(options.output).filename().string() : "plan" + std::string(target.suffix);
  request.stage_layers = export_stage_layers(job, layout);
  request.left = export_omissions(target.target, target.expresses, job, layout);
  const ExportFiles files = export_files(target, request);
  if (to_file && !files.launch.empty()) {
    write_file(launch_file(options.output), files.launch);
  }
  write_result(options, files.main, out);
  if (!files.launch.empty()) {
    err << (to_file ? "tpplan: " + launch_file(options.output) + " launches it\n"
                    : "tpplan: with -o FILE a script that launches it is written beside it\n");
  }
  if (request.plan.fits == Fits::no) {
    err << "tpplan: warning: this layout does not fit into the GPUs' memory; tpplan explain says what would\n";
    return 1;
  }
  return 0;
}

}  // namespace tpplan
