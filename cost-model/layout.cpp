#include "cost-model/layout.h"

#include <algorithm>
#include <charconv>

#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

constexpr std::int32_t kLargest = 1 << 24;

bool whole_number(std::string_view text, std::int32_t& value) {
  std::int32_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed > kLargest) {
    return false;
  }
  value = parsed;
  return true;
}

template <class Row, std::size_t N>
std::string choices_of(const std::array<Row, N>& table) {
  std::string list;
  for (const auto& row : table) {
    list += (list.empty() ? "" : ", ") + std::string(row.name);
  }
  return list;
}

template <class Enum, std::size_t N>
std::string read_name(const std::array<NameRow<Enum>, N>& table, std::string_view text, Enum& target) {
  if (const auto value = value_in(table, text)) {
    target = *value;
    return "";
  }
  return "one of " + choices_of(table);
}

std::string read_positive(std::string_view text, std::int32_t& target) {
  std::int32_t value = 0;
  if (!whole_number(text, value) || value < 1) {
    return "a whole number of at least 1";
  }
  target = value;
  return "";
}

/// 0 stands for what is usual: every rank that could share, as many micro-batches as there are stages.
std::string read_count_or_usual(std::string_view text, std::int32_t& target) {
  if (text == "0") {
    target = 0;
    return "";
  }
  return read_positive(text, target);
}

/// One key of a layout text. `read` says what was expected instead, empty when the value is fine.
struct KeyRow {
  std::string_view name;
  std::string_view short_name;
  std::string (*read)(Layout&, std::string_view);
};

const std::array<KeyRow, 11> kOtherKeys{{
    {"zero", "",
     [](Layout& layout, std::string_view text) -> std::string {
       std::int32_t value = 0;
       if (!whole_number(text, value) || value < 0 || value > 3) {
         return "0, 1, 2 or 3";
       }
       layout.zero = static_cast<std::uint8_t>(value);
       return "";
     }},
    {"vpp-group", "group",
     [](Layout& layout, std::string_view text) { return read_count_or_usual(text, layout.vpp_group); }},
    {"shard-group", "",
     [](Layout& layout, std::string_view text) { return read_count_or_usual(text, layout.shard_group); }},
    {"sequence-parallel", "sp",
     [](Layout& layout, std::string_view text) -> std::string {
       const bool on = text == "on" || text == "true" || text == "1" || text == "yes";
       if (!on && text != "off" && text != "false" && text != "0" && text != "no") {
         return "on or off";
       }
       layout.sequence_parallel = on;
       return "";
     }},
    {"recompute", "",
     [](Layout& layout, std::string_view text) -> std::string {
       return set_recompute(layout, text)
                  ? ""
                  : "none, selective, selective:MODULE+MODULE (modules " + choices_of(kRecomputeModuleNames) +
                        "), selective:op, full or full:LAYERS";
     }},
    {"schedule", "",
     [](Layout& layout, std::string_view text) { return read_name(kScheduleNames, text, layout.schedule); }},
    {"cp-type", "",
     [](Layout& layout, std::string_view text) { return read_name(kCpTypeNames, text, layout.cp_type); }},
    {"offload", "",
     [](Layout& layout, std::string_view text) { return read_name(kOffloadNames, text, layout.offload); }},
    {"optimizer", "",
     [](Layout& layout, std::string_view text) { return read_name(kOptimizerNames, text, layout.optimizer); }},
    {"ranks-order", "",
     [](Layout& layout, std::string_view text) { return read_name(kRanksOrderNames, text, layout.ranks_order); }},
    {"grad-reduce", "",
     [](Layout& layout, std::string_view text) { return read_name(kGradReduceNames, text, layout.grad_reduce); }},
}};

std::string read_stage_list(std::string_view text, std::vector<int>& stages) {
  stages.clear();
  while (true) {
    const std::size_t plus = text.find('+');
    std::int32_t value = 0;
    if (!whole_number(text.substr(0, plus), value) || value < 0) {
      return "layers of each stage joined by \"+\", such as 3+3+2";
    }
    stages.push_back(value);
    if (plus == std::string_view::npos) {
      return "";
    }
    text.remove_prefix(plus + 1);
  }
}

/// One "key=value" of a layout text and where it stands.
struct Word {
  std::string key;
  std::string_view value;
  std::size_t key_at = 0, value_at = 0;
  bool has_value = false;
};

