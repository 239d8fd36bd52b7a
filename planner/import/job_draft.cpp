#include "planner/import/job_draft.h"

#include <algorithm>
#include <charconv>

#include "cost-model/words.h"

namespace tpplan {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;

/// Parts of keys of what costs time or memory.
constexpr std::array<std::string_view, 34> kBearing{{"parallel",
                                                     "recompute",
                                                     "activation-checkpoint",
                                                     "checkpoint-activations",
                                                     "offload",
                                                     "fp8",
                                                     "fp4",
                                                     "moe",
                                                     "expert",
                                                     "batch-size",
                                                     "microbatch",
                                                     "zero",
                                                     "fsdp",
                                                     "shard",
                                                     "overlap",
                                                     "precision",
                                                     "dtype",
                                                     "attn",
                                                     "flash",
                                                     "fusion",
                                                     "compile",
                                                     "graph",
                                                     "bucket",
                                                     "lora",
                                                     "peft",
                                                     "mtp",
                                                     "window",
                                                     "accum",
                                                     "num-layers",
                                                     "hidden-size",
                                                     "packed",
                                                     "prefetch",
                                                     "leaf",
                                                     "quantiz"}};
/// Parts of keys that hold such a part and still cost nothing that is planned, or next to nothing.
constexpr std::array<std::string_view, 52> kHarmless{{"dropout",
                                                      "loss",
                                                      "init",
                                                      "eval",
                                                      "valid",
                                                      "tokenizer",
                                                      "dataset",
                                                      "data-path",
                                                      "checkpointing.",
                                                      "ckpt",
                                                      "save",
                                                      "load",
                                                      "log",
                                                      "softmax-in-fp32",
                                                      "router-",
                                                      "topk-scaling",
                                                      "z-loss",
                                                      "rampup",
                                                      "amax",
                                                      "reuse-grad-buf",
                                                      "dist-ckpt",
                                                      "state-dict",
                                                      "wrap",
                                                      "ram-efficient",
                                                      "sync-module",
                                                      "orig-params",
                                                      "reentrant",
                                                      "pipeline-dtype",
                                                      "allow-",
                                                      "load-balancing",
                                                      "test",
                                                      "fp32-residual",
                                                      "ckpt-",
                                                      "profile",
                                                      "limit-all-gathers",
                                                      "loss-scale",
                                                      "min-loss",
                                                      "param-persistence",
                                                      "contiguous",
                                                      "round-robin",
                                                      "swap",
                                                      "num-layers-at",
                                                      "moe-jitter",
                                                      "moe-normalize",
                                                      "moe-lbl",
                                                      "bits",
                                                      "rerun",
                                                      "hidden-act",
                                                      "tensorboard",
                                                      "steps-per-print",
                                                      "quantize-",
                                                      "uniform-expert"}};

/// Read somewhere, not a habit.
bool is_placed(const std::vector<Origin>& from) {
  return std::any_of(from.begin(), from.end(), [](const Origin& origin) { return origin.file != nullptr; });
}

bool contains_any(std::string_view text, const std::string_view* begin, const std::string_view* end) {
  return std::any_of(begin, end, [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

bool may_bear(const ConfigEntry& entry) {
  std::string key = lower(entry.key);
  std::replace(key.begin(), key.end(), '_', '-');
  const bool launcher = key.rfind("launcher ", 0) == 0 || key.rfind("sbatch ", 0) == 0;
  const bool set_to_nothing = key.rfind("--", 0) != 0 && (is_off(entry.value) || is_open(entry.value));
  return !launcher && !set_to_nothing && contains_any(key, kBearing.begin(), kBearing.end()) &&
         !contains_any(key, kHarmless.begin(), kHarmless.end());
}

}  // namespace

bool is_open(std::string_view value) {
  const std::string word = lower(value);
  return word == "auto" || word == "null" || word == "none" || word == "~" || word == "???" ||
         value.find('$') != std::string_view::npos || value.find('`') != std::string_view::npos;
}

bool is_off(std::string_view value) {
  const std::string word = lower(value);
  return word == "false" || word == "no" || word == "off" || word == "0" || word.empty();
}

std::optional<std::string_view> our_word_in_any_case(Target target, JobFact fact, std::string_view theirs) {
  for (const FrameworkWord& row : framework_words()) {
    if (row.target == target && row.fact == fact && lower(row.theirs) == lower(theirs)) {
      return row.ours;
    }
  }
  return std::nullopt;
}

std::string place_of(const Origin& origin) {
  if (origin.file == nullptr) {
    return "";
  }
  std::string name = origin.file->name;
  name = name.substr(name.rfind('/') + 1) + ":" + std::to_string(origin.file->line_of(origin.at));
  return origin.key.empty() ? name : name + " " + origin.key;
}

void JobDraft::say(JobFact fact, std::int64_t number, const Origin& origin) {
  const auto known = numbers_.find(fact);
  if (known != numbers_.end() && known->second.value != number && !known->second.from.empty() &&
      known->second.from.front().file != origin.file) {
    error(origin,
          origin.key + " is " + std::to_string(number) + " here and " + std::to_string(known->second.value) + " at " +
              place_of(known->second.from.front()),
          "files of one job agree");
    return;
  }
  numbers_[fact] = {number, {origin}};
}

void JobDraft::say_derived(JobFact fact, std::int64_t number, std::vector<Origin> from) {
  numbers_[fact] = {number, std::move(from)};
}

std::optional<std::int64_t> JobDraft::number(JobFact fact) const {
  const auto found = numbers_.find(fact);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second.value);
}

std::int64_t JobDraft::number_or(JobFact fact, std::int64_t fallback) const { return number(fact).value_or(fallback); }

std::vector<Origin> JobDraft::origins(JobFact fact) const {
  const auto found = numbers_.find(fact);
  return found == numbers_.end() ? std::vector<Origin>{} : found->second.from;
}

void JobDraft::say(std::string_view option, std::string word, std::vector<Origin> from) {
  words_[std::string(option)] = {std::move(word), std::move(from)};
}

std::string JobDraft::word(std::string_view option) const {
  const auto found = words_.find(option);
  return found == words_.end() ? "" : found->second.value;
}

bool JobDraft::says_something() const {
  return std::any_of(numbers_.begin(), numbers_.end(),
                     [](const auto& row) { return row.first != JobFact::world && is_placed(row.second.from); }) ||
         std::any_of(words_.begin(), words_.end(), [](const auto& row) { return is_placed(row.second.from); });
}

void JobDraft::error(const Origin& origin, std::string message, std::string hint) {
  if (origin.file == nullptr) {
    throw SpecError(message + (hint.empty() ? "" : "; " + hint));
  }
  Diagnostic problem;
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  problem.offset = origin.at;
  problems_.push_back({origin.file, std::move(problem)});
}

void JobDraft::leave_open(const Origin& origin, std::string_view text) {
  open.push_back(place_of(origin) + (text.empty() ? "" : " " + std::string(text)));
}

void JobDraft::not_read(const Origin& origin, std::string_view text) {
  unread.push_back(origin.key + (text.empty() ? "" : " " + std::string(text)) + " (" +
                   place_of({origin.file, origin.at, ""}) + ")");
}

void JobDraft::throw_errors() const {
  std::string text;
  for (const ConfigFile& file : *files_) {
    std::vector<Diagnostic> diagnostics;
    for (const Problem& problem : problems_) {
      if (problem.file == &file) {
        diagnostics.push_back(problem.diagnostic);
      }
    }
    if (!diagnostics.empty()) {
      text += (text.empty() ? "" : "\n") + render(file.name, file.source, diagnostics);
    }
  }
  if (!text.empty()) {
    throw SpecError(text);
  }
}

SettingReader::SettingReader(const ConfigFile& file, JobDraft& draft)
    : file_(file), draft_(draft), used_(file.entries.size(), false) {}

const ConfigEntry* SettingReader::find(std::string_view key) {
  const ConfigEntry* found = nullptr;
  for (std::size_t i = 0; i < file_.entries.size(); ++i) {
    if (file_.entries[i].key == key) {
      used_[i] = true;
      found = &file_.entries[i];
    }
  }
  return found;
}

Origin SettingReader::origin(std::string_view key) const {
  Origin origin{nullptr, 0, std::string(key)};  // absent: nowhere
  for (const ConfigEntry& entry : file_.entries) {
    if (entry.key == key) {
      origin.file = &file_;
      origin.at = entry.value_at;
    }
  }
  return origin;
}

std::optional<std::int64_t> SettingReader::count(std::string_view key) {
  const ConfigEntry* entry = find(key);
  if (entry == nullptr || entry->value.empty()) {
    return std::nullopt;
  }
  const std::string first = entry->value.substr(0, entry->value.find(' '));
  if (is_open(entry->value)) {
    if (lower(entry->value) != "null" && lower(entry->value) != "none") {
      draft_.leave_open(origin(key), entry->value);
    }
    return std::nullopt;
  }
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), number);
  const std::string_view rest(end, static_cast<std::size_t>(first.data() + first.size() - end));
  const bool whole = rest.empty() || rest.find_first_not_of(".0") == std::string_view::npos;
  if (error != std::errc() || !whole || number > kLargest) {
    draft_.error(origin(key), entry->key + ": expected a whole number, got \"" + entry->value + "\"");
    return std::nullopt;
  }
  return number < 0 ? std::nullopt : std::optional(number);
}

