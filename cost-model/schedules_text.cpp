#include <algorithm>
#include <charconv>
#include <system_error>

#include "cost-model/file_text.h"
#include "cost-model/schedules.h"
#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr int kMostMicroBatches = 1 << 20;
constexpr int kMostChunks = 1 << 10;

/// Reads the digits at the start of `text`; -1 when there are none or too many.
int leading_number(std::string_view& text, int most) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > most) {
    return -1;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool read_pass(std::string_view word, Pass& pass) {
  const PassKindRow* found = nullptr;
  for (const PassKindRow& row : kPassKinds) {
    if (word.substr(0, row.letter.size()) == row.letter &&
        (found == nullptr || row.letter.size() > found->letter.size())) {
      found = &row;
    }
  }
  if (found == nullptr) {
    return false;
  }
  word.remove_prefix(found->letter.size());
  pass.kind = found->kind;
  pass.micro_batch = leading_number(word, kMostMicroBatches);
  pass.chunk = 0;
  if (!word.empty() && word.front() == '.') {
    word.remove_prefix(1);
    pass.chunk = leading_number(word, kMostChunks);
  }
  pass.with_next = word == "+";
  if (pass.with_next) {
    word.remove_prefix(1);
  }
  return pass.micro_batch >= 0 && pass.chunk >= 0 && word.empty();
}

struct Word {
  std::string_view text;
  std::size_t offset = 0;
};

std::vector<Word> words_of(std::string_view line, std::size_t offset) {
  std::vector<Word> words;
  line = line.substr(0, line.find('#'));
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back({line.substr(at, end - at), offset + at});
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace

std::string to_text(const Pass& pass, int chunks) {
  std::string text(row_of(pass.kind).letter);
  text += std::to_string(pass.micro_batch);
  if (chunks > 1) {
    text += "." + std::to_string(pass.chunk);
  }
  return text + (pass.with_next ? "+" : "");
}

std::string to_text(const PipelineSchedule& schedule) {
  std::string text;
  if (schedule.placement != StagePlacement::looped) {
    text += "placement " + std::string(name_in(kStagePlacementNames, schedule.placement)) + "\n";
  }
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    text += std::to_string(r) + ":";
    for (const Pass& pass : schedule.ranks[r]) {
      text += " " + to_text(pass, schedule.chunks);
    }
    text += "\n";
  }
  return text;
}

PipelineSchedule parse_schedule(const std::string& name, std::string_view text) {
  PipelineSchedule schedule;
  std::vector<Diagnostic> found;
  const auto report = [&found](std::size_t offset, std::string message, std::string hint) {
    Diagnostic diagnostic;
    diagnostic.message = std::move(message);
    diagnostic.hint = std::move(hint);
    diagnostic.offset = offset;
    found.push_back(std::move(diagnostic));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto words = words_of(text.substr(at, end - at), at);
    at = end + 1;
    if (words.empty()) {
      continue;
    }
    if (words.front().text == "placement") {
      const auto placement = words.size() == 2 ? value_in(kStagePlacementNames, words[1].text) : std::nullopt;
      if (placement && schedule.ranks.empty()) {
        schedule.placement = *placement;
      } else {
        report(words.front().offset, "not a placement of stages", "one of looped, v, both-ends, before the first rank");
      }
      continue;
    }
    if (words.front().text != std::to_string(schedule.ranks.size()) + ":") {
      report(words.front().offset, "expected rank " + std::to_string(schedule.ranks.size()),
             "a line is \"" + std::to_string(schedule.ranks.size()) + ": F0 F1 BW0 ...\"");
    }
    auto& passes = schedule.ranks.emplace_back();
    for (std::size_t i = 1; i < words.size(); ++i) {
      Pass pass;
      if (read_pass(words[i].text, pass)) {
        passes.push_back(pass);
        schedule.micro_batches = std::max(schedule.micro_batches, pass.micro_batch + 1);
        schedule.chunks = std::max(schedule.chunks, pass.chunk + 1);
      } else {
        report(words[i].offset, "\"" + std::string(words[i].text) + "\" is not a pass",
               "F, B, W or BW, the micro-batch, and .1 for chunk 1: F3, BW3.1");
      }
    }
  }
  if (schedule.placement != StagePlacement::looped && schedule.chunks != 2 && found.empty()) {
    report(0, "this placement has two chunks per rank", "write the second chunk as .1");
  }
  if (schedule.ranks.empty() && found.empty()) {
    report(0, "no ranks", "a line per rank: \"0: F0 F1 BW0 BW1\"");
  }
  if (found.empty()) {
    for (std::string& problem : problems_of(schedule)) {
      report(text.size(), std::move(problem), "");
    }
  }
  if (!found.empty()) {
    throw SpecError(name, text, std::move(found));
  }
  return schedule;
}

PipelineSchedule load_schedule(const std::string& path) { return parse_schedule(path, file_text(path)); }

}  // namespace tpplan
