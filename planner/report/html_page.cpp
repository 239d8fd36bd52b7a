#include "planner/report/html_page.h"

#include <algorithm>

#include "cost-model/units.h"
#include "planner/report/chart_svg.h"
#include "planner/report/html_style.h"
#include "planner/report/plan_report.h"
#include "planner/report/svg.h"

namespace tpplan {
namespace {

using svg::escaped;

bool has_interval(const ReportTable& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    const auto* figure = column < row.size() ? std::get_if<Figure>(&row[column]) : nullptr;
    return figure != nullptr && figure->low && figure->high;
  });
}

/// Class of a column's cells: figures stand to the right, sentences get room, words are not broken.
std::string cell_class(bool number, std::size_t longest) {
  constexpr std::size_t kSentence = 24;
  return number ? " class=\"number\"" : longest > kSentence ? " class=\"sentence\"" : " class=\"word\"";
}

std::size_t longest_cell(const TextTable& table, std::size_t column) {
  std::size_t longest = 0;
  for (const auto& row : table.rows) {
    longest = std::max(longest, display_width(row[column]));
  }
  return longest;
}

/// Columns that paper holds in its usual letters.
constexpr std::size_t kPaperColumns = 14;

std::string csv_number(const std::optional<double>& value) { return value ? shortest(*value) : ""; }

/// What a column is sorted by: the figure behind the text.
std::string sort_value(const ReportCell& cell) {
  const auto* figure = std::get_if<Figure>(&cell);
  return figure == nullptr ? "" : " data-value=\"" + shortest(figure->value) + "\"";
}

/// A drawing with a style of its own, kept apart from the page's.
std::string foreign_drawing(const std::string& drawing, const std::string& words) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : drawing) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7E || std::string_view("%#\"<>&?").find(c) != std::string_view::npos) {
      encoded += '%';
      encoded += kHex[byte / 16];
      encoded += kHex[byte % 16];
    } else {
      encoded += c;
    }
  }
  return "<figure>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + escaped(words) +
         "\"><img alt=\"" + escaped(words) + "\" src=\"data:image/svg+xml," + encoded + "\"></div>\n</figure>\n";
}

std::string figure_of(const std::string& drawing, const ReportChart& chart, const std::string& id) {
  return "<figure id=\"" + id + "\">\n<figcaption>" + escaped(chart.title) +
         "</figcaption>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Chart: " +
         escaped(chart.title) + "\">\n" + drawing + "</div>\n</figure>\n";
}

}  // namespace

std::string html_heading(int level, const std::string& text, const std::string& id) {
  const std::string tag = "h" + std::to_string(level);
  return "<" + tag + (id.empty() ? "" : " id=\"" + escaped(id) + "\"") + ">" + escaped(text) + "</" + tag + ">\n";
}

std::string html_list(const std::vector<std::string>& lines) {
  std::string items;
  for (const std::string& line : lines) {
    items += "<li>" + escaped(line) + "</li>\n";
  }
  return items.empty() ? items : "<ul>\n" + items + "</ul>\n";
}

std::string html_command(const std::string& command) {
  return "<pre class=\"command\" tabindex=\"0\"><code>" + escaped(command) + "</code></pre>\n";
}

std::string html_table(const TextTable& table, const std::string& caption) {
  const auto kind = [&table](std::size_t column) {
    return cell_class(table.columns[column].right, longest_cell(table, column));
  };
  std::string text = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: " + escaped(caption) +
                     "\">\n<table class=\"sortable\">\n<caption class=\"unseen\">" + escaped(caption) +
                     "</caption>\n<thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    text += "<th scope=\"col\"" + kind(i) + ">" + escaped(table.columns[i].header) + "</th>";
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += "<td" + kind(i) + ">" + escaped(row[i]) + "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string report_csv(const ReportTable& table) {
  std::vector<bool> intervals;
  std::string text;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& key = table.columns[i].key;
    intervals.push_back(has_interval(table, i));
    text += (i == 0 ? "" : ",") + csv_field(key);
    text += intervals.back() ? "," + csv_field(key + "_low") + "," + csv_field(key + "_high") : "";
  }
  text += "\r\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      text += i == 0 ? "" : ",";
      const auto* figure = i < row.size() ? std::get_if<Figure>(&row[i]) : nullptr;
      const auto* words = i < row.size() ? std::get_if<std::string>(&row[i]) : nullptr;
      text += figure != nullptr ? shortest(figure->value) : words != nullptr ? csv_field(*words) : "";
      if (intervals[i]) {
        text += figure != nullptr ? "," + csv_number(figure->low) + "," + csv_number(figure->high) : ",,";
      }
    }
    text += "\r\n";
  }
  return text;
}

