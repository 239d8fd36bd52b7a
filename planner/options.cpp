#include "planner/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>

#include "planner/commands/command.h"
#include "planner/option_table.h"
#include "planner/option_values.h"
#include "planner/report/format.h"

namespace tpplan {
namespace {

namespace po = boost::program_options;

/// Takes the command's name out of the arguments; without one the command is plan.
std::string take_command(std::vector<std::string>& arguments, std::vector<std::string>& problems) {
  if (arguments.empty()) {
    return "help";
  }
  if (arguments.front().empty() || arguments.front().front() == '-') {
    return "plan";
  }
  std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (find_command(name) != nullptr) {
    return name;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
  }
  std::string problem = "unknown command \"" + name + "\"";
  if (const auto near = nearest_name(name, names)) {
    problem += "; did you mean \"" + *near + "\"?";
  } else {
    problem += "; commands:";
    for (const std::string& known : names) {
      problem += " " + known;
    }
  }
  problems.push_back(problem);
  return "";
}

/// Options of other commands are parsed too, so that using one is reported as what it is.
po::options_description described() {
  po::options_description description;
  auto add = description.add_options();
  for (const OptionRow& row : option_rows()) {
    const std::string names = row.letter == 0 ? std::string(row.name) : std::string(row.name) + "," + row.letter;
    if (row.argument.empty()) {
      add(names.c_str(), "");
    } else {
      add(names.c_str(), po::value<std::vector<std::string>>(), "");
    }
  }
  return description;
}

/// Parses; an option without its value is noted and taken out, so that the others are still looked at.
po::parsed_options tokenized(std::vector<std::string> arguments, const po::options_description& description,
                             std::vector<std::string>& problems) {
  constexpr int kStyle = po::command_line_style::unix_style ^ po::command_line_style::allow_guessing;
  while (true) {
    try {
      return po::command_line_parser(arguments).options(description).style(kStyle).allow_unregistered().run();
    } catch (const po::error_with_option_name& error) {
      const std::string name = error.get_option_name();
      const auto at = std::find_if(arguments.begin(), arguments.end(), [&](const std::string& argument) {
        const std::size_t dashes = argument.find_first_not_of('-');
        const std::string bare =
            dashes == std::string::npos ? "" : argument.substr(dashes, argument.find('=') - dashes);
        return dashes != std::string::npos && dashes > 0 &&
               "--" + bare == "--" + name.substr(name.find_first_not_of('-'));
      });
      const bool valued = at != arguments.end() && at->find('=') != std::string::npos;
      problems.push_back(valued ? name + " takes no value" : name + ": a value is missing");
      if (at == arguments.end()) {
        return po::parsed_options(&description);
      }
      // With repeated use it is the last occurrence, or one before another option, that lacks its value.
      auto lacking = at;
      for (auto i = at; i != arguments.end(); ++i) {
        if (*i == *at && (i + 1 == arguments.end() || ((i + 1)->size() > 1 && (i + 1)->front() == '-'))) {
          lacking = i;
          break;
        }
      }
      arguments.erase(lacking);
    }
  }
}

const OptionRow* row_named(const std::string& name) {
  for (const OptionRow& row : option_rows()) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

/// The value is the next option: "--tp --timing".
bool takes_next_option(const po::option& option) {
  return option.original_tokens.size() > 1 && option.original_tokens[1].rfind("--", 0) == 0;
}

std::string unknown_option(const std::string& word, const std::string& command) {
  const std::string given = word.substr(0, word.find('='));
  const std::string bare = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  std::vector<std::string> names;
  for (const OptionRow& row : option_rows()) {
    if (!row.hidden && belongs_to(row, command)) {
      names.emplace_back(row.name);
    }
  }
  const auto near = nearest_name(bare, names);
  return "unknown option " + given + (near ? "; did you mean --" + *near + "?" : "");
}

std::string misplaced_option(const OptionRow& row, const std::string& command) {
  std::string known;
  for (const std::string& name : split(row.commands, ' ')) {
    if (find_command(name) != nullptr) {
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  return "--" + std::string(row.name) + " is no option of " + command +
         (known.empty() ? "" : " (but of " + known + ")");
}

/// A word in quotes when a shell would take it apart.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:=,+%@").find(c) != std::string_view::npos;
  });
  if (plain) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

void check_format(const PlannerOptions& options, std::vector<std::string>& problems) {
  const Command* command = find_command(options.command);
  if (command == nullptr || !options.format) {
    return;
  }
  const std::vector<std::string> writable = split(command->formats, ' ');
  const std::string chosen(name_of(*options.format));
  if (std::find(writable.begin(), writable.end(), chosen) == writable.end()) {
    problems.push_back("--format " + chosen + ": " + options.command + " writes " + std::string(command->formats));
  }
}

void check_required(const PlannerOptions& options, std::vector<std::string>& problems) {
  const bool one_layout = options.command == "explain" || options.command == "simulate" || options.command == "export";
  const bool one_gpu = options.command == "fit";
  if (options.command != "plan" && options.command != "report" && !one_layout && !one_gpu) {
    return;
  }
  if (options.model.empty()) {
    problems.push_back("--model is missing: a shipped name (tpplan models lists them) or a file");
  }
  if (options.cluster.empty() && !one_gpu) {
    problems.push_back("--cluster is missing: a shipped name (tpplan clusters lists them), a file, or NODESxGPUSxGPU");
  }
  if (!options.schedule_file.empty() && options.command != "simulate") {
    problems.push_back("--schedule: " + options.command + " takes names; simulate takes a file");
  }
  if (options.command == "simulate" && options.space.schedules.size() > 1) {
    problems.push_back("--schedule: simulate runs one schedule at a time");
  }
  const bool named =
      std::any_of(options.given.begin(), options.given.end(), [](const auto& option) { return option.first == "to"; });
  if (options.command == "export" && !named) {
    std::string names;
    for (const auto& row : kTargetNames) {
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    problems.push_back("--to is missing: the framework to write for, one of " + names);
  }
  if (one_layout && options.layout.empty()) {
    problems.push_back("--layout is missing: the layout to " + options.command +
                       ", such as \"tp=8 pp=4 micro-batch=1\"");
  }
}

}  // namespace

PlannerOptions parse_options(const std::vector<std::string>& arguments) {
  PlannerOptions options;
  std::vector<std::string> rest = arguments;
  std::vector<std::string> problems;
  options.command = take_command(rest, problems);
  if (!problems.empty()) {
    throw UsageError(problems, "");
  }

  const po::options_description description = described();
  const po::parsed_options parsed = tokenized(rest, description, problems);
  bool all_known = problems.empty();
  for (const po::option& option : parsed.options) {
    const std::string original = option.original_tokens.empty() ? "" : option.original_tokens.front();
    if (option.unregistered) {
      problems.push_back(unknown_option(original, options.command));
      all_known = false;
      continue;
    }
    if (option.string_key.empty()) {
      options.operands.push_back(option.value.empty() ? original : option.value.front());
      continue;
    }
    const OptionRow* row = row_named(option.string_key);
    if (!belongs_to(*row, options.command)) {
      problems.push_back(misplaced_option(*row, options.command));
      continue;
    }
    const std::string value =
        option.value.empty() ? original.substr(original.find_first_not_of('-')) : option.value.front();
    if (takes_next_option(option)) {
      problems.push_back("--" + std::string(row->name) + ": a value is missing before " + value);
      continue;
    }
    if (const std::string problem = row->set(options, value); !problem.empty()) {
      problems.push_back("--" + std::string(row->name) + ": " + problem);
    }
    options.given.emplace_back(row->name, row->argument.empty() ? "" : value);
  }
  if (options.help != HelpPage::none || options.version) {
    return options;
  }

  const Command* command = find_command(options.command);
  // The word after a misspelt option is its value, no operand to complain about.
  if (command->operands.empty() && all_known) {
    for (const std::string& operand : options.operands) {
      problems.push_back("unexpected word \"" + operand + "\"; " + options.command + " takes options only");
    }
  }
  check_format(options, problems);
  if (all_known) {
    check_required(options, problems);
  }
  if (!problems.empty()) {
    throw UsageError(problems, options.command);
  }
  return options;
}

std::string options_text(const PlannerOptions& options, std::string_view command,
                         const std::vector<std::string_view>& except) {
  std::string text;
  for (const auto& [name, value] : options.given) {
    const OptionRow* row = row_named(name);
    if (!belongs_to(*row, command) || std::find(except.begin(), except.end(), name) != except.end()) {
      continue;
    }
    text += (text.empty() ? "--" : " --") + name;
    if (!row->argument.empty()) {
      text += " " + shell_word(value);
    }
  }
  return text;
}

OutputFormat chosen_format(const PlannerOptions& options) {
  if (options.format) {
    return *options.format;
  }
  return format_of_suffix(options.output).value_or(OutputFormat::table);
}

}  // namespace tpplan
