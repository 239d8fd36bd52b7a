#include "planner/report/pareto_report.h"

#include "planner/errors.h"
#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

double step_of(const ParetoPlan& p) { return p.plan.estimate.step.total().raw(); }
double tokens_per_gpu(const Job& job, const ParetoPlan& p) {
  return tokens_per_second(job, p.plan.estimate.step) / p.gpus;
}

SearchResult as_ranking(const ParetoFront& front) {
  SearchResult result;
  for (const ParetoPlan& p : front.plans) {
    result.plans.push_back(p.plan);
  }
  return result;
}

std::string searched(const ParetoFront& front) {
  std::string sizes;
  for (const int size : front.sizes) {
    sizes += (sizes.empty() ? "" : ", ") + with_separators(size);
  }
  return "priced " + with_separators(front.costed) + " layouts on " + sizes +
         " GPUs; shown are those that none equals or beats in GPUs, step time and memory of the fullest GPU at once";
}

std::string as_text(const Job& job, const ParetoFront& front, const Terminal& terminal) {
  std::string text = terminal.paint(Style::bold, wrap(job_line(job), terminal.width, 2)) + "\n\n";
  if (front.plans.empty()) {
    return text + "no layout fits\n\n" + wrap(searched(front), terminal.width, 2) + "\n";
  }
  const SearchResult result = as_ranking(front);
  const PlanReport report{.job = job, .result = result};
  std::string common;
  text += ranking_table(report, common).render(terminal);
  if (!common.empty()) {
    text += terminal.paint(Style::dim, wrap("all plans: " + common, terminal.width, 2)) + "\n";
  }
  for (const std::string& note : ranking_notes(report)) {
    text += terminal.paint(Style::dim, wrap(note, terminal.width, 2)) + "\n";
  }
  return text + "\n" + wrap(searched(front), terminal.width, 2) + "\n";
}

std::string as_markdown(const Job& job, const ParetoFront& front) {
  const SearchResult result = as_ranking(front);
  std::string common;
  const TextTable table = ranking_table(PlanReport{.job = job, .result = result}, common);
  return github_table(table) + "\n" + (common.empty() ? "" : "All plans: " + common + ". ") + searched(front) + ".\n";
}

std::string as_json(const Job& job, const ParetoFront& front, const std::vector<Assumption>& assumed) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).key("inputs");
  write_inputs(json, job);
  json.key("assumed");
  write_assumed(json, assumed);
  json.key("search").begin_object().key("gpus").begin_line_array();
  for (const int size : front.sizes) {
    json.value(size);
  }
  json.end_array().field("costed", front.costed).end_object();
  json.key("plans").begin_array();
  for (const ParetoPlan& p : front.plans) {
    const StepEstimate& step = p.plan.estimate.step;
    json.begin_object().field("gpus", p.gpus).key("layout");
    write_layout(json, job, p.plan);
    json.field("step_time_s", step_of(p))
        .field("step_time_low_s", interval80(step_of(p), step.step_error).low)
        .field("step_time_high_s", interval80(step_of(p), step.step_error).high)
        .field("tokens_per_s", tokens_per_second(job, step))
        .field("tokens_per_s_per_gpu", tokens_per_gpu(job, p));
    json.key("breakdown_s");
    write_breakdown(json, step);
    json.key("memory_bytes");
    write_memory(json, p.plan.estimate.memory);
    json.field("fits", name_of(p.plan.fits)).field("bound_by", bound_by(step)).end_object();
  }
  json.end_array().end_object();
  return json.text();
}

}  // namespace

std::string pareto_report(const Job& job, const ParetoFront& front, const std::vector<Assumption>& assumed,
                          OutputFormat format, const Terminal& terminal) {
  std::string notes;
  if (format == OutputFormat::json) {
    return as_json(job, front, assumed);
  }
  if (format == OutputFormat::csv) {
    const SearchResult result = as_ranking(front);
    return csv_report(PlanReport{.job = job, .result = result}, terminal, notes);
  }
  if (format == OutputFormat::markdown) {
    return as_markdown(job, front);
  }
  if (format == OutputFormat::table) {
    return as_text(job, front, terminal);
  }
  throw UsageError({"--pareto is written as table, json, csv or md, not " + std::string(name_of(format))}, "plan");
}

}  // namespace tpplan
