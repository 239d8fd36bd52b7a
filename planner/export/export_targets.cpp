#include "planner/export/export_target.h"
#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

constexpr std::uint32_t kEveryZero = kNoZero | kZero1 | kZero2 | kZero3;
constexpr std::uint32_t kMegatronSays =
    kPipelineStages | kTensorParallel | kContextParallel | kExperts | kEveryZero | kShardGroup | kRecomputeFull |
    kRecomputeSome | kSelective | kOffloadOptimizer | kOffloadActivations | kGivenStages | kVirtualStages | kVppGroup |
    kStagesNear | kSequenceParallel | kNoSequenceParallel | kOptimizerKind | kDispatcher | kCapacity | kGradientType |
    kOverlaps | kGradOverlap | kGradReduce | kEightBit | kCpVariant;
constexpr std::uint32_t kTorchtitanSays = kPipelineStages | kTensorParallel | kContextParallel | kExperts | kNoZero |
                                          kZero2 | kZero3 | kShardGroup | kRecomputeFull | kSelectiveOp |
                                          kVirtualStages | kSequenceParallel;

/// Lines of the head, without the mark of a comment.
std::vector<std::string> head_lines(const ExportTarget& target, const ExportRequest& request) {
  const Job& job = request.job;
  const StepEstimate& step = request.plan.estimate.step;
  const MemoryEstimate& memory = request.plan.estimate.memory;
  const Interval<Seconds> time = interval80(step.total(), step.step_error);
  const Interval<Bytes> bytes = interval80(memory.total(), memory.error);
  std::vector<std::string> lines{"tpplan " TPPLAN_VERSION " wrote this for " + std::string(target.program) + ":",
                                 "  " + request.command, job_line(job), "layout " + to_text(request.layout())};
  const bool one_node = job.cluster.nodes == 1;
  lines.push_back("world size " + with_separators(request.layout().world()) + " (" +
                  with_separators(job.cluster.nodes) + (one_node ? " node of " : " nodes of ") +
                  with_separators(job.cluster.gpus_per_node) + " GPUs), " +
                  with_separators(micro_batches(job, request.layout())) + " micro-batches per step");
  lines.push_back("predicted: " + format(step.total()) + " per step (80 % interval " + format(time.low) + " to " +
                  format(time.high) + "), " + format(memory.total()) + " of " + format(memory.capacity) +
                  " per GPU (80 % interval " + format(bytes.low) + " to " + format(bytes.high) + ")");
  if (request.plan.fits != Fits::fits) {
    lines.push_back(request.plan.fits == Fits::tight
                        ? "warning: memory is tight, it fits only while the allocator wastes nothing"
                        : "warning: this layout does not fit into the GPUs' memory as predicted");
  }
  for (const ClusterSpec& part : job.cluster.parts) {
    if (part.gpus_per_node != job.cluster.gpus_per_node) {
      lines.emplace_back("not expressible here: nodes with different numbers of GPUs (set NODES and GPUS_PER_NODE)");
      break;
    }
  }
  for (const std::string& omission : request.left) {
    lines.push_back("not expressible here: " + omission);
  }
  return lines;
}

std::string commented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line.empty() ? "#\n" : "# " + line + "\n";
  }
  return text;
}

