#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/import/benchmark_run.h"

namespace tpplan {

/// The columns of a table of nccl-tests, from its line of names.
struct NcclTestsLayout {
  std::vector<std::string> lead;                 ///< between the type and the first time: "redop", "root"
  std::vector<std::vector<std::string>> places;  ///< columns of each place: "time", "algbw", "busbw", "#wrong", ...
  bool in_place_first = false;
  bool only_in_place = false;
  bool milliseconds = false;  ///< tables of 2017
  bool cpu_time = false;
  bool deviation = false;  ///< "error" or "res" in the place of "#wrong"
  [[nodiscard]] bool known() const { return !places.empty(); }
  [[nodiscard]] std::size_t values() const;
  /// "13 columns (size count type redop root, then time algbw busbw #wrong twice)"
  [[nodiscard]] std::string words() const;
};

/// Reads a line of column names; a layout that is not `known()` when it is none.
NcclTestsLayout nccl_tests_layout(const std::string& line);

/// The layout of rows that came without a header, from the number of words after the type.
NcclTestsLayout layout_of_bare_row(std::size_t words_after_type);

/// Reads the text output of nccl-tests and rccl-tests of every age, alone or inside a longer log. Never throws: what
/// cannot be read is told in the warnings, with the line and what was expected there.
BenchmarkLog parse_nccl_tests(std::string name, std::string_view text);

/// Reads the JSON output of nccl-tests (-J FILE, versions 1 to 3), also of a run that was killed while writing. Drops
/// the environment except NCCL_* settings. Throws SpecError for anything that is not such a file.
BenchmarkLog parse_nccl_tests_json(const std::string& name, const std::string& text);

/// Reads comma-separated tables that people make from nccl-tests rows: columns by name (size, count, type, redop, root,
/// time, algbw, busbw, wrong, with oop_ and ip_ in front where both places are there), or 11 to 13 columns without
/// names.
BenchmarkLog parse_benchmark_csv(std::string name, std::string_view text);

}  // namespace tpplan
