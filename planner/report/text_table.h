#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/report/terminal.h"

namespace tpplan {

struct Column {
  std::string header;
  bool right = true;   ///< aligned right, as numbers are
  int importance = 0;  ///< columns of the lowest importance are left out first when the width does not suffice
};

/// Rows of text under headers. `render` fits them into a width: the widest text column is wrapped, then columns are
/// left out.
struct TextTable {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;

  /// Columns two blanks apart, each line indented by `indent`. Names of left-out columns go to `dropped` when not null.
  [[nodiscard]] std::string render(const Terminal& terminal, int indent = 0,
                                   std::vector<std::string>* dropped = nullptr) const;
};

/// What is said on standard error of columns that `render` left out, each once; empty when there are none. `full` names
/// the formats that show everything.
std::string left_out_note(const std::vector<std::string>& dropped, const Terminal& terminal, std::string_view full);

/// The table as GitHub Markdown.
std::string github_table(const TextTable& table);

/// Columns of a text on a terminal: its code points.
std::size_t display_width(std::string_view text);

/// Breaks text so that no line passes `width` columns: the first word stands at column `start`, the following lines are
/// indented by `indent`.
std::string wrap(std::string_view text, int width, int indent, int start = 0);

/// "12 %" of 0.12, with so many decimals.
std::string percent(double share, int decimals = 0);

/// Three significant digits (whole from 1,000 on, with separators, and with an exponent from 1e15): "3.21", "0.0123",
/// "12.3", "4,012".
std::string brief_number(double value);

/// A share in percent with three significant digits: "12.3 %".
std::string brief_percent(double share);

}  // namespace tpplan
