#pragma once

#include <string>
#include <vector>

#include "planner/capacity/capacity_report.h"
#include "planner/report/text_table.h"

namespace tpplan {

/// Parts of one self-contained page: it asks nothing of any other place, works without scripts, adapts to dark mode,
/// narrow screens and paper, and can be used by keyboard and screen reader. Texts are escaped here.

/// A table of texts with a caption for screen readers.
std::string html_table(const TextTable& table, const std::string& caption);

/// A table of figures: shown as people read them, sorted by what they are, with its figures as CSV below.
std::string html_report_table(const ReportTable& table, const std::string& caption, const std::string& id);

/// One question with its answer: summary, charts, table and notes. `id` is its anchor.
std::string html_section(const ReportSection& section);

std::string html_list(const std::vector<std::string>& lines);
std::string html_heading(int level, const std::string& text, const std::string& id = "");

/// A command to paste.
std::string html_command(const std::string& command);

/// The figures of a table as CSV: KEY, and KEY_low and KEY_high where a row has an interval.
std::string report_csv(const ReportTable& table);

/// The whole page around a body; `contents` are the anchors and titles of its sections.
std::string html_page(const std::string& title, const std::vector<std::pair<std::string, std::string>>& contents,
                      const std::string& body);

}  // namespace tpplan
