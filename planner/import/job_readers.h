#pragma once

#include "planner/import/job_draft.h"

namespace tpplan {

/// A kind of file that describes a job.
struct JobKind {
  Target target;
  std::string_view program;                    ///< as people call it
  Framework framework;                         ///< whose rules and speed apply
  bool (*recognised)(const ConfigFile& file);  ///< by keys that only such a file has
  void (*read)(SettingReader& reader);
};

/// Every kind, in the order in which they are tried.
const std::vector<JobKind>& job_kinds();
/// The kind of a file; nothing when it is none of them.
const JobKind* kind_of(const ConfigFile& file);
const JobKind& kind_row(Target target);

/// What starts the processes: nodes and GPUs per node, of torchrun, srun, deepspeed, accelerate, composer, #SBATCH and
/// NeMo's trainer.
void read_launcher(SettingReader& reader);
/// Batches, precision and recomputation as flags of Hugging Face's Trainer and scripts like it.
void read_trainer_flags(SettingReader& reader);

// The readers, a file each.
void read_megatron_job(SettingReader& reader);
void read_deepspeed_job(SettingReader& reader);
void read_torchtitan_job(SettingReader& reader);
void read_accelerate_job(SettingReader& reader);
void read_nanotron_job(SettingReader& reader);
void read_llm_foundry_job(SettingReader& reader);

/// Flags of Megatron-LM by the keys that a file has for them: its own flags, and the keys of Megatron-Bridge, NeMo and
/// Megatron-LM's YAML files ("model.tensor_model_parallel_size" for "--tensor-model-parallel-size").
class MegatronKeys {
 public:
  explicit MegatronKeys(SettingReader& reader);
  /// The file's key for a flag; empty when it has none. Further keys for the same flag count as read.
  [[nodiscard]] std::string_view operator()(std::string_view flag) const;
  [[nodiscard]] bool has(std::string_view flag) const { return !(*this)(flag).empty(); }

 private:
  SettingReader& reader_;
  std::multimap<std::string, std::string, std::less<>> keys_;
};

/// The model that Megatron's settings describe.
void read_megatron_model(SettingReader& reader, const MegatronKeys& keys);

/// Modules of Megatron's selective recomputation in our words: "selective:core_attn+mlp"; nothing when one is unknown.
std::optional<std::string> megatron_modules(std::string_view list);
/// Layers of each stage of --pipeline-model-parallel-layout "Et*3|t*4|t*3mL"; nothing when it cannot be read.
std::optional<std::vector<int>> megatron_stage_list(std::string_view text);
/// One flag per layer of --moe-layer-freq ("2", "([0]*3+[1]*58)", "[0, 1]*30"); nothing when it cannot be read.
std::optional<std::vector<int>> megatron_layer_pattern(std::string_view text, int layers);

}  // namespace tpplan
