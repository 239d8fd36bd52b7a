#include "planner/commands/command.h"

#include "planner/commands/completion.h"
#include "planner/commands/help.h"
#include "planner/commands/plan.h"

namespace tpplan {

const std::vector<Command>& commands() {
  static const std::vector<Command> rows{
      {.name = "plan",
       .summary = "rank parallel layouts by predicted step time (default)",
       .run = run_plan,
       .formats = "table json jsonl csv md html",
       .examples = "tpplan --model 7b --cluster 8xA100\n"
                   "tpplan --model config.json --cluster 16x8xh100-80gb-sxm --tp 1..8 --format json\n",
       .details =
           "Enumerates every layout of the model on the cluster, drops those that break a rule of the framework, "
           "predicts step time and memory of each that remains, and prints the best. Ends with 1 when no layout "
           "fits, and says which came closest."},
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
