#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "cost-model/words.h"
#include "planner/import/nccl_tests.h"

namespace tpplan {

namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',' || c == ';') {
      cells.emplace_back();
    } else if (c != '"' && c != '\r' && c != ' ' && c != '\t') {
      cells.back() += c;
    }
  }
  return cells;
}

/// A column name without what people put around it: "Time (us)" is "time", "out_of_place_time" is "oop_time".
std::string plain_name(const std::string& cell) {
  std::string name = lower(cell);
  name.erase(std::min(name.find('('), name.size()));
  name.erase(std::remove(name.begin(), name.end(), '#'), name.end());
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPrefixes{{
      {"out_of_place_", "oop_"},
      {"outofplace_", "oop_"},
      {"out-of-place_", "oop_"},
      {"in_place_", "ip_"},
      {"inplace_", "ip_"},
      {"in-place_", "ip_"},
  }};
  for (const auto& [from, to] : kPrefixes) {
    if (name.rfind(from, 0) == 0) name = std::string(to) + name.substr(from.size());
  }
  if (name == "bytes" || name == "size_b") return "size";
  if (name == "op" || name == "operation" || name == "collective") return "operation";
  return name;
}

using Columns = std::map<std::string, std::size_t>;

std::string cell(const std::vector<std::string>& cells, const Columns& columns, const std::string& name) {
  const auto at = columns.find(name);
  return at == columns.end() || at->second >= cells.size() ? "" : cells[at->second];
}

std::optional<PlaceFigures> place(const std::vector<std::string>& cells, const Columns& columns,
                                  const std::string& prefix) {
  const std::optional<double> time = number_in(cell(cells, columns, prefix + "time"));
  if (!time) return std::nullopt;
  PlaceFigures figures;
  figures.time_us = *time;
  figures.algbw = number_in(cell(cells, columns, prefix + "algbw")).value_or(0);
  figures.busbw = number_in(cell(cells, columns, prefix + "busbw")).value_or(0);
  figures.wrong = number_in(cell(cells, columns, prefix + "wrong"));
  return figures;
}

/// Names of 11, 12 or 13 columns without a header line: layouts B0, B1 and C of nccl-tests.
Columns unnamed_columns(std::size_t count) {
  std::vector<std::string> names{"size", "count", "type"};
  if (count >= 12) names.emplace_back("redop");
  if (count == 13) names.emplace_back("root");
  for (const char* const prefix : {"oop_", "ip_"}) {
    for (const char* const name : {"time", "algbw", "busbw", "wrong"}) names.push_back(std::string(prefix) + name);
  }
  Columns columns;
  for (std::size_t i = 0; i < names.size(); ++i) columns[names[i]] = i;
  return columns;
}

std::optional<BenchmarkRow> row_of_cells(const std::vector<std::string>& cells, const Columns& columns) {
  const std::optional<std::int64_t> size = integer_in(cell(cells, columns, "size"));
  BenchmarkRow row;
  row.out_of_place = place(cells, columns, columns.count("oop_time") > 0 ? "oop_" : "");
  row.in_place = place(cells, columns, "ip_");
  if (!size || (!row.out_of_place && !row.in_place)) return std::nullopt;
  row.size = *size;
  row.count = integer_in(cell(cells, columns, "count")).value_or(0);
  row.type = cell(cells, columns, "type");
  row.redop = cell(cells, columns, "redop");
  const std::optional<std::int64_t> root = integer_in(cell(cells, columns, "root"));
  if (root) row.root = static_cast<int>(*root);
  return row;
}

}  // namespace

BenchmarkLog parse_benchmark_csv(std::string name, std::string_view text) {
  BenchmarkLog log;
  log.name = std::move(name);
  log.tool = "nccl-tests";
  Columns columns;
  std::istringstream stream{std::string(text)};
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    const std::vector<std::string> cells = cells_of(line);
    if (columns.empty() && !integer_in(cells[0])) {
      for (std::size_t i = 0; i < cells.size(); ++i) columns.emplace(plain_name(cells[i]), i);
      continue;
    }
    if (columns.empty() && cells.size() >= 11 && cells.size() <= 13) columns = unnamed_columns(cells.size());
    std::optional<BenchmarkRow> row = row_of_cells(cells, columns);
    // Rows of another operation or another number of GPUs are another run.
    const std::string key = cell(cells, columns, "operation") + '/' + cell(cells, columns, "gpus");
    if (log.runs.empty() || log.runs.back().section != key) {
      log.runs.emplace_back();
      log.runs.back().line = number;
      log.runs.back().section = key;
      log.runs.back().summary = true;
      log.runs.back().collective = benchmark_collective(cell(cells, columns, "operation"));
      const std::optional<std::int64_t> gpus = integer_in(cell(cells, columns, "gpus"));
      if (gpus && *gpus > 0 && *gpus < (1 << 24)) log.runs.back().nranks = static_cast<int>(*gpus);
    }
    if (row) {
      row->line = number;
      log.runs.back().rows.push_back(std::move(*row));
    } else {
      log.runs.back().warnings.push_back({number, "damaged row: expected at least a size and a time, found " +
                                                      std::to_string(cells.size()) + " cells"});
    }
  }
  return log;
}

}  // namespace tpplan
