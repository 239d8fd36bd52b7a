#include "planner/import/benchmark_run.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "cost-model/units.h"

namespace tpplan {

namespace {

struct SpellingRow {
  std::string_view letters;  // lower case without separators; longer spellings first
  std::string_view name;
};
constexpr std::array<SpellingRow, 15> kSpellings{{
    {"reducescatter", "reduce_scatter"},
    {"allreduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"alltoallv", "alltoallv"},
    {"alltoall", "alltoall"},
    {"all2all", "alltoall"},
    {"sendrecv", "sendrecv"},
    {"sendreceive", "sendrecv"},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"hypercube", "hypercube"},
    {"scatter", "scatter"},
    {"gather", "gather"},
    {"reduce", "reduce"},
    {"pingpong", "sendrecv"},
}};

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return shortest(value);
}

void append_place(std::string& line, const std::optional<PlaceFigures>& place) {
  if (!place) {
    line += "\t-\t-\t-\t-";
    return;
  }
  line += '\t' + number_text(place->time_us) + '\t' + number_text(place->algbw) + '\t' + number_text(place->busbw);
  line += '\t' + (place->wrong ? number_text(*place->wrong) : std::string("-"));
}

}  // namespace

std::string benchmark_collective(const std::string& text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (const SpellingRow& row : kSpellings) {
    if (letters.find(row.letters) != std::string::npos) return std::string(row.name);
  }
  return "";
}

std::string rows_as_tsv(const BenchmarkLog& log) {
  std::string text =
      "run\tline\tsize\tcount\ttype\tredop\troot\tout_time_us\tout_algbw\tout_busbw\tout_wrong\t"
      "in_time_us\tin_algbw\tin_busbw\tin_wrong\n";
  for (std::size_t i = 0; i < log.runs.size(); ++i) {
    for (const BenchmarkRow& row : log.runs[i].rows) {
      std::string line = std::to_string(i + 1) + '\t' + std::to_string(row.line) + '\t' + std::to_string(row.size);
      line += '\t' + std::to_string(row.count) + '\t' + (row.type.empty() ? "-" : row.type);
      line += '\t' + (row.redop.empty() ? std::string("-") : row.redop);
      line += '\t' + (row.root ? std::to_string(*row.root) : std::string("-"));
      append_place(line, row.out_of_place);
      append_place(line, row.in_place);
      text += line + '\n';
    }
  }
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::optional<double> number_in(const std::string& token) {
  if (token.empty()) return std::nullopt;
  const char first = token[token[0] == '-' || token[0] == '+' ? 1 : 0];
  const bool plausible = std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '.' || first == 'n' ||
                         first == 'N' || first == 'i' || first == 'I';
  if (!plausible || token.find_first_of("xXpP") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(token.c_str(), &end);
  if (end != token.c_str() + token.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer_in(const std::string& token) {
  std::int64_t value = 0;
  const char* const end = token.data() + token.size();
  const auto [stopped, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc() || stopped != end || token.empty()) return std::nullopt;
  return value;
}

}  // namespace tpplan
