#include "planner/commands/completion.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "cost-model/words.h"
#include "planner/commands/command.h"
#include "planner/option_table.h"
#include "planner/option_values.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
  }
  return names;
}

std::vector<const OptionRow*> rows_of(std::string_view command) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows()) {
    if (!row.hidden && belongs_to(row, command)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

std::vector<const OptionRow*> rows_of_any_command() {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows()) {
    const std::vector<Command>& known = commands();
    if (!row.hidden && std::any_of(known.begin(), known.end(),
                                   [&](const Command& command) { return belongs_to(row, command.name); })) {
      rows.push_back(&row);
    }
  }
  return rows;
}

/// The words after a command that is no file list, for a shell: names that the program lists itself, or fixed ones.
std::string operand_words(std::string_view command) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords{
      {{"completion", "bash zsh fish"}, {"help", ""}, {"gpus", "$(tpplan completion --names gpus 2>/dev/null)"}}};
  for (const auto& [name, words] : kWords) {
    if (name == command) {
      return name == "help" ? joined(command_names(), " ") : std::string(words);
    }
  }
  return "";
}

/// A shell expression that gives the words of an option's value; empty for files and free text.
std::string value_words(const OptionRow& row) {
  switch (row.completes) {
    case Completes::choices:
      return joined(row.choices(), " ");
    case Completes::models:
      return "$(tpplan completion --names models 2>/dev/null)";
    case Completes::clusters:
      return "$(tpplan completion --names clusters 2>/dev/null)";
    case Completes::files:
    case Completes::nothing:
      return "";
  }
  return "";
}

std::string pattern(const OptionRow& row) {
  const std::string name = "--" + std::string(row.name);
  return row.letter == 0 ? name : name + "|-" + row.letter;
}

