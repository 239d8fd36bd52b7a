// Megatron-Bridge: dotted overrides of a recipe, for scripts/training/run_recipe.py.
#include "cost-model/layer_sizes.h"
#include "planner/export/export_target.h"
#include "planner/export/megatron_words.h"
#include "planner/export/settings.h"

namespace tpplan {
namespace {

void say(Settings& settings, std::string key, std::string word) {
  settings.push_back({std::move(key), std::move(word)});
}
void say(Settings& settings, std::string key, bool on) { settings.push_back({std::move(key), on}); }

/// A recipe has values of its own, so whatever the layout leaves out is set to nothing.
Settings overrides(const ExportRequest& request) {
  const Job& job = request.job;
  const Layout& layout = request.layout();
  Settings settings;
  for (Setting& setting :
       settings_of(request, Target::megatron_bridge, {JobFact::dp_replicas, JobFact::vpp, JobFact::recompute_layers})) {
    settings.push_back(std::move(setting));
  }
  const bool by_list = !request.stages_are_equal();
  say(settings, "model.virtual_pipeline_model_parallel_size",
      layout.vpp > 1 && !by_list ? std::to_string(layout.vpp) : "null");
  say(settings, "model.pipeline_model_parallel_layout", by_list ? "\"'" + megatron_stages(request) + "'\"" : "null");
  if (layout.pp > 1) {
    say(settings, "model.pipeline_dtype",
        layout.pp > 1 && job.training.precision == Precision::fp16 ? std::string("torch.float16")
                                                                   : std::string("torch.bfloat16"));
  }
  const auto recompute = megatron_recompute(layout);
  for (const std::string_view key : {"granularity", "method", "num-layers", "modules"}) {
    std::string value = "null";
    for (const MegatronRecompute& word : recompute) {
      value = word.key == key ? word.override_value : value;
    }
    say(settings, "model.recompute_" + (key == "num-layers" ? std::string("num_layers") : std::string(key)), value);
  }
  const double habit = job.profile.dp_overlap_default;
  const bool reduce = switched_on(job.training.overlap_dp_grad, habit);
  say(settings, "ddp.overlap_grad_reduce", reduce);
  say(settings, "ddp.overlap_param_gather",
      reduce && layout.zero > 0 && switched_on(job.training.overlap_dp_param, habit));
  if (job.training.gradient_bytes > 0) {
    say(settings, "ddp.grad_reduce_in_fp32", job.training.gradient_bytes >= 4);
  }
  say(settings, "ddp.use_megatron_fsdp", layout.zero >= 2);
  if (layout.zero >= 2) {
    say(settings, "ddp.data_parallel_sharding_strategy",
        layout.zero == 3 ? std::string("optim_grads_params") : std::string("optim_grads"));
    say(settings, "checkpoint.ckpt_format", std::string("fsdp_dtensor"));
  }
  const auto replicas = number_of(job, layout, JobFact::dp_replicas).value_or(1);
  say(settings, "ddp.num_distributed_optimizer_instances", std::to_string(layout.zero > 0 ? replicas : 1));
  const bool overlaps_tp =
      layout.tp > 1 && layout.sequence_parallel && switched_on(job.training.overlap_tp, job.profile.tp_overlap_default);
  if (overlaps_tp || job.training.overlap_tp == Switch::off) {
    say(settings, "comm_overlap.tp_comm_overlap", overlaps_tp);
  }
  say(settings, "optimizer.optimizer_cpu_offload", layout.offload == Offload::optimizer);
  if (layout.offload == Offload::optimizer) {
    say(settings, "optimizer.use_precision_aware_optimizer", true);
  }
  if (layout.offload == Offload::activations) {
    say(settings, "model.cpu_offloading", true);
    say(settings, "model.cpu_offloading_num_layers", std::to_string(job.model.layers - 1));
  }
  if (job.moe()) {
    const std::string flags = dispatcher_flags(job);
    const bool flex = flags.find("flex") != std::string::npos;
    say(settings, "model.moe_token_dispatcher_type", flex ? std::string("flex") : std::string("alltoall"));
    if (flex) {
      say(settings, "model.moe_flex_dispatcher_backend", flags.substr(flags.rfind(' ') + 1));
    }
    if (job.training.expert_capacity > 0) {
      say(settings, "model.moe_expert_capacity_factor", shortest(job.training.expert_capacity));
    }
  }
  if (layout.pp > 1 && layout.ranks_order == RanksOrder::tp_cp_pp_dp) {
    say(settings, "dist.use_tp_pp_dp_mapping", true);
  }
  return settings;
}

}  // namespace

std::string write_megatron_bridge(const ExportRequest& request) {
  std::string text =
      "# The recipe gives the model, the data and the learning rate; what follows overrides its parallelism and "
      "batches.\nOVERRIDES=(\n";
  for (const Setting& setting : overrides(request)) {
    text += "  " + setting.key + "=" + value_text(setting, '\0') + "\n";
  }
  const Layout& layout = request.layout();
  const bool ordered = layout.zero < 2 && (layout.tp > 1 || layout.cp > 1) &&
                       request.job.cluster.gpu.architecture.rfind("blackwell", 0) != 0;
  text += ")\n\n" + environment(request, ordered ? 1 : 0,
                                "Megatron-Core asks for it with tensor or context parallelism before Blackwell");
  return text + "\n";
}

LaunchLine launch_megatron_bridge(const ExportRequest&) {
  return {torchrun("scripts/training/run_recipe.py --recipe \"$RECIPE\" --mode pretrain \"$@\" \"${OVERRIDES[@]}\"")};
}

}  // namespace tpplan