std::string launch_script(const ExportTarget& target, const ExportRequest& request, const std::string& head,
                          const std::string& body) {
  const LaunchLine line = target.launch(request);
  return script_start(request) + head + "set -euo pipefail\n\n" + launch_variables(request, line) +
         std::string(target.prepare) + "\n" + body + launch_line(request, line);
}

}  // namespace

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> rows{
      {Target::megatron, Framework::megatron, "Megatron-LM core 0.20.0 (d98e8a64, 2026-08-22)", ".sh", FileKind::script,
       kMegatronSays, write_megatron, launch_megatron,
       ": \"${DATA_PATH:?prefix of the tokenised data, without .bin and .idx}\"\n"
       ": \"${TOKENIZER_MODEL:?tokenizer: a folder or a name on the Hugging Face hub}\"\n"
       ": \"${TRAIN_ITERS:?number of steps}\"\n"
       ": \"${LR:?learning rate}\"\n"},
      {Target::megatron_bridge, Framework::megatron, "Megatron-Bridge 0.7.0 (067f987d, 2026-08-22)", ".sh",
       FileKind::script, kMegatronSays & ~kOptimizerKind, write_megatron_bridge, launch_megatron_bridge,
       ": \"${RECIPE:?a pretraining recipe of this model, such as llama3_70b_pretrain_config}\"\n"},
      {Target::deepspeed, Framework::deepspeed, "DeepSpeed 0.19.6 (edaa7221, 2026-08-22)", ".json", FileKind::bare,
       kPipelineStages | kTensorParallel | kContextParallel | kExperts | kEveryZero | kShardGroup | kRecomputeFull |
           kOffloadOptimizer | kNoSequenceParallel | kGradientType | kGradOverlap | kGradReduce | kCpVariant,
       write_deepspeed, launch_deepspeed, ": \"${SCRIPT:?training script that calls deepspeed.initialize}\"\n"},
      {Target::torchtitan, Framework::torchtitan, "TorchTitan 0.2.2 main (b5bcd76c, 2026-08-21)", ".py",
       FileKind::remarked, kTorchtitanSays | kNoSequenceParallel, write_torchtitan, launch_torchtitan,
       ": \"${MODULE:?module of the recipe, such as llama3}\"\n"
       ": \"${RECIPE:?function of its config registry that returns planned(...)}\"\n"},
      {Target::torchtitan_toml, Framework::torchtitan,
       "TorchTitan releases that read TOML files (up to 0.2, before the Python configurations of 2026)", ".toml",
       FileKind::remarked, kTorchtitanSays | kCpVariant, write_torchtitan_toml, launch_torchtitan_toml,
       ": \"${MODEL:?name of the model in TorchTitan, such as llama3}\"\n"
       ": \"${FLAVOR:?its size, such as 70B}\"\n"
       ": \"${HF_ASSETS:?folder with its tokenizer}\"\n"},
      {Target::accelerate, Framework::fsdp, "accelerate 1.15.0.dev0 (16cb6eb8, 2026-07-24)", ".yaml",
       FileKind::remarked,
       kTensorParallel | kContextParallel | kNoZero | kZero2 | kZero3 | kShardGroup | kRecomputeFull |
           kNoSequenceParallel | kEightBit | kCpVariant,
       write_accelerate, launch_accelerate, ": \"${SCRIPT:?training script}\"\n"},
      {Target::nanotron, Framework::nanotron, "nanotron 0.4 (2411b022, 2026-04-07)", ".yaml", FileKind::remarked,
       kPipelineStages | kTensorParallel | kContextParallel | kNoZero | kZero1 | kRecomputeFull | kSequenceParallel |
           kNoSequenceParallel | kGradReduce | kCpVariant,
       write_nanotron, launch_nanotron,
       ": \"${DATASET:?data set on the Hugging Face hub or a folder}\"\n"
       ": \"${TOKENIZER:?tokenizer on the Hugging Face hub or a folder}\"\n"
       ": \"${TRAIN_STEPS:?number of steps}\"\n"
       ": \"${LR:?learning rate}\"\n"},
      {Target::llm_foundry, Framework::fsdp,
       "llm-foundry 0.22.0.dev0 (8c8dd48f, 2025-07-21) on composer 0.33.0.dev0 (64051888, 2026-04-29)", ".yaml",
       FileKind::remarked, kNoZero | kZero2 | kZero3 | kShardGroup | kRecomputeFull | kEightBit, write_llm_foundry,
       launch_llm_foundry,
       ": \"${DATA_LOCAL:?folder of the streaming data set}\"\n"
       ": \"${TOKENIZER:?tokenizer on the Hugging Face hub or a folder}\"\n"
       ": \"${MAX_DURATION:?length of the run, such as 1000ba}\"\n"
       ": \"${LR:?learning rate}\"\n"
       "export DATA_LOCAL TOKENIZER MAX_DURATION LR\n"},
      {Target::colossalai, Framework::plain, "Colossal-AI 0.5.0 (4f9953be, 2026-04-09)", ".py", FileKind::remarked,
       kPipelineStages | kTensorParallel | kContextParallel | kExperts | kNoZero | kZero1 | kZero2 | kRecomputeFull |
           kOffloadOptimizer | kVirtualStages | kSequenceParallel | kNoSequenceParallel | kEightBit | kCpVariant,
       write_colossalai, launch_colossalai, ": \"${SCRIPT:?training script that uses planned_plugin}\"\n"},
  };
  return rows;
}

const ExportTarget& row_of(Target target) { return export_targets()[static_cast<std::size_t>(target)]; }

const ExportTarget* target_for(const Job& job, const Layout& layout) {
  for (const ExportTarget& target : export_targets()) {
    if (target.framework == job.training.framework && target.framework != Framework::plain &&
        export_refusals(target.target, target.expresses, job, layout).empty()) {
      return &target;
    }
  }
  return nullptr;
}

ExportFiles export_files(const ExportTarget& target, const ExportRequest& request) {
  const std::vector<std::string> lines = head_lines(target, request);
  const std::string head = commented(lines);
  const std::string body = target.write(request);
  if (target.kind == FileKind::script) {
    return {launch_script(target, request, head, body), ""};
  }
  ExportFiles files{body, launch_script(target, request, head, environment(request, 0, "") + "\n")};
  if (target.kind == FileKind::remarked) {
    std::vector<std::string> launched{
        "", "launch" + std::string(request.job.cluster.nodes > 1 && request.launcher == Launcher::torchrun
                                       ? ", on every node:"
                                       : ":")};
    std::string line = target.launch(request).command;
    for (std::size_t end = line.find(" \\\n  "); end != std::string::npos; end = line.find(" \\\n  ")) {
      line.replace(end, 5, " ");
    }
    launched.push_back("  " + line);
    files.main = head + commented(launched) + "\n" + body;
  }
  return files;
}

}  // namespace tpplan
