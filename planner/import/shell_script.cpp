// The command of a script that starts the training, as settings.
#include "planner/import/shell_script.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/import/shell_commands.h"

namespace tpplan {
namespace {

using detail::ShellCommand;

constexpr std::array<std::string_view, 9> kStarters{
    "torchrun", "srun", "deepspeed", "accelerate", "composer", "python", "python3", "mpirun", "torch.distributed.run"};

/// Commands that print the words of another.
constexpr std::array<std::string_view, 3> kTalkers{"echo", "printf", "cat"};

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool starts_program(std::string_view word) {
  return std::find(kStarters.begin(), kStarters.end(), last_part(word)) != kStarters.end();
}

bool is_python_file(std::string_view word) { return word.size() > 3 && word.substr(word.size() - 3) == ".py"; }

/// "--name" or "-n", no negative number.
bool is_flag(std::string_view word) {
  return word.size() > 1 && word.front() == '-' &&
         (word[1] == '-' ? word.size() > 2 : std::isalpha(static_cast<unsigned char>(word[1])) != 0);
}

/// "model.hidden_size=8", "+trainer.devices=8", "mixed_precision=bf16": the length of the key.
std::size_t override_length(std::string_view word) {
  const std::size_t equals = word.find('=');
  const bool plain = equals != std::string_view::npos && !is_flag(word) &&
                     word.substr(0, equals).find_first_of(" \"'/:$") == std::string_view::npos;
  return plain ? equals : 0;
}

std::size_t flags_of(const ShellCommand& command) {
  return static_cast<std::size_t>(std::count_if(command.begin(), command.end(), [](const TracedText& word) {
    return is_flag(word.text) || override_length(word.text) > 0;
  }));
}

/// Where the program's own arguments begin: behind the Python file, behind -m MODULE of a program, behind a variable
/// that names the script, else at the start.
std::size_t arguments_begin(const ShellCommand& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (is_python_file(command[i].text)) {
      return i + 1;
    }
    if (i > 0 && command[i - 1].text == "-m" && command[i].text.rfind("torch.distributed", 0) != 0) {
      return i + 1;
    }
  }
  const bool started =
      std::any_of(command.begin(), command.end(), [](const TracedText& word) { return starts_program(word.text); });
  for (std::size_t i = 1; started && i < command.size(); ++i) {
    if (command[i].text.front() == '$' && !is_flag(command[i - 1].text)) {
      return i + 1;
    }
  }
  return started ? command.size() : 0;
}

std::string key_of_flag(std::string flag, bool launcher) {
  if (flag.find('.') != std::string::npos && !launcher) {
    flag.erase(0, flag.find_first_not_of('-'));
    std::replace(flag.begin(), flag.end(), '-', '_');
    return flag;
  }
  std::replace(flag.begin() + 1, flag.end(), '_', '-');
  return flag;
}

std::string without_quotes(std::string value) {
  if (value.size() > 1 && (value.front() == '\'' || value.front() == '"') && value.back() == value.front()) {
    value = value.substr(1, value.size() - 2);
  }
  return value;
}

/// What may follow a flag as its value. Options of what starts a program have one at most, and none that starts
/// another.
bool is_value(std::string_view word, bool launcher) {
  return !is_flag(word) && override_length(word) == 0 && !(launcher && (starts_program(word) || is_python_file(word)));
}

/// Adds the flags of some words with their values: what follows up to the next flag, or stands behind "=".
void add_flags(ConfigFile& file, const ShellCommand& words, std::size_t begin, std::size_t end,
               const std::string& prefix) {
  for (std::size_t i = begin; i < end; ++i) {
    const TracedText& word = words[i];
    if (const std::size_t length = override_length(word.text); length > 0) {
      const std::size_t first = std::min(word.text.find_first_not_of("+~"), length);
      std::string value = without_quotes(word.text.substr(length + 1));
      if (value.size() > 1 && value.front() == '[' && value.back() == ']') {
        value = value.substr(1, value.size() - 2);
        std::replace(value.begin(), value.end(), ',', ' ');
      }
      file.entries.push_back({word.text.substr(first, length - first), value, word.at[first],
                              word.at[std::min(length + 1, word.at.size() - 1)]});
      continue;
    }
    if (!is_flag(word.text)) {
      continue;
    }
    const std::size_t equals = word.text.find('=');
    ConfigEntry entry{prefix + key_of_flag(word.text.substr(0, equals), !prefix.empty()), "", word.place(),
                      word.place()};
    if (equals != std::string::npos) {
      entry.value = without_quotes(word.text.substr(equals + 1));
      entry.value_at = word.at[std::min(equals + 1, word.at.size() - 1)];
    } else if (word.text[1] != '-' && word.text.size() > 2 && !prefix.empty()) {
      entry.key.resize(prefix.size() + 2);  // "-n8", "-N16"
      entry.value = word.text.substr(2);
    } else {
      const bool launcher = !prefix.empty();
      for (; i + 1 < end && is_value(words[i + 1].text, launcher) && (entry.value.empty() || !launcher); ++i) {
        if (entry.value.empty()) {
          entry.value_at = words[i + 1].place();
        }
        entry.value += (entry.value.empty() ? "" : " ") + words[i + 1].text;
      }
      entry.value = without_quotes(entry.value);
    }
    file.entries.push_back(std::move(entry));
  }
}

}  // namespace

void read_shell_script(ConfigFile& file) {
  detail::ShellRun run = detail::follow_script(file);
  file.remarks = std::move(run.remarks);
  const ShellCommand* best = nullptr;
  ShellCommand bare;  // flags without a command, over all lines
  int trainings = 0;
  for (const ShellCommand& command : run.commands) {
    if (std::find(kTalkers.begin(), kTalkers.end(), command.front().text) != kTalkers.end()) {
      continue;
    }
    const bool starts = std::any_of(command.begin(), command.end(), [](const TracedText& word) {
      return starts_program(word.text) || is_python_file(word.text);
    });
    const std::size_t flags = flags_of(command);
    if (!starts) {
      if (is_flag(command.front().text) || override_length(command.front().text) > 0) {
        bare.insert(bare.end(), command.begin(), command.end());
      }
      continue;
    }
    trainings += flags > 4 ? 1 : 0;
    if (best == nullptr || flags > flags_of(*best)) {
      best = &command;
    }
  }
  if (best == nullptr || flags_of(bare) > flags_of(*best)) {
    best = bare.empty() ? best : &bare;
  }
  add_flags(file, run.sbatch, 0, run.sbatch.size(), "sbatch ");
  if (best == nullptr) {
    return;
  }
  if (trainings > 1 && best != &bare) {
    file.remarks.push_back("of " + std::to_string(trainings) + " commands that start a program the one on line " +
                           std::to_string(file.line_of(best->front().place())) + " was read");
  }
  const std::size_t begin = arguments_begin(*best);
  for (std::size_t i = 0; i < begin; ++i) {
    if (!is_flag((*best)[i].text)) {
      file.programs.push_back((*best)[i].text);
    }
  }
  add_flags(file, *best, 0, begin, "launcher ");
  add_flags(file, *best, begin, best->size(), "");
}

}  // namespace tpplan
