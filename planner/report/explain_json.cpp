#include "planner/report/explain_report.h"

namespace tpplan {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

void write_terms(JsonWriter& json, std::string_view name, std::string_view unit,
                 const std::vector<ExplainedTerm>& terms) {
  json.key(name).begin_array();
  for (const ExplainedTerm& term : terms) {
    json.begin_object();
    json.field("term", term.key).field(unit, term.value).field("meaning", term.meaning).field("formula", term.formula);
    json.key("constants").begin_array();
    for (const ConstantUse& use : term.constants) {
      json.begin_line_object();
      json.field("name", use.name).field("value", use.value).field("source", use.source);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_parts(JsonWriter& json, const std::vector<ExplainedPart>& parts) {
  json.key("parts").begin_array();
  for (const ExplainedPart& part : parts) {
    json.begin_object();
    json.field("part", part.name).field("count", part.count);
    json.key("operations").begin_array();
    for (const Operation& operation : part.operations) {
      json.begin_line_object();
      json.field("name", operation.name).field("kind", name_of(operation.kind));
      json.field("m", operation.m).field("n", operation.n).field("k", operation.k).field("count", operation.count);
      json.field("flops_forward", operation.flops_forward.raw())
          .field("flops_backward", operation.flops_backward.raw());
      json.field("bytes_forward", operation.bytes_forward.raw())
          .field("bytes_backward", operation.bytes_backward.raw());
      json.field("forward_s", operation.forward.raw()).field("input_gradient_s", operation.input_gradient.raw());
      json.field("weight_gradient_s", operation.weight_gradient.raw()).field("formula", operation.formula);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) {
    json.value(text);
  }
  json.end_array();
}

void write_remedies(JsonWriter& json, const Job& job, const Explanation& explanation) {
  json.key("remedies").begin_array();
  for (const Remedy& remedy : explanation.remedies) {
    json.begin_object();
    json.field("change", remedy.text);
    json.key("layout");
    write_layout(json, job, remedy.plan);
    json.field("step_time_s", remedy.plan.estimate.step.total().raw()).field("slowdown", remedy.slowdown);
    json.field("memory_total_bytes", remedy.plan.estimate.memory.total().raw())
        .field("fits", name_of(remedy.plan.fits));
    json.end_object();
  }
  json.end_array();
  json.key("fallback");
  if (!explanation.fallback) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("layout");
  write_layout(json, job, *explanation.fallback);
  json.field("step_time_s", explanation.fallback->estimate.step.total().raw());
  json.end_object();
}

void write_comparison(JsonWriter& json, const StepComparison& comparison) {
  json.key("measured").begin_object();
  json.field("measured_step_s", comparison.measured.raw()).field("predicted_step_s", comparison.predicted.raw());
  json.field("unexplained_s", (comparison.measured - comparison.predicted).raw());
  json.field("inside_interval", comparison.inside_interval);
  json.key("terms").begin_array();
  for (const StepComparison::Term& term : comparison.terms) {
    json.begin_line_object();
    json.field("term", term.key).field("predicted_s", term.predicted.raw()).field("needed_s", term.needed.raw());
    json.end_object();
  }
  json.end_array().end_object();
}

void write_broken(JsonWriter& json, const std::vector<BrokenRule>& broken) {
  json.key("broken").begin_array();
  for (const BrokenRule& rule : broken) {
    json.begin_object();
    json.field("rule", rule.name).field("statement", rule.statement).field("arithmetic", rule.arithmetic);
    json.end_object();
  }
  json.end_array();
}

void write_price(JsonWriter& json, const Job& job, const Explanation& explanation) {
  const Plan& plan = explanation.plan;
  const StepEstimate& step = plan.estimate.step;
  const double seconds = step.total().raw();
  const double tokens = tokens_per_second(job, step);
  json.field("step_time_s", seconds).field("step_time_low_s", interval80(seconds, step.step_error).low);
  json.field("step_time_high_s", interval80(seconds, step.step_error).high);
  json.field("tokens_per_s", tokens).field("tokens_per_s_per_gpu", tokens / job.cluster.gpus());
  json.field("mfu", mfu(job, plan.layout, step));
  json.key("breakdown_s");
  write_breakdown(json, step);
  json.key("memory_bytes");
  write_memory(json, plan.estimate.memory);
  json.field("fits", name_of(plan.fits)).field("missing_bytes", explanation.missing.raw());
  json.field("bound_by", bound_by(step)).field("last_stage", explanation.last_stage);
  write_terms(json, "time_terms", "seconds", explanation.time);
  write_terms(json, "memory_terms", "bytes", explanation.memory);
  write_parts(json, explanation.parts);
  write_texts(json, "notes", explanation.notes);
  write_texts(json, "warnings", explanation.warnings);
  write_remedies(json, job, explanation);
  if (explanation.comparison) {
    write_comparison(json, *explanation.comparison);
  }
}

}  // namespace

std::string explain_json(const ExplainReport& report) {
  const Explanation& explanation = report.explanation;
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.key("inputs");
  write_inputs(json, report.job);
  json.key("assumed");
  write_assumed(json, report.assumed);
  Plan plan = explanation.plan;
  plan.layout = explanation.layout;
  json.key("layout");
  write_layout(json, report.job, plan);
  json.field("legal", explanation.broken.empty());
  write_broken(json, explanation.broken);
  if (explanation.broken.empty()) {
    write_price(json, report.job, explanation);
  }
  json.end_object();
  return json.text();
}

}  // namespace tpplan
