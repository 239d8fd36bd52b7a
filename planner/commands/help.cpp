#include "planner/commands/help.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "cost-model/words.h"
#include "planner/commands/command.h"
#include "planner/option_table.h"
#include "planner/option_values.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr std::array kGroups{OptionGroup::inputs,  OptionGroup::layout, OptionGroup::search,
                             OptionGroup::command, OptionGroup::output, OptionGroup::general};
constexpr std::array<std::string_view, 4> kExitCodes{
    "done", "ran, but nothing fits or a check failed", "bad input or usage",
    "the environment failed (a file cannot be written, a measurement is unusable)"};
constexpr std::string_view kHabits =
    "Results go to standard output, everything else to standard error. Nothing is written but the file of -o, and "
    "nothing "
    "is sent or fetched over a network.";

std::vector<const OptionRow*> listed_rows(std::string_view command, OptionGroup group) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows()) {
    if (row.group == group && !row.hidden && belongs_to(row, command)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

std::string signature(const OptionRow& row) {
  std::string text = row.letter == 0 ? "    " : std::string("-") + row.letter + ", ";
  text += "--" + std::string(row.name);
  return row.argument.empty() ? text : text + " " + std::string(row.argument);
}

std::string heading(OptionGroup group, const std::string& command) {
  return group == OptionGroup::command ? "Of " + command : std::string(name_of(group));
}

std::string usage(const Command& command) {
  std::string text = command.name == "plan" ? "tpplan [plan]" : "tpplan " + std::string(command.name);
  text += command.required.empty() ? "" : " " + std::string(command.required);
  text += command.operands.empty() ? "" : " " + std::string(command.operands);
  return text + " [OPTION]...";
}

std::string example_lines(const Command& command) {
  std::string text;
  for (const std::string& line : split(command.examples, '\n')) {
    text += line.empty() ? "" : "  " + line + "\n";
  }
  return text;
}

const Command& command_named(const std::string& name) {
  const Command* command = find_command(name);
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const Command& known : commands()) {
      names.emplace_back(known.name);
    }
    throw UsageError({unknown_choice(name, names)}, "");
  }
  return *command;
}

std::string command_list(int width) {
  std::string text;
  for (const Command& command : commands()) {
    const std::string name(command.name);
    text += "  " + name + std::string(12 - std::min<std::size_t>(name.size(), 11), ' ') +
            wrap(command.summary, width, 14, 14) + "\n";
  }
  return text;
}

/// Everything the long help says of an option beyond its signature.
std::string description(const OptionRow& row, std::string_view command) {
  std::string text(row.meaning);
  if (row.name == "format") {
    text += ": " + joined(split(find_command(command)->formats, ' '), ", ");
  } else if (row.choices != nullptr) {
    text += ": " + joined(row.choices(), ", ");
  }
  if (!row.fallback.empty()) {
    text += " (default: " + std::string(row.fallback) + ")";
  }
  return row.details.empty() ? text : text + ". " + std::string(row.details);
}

/// The short help, with at most `most_told` options of a group explained and the others named.
std::string help_with(const std::string& name, std::size_t most_told) {
  constexpr std::size_t kSignatureWidth = 27;
  constexpr std::size_t kLineWidth = 80;
  const Command& command = command_named(name);
  std::string text = "tpplan " + std::string(command.name) + ": " + std::string(command.summary) + "\n";
  text += example_lines(command) + "Usage: " + usage(command) + "\n";
  for (const OptionGroup group : kGroups) {
    const auto rows = listed_rows(name, group);
    if (rows.empty()) {
      continue;
    }
    text += heading(group, name) + ":\n";
    if (group == OptionGroup::layout) {
      std::string names = "each a list 1,2,4, a range 1..8, names, or auto:";
      for (const OptionRow* row : rows) {
        names += " --" + std::string(row->name);
      }
      text += "  " + wrap(names, static_cast<int>(kLineWidth), 2, 2) + "\n";
      continue;
    }
    const std::size_t told = rows.size() > most_told + 2 ? most_told : rows.size();
    for (std::size_t i = 0; i < told; ++i) {
      const OptionRow* row = rows[i];
      std::string line = "  " + signature(*row);
      line += std::string(line.size() < kSignatureWidth ? kSignatureWidth - line.size() : 1, ' ');
      line += row->meaning;
      const std::string fallback = row->fallback.empty() ? "" : " [" + std::string(row->fallback) + "]";
      text += line + (line.size() + fallback.size() <= kLineWidth ? fallback : "") + "\n";
    }
    if (told < rows.size()) {
      std::string names = "more (--help explains):";
      for (std::size_t i = told; i < rows.size(); ++i) {
        names += " --" + std::string(rows[i]->name);
      }
      text += "  " + wrap(names, static_cast<int>(kLineWidth), 2, 2) + "\n";
    }
  }
  if (command.name == "plan") {
    std::string names = "Commands:";
    for (const Command& known : commands()) {
      names += " " + std::string(known.name);
    }
    text += wrap(names + "; tpplan help COMMAND", static_cast<int>(kLineWidth), 2) + "\n";
  }
  return text;
}

}  // namespace

