#include <array>

#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

void write_model(JsonWriter& json, const ModelSpec& model) {
  const ParameterCounts counts = parameter_counts(model);
  json.key("model").begin_object();
  json.field("name", model.name).field("architecture", model.architecture);
  json.field("layers", model.layers).field("hidden", model.hidden).field("heads", model.heads);
  json.field("kv_heads", model.kv_heads).field("head_dim", model.head_dim).field("ffn_hidden", model.ffn_hidden);
  json.field("vocab", model.vocab);
  if (model.moe) {
    json.field("experts", model.moe->experts).field("experts_per_token", model.moe->top_k);
    json.field("moe_layers", model.moe_layer_count());
  }
  json.field("total_params", counts.total).field("active_params", counts.active);
  json.end_object();
}

void write_cluster(JsonWriter& json, const ClusterSpec& cluster) {
  json.key("cluster").begin_object();
  json.field("name", cluster.name).field("gpu", cluster.gpu.id).field("gpus", cluster.gpus());
  json.field("nodes", cluster.nodes).field("gpus_per_node", cluster.gpus_per_node);
  json.field("gpu_memory_bytes", cluster.gpu.usable.raw());
  json.key("tiers").begin_array();
  for (const NetworkTier& tier : cluster.tiers) {
    json.begin_line_object();
    json.field("name", tier.name).field("span", tier.span).field("bandwidth_bytes_per_s", tier.bandwidth.raw());
    json.field("latency_s", tier.latency.raw()).field("oversubscription", tier.oversubscription);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_training(JsonWriter& json, const Job& job) {
  const TrainingSpec& training = job.training;
  json.key("training").begin_object();
  json.field("seq", training.seq).field("global_batch", training.global_batch);
  json.field("precision", name_of(training.precision));
  if (!training.fp8_recipe.empty()) {
    json.field("fp8_recipe", training.fp8_recipe);
  }
  json.field("framework", name_of(training.framework)).field("profile", job.profile.name);
  json.field("calibration", job.calibration.empty() ? std::string("none") : job.calibration.name);
  json.field("memory_headroom", training.memory_headroom);
  json.field("peft", name_in(kPeftNames, training.peft));
  json.end_object();
}

void write_plan(JsonWriter& json, const Job& job, const Plan& plan, std::size_t rank) {
  json.begin_object();
  json.field("rank", static_cast<std::int64_t>(rank));
  write_plan_members(json, job, plan);
  json.field("tied_with_previous", plan.tied_with_previous);
  json.end_object();
}

/// The closest layout and what would make one fit, beside an empty list of plans.
void write_miss(JsonWriter& json, const PlanReport& report) {
  json.key("closest");
  if (!report.result.closest) {
    json.null();
  } else {
    const Plan& plan = *report.result.closest;
    const MemoryEstimate& memory = plan.estimate.memory;
    json.begin_object();
    json.key("layout");
    write_layout(json, report.job, plan);
    json.key("memory_bytes");
    write_memory(json, memory);
    json.field("missing_bytes", (memory.total() - memory.capacity * (1 - report.job.training.memory_headroom)).raw());
    json.end_object();
  }
  json.key("would_fit").begin_array();
  for (const std::string& remedy : report.remedies) {
    json.value(remedy);
  }
  json.end_array();
}

}  // namespace

void write_plan_members(JsonWriter& json, const Job& job, const Plan& plan) {
  const StepEstimate& step = plan.estimate.step;
  const double seconds = step.total().raw();
  const double tokens = tokens_per_second(job, step);
  json.key("layout");
  write_layout(json, job, plan);
  json.field("step_time_s", seconds);
  json.field("step_time_low_s", interval80(seconds, step.step_error).low);
  json.field("step_time_high_s", interval80(seconds, step.step_error).high);
  json.key("simulated_step_time_s");
  if (plan.simulated_s > 0) {
    json.value(plan.simulated_s);
  } else {
    json.null();
  }
  json.field("tokens_per_s", tokens).field("tokens_per_s_per_gpu", tokens / job.cluster.gpus());
  json.field("mfu", mfu(job, plan.layout, step));
  json.key("breakdown_s");
  write_breakdown(json, step);
  json.key("memory_bytes");
  write_memory(json, plan.estimate.memory);
  json.field("fits", name_of(plan.fits));
  json.field("bound_by", bound_by(step));
}

void write_layout(JsonWriter& json, const Job& job, const Plan& plan) {
  const Layout& layout = plan.layout;
  json.begin_object();
  for (const AxisRow& axis : kAxes) {
    json.field(axis.key, static_cast<std::int64_t>(layout.*axis.field));
  }
  if (layout.vpp_group > 0) {
    json.field("vpp_group", layout.vpp_group);
  }
  json.field("micro_batches", micro_batches(job, layout));
  json.field("zero", static_cast<int>(layout.zero)).field("shard_group", layout.shard_group);
  json.field("sequence_parallel", layout.sequence_parallel);
  json.field("recompute", recompute_text(layout)).field("recompute_layers", layout.recompute_layers);
  json.field("schedule", name_in(kScheduleNames, layout.schedule));
  json.key("layers_per_stage").begin_line_array();
  for (const int layers : plan.layers_per_stage) {
    json.value(layers);
  }
  json.end_array();
  json.field("cp_type", name_in(kCpTypeNames, layout.cp_type));
  json.field("offload", name_in(kOffloadNames, layout.offload));
  json.field("optimizer", name_in(kOptimizerNames, layout.optimizer));
  json.field("ranks_order", name_in(kRanksOrderNames, layout.ranks_order));
  json.field("grad_reduce", name_in(kGradReduceNames, layout.grad_reduce));
  json.end_object();
}

void write_breakdown(JsonWriter& json, const StepEstimate& step) {
  json.begin_object();
  for (const StepTermRow& term : kStepTerms) {
    json.field(term.key, (step.*term.field).raw());
  }
  json.end_object();
}

void write_memory(JsonWriter& json, const MemoryEstimate& memory) {
  json.begin_object();
  for (const MemoryTermRow& term : kMemoryTerms) {
    json.field(term.key, (memory.*term.field).raw());
  }
  const double total = memory.total().raw();
  json.field("total", total).field("allocated", memory.allocated().raw()).field("reserved", memory.reserved().raw());
  json.field("low", interval80(total, memory.error).low).field("high", interval80(total, memory.error).high);
  json.field("capacity", memory.capacity.raw()).field("host_bytes", memory.host_bytes.raw());
  json.field("stage", memory.stage).field("moment", kMoments[memory.moment]);
  json.end_object();
}

void write_inputs(JsonWriter& json, const Job& job) {
  json.begin_object();
  write_model(json, job.model);
  write_cluster(json, job.cluster);
  write_training(json, job);
  json.end_object();
}

void write_assumed(JsonWriter& json, const std::vector<Assumption>& assumed) {
  json.begin_array();
  for (const Assumption& assumption : assumed) {
    json.begin_line_object();
    json.field("what", assumption.what).field("value", assumption.value).field("set_by", assumption.set_by);
    json.end_object();
  }
  json.end_array();
}

void write_search(JsonWriter& json, const SearchStats& stats, bool timing, Seconds load_seconds) {
  json.begin_object();
  json.field("enumerated", stats.enumerated);
  json.key("rejected").begin_object();
  for (std::size_t i = 0; i < stats.rejected.size() && i < rules().size(); ++i) {
    if (stats.rejected[i] > 0) {
      json.field(rules()[i].name, stats.rejected[i]);
    }
  }
  json.end_object();
  json.field("out_of_memory", stats.out_of_memory).field("ranked", stats.ranked);
  json.field("simulated", stats.simulated).field("simulation_certain", stats.simulation_certain);
  if (timing) {
    json.field("seconds", stats.seconds).field("load_seconds", load_seconds.raw());
    json.field("simulate_seconds", stats.simulate_seconds);
  }
  json.end_object();
}

std::string json_report(const PlanReport& report, const Terminal&, std::string&) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.key("inputs");
  write_inputs(json, report.job);
  json.key("assumed");
  write_assumed(json, report.assumed);
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) {
    json.value(warning);
  }
  json.end_array();
  json.key("search");
  write_search(json, report.result.stats, report.timing, report.load_seconds);
  json.key("plans").begin_array();
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    write_plan(json, report.job, report.result.plans[i], i + 1);
  }
  json.end_array();
  if (report.result.plans.empty()) {
    write_miss(json, report);
  }
  json.end_object();
  return json.text();
}

std::string json_lines_report(const PlanReport& report, const Terminal&, std::string&) {
  std::string lines;
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    JsonWriter json(JsonWriter::Form::one_line);
    write_plan(json, report.job, report.result.plans[i], i + 1);
    lines += json.text();
  }
  return lines;
}

}  // namespace tpplan