std::vector<Word> words_of(std::string_view text) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  std::vector<Word> words;
  std::size_t at = text.find_first_not_of(kSeparators);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::size_t equals = text.find('=', at);
    Word word;
    word.key_at = at;
    word.has_value = equals < end;
    word.key = std::string(text.substr(at, std::min(equals, end) - at));
    std::replace(word.key.begin(), word.key.end(), '_', '-');
    word.value_at = word.has_value ? equals + 1 : end;
    word.value = text.substr(word.value_at, end - word.value_at);
    words.push_back(std::move(word));
    at = text.find_first_not_of(kSeparators, end);
  }
  return words;
}

/// Reads one word into the layout and returns the full name of its key, empty when the key is unknown.
std::string_view read_word(const Word& word, Layout& layout, std::vector<int>* stages, std::string& expected) {
  for (const AxisRow& axis : kAxes) {
    if (word.key == axis.option || (axis.option == "micro-batch" && word.key == "mbs")) {
      expected = read_positive(word.value, layout.*axis.field);
      return axis.option;
    }
  }
  for (const KeyRow& row : kOtherKeys) {
    if (word.key == row.name || (!row.short_name.empty() && word.key == row.short_name)) {
      expected = row.read(layout, word.value);
      return row.name;
    }
  }
  if (stages != nullptr && word.key == "layers-per-stage") {
    expected = read_stage_list(word.value, *stages);
    return "layers-per-stage";
  }
  return "";
}

}  // namespace

std::string recompute_text(const Layout& layout) {
  std::string text(name_in(kRecomputeNames, layout.recompute));
  if (layout.recompute == RecomputeKind::full && layout.recompute_layers > 0) {
    text += ":" + std::to_string(layout.recompute_layers);
  }
  if (layout.recompute == RecomputeKind::selective && layout.recompute_modules != kCoreAttention) {
    char separator = ':';
    for (const auto& row : kRecomputeModuleNames) {
      if ((layout.recompute_modules & row.value) != 0) {
        text += separator + std::string(row.name);
        separator = '+';
      }
    }
  }
  return text;
}

bool set_recompute(Layout& layout, std::string_view text) {
  RecomputeKind kind = RecomputeKind::none;
  std::int32_t layers = 0;
  std::uint16_t modules = kCoreAttention;
  const std::size_t colon = text.find(':');
  if (const auto plain = value_in(kRecomputeNames, text)) {
    kind = *plain;
  } else if (colon == std::string_view::npos) {  // NOLINT(bugprone-branch-clone): each form has its own end
    return false;
  } else if (text.substr(0, colon) == "full") {
    kind = RecomputeKind::full;
    if (!whole_number(text.substr(colon + 1), layers) || layers < 1) {
      return false;
    }
  } else if (text.substr(0, colon) == "selective") {
    kind = RecomputeKind::selective;
    modules = 0;
    for (std::size_t at = colon + 1; at != 0;) {
      const std::size_t plus = text.find('+', at);
      const auto module = value_in(kRecomputeModuleNames, text.substr(at, plus - at));
      if (!module) {
        return false;
      }
      modules = static_cast<std::uint16_t>(modules | *module);
      at = plus == std::string_view::npos ? 0 : plus + 1;
    }
  } else {
    return false;
  }
  layout.recompute = kind;
  layout.recompute_layers = layers;
  layout.recompute_modules = modules;
  return true;
}

std::string to_text(const Layout& layout) {
  std::string text;
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += (text.empty() ? "" : " ") + std::string(key) + "=" + std::string(value);
  };
  add("tp", std::to_string(layout.tp));
  add("pp", std::to_string(layout.pp));
  add("dp", std::to_string(layout.dp));
  const auto add_above_one = [&](std::string_view key, std::int32_t value) {
    if (value > 1) {
      add(key, std::to_string(value));
    }
  };
  add_above_one("cp", layout.cp);
  add_above_one("ep", layout.ep);
  if (layout.ep > 1 || layout.etp > 1) {
    add("etp", std::to_string(layout.etp));
  }
  add_above_one("vpp", layout.vpp);
  if (layout.vpp_group > 0) {
    add("vpp-group", std::to_string(layout.vpp_group));
  }
  add("micro-batch", std::to_string(layout.micro_batch));
  add("zero", std::to_string(layout.zero));
  if (layout.shard_group > 0) {
    add("shard-group", std::to_string(layout.shard_group));
  }
  if (layout.sequence_parallel != (layout.tp > 1)) {
    add("sequence-parallel", layout.sequence_parallel ? "on" : "off");
  }
  if (layout.recompute != RecomputeKind::none) {
    add("recompute", recompute_text(layout));
  }
  if (layout.schedule != (layout.vpp > 1 ? Schedule::interleaved : Schedule::f1b1)) {
    add("schedule", name_in(kScheduleNames, layout.schedule));
  }
  if (layout.cp > 1) {
    add("cp-type", name_in(kCpTypeNames, layout.cp_type));
  }
  if (layout.offload != Offload::none) {
    add("offload", name_in(kOffloadNames, layout.offload));
  }
  if (layout.optimizer != Optimizer::adam) {
    add("optimizer", name_in(kOptimizerNames, layout.optimizer));
  }
  if (layout.ranks_order != RanksOrder::tp_cp_dp_pp) {
    add("ranks-order", name_in(kRanksOrderNames, layout.ranks_order));
  }
  if (layout.grad_reduce != GradReduce::by_framework) {
    add("grad-reduce", name_in(kGradReduceNames, layout.grad_reduce));
  }
  return text;
}

