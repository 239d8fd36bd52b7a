#include <algorithm>

#include "cost-model/words.h"
#include "planner/import/nccl_tests.h"

namespace tpplan {

namespace {

bool is_time(const std::string& word) { return word == "time" || word == "cputime"; }

const std::vector<std::string>& usual_columns() {
  static const std::vector<std::string> columns{"time", "algbw", "busbw", "#wrong"};
  return columns;
}

}  // namespace

std::size_t NcclTestsLayout::values() const {
  std::size_t count = 0;
  for (const std::vector<std::string>& columns : places) count += columns.size();
  return count;
}

std::string NcclTestsLayout::words() const {
  std::string text = std::to_string(3 + lead.size() + values()) + " columns (size count type";
  if (!lead.empty()) text += " " + joined(lead, " ");
  text += ", then " + joined(places.front(), " ");
  if (places.size() == 2 && places[0] == places[1]) {
    text += " twice";
  } else if (places.size() == 2) {
    text += ", then " + joined(places[1], " ");
  }
  return text + ")";
}

NcclTestsLayout nccl_tests_layout(const std::string& line) {
  std::vector<std::string> words = words_of(line);
  if (!words.empty() && words[0].find_first_not_of('#') == std::string::npos) words.erase(words.begin());
  const auto has = [&](const char* name) { return std::find(words.begin(), words.end(), name) != words.end(); };
  if (!has("algbw") || !has("busbw") || !(has("size") || has("bytes") || has("#bytes"))) return {};
  // What a logger writes in front may hold the same words.
  const auto size = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word == "size" || word == "bytes" || word == "#bytes";
  });
  words.erase(words.begin(), size);
  const auto first_time = std::find_if(words.begin(), words.end(), is_time);
  if (first_time == words.end()) return {};

  NcclTestsLayout layout;
  const auto type = std::find(words.begin(), first_time, "type");
  for (auto word = type; word != first_time; ++word) {
    if (*word == "redop" || *word == "op") layout.lead.emplace_back("redop");
    if (*word == "root") layout.lead.emplace_back("root");
  }
  layout.milliseconds = has("bytes") && has("N");
  for (auto word = first_time; word != words.end(); ++word) {
    if (is_time(*word)) layout.places.emplace_back();
    if (*word == "timestamp") continue;
    layout.cpu_time = layout.cpu_time || *word == "cputime";
    layout.deviation = layout.deviation || *word == "error" || *word == "res";
    layout.places.back().push_back(*word);
  }
  if (layout.places.size() > 2) layout.places.resize(2);
  // A header cut at the right edge names fewer columns than the rows have.
  if (layout.places.size() == 2 && layout.places[1].size() < layout.places[0].size()) {
    layout.places[1] = layout.places[0];
  }
  return layout;
}

NcclTestsLayout layout_of_bare_row(std::size_t words_after_type) {
  NcclTestsLayout layout;
  if (words_after_type == 18) {
    layout.lead = {"redop", "root"};
    std::vector<std::string> columns = usual_columns();
    for (const char* const name : {"i_min", "i_max", "i_p99", "i_cv%"}) columns.emplace_back(name);
    layout.places = {columns, columns};
    return layout;
  }
  if (words_after_type < 8 || words_after_type > 10) return layout;
  layout.places = {usual_columns(), usual_columns()};
  if (words_after_type >= 9) layout.lead.emplace_back("redop");
  if (words_after_type == 10) layout.lead.emplace_back("root");
  return layout;
}

}  // namespace tpplan
