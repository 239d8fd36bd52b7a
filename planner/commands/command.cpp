#include "planner/commands/command.h"

#include "planner/commands/calibrate.h"
#include "planner/commands/clusters.h"
#include "planner/commands/completion.h"
#include "planner/commands/diff.h"
#include "planner/commands/explain.h"
#include "planner/commands/export.h"
#include "planner/commands/fit.h"
#include "planner/commands/gpus.h"
#include "planner/commands/help.h"
#include "planner/commands/import.h"
#include "planner/commands/models.h"
#include "planner/commands/plan.h"
#include "planner/commands/report.h"
#include "planner/commands/simulate.h"
#include "planner/commands/sweep.h"
#include "planner/commands/validate.h"

namespace tpplan {

const std::vector<Command>& commands() {
  static const std::vector<Command> rows{
      {.name = "plan",
       .summary = "rank parallel layouts by predicted step time (default)",
       .required = "--model M --cluster C",
       .run = run_plan,
       .formats = "table json jsonl csv md html",
       .examples = "tpplan --model 7b --cluster 8xA100\n"
                   "tpplan --model config.json --cluster 16x8xh100-80gb-sxm --tp 1..8 -o plan.json\n",
       .details =
           "Enumerates every layout of the model on the cluster, drops those that break a rule of the framework, "
           "predicts step time and memory of each that remains, and prints the best. Ends with 1 when no layout "
           "fits, and says which came closest."},
      {.name = "explain",
       .summary = "take one layout apart: every term, or what forbids it",
       .required = "--model M --cluster C --layout L",
       .run = run_explain,
       .formats = "table json",
       .examples =
           "tpplan explain --model 7b --cluster 8xA100 --layout \"tp=2 micro-batch=1 recompute=selective\"\n"
           "tpplan explain --model 70b --cluster 8x8xh100-80gb-sxm --layout \"tp=8 pp=2\" --measured-step 9.1s\n",
       .details =
           "A layout that fits is shown with the formula and the source of each of its terms; one that does not fit "
           "with the three cheapest changes that make it fit and their price in time; one that breaks rules of the "
           "framework with the arithmetic and the nearest legal values. Ends with 1 in the last two cases."},
      {.name = "simulate",
       .summary = "run one step of a layout event by event",
       .required = "--model M --cluster C --layout L",
       .run = run_simulate,
       .formats = "table json",
       .examples =
           "tpplan simulate --model 7b --cluster 8xA100 --layout \"tp=2 pp=4 micro-batch=1\" --trace step.json\n"
           "tpplan simulate --model 70b --cluster 8x8xh100-80gb-sxm --layout \"tp=8 pp=4\" --what-if \"gpu=3 "
           "slow=20%\"\n",
       .details =
           "Runs the passes of every pipeline stage, the transfers between them, gradient reduction and optimizer "
           "step against each other and shows where stages wait. Ends with 1 when the layout breaks a rule or does "
           "not fit."},
      {.name = "calibrate",
       .summary = "fit measured collectives and kernels, for --calibration",
       .operands = "SAMPLES...",
       .run = run_calibrate,
       .examples = "tpplan calibrate samples.jsonl -o clusters/mine.calibration.json --plot mine.svg\n"
                   "tpplan calibrate all_reduce.log --ranks 16 --nodes 2 -o lab.calibration.json\n",
       .details =
           "Reads samples of comm-bench, output of nccl-tests and rccl-tests (text of any age, JSON, CSV), latency "
           "tables of OSU and IMB, and lists of a GPU microbenchmark. Prints how good each fit is, compares it with "
           "the rated links, and refuses what cannot be planned with, each with the reason. Ends with 3 when nothing "
           "usable is left."},
      {.name = "validate",
       .summary = "compare predictions with measured runs",
       .operands = "RUNS.jsonl...",
       .run = run_validate,
       .formats = "table json csv md",
       .examples = "tpplan validate my-runs.jsonl --worst 3\n"
                   "tpplan validate tests/data/runs/*.jsonl --group-by framework,gpu\n"
                   "tpplan validate tests/data/runs/*.jsonl --fit fsdp-2023 -o fsdp-2023.json\n",
       .details =
           "Predicts step time and memory of every run record (one JSON object a line) and prints the error per group, "
           "right and wrong verdicts on memory, and how well layouts are ranked. Suspect and skipped runs are counted "
           "apart, with their reasons. --fit refits the free constants of a profile and writes it to the file of -o; "
           "--leave-out names a group that the fit must not see, or model or group to leave out each in turn. Ends "
           "with 1 when a file has no usable record."},
      {.name = "report",
       .summary = "time, money, energy and failures of a whole training run",
       .required = "--model M --cluster C",
       .run = run_report,
       .formats = "table json md html",
       .examples = "tpplan report --model 70b --cluster 64x8xH100 --tokens 1T -o plan.html\n"
                   "tpplan report --model 70b --cluster aws-p5.48xlarge,gcp-a3-mega --tokens 1T --deadline 30d\n",
       .details =
           "Plans every model on every cluster (comma-separated) and answers what a training run takes: days, "
           "GPU-hours, money, energy, CO2, goodput with failures and checkpoints, storage; which size meets a deadline "
           "and what a budget buys; which network is fast enough, which upgrade helps most, what fits; other hardware; "
           "owning against renting. --sections picks parts. Ends with 1 when nothing fits or nothing meets deadline "
           "and budget."},
      {.name = "export",
       .summary = "write a layout as a framework's configuration",
       .required = "--to TARGET --model M --cluster C --layout L",
       .run = run_export,
       .examples =
           "tpplan export --to megatron --model 70b --cluster 8x8xh100-80gb-sxm --layout \"tp=8 pp=4\" > run.sh\n"
           "tpplan export --to deepspeed --model 7b --cluster 8xA100 --layout \"zero=3\" -o ds.json\n",
       .details =
           "Writes flags, JSON, TOML, YAML or Python for the framework of --to, with launch lines and a head that "
           "tells version, world size and predicted step time and memory. The layout is checked by the rules that "
           "explain applies (of the target's framework, unless --framework names another) and by those of the target; "
           "what the target cannot say is refused, or told in the head. Paths of data and tokenizers are shell "
           "variables that stop the script when unset. Where the configuration does not launch itself, -o FILE writes "
           "FILE with .launch.sh for its suffix beside it. Ends with 1 when the target cannot run the layout, and "
           "after writing one that does not fit into memory."},
      {.name = "import",
       .summary = "read an existing job's files back to a layout",
       .operands = "FILE...",
       .run = run_import,
       .formats = "table json",
       .examples = "tpplan import pretrain_llama.sh\n"
                   "tpplan import launch.sh ds_config.json --model llama3-8b --cluster 2x8xh100-80gb-sxm\n",
       .details =
           "Reads launch scripts and lists of flags of Megatron-LM, overrides and YAML files of Megatron-Bridge and "
           "NeMo, DeepSpeed's JSON, TOML files and flags of TorchTitan, and YAML files of accelerate, nanotron and "
           "llm-foundry; files of one job are given together. Shows the layout, each value with the line it stands "
           "on, what was assumed, and which settings that may matter were not understood. With --cluster, and --model "
           "unless the files describe one, also the predicted step of the job beside the best plan. Ends with 1 when "
           "the layout breaks a rule or does not fit."},
      {.name = "sweep",
       .summary = "plan every combination of models, clusters and sizes",
       .operands = "GRID.json",
       .run = run_sweep,
       .examples = "tpplan sweep grid.json -o rows.jsonl\n"
                   "tpplan sweep grid.json -o rows.jsonl --resume\n",
       .details =
           "The grid is a JSON object: models and clusters (lists of what --model and --cluster take), nodes or gpus "
           "(sizes of every cluster), and any option of plan that describes job, layouts or search as a value or a "
           "list, with _ for -: {\"models\": [\"7b\"], \"clusters\": [\"8xA100\"], \"nodes\": [1, 2, 4], \"seq\": "
           "[4096, 8192]}. Each combination is a cell and gets one row of JSON with its best plan, or with the "
           "reason when nothing fits or the cell makes no sense; the first key varies slowest. Rows come in the "
           "order of the cells and are the same for any number of threads and ranks. Under mpirun -n N the ranks "
           "share the cells; rank 0 writes. Ends with 1 when nothing fits in any cell."},
      {.name = "diff",
       .summary = "compare two plans, clusters, models or calibrations",
       .operands = "A B",
       .run = run_diff,
       .formats = "table json md",
       .examples = "tpplan diff before.json after.json\n"
                   "tpplan diff plan.json plan.json#2\n"
                   "tpplan diff 8xA100 1x8xh100-80gb-sxm\n",
       .details =
           "A and B are files that plan --format json wrote (FILE#2 takes the second plan), cluster files or names, "
           "model files or names, or calibrations. Shows which inputs differ, and each number of both sides with its "
           "absolute and relative change, the largest change first."},
      {.name = "fit",
       .summary = "which uses of a model fit on which GPU alone",
       .required = "--model M",
       .operands = "[GPU]...",
       .run = run_fit,
       .formats = "table json csv md",
       .examples = "tpplan fit --model 7b\n"
                   "tpplan fit --model llama3-8b --gpu rtx-4090,l40s --seq 4096 --peft qlora:rank=8:targets=q+v\n",
       .details =
           "Inference in fp32, bf16, int8 and int4 with its key/value cache, QLoRA, LoRA and full fine-tuning: the "
           "memory at one sequence, the longest sequence and the largest batch that fit, and the time of a training "
           "step. GPUs are those of --gpu, separated by commas, and the operands. Ends with 1 when nothing fits."},
      {.name = "gpus",
       .summary = "list the GPUs that are known, or those that words name",
       .operands = "[WORD]...",
       .run = run_gpus,
       .formats = "table json",
       .examples = "tpplan gpus a100 sxm\n"},
      {.name = "models",
       .summary = "list shipped models, or count the parameters of model files",
       .operands = "[FILE]...",
       .run = run_models,
       .formats = "table json",
       .examples = "tpplan models\ntpplan models ./config.json --format json\n",
       .details =
           "A file is a model in the format of models/, a config.json as Hugging Face publishes it, or a folder that "
           "holds one. Each file is tried; the exit code is 2 when any could not be read."},
      {.name = "clusters",
       .summary = "list shipped clusters, or describe a machine as a cluster file",
       .operands = "[NAME | FILE]...",
       .run = run_clusters,
       .formats = "table json",
       .examples = "tpplan clusters\ntpplan clusters --from topology.txt query.txt > mine.json\n",
       .details =
           "--from reads what nvidia-smi, rocm-smi and ibstat print of a machine; --detect asks nvidia-smi here."},
      {.name = "completion",
       .summary = "print a completion script for bash, zsh or fish",
       .operands = "SHELL",
       .run = run_completion,
       .examples = "tpplan completion bash > ~/.local/share/bash-completion/completions/tpplan\n"},
      {.name = "help",
       .summary = "explain a command and its options",
       .operands = "[COMMAND]",
       .run = run_help,
       .examples = "tpplan help plan\n"},
  };
  return rows;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.name == name) {
      return &command;
    }
  }
  return nullptr;
}

}  // namespace tpplan