std::vector<std::string> layout_keys() {
  std::vector<std::string> keys;
  for (const AxisRow& axis : kAxes) {
    keys.emplace_back(axis.option);
  }
  for (const KeyRow& row : kOtherKeys) {
    keys.emplace_back(row.name);
  }
  keys.emplace_back("layers-per-stage");
  return keys;
}

Layout parse_layout(std::string_view text, int world, const Layout& defaults, std::vector<int>* layers_per_stage) {
  Layout layout = defaults;
  std::vector<Diagnostic> problems;
  const auto report = [&problems](std::size_t at, std::string message, std::string hint) {
    Diagnostic problem;
    problem.message = std::move(message);
    problem.hint = std::move(hint);
    problem.offset = at;
    problems.push_back(std::move(problem));
  };

  std::vector<std::string_view> seen;
  std::size_t dp_at = 0;
  for (const Word& word : words_of(text)) {
    std::string expected;
    const std::string_view key = read_word(word, layout, layers_per_stage, expected);
    if (key.empty()) {
      const auto near = nearest_name(word.key, layout_keys());
      report(
          word.key_at, "unknown key \"" + word.key + "\"",
          near ? "did you mean \"" + *near + "\"?" : "keys are those of the layout options: tp, pp, micro-batch ...");
    } else if (!word.has_value) {
      report(word.value_at, std::string(key) + ": no value", "write " + std::string(key) + "=VALUE");
    } else if (!expected.empty()) {
      report(word.value_at, std::string(key) + ": \"" + std::string(word.value) + "\" is not a value",
             "expected " + expected);
    } else if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      report(word.key_at, std::string(key) + " is given twice", "");
    } else {
      seen.push_back(key);
      if (key == "dp") {
        dp_at = word.value_at;
      }
    }
  }
  const auto given = [&seen](std::string_view key) { return std::find(seen.begin(), seen.end(), key) != seen.end(); };
  if (!given("sequence-parallel")) {
    layout.sequence_parallel = layout.tp > 1;
  }
  if (!given("schedule")) {
    layout.schedule = layout.vpp > 1 ? Schedule::interleaved : Schedule::f1b1;
  }
  if (!given("etp") && defaults.etp == 0) {
    layout.etp = layout.tp;
  }
  const std::int64_t product = std::int64_t{layout.tp} * layout.pp * layout.cp;
  const bool divides = world % product == 0;
  const auto derived = static_cast<std::int32_t>(std::max<std::int64_t>(world / product, 1));
  if (given("dp") && divides && layout.dp != derived) {
    report(dp_at, "dp: " + std::to_string(layout.dp) + " replicas disagree with the cluster",
           std::to_string(world) + " GPUs / (tp " + std::to_string(layout.tp) + " x pp " + std::to_string(layout.pp) +
               " x cp " + std::to_string(layout.cp) + ") = " + std::to_string(derived) + "; leave dp out");
  }
  if (!problems.empty()) {
    throw SpecError("--layout", text, std::move(problems));
  }
  if (!given("dp")) {
    layout.dp = derived;
  }
  return layout;
}

int stage_layers(int layers, int pp, int stage) {
  if (pp <= 1) {
    return layers;
  }
  const int base = layers / pp;
  const int remainder = layers % pp;
  const int turn = stage == pp - 1 ? pp - 1 : stage == 0 ? pp - 2 : stage - 1;
  return base + (turn < remainder ? 1 : 0);
}

}  // namespace tpplan