std::string html_report_table(const ReportTable& table, const std::string& caption, const std::string& id) {
  const TextTable texts = text_table(table);
  const auto kind = [&texts](std::size_t column) {
    return cell_class(texts.columns[column].right, longest_cell(texts, column));
  };
  std::string text = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: " + escaped(caption) +
                     "\">\n<table class=\"sortable" + (table.columns.size() > kPaperColumns ? " wide" : "") +
                     "\" id=\"" + id + "\">\n<caption class=\"unseen\">" + escaped(caption) + "</caption>\n<thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    text += "<th scope=\"col\"" + kind(i) + ">" + escaped(table.columns[i].header) + "</th>";
  }
  text += "</tr></thead>\n<tbody>\n";
  constexpr std::size_t kMostRows = 300;
  for (std::size_t r = 0; r < std::min(table.rows.size(), kMostRows); ++r) {
    const auto& row = table.rows[r];
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string tag = i == 0 ? "th" : "td";
      text += "<" + tag + (i == 0 ? " scope=\"row\"" : "") + kind(i) + sort_value(row[i]) + ">" +
              escaped(texts.rows[r][i]) + "</" + tag + ">";
    }
    text += "</tr>\n";
  }
  text += "</tbody>\n</table>\n</div>\n";
  if (table.rows.size() > kMostRows) {
    text += "<p>The first " + with_separators(kMostRows) + " of " +
            with_separators(static_cast<long long>(table.rows.size())) + " rows; the CSV has all.</p>\n";
  }
  return text + "<details class=\"csv\"><summary>The figures as CSV</summary>\n<pre tabindex=\"0\" id=\"" + id +
         "-csv\">" + escaped(report_csv(table)) + "</pre>\n</details>\n";
}

std::string html_section(const ReportSection& section) {
  std::string text = "<section aria-labelledby=\"" + section.id + "\">\n" + html_heading(2, section.title, section.id);
  for (const std::string& sentence : section.summary) {
    text += "<p>" + escaped(sentence) + "</p>\n";
  }
  for (std::size_t i = 0; i < section.charts.size(); ++i) {
    const std::string id = section.id + "-chart" + std::to_string(i + 1);
    const std::string drawing = chart_svg(section.table, section.charts[i], id);
    text += drawing.empty() ? "" : figure_of(drawing, section.charts[i], id);
  }
  text += section.svg.empty() ? "" : foreign_drawing(section.svg, section.title);
  if (!section.table.rows.empty()) {
    text += html_report_table(section.table, section.title, section.id + "-table");
  }
  if (!section.notes.empty()) {
    text += "<div class=\"notes\">\n" + html_list(section.notes) + "</div>\n";
  }
  return text + "</section>\n";
}

std::string html_page(const std::string& title, const std::vector<std::pair<std::string, std::string>>& contents,
                      const std::string& body) {
  std::string links;
  for (const auto& [id, text] : contents) {
    links += "<li><a href=\"#" + escaped(id) + "\">" + escaped(text) + "</a></li>\n";
  }
  std::string text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  text += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  text +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n";
  text += "<link rel=\"icon\" href=\"data:,\">\n";
  text += "<title>" + escaped(title) + "</title>\n<style>\n" + std::string(page_style()) + std::string(chart_style()) +
          "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n" +
          std::string(chart_patterns());
  if (!links.empty()) {
    text += "<nav aria-label=\"Contents\">\n<ol>\n" + links + "</ol>\n</nav>\n";
  }
  return text + "<main id=\"main\" tabindex=\"-1\">\n" + body +
         "</main>\n<p class=\"unseen\" id=\"said\" role=\"status\" aria-live=\"polite\"></p>\n<script>\n" +
         std::string(page_script()) + "</script>\n</body>\n</html>\n";
}

}  // namespace tpplan
