// Small languages inside Megatron's settings.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

constexpr int kMostLayers = 100'000;

struct ModuleRow {
  std::string_view theirs, ours;
};
constexpr std::array<ModuleRow, 8> kModules{{{"core_attn", "core_attn"},
                                             {"mlp", "mlp"},
                                             {"layernorm", "norm"},
                                             {"norm", "norm"},
                                             {"moe_act", "moe_act"},
                                             {"mla_up_proj", "mla_up_proj"},
                                             {"moe", "moe"},
                                             {"shared_experts", "shared_experts"}}};

bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostLayers) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string without_blanks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      result.push_back(c);
    }
  }
  return result;
}

/// A sum of "[0,1]*3" and sums in brackets, as Python reads it.
bool take_sum(std::string_view& text, std::vector<int>& flags, int depth);

bool take_term(std::string_view& text, std::vector<int>& flags, int depth) {
  std::vector<int> term;
  if (!text.empty() && text.front() == '(') {
    text.remove_prefix(1);
    if (depth > 16 || !take_sum(text, term, depth + 1) || text.empty() || text.front() != ')') {
      return false;
    }
    text.remove_prefix(1);
  } else if (!text.empty() && text.front() == '[') {
    do {
      text.remove_prefix(1);
      int flag = 0;
      if (!take_number(text, flag)) {
        return false;
      }
      term.push_back(flag);
    } while (!text.empty() && text.front() == ',');
    if (text.empty() || text.front() != ']') {
      return false;
    }
    text.remove_prefix(1);
  } else {
    return false;
  }
  int times = 1;
  if (!text.empty() && text.front() == '*') {
    text.remove_prefix(1);
    if (!take_number(text, times)) {
      return false;
    }
  }
  for (int i = 0; i < times && flags.size() <= kMostLayers; ++i) {
    flags.insert(flags.end(), term.begin(), term.end());
  }
  return true;
}

bool take_sum(std::string_view& text, std::vector<int>& flags, int depth) {
  if (!take_term(text, flags, depth)) {
    return false;
  }
  while (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!take_term(text, flags, depth)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::string> megatron_modules(std::string_view list) {
  std::string text;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(" ,[]"), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (word.empty()) {
      continue;
    }
    std::string_view ours;
    for (const ModuleRow& row : kModules) {
      ours = row.theirs == word ? row.ours : ours;
    }
    if (ours.empty()) {
      return std::nullopt;
    }
    text += (text.empty() ? "selective:" : "+") + std::string(ours);
  }
  return text;
}

std::optional<std::vector<int>> megatron_stage_list(std::string_view text) {
  std::vector<int> stages{0};
  const std::string plain = without_blanks(text);
  std::string_view rest = plain;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '|') {
      stages.push_back(0);
      continue;
    }
    const bool known = c == 'E' || c == 'L' || c == 't' || c == 'm' || c == ',';
    int times = 1;
    if (!rest.empty() && rest.front() == '*') {
      rest.remove_prefix(1);
      if (!take_number(rest, times)) {
        return std::nullopt;
      }
    }
    if (!known) {
      return std::nullopt;
    }
    stages.back() += c == 't' ? times : 0;
  }
  return stages;
}

std::optional<std::vector<int>> megatron_layer_pattern(std::string_view text, int layers) {
  const std::string plain = without_blanks(text);
  std::string_view rest = plain;
  std::vector<int> flags;
  int every = 0;
  if (take_number(rest, every) && rest.empty() && every > 0) {
    for (int layer = 0; layer < layers; ++layer) {
      flags.push_back(layer % every == 0 ? 1 : 0);
    }
    return flags;
  }
  rest = plain;
  if (!take_sum(rest, flags, 0) || !rest.empty() || flags.size() != static_cast<std::size_t>(layers)) {
    return std::nullopt;
  }
  return flags;
}

}  // namespace tpplan
