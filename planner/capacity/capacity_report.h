#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/report/text_table.h"

namespace tpplan {

/// A figure with the ends of its 80 % interval where it has one.
struct Figure {
  double value = 0;
  std::optional<double> low = std::nullopt, high = std::nullopt;
};

/// How a column of figures is shown to people. Machine formats always carry base figures at full precision.
enum class FigureStyle : std::uint8_t {
  text,    ///< a word or sentence, never a figure
  number,  ///< three significant digits
  count,   ///< whole, with separators
  share,   ///< 0.123 shown as 12.3 %
};

/// One column of a table of the report.
struct ReportColumn {
  std::string key;     ///< name in JSON and CSV, unit included: "time_days"
  std::string header;  ///< for people: "days"
  FigureStyle style = FigureStyle::number;
  int importance = 0;  ///< columns of the lowest importance are left out first on a narrow terminal
};

/// Empty, a text, or a figure.
using ReportCell = std::variant<std::monostate, std::string, Figure>;

struct ReportTable {
  std::vector<ReportColumn> columns;
  std::vector<std::vector<ReportCell>> rows;
};

enum class ChartKind : std::uint8_t {
  lines,     ///< `series` over `x`; intervals of the figures as bands
  bars,      ///< one bar per row, labelled by `x`; intervals as whiskers
  stacked,   ///< one bar per row, labelled by `x`, made of `series`
  tornado,   ///< one row per input, labelled by `x`; the two columns of `series` are the result at its two values
  scatter,   ///< one mark per row at (`x`, each of `series`), labelled by `group_by` where it names a column
  timeline,  ///< one bar per row on the lane `x`, from the first to the second of `series`, labelled by `group_by`
};

/// A level worth a line across the chart: a deadline, a capacity, a budget, the unchanged plan.
struct ReferenceLine {
  double value = 0;
  std::string label;
  bool vertical = false;  ///< at a value of x instead of y
};

/// How to draw the table of a section. Columns are given by their keys.
struct ReportChart {
  ChartKind kind = ChartKind::lines;
  std::string title;
  std::string x;
  std::vector<std::string> series;
  std::string group_by = {};  ///< column of texts: one line (or colour) per value; empty: none
  std::string x_label, y_label;
  bool x_logarithmic = false, y_logarithmic = false;
  std::vector<ReferenceLine> lines = {};
  std::optional<std::size_t> marked_row = std::nullopt;  ///< the row that the report decides for
};

/// One question and its answer: what was found in words, the figures, and how to draw them.
struct ReportSection {
  std::string id;     ///< key in JSON, anchor in HTML: "failures"
  std::string title;  ///< "Failures and checkpoints"
  std::vector<std::string> summary = {};
  ReportTable table = {};
  std::vector<ReportChart> charts = {};  ///< of `table`
  std::vector<std::string> notes = {};   ///< how to read the table, formulas and their sources
  std::string svg = {};                  ///< a drawing made elsewhere, complete and self-contained; empty: none
};

/// One of the figures on the first screen.
struct HeadlineFigure {
  std::string label;  ///< "time to train"
  std::string key;    ///< name in JSON, unit included: "time_days"
  Figure figure;
  std::string unit;  ///< "days"
};

/// A value that was not measured for this report: where it comes from and what sets it.
struct ReportAssumption {
  std::string what, value;
  std::string interval;  ///< "1.08 to 1.56"; empty where there is none
  std::string source;    ///< a publication, a price list with its date, a default
  std::string set_by;    ///< option or key of the price file
};

/// A file that the answer rests on.
struct ReportInput {
  std::string name;
  std::string fingerprint;  ///< FNV-1a (64 bits) of its bytes, hexadecimal
};

/// Everything `report` has to say, for every output format: writers add form, never content.
struct CapacityReport {
  std::string title;                      ///< "Llama 2 70B on 1 T tokens"
  std::string date;                       ///< of --date or SOURCE_DATE_EPOCH; empty: none
  std::string version;                    ///< of tpplan
  std::string command;                    ///< repeats the report: "tpplan report --model 70b ..."
  std::string currency;                   ///< of every amount of money: "USD"; empty when nothing has a price
  std::string decision;                   ///< one sentence
  std::vector<HeadlineFigure> headlines;  ///< three, fewer when there is no price
  std::vector<ReportAssumption> assumed;
  std::vector<std::string> warnings;
  std::vector<ReportInput> inputs;
  std::vector<ReportSection> sections;
  bool answered = true;  ///< false: nothing fits, or no cluster meets deadline or budget
};

/// Column of that key; the table must have it.
std::size_t column_of(const ReportTable& table, std::string_view key);

/// A figure as people read it: "1,024", "12.3 %", "3.21 (2.90 to 3.60)".
std::string figure_text(const Figure& figure, FigureStyle style = FigureStyle::number);

/// A cell as people read it; empty for an empty cell.
std::string cell_text(const ReportColumn& column, const ReportCell& cell);

/// The rows of a table as texts under their headers, for the formats that people read. Without `intervals` a figure is
/// its value alone, as narrow terminals need it.
TextTable text_table(const ReportTable& table, bool intervals = true);

}  // namespace tpplan
