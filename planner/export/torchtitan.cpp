// TorchTitan: a Python function that sets the plan on a recipe, and the TOML file of earlier releases.
#include <algorithm>

#include "planner/export/export_target.h"
#include "planner/export/settings.h"
#include "planner/export/torchtitan_stages.h"

namespace tpplan {
namespace {

void add_pipeline(Settings& settings, const ExportRequest& request) {
  if (request.layout().pp == 1) {
    return;
  }
  const TorchtitanCut cut = torchtitan_cut(request.job.model.layers, request.stage_layers);
  std::string remark;
  if (!cut.exact) {
    for (const int layers : request.stage_layers) {
      remark += (remark.empty() ? "not expressible: planned are " : ", ") + std::to_string(layers);
    }
    remark += " layers per stage";
  }
  settings.push_back({"parallelism.pipeline_parallel_first_stage_less_layers", std::int64_t{cut.first}, remark});
  settings.push_back({"parallelism.pipeline_parallel_last_stage_less_layers", std::int64_t{cut.last}});
  if (cut.layers_per_stage > 0) {
    settings.push_back({"parallelism.pipeline_parallel_layers_per_stage", std::int64_t{cut.layers_per_stage}});
  }
}

std::string reshard_of(const Layout& layout) { return layout.zero == 3 ? "always" : "never"; }

Settings python_settings(const ExportRequest& request) {
  const Layout& layout = request.layout();
  std::vector<JobFact> except;
  if (layout.pp == 1) {
    except = {JobFact::micro_batches};  // without stages TorchTitan accumulates to the tokens of a step by itself
  }
  Settings settings = settings_of(request, Target::torchtitan, except);
  if (layout.zero > 0) {
    settings.push_back({"parallelism.fsdp_reshard_after_forward", reshard_of(layout)});
  }
  add_pipeline(settings, request);
  std::stable_sort(settings.begin(), settings.end(), [](const Setting& a, const Setting& b) {
    return a.key.substr(0, a.key.find('.')) < b.key.substr(0, b.key.find('.'));
  });
  return settings;
}

std::string python_value(const Setting& setting) {
  if (const bool* on = std::get_if<bool>(&setting.value)) {
    return *on ? "True" : "False";
  }
  return value_text(setting, '"');
}

std::string_view python_recompute(const Layout& layout) {
  switch (layout.recompute) {
    case RecomputeKind::full:
      return "FullAC.Config()";
    case RecomputeKind::selective_op:
      return "SelectiveAC.Config()";
    default:
      return "None";
  }
}

}  // namespace

std::string write_torchtitan(const ExportRequest& request) {
  const Layout& layout = request.layout();
  std::string text;
  if (layout.recompute != RecomputeKind::none) {
    text += "from torchtitan.distributed.activation_checkpoint import " +
            std::string(layout.recompute == RecomputeKind::full ? "FullAC" : "SelectiveAC") + "\n";
  }
  text +=
      "from torchtitan.trainer import Trainer\n\n\n"
      "def planned(config: Trainer.Config) -> Trainer.Config:\n"
      "    \"\"\"Sets parallelism and batches on a recipe of the same model, in a config registry:\n\n"
      "    def my_run() -> Trainer.Config:\n"
      "        return planned(llama3_70b())\n"
      "    \"\"\"\n";
  for (const Setting& setting : python_settings(request)) {
    text += "    config." + setting.key + " = " + python_value(setting) +
            (setting.comment.empty() ? "" : "  # " + setting.comment) + "\n";
  }
  text += "    config.activation_checkpoint = " + std::string(python_recompute(layout)) + "\n";
  if (request.job.training.compiled) {
    text += "    config.compile.enable = True\n";
  }
  return text + "    return config\n";
}

LaunchLine launch_torchtitan(const ExportRequest&) {
  return {torchrun("-m torchtitan.train --module \"$MODULE\" --config \"$RECIPE\" \"$@\"")};
}

std::string write_torchtitan_toml(const ExportRequest& request) {
  const Layout& layout = request.layout();
  Settings settings = settings_of(request, Target::torchtitan_toml, {});
  if (layout.ep == 1) {
    std::erase_if(settings, [](const Setting& s) { return s.key.find("expert_tensor") != std::string::npos; });
  }
  if (layout.zero > 0) {
    settings.push_back({"parallelism.fsdp_reshard_after_forward", reshard_of(layout)});
  }
  add_pipeline(settings, request);
  // With a pipeline the local batch is that of a whole pipeline run, cut into micro-batches.
  const std::int64_t per_run = layout.pp > 1 ? micro_batches(request.job, layout) : 1;
  settings.push_back({"training.local_batch_size", per_run * layout.micro_batch});
  if (layout.pp > 1) {
    settings.push_back({"parallelism.pipeline_parallel_microbatch_size", std::int64_t{layout.micro_batch}});
  }
  const bool selective = layout.recompute == RecomputeKind::selective_op;
  settings.push_back({"activation_checkpoint.mode", std::string(selective                                 ? "selective"
                                                                : layout.recompute == RecomputeKind::full ? "full"
                                                                                                          : "none")});
  if (selective) {
    settings.push_back({"activation_checkpoint.selective_ac_option", std::string("op")});
  }
  settings.push_back({"compile.enable", request.job.training.compiled});
  return as_toml(settings);
}

LaunchLine launch_torchtitan_toml(const ExportRequest& request) {
  return {
      torchrun("-m torchtitan.train --job.config_file \"" + request.file +
               "\" --model.name \"$MODEL\" --model.flavor \"$FLAVOR\" --model.hf_assets_path \"$HF_ASSETS\" \"$@\"")};
}

}  // namespace tpplan
