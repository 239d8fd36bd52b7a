#include "planner/export/settings.h"

#include <algorithm>

#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

/// A level of keys: the settings of it, and levels below.
struct Level {
  std::string name;
  const Setting* setting = nullptr;
  std::vector<Level> below;
};

void add(std::vector<Level>& levels, std::string_view path, const Setting& setting) {
  const std::size_t dot = path.find('.');
  const std::string_view name = path.substr(0, dot);
  auto found = std::find_if(levels.begin(), levels.end(), [&](const Level& level) { return level.name == name; });
  if (found == levels.end()) {
    levels.push_back({std::string(name), nullptr, {}});
    found = levels.end() - 1;
  }
  if (dot == std::string_view::npos) {
    found->setting = &setting;
  } else {
    add(found->below, path.substr(dot + 1), setting);
  }
}

std::vector<Level> levels_of(const Settings& settings) {
  std::vector<Level> levels;
  for (const Setting& setting : settings) {
    add(levels, setting.key, setting);
  }
  return levels;
}

std::string comment_of(const Setting& setting) { return setting.comment.empty() ? "" : "  # " + setting.comment; }

/// Words that YAML would take for something else.
bool yaml_needs_quotes(const std::string& word) {
  constexpr std::array<std::string_view, 8> kSwitches{"no", "yes", "on", "off", "true", "false", "null", "~"};
  return word.empty() || std::find(kSwitches.begin(), kSwitches.end(), word) != kSwitches.end() ||
         word.find_first_of(":#{}[],&*!|>'\"%@`") != std::string::npos;
}

void write_yaml(const std::vector<Level>& levels, const std::string& indent, std::string& text) {
  for (const Level& level : levels) {
    text += indent + level.name + ":";
    if (level.setting == nullptr) {
      text += "\n";
      write_yaml(level.below, indent + "  ", text);
      continue;
    }
    const auto* word = std::get_if<std::string>(&level.setting->value);
    const bool reference = word != nullptr && word->rfind("${", 0) == 0;
    const char quote = word != nullptr && !reference && yaml_needs_quotes(*word) ? '"' : '\0';
    text += " " + value_text(*level.setting, quote) + comment_of(*level.setting) + "\n";
  }
}

void write_json(const std::vector<Level>& levels, JsonWriter& json) {
  json.begin_object();
  for (const Level& level : levels) {
    json.key(level.name);
    if (level.setting == nullptr) {
      write_json(level.below, json);
    } else {
      std::visit([&json](const auto& value) { json.value(value); }, level.setting->value);
    }
  }
  json.end_object();
}

}  // namespace

std::optional<Setting> setting_of(const FrameworkKey& key, const ExportRequest& request) {
  const Layout& layout = request.layout();
  Setting setting{std::string(key.key), false};
  if (key.unit == KeyUnit::word) {
    if ((key.fact == JobFact::schedule && layout.pp == 1) || (key.fact == JobFact::cp_type && layout.cp == 1)) {
      return std::nullopt;
    }
    auto word = their_word(key.target, key.fact, word_of(request.job, layout, key.fact));
    if (!word && key.fact == JobFact::precision) {
      word = their_word(key.target, key.fact, "bf16");  // the narrower products are told of as left out
    }
    if (!word || word->empty()) {
      return std::nullopt;
    }
    if (*word == "true" || *word == "false") {
      setting.value = *word == "true";
    } else {
      setting.value = std::string(*word);
    }
    return setting;
  }
  const auto number = number_of(request.job, layout, key.fact);
  if (!number) {
    return std::nullopt;
  }
  switch (key.unit) {
    case KeyUnit::on_off:
    case KeyUnit::sharded_or_not:
      setting.value = *number != 0;
      break;
    case KeyUnit::inverse:
      setting.value = *number == 0;
      break;
    case KeyUnit::tokens:
      setting.value = *number * request.job.training.seq;
      break;
    default:
      setting.value = *number;
  }
  return setting;
}

Settings settings_of(const ExportRequest& request, Target target, const std::vector<JobFact>& except) {
  Settings settings;
  for (const FrameworkKey& key : framework_keys()) {
    if (key.target != target || std::find(except.begin(), except.end(), key.fact) != except.end()) {
      continue;
    }
    if (auto setting = setting_of(key, request)) {
      settings.push_back(std::move(*setting));
    }
  }
  return settings;
}

std::string value_text(const Setting& setting, char quote) {
  struct Text {
    char quote;
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(const std::string& word) const {
      return quote == '\0' ? word : std::string(1, quote) + word + quote;
    }
  };
  return std::visit(Text{quote}, setting.value);
}

std::string as_yaml(const Settings& settings) {
  std::string text;
  write_yaml(levels_of(settings), "", text);
  return text;
}

std::string as_toml(const Settings& settings) {
  std::string text;
  for (const Level& section : levels_of(settings)) {
    text += (text.empty() ? "[" : "\n[") + section.name + "]\n";
    for (const Level& level : section.below) {
      text += level.name + " = " + value_text(*level.setting, '"') + comment_of(*level.setting) + "\n";
    }
  }
  return text;
}

std::string as_json(const Settings& settings) {
  JsonWriter json;
  write_json(levels_of(settings), json);
  return json.text();
}

}  // namespace tpplan