std::string bash_script() {
  std::string text =
      "# bash completion of tpplan; needs nothing but bash\n"
      "_tpplan() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=plan words=\n"
      "  COMPREPLY=()\n"
      "  if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]]; then command=${COMP_WORDS[1]}; fi\n"
      "  case $previous in\n";
  for (const OptionRow* row : rows_of_any_command()) {
    if (row->argument.empty()) {
      continue;
    }
    const std::string words = value_words(*row);
    const bool files = row->completes == Completes::files || row->completes == Completes::models ||
                       row->completes == Completes::clusters;
    text += "    " + pattern(*row) + ")";
    text += words.empty() ? "" : " COMPREPLY=($(compgen -W \"" + words + "\" -- \"$word\"));";
    text += files ? " COMPREPLY+=($(compgen -f -- \"$word\"));" : "";
    text += " return;;\n";
  }
  text += "  esac\n  case $command in\n";
  for (const Command& command : commands()) {
    std::string words = operand_words(command.name);
    for (const OptionRow* row : rows_of(command.name)) {
      words += (words.empty() ? "--" : " --") + std::string(row->name);
    }
    text += "    " + std::string(command.name) + ") words=\"" + words + "\";;\n";
  }
  text +=
      "  esac\n"
      "  if [[ $COMP_CWORD -eq 1 && $word != -* ]]; then words=\"" +
      joined(command_names(), " ") + "\"; fi\n" +
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  if [[ $word != -* && $COMP_CWORD -gt 1 ]]; then COMPREPLY+=($(compgen -f -- \"$word\")); fi\n"
      "}\n"
      "complete -o filenames -F _tpplan tpplan\n";
  return text;
}

/// A text inside single quotes of zsh or fish.
std::string quoted(std::string_view text) {
  std::string escaped = "'";
  for (const char c : text) {
    escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return escaped + "'";
}

/// zsh's _arguments takes colons and brackets in a description as its own.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == ':' || c == '[' || c == ']' ? "\\" + std::string(1, c) : std::string(1, c);
  }
  return escaped;
}

std::string zsh_action(const OptionRow& row) {
  switch (row.completes) {
    case Completes::choices:
      return "(" + joined(row.choices(), " ") + ")";
    case Completes::models:
      return "_tpplan_names models";
    case Completes::clusters:
      return "_tpplan_names clusters";
    case Completes::files:
      return "_files";
    case Completes::nothing:
      return " ";
  }
  return " ";
}

std::string zsh_script() {
  std::string text =
      "#compdef tpplan\n"
      "_tpplan_names() {\n"
      "  local -a names; names=(${(f)\"$(tpplan completion --names $1 2>/dev/null)\"})\n"
      "  _alternative \"names:$1:($names)\" 'files:file:_files'\n"
      "}\n"
      "_tpplan() {\n"
      "  local command=plan\n"
      "  if (( CURRENT > 2 )) && [[ $words[2] != -* ]]; then command=$words[2]; fi\n"
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "    local -a commands; commands=(\n";
  for (const Command& command : commands()) {
    text += "      " + quoted(std::string(command.name) + ":" + zsh_text(command.summary)) + "\n";
  }
  text += "    )\n    _describe command commands; return\n  fi\n  case $command in\n";
  for (const Command& command : commands()) {
    text += "    " + std::string(command.name) + ") _arguments";
    for (const OptionRow* row : rows_of(command.name)) {
      std::string entry = "[" + zsh_text(row->meaning) + "]";
      if (!row->argument.empty()) {
        entry += ":" + zsh_text(row->argument) + ":" + zsh_action(*row);
      }
      text += " \\\n      " + quoted("--" + std::string(row->name) + entry);
      if (row->letter != 0) {
        text += " \\\n      " + quoted("-" + std::string(1, row->letter) + entry);
      }
    }
    const std::string words = operand_words(command.name);
    const bool listed = command.name == "gpus";
    text += " \\\n      " + quoted(listed          ? "*:gpu:_tpplan_names gpus"
                                   : words.empty() ? "*:file:_files"
                                                   : "*:word:(" + words + ")");
    text += ";;\n";
  }
  return text + "  esac\n}\n_tpplan \"$@\"\n";
}

std::string fish_script() {
  std::string text = "# fish completion of tpplan\ncomplete -c tpplan -f\n";
  for (const Command& command : commands()) {
    text += "complete -c tpplan -n __fish_use_subcommand -a " + std::string(command.name) + " -d " +
            quoted(command.summary) + "\n";
    const std::string name(command.name);
    const std::string seen = name == "plan" ? "'not __fish_seen_subcommand_from " + joined(command_names(), " ") +
                                                  "; or __fish_seen_subcommand_from plan'"
                                            : "'__fish_seen_subcommand_from " + name + "'";
    for (const OptionRow* row : rows_of(command.name)) {
      text += "complete -c tpplan -n " + seen + " -l " + std::string(row->name);
      text += row->letter == 0 ? "" : " -s " + std::string(1, row->letter);
      text += " -d " + quoted(row->meaning);
      if (!row->argument.empty()) {
        const std::string kind = row->completes == Completes::models ? "models" : "clusters";
        const bool named = row->completes == Completes::models || row->completes == Completes::clusters;
        text += row->completes == Completes::choices ? " -x -a " + quoted(joined(row->choices(), " "))
                : named                              ? " -r -a '(tpplan completion --names " + kind + " 2>/dev/null)'"
                : row->completes == Completes::files ? " -r -F"
                                                     : " -x";
      }
      text += "\n";
    }
    std::string words = operand_words(command.name);
    if (name == "gpus") {
      words = "(tpplan completion --names gpus 2>/dev/null)";
    }
    if (!words.empty()) {
      text += "complete -c tpplan -n '__fish_seen_subcommand_from " + name + "' -a " + quoted(words) + "\n";
    } else if (!command.operands.empty()) {
      text += "complete -c tpplan -n '__fish_seen_subcommand_from " + name + "' -F\n";
    }
  }
  return text;
}

struct ShellRow {
  std::string_view name;
  std::string (*script)();
};
constexpr std::array<ShellRow, 3> kShells{{{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}}};

/// Names of a kind for the shell: models, gpus, or clusters with 8-GPU servers of every GPU.
std::vector<std::string> names_of_kind(const std::string& kind) {
  if (kind == "models") {
    return shipped("model");
  }
  const bool clusters = kind == "clusters";
  if (!clusters && kind != "gpus") {
    throw UsageError({"--names: " + unknown_choice(kind, {"models", "clusters", "gpus"})}, "completion");
  }
  std::vector<std::string> names = clusters ? shipped("cluster") : std::vector<std::string>();
  const GpuCatalogue catalogue = shipped_gpus();
  for (const GpuSpec& gpu : catalogue.rows()) {
    if (!clusters || gpu.unplannable.empty()) {
      names.push_back((clusters ? "1x8x" : "") + gpu.id);
    }
  }
  return names;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  for (const ShellRow& row : kShells) {
    if (row.name == shell) {
      return row.script();
    }
  }
  return "";
}

int run_completion(const PlannerOptions& options, std::ostream& out, std::ostream&) {
  if (!options.names.empty()) {
    for (const std::string& name : names_of_kind(options.names)) {
      out << name << "\n";
    }
    return 0;
  }
  const std::string shell = options.operands.size() == 1 ? options.operands.front() : "";
  const std::string script = completion_script(shell);
  if (script.empty()) {
    throw UsageError({shell.empty() ? "name one shell: bash, zsh or fish" : unknown_choice(shell, names_of(kShells))},
                     "completion");
  }
  out << script;
  return 0;
}

}  // namespace tpplan
