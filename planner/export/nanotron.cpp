// nanotron: its YAML file. Names in ${...} are filled in by envsubst in the launch script.
#include "planner/export/export_target.h"
#include "planner/export/settings.h"

namespace tpplan {

std::string write_nanotron(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const Job& job = request.job;
  Settings settings{
      {"general.project", std::string("tpplan")},
      {"general.run", std::string("planned")},
      {"general.seed", std::int64_t{42}},
      {"checkpoints.checkpoints_path", std::string("checkpoints")},
      {"checkpoints.checkpoint_interval", std::int64_t{1000}},
      {"logging.iteration_step_info_interval", std::int64_t{1}},
  };
  const std::vector<JobFact> except = job.moe() ? std::vector<JobFact>{} : std::vector<JobFact>{JobFact::ep};
  for (Setting& setting : settings_of(request, Target::nanotron, except)) {
    settings.push_back(std::move(setting));
  }
  const auto say = [&settings](std::string key, const auto& value) { settings.push_back({std::move(key), value}); };
  say("model.model_config.is_llama_config", true);
  say("model.model_config.hidden_act", std::string("silu"));
  say("model.model_config.max_position_embeddings", std::int64_t{job.training.seq});
  say("model.init_method.std", std::string("0.02"));
  say("model.make_vocab_size_divisible_by", std::int64_t{1});
  say("optimizer.accumulate_grad_in_fp32", job.training.gradient_bytes == 0 || job.training.gradient_bytes >= 4);
  say("optimizer.clip_grad", std::string("1.0"));
  say("optimizer.weight_decay", std::string("0.1"));
  say("optimizer.optimizer_factory.name", std::string("adamW"));
  say("optimizer.optimizer_factory.adam_beta1", std::string("0.9"));
  say("optimizer.optimizer_factory.adam_beta2", std::string("0.95"));
  say("optimizer.optimizer_factory.adam_eps", std::string("1.0e-8"));
  say("optimizer.optimizer_factory.torch_adam_is_fused", true);
  say("optimizer.learning_rate_scheduler.learning_rate", std::string("${LR}"));
  if (layout.pp == 1) {
    say("parallelism.pp_engine", std::string("1f1b"));
  }
  say("parallelism.tp_mode", std::string(layout.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE"));
  say("parallelism.tp_linear_async_communication", layout.sequence_parallel);
  say("tokens.train_steps", std::string("${TRAIN_STEPS}"));
  say("tokens.val_check_interval", std::int64_t{-1});
  say("tokenizer.tokenizer_name_or_path", std::string("${TOKENIZER}"));
  return as_yaml(settings) +
         "data_stages:\n"
         "- name: training\n"
         "  start_training_step: 1\n"
         "  data:\n"
         "    seed: 42\n"
         "    num_loading_workers: 1\n"
         "    dataset:\n"
         "      hf_dataset_or_datasets: ${DATASET}\n"
         "      hf_dataset_splits: train\n"
         "      text_column_name: text\n";
}

LaunchLine launch_nanotron(const ExportRequest& request) {
  return {torchrun("run_train.py --config-file \"filled-" + request.file + "\" \"$@\""), false, false,
          "# nanotron does not read variables: they are filled in here.\n"
          "export DATASET TOKENIZER TRAIN_STEPS LR\n"
          "envsubst '$DATASET $TOKENIZER $TRAIN_STEPS $LR' < \"" +
              request.file + "\" > \"filled-" + request.file + "\"\n"};
}

}  // namespace tpplan
