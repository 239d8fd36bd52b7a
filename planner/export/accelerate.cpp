// accelerate: the YAML file of `accelerate launch --config_file`, with FSDP2 (plain replicas for ZeRO-0).
#include "planner/export/export_target.h"
#include "planner/export/settings.h"

namespace tpplan {

std::string write_accelerate(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const Job& job = request.job;
  const bool sharded = layout.zero > 0;
  Settings settings{
      {"compute_environment", std::string("LOCAL_MACHINE")},
      {"distributed_type", std::string(sharded ? "FSDP" : "MULTI_GPU")},
      {"num_machines", std::int64_t{job.cluster.nodes}},
      {"machine_rank", std::int64_t{0}, "--machine_rank overrides it on each node"},
      {"main_process_port", std::int64_t{29500}},
      {"rdzv_backend", std::string("static")},
      {"same_network", true},
      {"main_training_function", std::string("main")},
  };
  for (Setting& setting : settings_of(request, Target::accelerate)) {
    const bool grid = setting.key.rfind("parallelism_config", 0) == 0;
    const bool needed = grid ? sharded || layout.tp > 1 : sharded || setting.key.rfind("fsdp_config", 0) != 0;
    if (needed) {
      settings.push_back(std::move(setting));
    }
  }
  if (sharded) {
    settings.push_back({"fsdp_config.fsdp_version", std::int64_t{2}});
    settings.push_back({"fsdp_config.fsdp_reshard_after_forward", layout.zero == 3});
    settings.push_back({"fsdp_config.fsdp_auto_wrap_policy", std::string("TRANSFORMER_BASED_WRAP"),
                        "wraps what the model lists in _no_split_modules"});
    settings.push_back({"fsdp_config.fsdp_state_dict_type", std::string("SHARDED_STATE_DICT")});
    settings.push_back({"fsdp_config.fsdp_offload_params", false});
    settings.push_back({"fsdp_config.fsdp_cpu_ram_efficient_loading", true});
    if (layout.cp > 1) {
      settings.push_back({"parallelism_config.parallelism_config_cp_backend", std::string("torch")});
    }
  }
  std::string text = "# The batch is the script's: per_device_train_batch_size=" + std::to_string(layout.micro_batch) +
                     ", gradient_accumulation_steps=" + std::to_string(micro_batches(job, layout)) + " (" +
                     std::to_string(job.training.global_batch) + " sequences per step), sequences of " +
                     std::to_string(job.training.seq) + " tokens.\n";
  if (!sharded && layout.recompute == RecomputeKind::full) {
    text += "# In the script: model.gradient_checkpointing_enable()\n";
  }
  return text + as_yaml(settings);
}

LaunchLine launch_accelerate(const ExportRequest& request) {
  return {"accelerate launch --config_file \"" + request.file +
              "\" --machine_rank \"$NODE_RANK\" --main_process_ip \"$HEAD\" \\\n  \"$SCRIPT\" \"$@\"",
          true, false, "export SCRIPT\n"};
}

}  // namespace tpplan