std::string brief_help(const std::string& name) {
  constexpr std::ptrdiff_t kScreen = 40;
  std::size_t most_told = 12;
  std::string text = help_with(name, most_told);
  while (std::count(text.begin(), text.end(), '\n') > kScreen && most_told > 1) {
    text = help_with(name, --most_told);
  }
  return text;
}

std::string full_help(const std::string& name, int width) {
  const Command& command = command_named(name);
  std::string text = "tpplan " + std::string(command.name) + ": " + std::string(command.summary) + "\n\n";
  text += example_lines(command) + "\nUsage: " + usage(command) + "\n";
  if (!command.details.empty()) {
    text += "\n" + wrap(command.details, width, 0) + "\n";
  }
  for (const OptionGroup group : kGroups) {
    const auto rows = listed_rows(name, group);
    if (rows.empty()) {
      continue;
    }
    text += "\n" + heading(group, name) + ":\n";
    if (group == OptionGroup::layout) {
      text += "  " + wrap("Each restricts one axis: a list 1,2,4, a range 1..8, or auto.", width, 2, 2) + "\n";
    }
    for (const OptionRow* row : rows) {
      text += "  " + signature(*row) + "\n          " + wrap(description(*row, name), width, 10, 10) + "\n";
    }
  }
  if (command.name == "plan") {
    text += "\nCommands (tpplan help COMMAND):\n" + command_list(width);
  }
  text += "\nExit codes:\n";
  for (std::size_t i = 0; i < kExitCodes.size(); ++i) {
    text += "  " + std::to_string(i) + "  " + wrap(kExitCodes[i], width, 5, 5) + "\n";
  }
  return text + "\n" + wrap(kHabits, width, 0) + "\n";
}

namespace {

/// Text as roff prints it: backslashes, hyphens and a leading dot or quote keep their meaning.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return escaped.empty() || (escaped.front() != '.' && escaped.front() != '\'') ? escaped : "\\&" + escaped;
}

std::string roff_options(std::string_view command, OptionGroup group) {
  std::string text;
  for (const OptionRow* row : listed_rows(command, group)) {
    text += ".TP\n";
    std::string names = row->letter == 0 ? "" : "\\fB\\-" + std::string(1, row->letter) + "\\fR, ";
    names += "\\fB" + roff("--" + std::string(row->name)) + "\\fR";
    text += names + (row->argument.empty() ? "" : " \\fI" + roff(row->argument) + "\\fR") + "\n";
    text += roff(description(*row, command)) + "\n";
  }
  return text;
}

}  // namespace

std::string manual_page() {
  std::string text = ".TH TPPLAN 1 \"\" \"tpplan " TPPLAN_VERSION "\" \"User Commands\"\n.SH NAME\n" +
                     roff("tpplan - plan the parallel layout of a distributed training run") + "\n.SH SYNOPSIS\n";
  for (const Command& command : commands()) {
    text += roff(usage(command)) + "\n.br\n";
  }
  for (const Command& command : commands()) {
    std::string title(command.name);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    text += ".SH " + title + "\n" + roff(command.summary) + ".\n";
    text += command.details.empty() ? "" : roff(command.details) + "\n";
    for (const OptionGroup group : kGroups) {
      // Options of every command stand once, under OPTIONS OF EVERY COMMAND.
      if (group == OptionGroup::general) {
        continue;
      }
      const std::string options = roff_options(command.name, group);
      text += options.empty() ? "" : ".SS " + heading(group, title) + "\n" + options;
    }
    if (!command.examples.empty()) {
      text += ".SS Examples\n.nf\n";
      for (const std::string& line : split(command.examples, '\n')) {
        text += line.empty() ? "" : roff(line) + "\n";
      }
      text += ".fi\n";
    }
  }
  text += ".SH OPTIONS OF EVERY COMMAND\n" + roff_options("plan", OptionGroup::general);
  text += ".SH EXIT STATUS\n";
  for (std::size_t i = 0; i < kExitCodes.size(); ++i) {
    text += ".TP\n" + std::to_string(i) + "\n" + roff(kExitCodes[i]) + "\n";
  }
  return text + ".SH NOTES\n" + roff(kHabits) + "\n";
}

std::string version_text() {
  const std::string commit = TPPLAN_COMMIT;
  return "tpplan " TPPLAN_VERSION + (commit.empty() ? "" : " (" + commit + ")") + " " TPPLAN_BUILD_TYPE;
}

int run_help(const PlannerOptions& options, std::ostream& out, std::ostream&) {
  constexpr int kWidestHelp = 100;
  if (options.version) {
    out << version_text() << "\n";
    return 0;
  }
  if (options.man) {
    out << manual_page();
    return 0;
  }
  std::string name = options.command;
  if (options.command == "help" && options.help == HelpPage::none) {
    name = options.operands.empty() ? "plan" : options.operands.front();
  }
  const int width = std::min(Terminal::of(STDOUT_FILENO, options.color).width, kWidestHelp);
  out << (options.help == HelpPage::brief ? brief_help(name) : full_help(name, width));
  return 0;
}

}  // namespace tpplan