std::optional<bool> SettingReader::flag(std::string_view key) {
  const ConfigEntry* entry = find(key);
  if (entry == nullptr) {
    return std::nullopt;
  }
  const std::string word = lower(entry->value);
  const bool command_line = key.rfind("--", 0) == 0 || key.rfind("launcher ", 0) == 0;
  if (command_line && (word.empty() || word == "0")) {
    return word.empty();
  }
  return !is_off(entry->value) && word != "null" && word != "none" && word != "auto";
}

std::optional<std::string> SettingReader::word(std::string_view key) {
  const ConfigEntry* entry = find(key);
  if (entry == nullptr || entry->value.empty()) {
    return std::nullopt;
  }
  if (is_open(entry->value)) {
    if (lower(entry->value) != "null" && lower(entry->value) != "none") {
      draft_.leave_open(origin(key), entry->value);
    }
    return std::nullopt;
  }
  return entry->value;
}

void SettingReader::pass(std::string_view key) { find(key); }

void SettingReader::take(std::string_view key, JobFact fact) {
  if (const auto number = count(key)) {
    draft_.say(fact, *number, origin(key));
  }
}

void SettingReader::take(const FrameworkKey& row) {
  switch (row.unit) {
    case KeyUnit::on_off:
    case KeyUnit::sharded_or_not:
    case KeyUnit::inverse:
      if (const auto on = flag(row.key)) {
        draft_.say(row.fact, *on != (row.unit == KeyUnit::inverse) ? 1 : 0, origin(row.key));
      }
      return;
    case KeyUnit::word:
      if (const auto text = word(row.key)) {
        const auto ours = our_word_in_any_case(row.target, row.fact, *text);
        if (ours) {
          const bool schedule = row.fact == JobFact::schedule;
          draft_.say(schedule                         ? "schedule"
                     : row.fact == JobFact::cp_type   ? "cp-type"
                     : row.fact == JobFact::recompute ? "recompute"
                                                      : "precision",
                     std::string(*ours), {origin(row.key)});
        } else {
          draft_.not_read(origin(row.key), *text);
        }
      }
      return;
    default:  // tokens are turned into sequences when the sequence is known
      if (const auto number = count(row.key)) {
        draft_.say(row.fact, *number, origin(row.key));
      }
  }
}

void SettingReader::take_table(Target target) {
  for (const FrameworkKey& row : framework_keys()) {
    if (row.target == target && file_.has(row.key)) {
      take(row);
    }
  }
}

void SettingReader::close() {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const ConfigEntry& entry = file_.entries[i];
    if (used_[i]) {
      continue;
    }
    if (may_bear(entry)) {
      draft_.not_read({&file_, entry.key_at, entry.key}, entry.value.size() > 40 ? "" : entry.value);
    } else {
      ++draft_.passed_over;
    }
  }
}

}  // namespace tpplan
