#include "planner/report/diff_report.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "planner/report/json_writer.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

std::string one_decimal(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string value_text(double value, DiffUnit unit) {
  switch (unit) {
    case DiffUnit::seconds:
      return format(Seconds(value));
    case DiffUnit::bytes:
      return format(Bytes(value));
    case DiffUnit::bytes_per_second:
      return format(BytesPerSecond(value));
    case DiffUnit::flops_per_second:
      return format(FlopsPerSecond(value));
    case DiffUnit::share:
      return one_decimal(100 * value) + " %";
    case DiffUnit::watts:
      return brief_number(value) + " W";
    case DiffUnit::tokens:
      return brief_number(value);
    case DiffUnit::count:
      break;
  }
  return value == std::floor(value) && std::abs(value) < 1e15 ? with_separators(static_cast<long long>(value))
                                                              : brief_number(value);
}

std::string side_text(const std::optional<double>& value, DiffUnit unit) {
  return value ? value_text(*value, unit) : "-";
}

std::string change_text(const DiffTerm& term) {
  if (!term.a || !term.b) {
    return term.a ? "only in A" : "only in B";
  }
  return (term.change() < 0 ? "-" : "+") + value_text(std::abs(term.change()), term.unit);
}

std::string relative_text(const DiffTerm& term) {
  const auto relative = term.relative();
  return relative ? (*relative < 0 ? "-" : "+") + one_decimal(std::abs(*relative) * 100) + " %" : "";
}

TextTable terms_table(const DiffSection& section) {
  TextTable table;
  table.columns = {{"term", false, 9}, {"A", true, 8}, {"B", true, 8}, {"change", true, 7}, {"relative", true, 6}};
  for (const DiffTerm& term : section.terms) {
    if (term.differs()) {
      table.rows.push_back({term.name, side_text(term.a, term.unit), side_text(term.b, term.unit), change_text(term),
                            relative_text(term)});
    }
  }
  return table;
}

/// "the same: host 0 s, data 0 s", terms that are 0 on both sides left out.
std::string same_line(const DiffSection& section) {
  std::string text;
  for (const DiffTerm& term : section.terms) {
    if (!term.differs() && term.a.value_or(0) != 0) {
      text += (text.empty() ? "the same: " : ", ") + term.name + " " + value_text(*term.a, term.unit);
    }
  }
  return text;
}

TextTable inputs_table(const Difference& difference) {
  TextTable table;
  table.columns = {{"input", false, 9}, {"A", false, 8}, {"B", false, 8}};
  for (const DiffInput& input : difference.inputs) {
    table.rows.push_back({input.name, input.a.empty() ? "-" : input.a, input.b.empty() ? "-" : input.b});
  }
  return table;
}

}  // namespace

std::string diff_table(const Difference& difference, const Terminal& terminal) {
  std::string text = terminal.paint(Style::bold, difference.kind) + "\n  A: " + difference.a +
                     "\n  B: " + difference.b + "\n\n" +
                     terminal.paint(Style::good, wrap(difference.summary, terminal.width, 2)) + "\n";
  if (!difference.inputs.empty()) {
    text +=
        "\n" + terminal.paint(Style::bold, "inputs that differ") + "\n" + inputs_table(difference).render(terminal, 2);
  }
  for (const DiffSection& section : difference.sections) {
    const TextTable table = terms_table(section);
    const std::string same = same_line(section);
    text += "\n" + terminal.paint(Style::bold, section.title) + "\n";
    text += table.rows.empty() ? "" : table.render(terminal, 2);
    text += same.empty() ? "" : terminal.paint(Style::dim, "  " + wrap(same, terminal.width, 4, 2)) + "\n";
  }
  return text;
}

std::string diff_markdown(const Difference& difference) {
  std::string text = "## " + difference.kind + ": " + difference.a + " (A) and " + difference.b + " (B)\n\n" +
                     difference.summary + ".\n\n";
  if (!difference.inputs.empty()) {
    text += "### Inputs that differ\n\n" + github_table(inputs_table(difference)) + "\n";
  }
  for (const DiffSection& section : difference.sections) {
    const TextTable table = terms_table(section);
    const std::string same = same_line(section);
    text += "### " + section.title + "\n\n";
    text += table.rows.empty() ? "" : github_table(table) + "\n";
    text += same.empty() ? "" : "(" + same + ")\n\n";
  }
  return text;
}

std::string diff_json(const Difference& difference) {
  JsonWriter json;
  const auto side = [&json](std::string_view key, const std::optional<double>& value) {
    json.key(key);
    if (value) {
      json.value(*value);
    } else {
      json.null();
    }
  };
  json.begin_object().field("schema_version", kSchemaVersion).field("kind", difference.kind);
  json.field("a", difference.a).field("b", difference.b).field("summary", difference.summary);
  json.key("inputs").begin_array();
  for (const DiffInput& input : difference.inputs) {
    json.begin_line_object().field("name", input.name).field("a", input.a).field("b", input.b).end_object();
  }
  json.end_array();
  json.key("sections").begin_array();
  for (const DiffSection& section : difference.sections) {
    json.begin_object().field("key", section.key).field("title", section.title);
    json.key("terms").begin_array();
    for (const DiffTerm& term : section.terms) {
      json.begin_line_object().field("key", term.key).field("name", term.name);
      side("a", term.a);
      side("b", term.b);
      side("change", term.a && term.b ? std::optional(term.change()) : std::nullopt);
      side("relative", term.relative());
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.text();
}

}  // namespace tpplan
