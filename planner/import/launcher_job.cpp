// What starts the processes of a job, and the flags of Hugging Face's Trainer.
#include <algorithm>
#include <array>

#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

constexpr std::array<std::string_view, 4> kGpusPerNode{"launcher --nproc-per-node", "launcher --num-gpus",
                                                       "launcher --gpus-per-node", "sbatch --gpus-per-node"};
constexpr std::array<std::string_view, 7> kNodes{
    "launcher --nnodes", "launcher --num-nodes", "launcher --nodes", "launcher --num-machines",
    "launcher -N",       "sbatch --nodes",       "sbatch -N"};
constexpr std::array<std::string_view, 2> kTasksPerNode{"sbatch --ntasks-per-node", "launcher --ntasks-per-node"};

/// "8", "h100:8", "gpu:h100:8": the number at the end. "1:4" of an elastic launch: the most.
std::optional<std::int64_t> last_number(const std::string& text) {
  const std::size_t digits = text.find_last_not_of("0123456789");
  const std::string number = digits == std::string::npos ? text : text.substr(digits + 1);
  return number.empty() || number.size() > 9 ? std::nullopt : std::optional<std::int64_t>(std::stoll(number));
}

bool starts_one_task_per_gpu(const ConfigFile& file) {
  return std::none_of(file.programs.begin(), file.programs.end(), [](const std::string& word) {
    return word.find("torchrun") != std::string::npos || word.find("torch.distributed") != std::string::npos ||
           word.find("deepspeed") != std::string::npos || word.find("accelerate") != std::string::npos ||
           word.find("composer") != std::string::npos;
  });
}

/// A value of Slurm that a script hands on: $SLURM_NNODES, $SLURM_JOB_NUM_NODES.
bool is_slurm_nodes(const std::string& text) {
  return text.find("SLURM") != std::string::npos && text.find("NODES") != std::string::npos;
}

}  // namespace

void read_launcher(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const ConfigFile& file = reader.file();
  std::vector<Origin> from;
  const auto first_of = [&](const auto& keys, std::optional<std::int64_t>& target) {
    for (const std::string_view key : keys) {
      if (!file.has(key) || target) {
        continue;
      }
      const auto entry = std::find_if(file.entries.rbegin(), file.entries.rend(),
                                      [key](const ConfigEntry& e) { return e.key == key; });
      reader.pass(key);
      if (is_open(entry->value)) {
        const bool handed_on = is_slurm_nodes(entry->value) && (file.has("sbatch --nodes") || file.has("sbatch -N"));
        if (!handed_on) {
          draft.leave_open(reader.origin(key), entry->value);
        }
        continue;
      }
      target = last_number(entry->value);
      if (target) {
        from.push_back(reader.origin(key));
      }
    }
  };
  first_of(kGpusPerNode, draft.gpus_per_node);
  if (!draft.gpus_per_node) {
    first_of(std::array<std::string_view, 2>{"sbatch --gres", "launcher --gres"}, draft.gpus_per_node);
  }
  const bool composer = std::any_of(file.programs.begin(), file.programs.end(),
                                    [](const std::string& word) { return word.find("composer") != std::string::npos; });
  if (composer) {
    first_of(std::array<std::string_view, 2>{"launcher -n", "launcher --nproc"}, draft.gpus_per_node);
  }
  if (!draft.gpus_per_node && starts_one_task_per_gpu(file)) {
    first_of(kTasksPerNode, draft.gpus_per_node);
  }
  first_of(kNodes, draft.nodes);
  // NeMo's own words.
  for (const std::string_view key : {"trainer.num_nodes", "trainer.devices"}) {
    if (const auto number = reader.count(key)) {
      (key == "trainer.devices" ? draft.gpus_per_node : draft.nodes) = number;
      from.push_back(reader.origin(key));
    }
  }
  for (const std::string_view key : {"launcher --num-processes", "launcher --world-size"}) {
    if (const auto number = reader.count(key)) {
      draft.say(JobFact::world, *number, reader.origin(key));
      return;
    }
  }
  const bool local = file.format == ConfigFormat::shell && draft.gpus_per_node && !draft.nodes &&
                     std::none_of(kNodes.begin(), kNodes.end(), [&](std::string_view key) { return file.has(key); });
  if (local && !starts_one_task_per_gpu(file)) {
    draft.nodes = 1;  // a launcher without a number of nodes starts one
  }
  if (draft.nodes && draft.gpus_per_node) {
    draft.say_derived(JobFact::world, *draft.nodes * *draft.gpus_per_node, from);
  }
}

void read_trainer_flags(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take("--per-device-train-batch-size", JobFact::micro_batch);
  reader.take("--gradient-accumulation-steps", JobFact::micro_batches);
  for (const std::string_view key :
       {"--max-seq-length", "--max-length", "--model-max-length", "--block-size", "--cutoff-len", "--max-seq-len"}) {
    reader.take(key, JobFact::seq);
  }
  for (const std::string_view key : {"--bf16", "--fp16"}) {
    if (reader.on(key)) {
      draft.say("precision", std::string(key.substr(2)), {reader.origin(key)});
    }
  }
  if (const auto on = reader.flag("--gradient-checkpointing")) {
    draft.say("recompute", *on ? "full" : "none", {reader.origin("--gradient-checkpointing")});
  }
  for (const std::string_view key : {"--model-name-or-path", "--model-name", "--pretrained-model-name-or-path"}) {
    if (const auto name = reader.word(key)) {
      draft.model_name = *name;
    }
  }
  // Files that belong to the job and may not have been given.
  for (const std::string_view key : {"--deepspeed", "--deepspeed-config", "launcher --config-file", "--config-file"}) {
    reader.word(key);
  }
}

}  // namespace tpplan
