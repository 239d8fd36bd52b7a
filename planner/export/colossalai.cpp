// Colossal-AI: the plugin of its booster, in Python; it has no configuration file.
#include "planner/export/export_target.h"
#include "planner/export/settings.h"

namespace tpplan {

std::string write_colossalai(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const Job& job = request.job;
  const bool experts = job.moe() && layout.ep > 1;
  const std::string plugin = experts ? "MoeHybridParallelPlugin" : "HybridParallelPlugin";
  std::vector<JobFact> except;
  if (layout.pp == 1) {
    except.push_back(JobFact::micro_batch);  // the data loader's batch then
  }
  if (!experts) {
    except.push_back(JobFact::ep);
  }
  if (layout.cp == 1) {
    except.push_back(JobFact::cp);
  }
  Settings settings = settings_of(request, Target::colossalai, except);
  const auto say = [&settings](std::string key, const auto& value) { settings.push_back({std::move(key), value}); };
  const bool eight_bit = job.training.precision >= Precision::fp8;
  if (eight_bit) {
    say("use_fp8", true);
  }
  if (layout.cp > 1 || layout.sequence_parallel) {
    const auto mode = layout.cp > 1
                          ? their_word(Target::colossalai, JobFact::cp_type, word_of(job, layout, JobFact::cp_type))
                          : std::nullopt;
    say("enable_sequence_parallelism", true);
    say("sequence_parallelism_mode", std::string(mode.value_or("split_gather")));
  }
  say("enable_flash_attention", job.training.flash_attention);
  say("cpu_offload", layout.offload == Offload::optimizer);
  std::string text = "from colossalai.booster.plugin import " + plugin + "\n\n\ndef planned_plugin() -> " + plugin +
                     ":\n    return " + plugin + "(\n";
  for (const Setting& setting : settings) {
    const bool* on = std::get_if<bool>(&setting.value);
    text +=
        "        " + setting.key + "=" + (on != nullptr ? (*on ? "True" : "False") : value_text(setting, '"')) + ",\n";
  }
  text += "    )\n\n\n";
  // Without stages the loader gives a micro-batch; with them a whole pipeline run.
  const std::int64_t per_call =
      layout.pp > 1 ? std::int64_t{layout.micro_batch} * micro_batches(job, layout) : std::int64_t{layout.micro_batch};
  text += "# For the data loader and the loop:\nBATCH_PER_CALL = " + std::to_string(per_call) +
          "  # sequences of a data-parallel rank\nACCUMULATION = " +
          std::to_string(layout.pp > 1 ? 1 : micro_batches(job, layout)) +
          "  # calls per optimizer step\nSEQUENCE_LENGTH = " + std::to_string(job.training.seq) + "\n";
  if (layout.recompute == RecomputeKind::full) {
    text += "# Before the booster: model.gradient_checkpointing_enable()\n";
  }
  return text;
}

LaunchLine launch_colossalai(const ExportRequest&) { return {torchrun("\"$SCRIPT\" \"$@\"")}; }

}  // namespace tpplan
