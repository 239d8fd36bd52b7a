#include "planner/report/capacity_output.h"
#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

void write_figure(JsonWriter& json, const std::string& key, const Figure& figure) {
  json.field(key, figure.value);
  if (figure.low && figure.high) {
    json.field(key + "_low", *figure.low).field(key + "_high", *figure.high);
  }
}

void write_texts(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) {
    json.value(text);
  }
  json.end_array();
}

void write_section(JsonWriter& json, const ReportSection& section) {
  json.begin_object().field("id", section.id).field("title", section.title);
  write_texts(json, "summary", section.summary);
  json.key("rows").begin_array();
  for (const auto& row : section.table.rows) {
    json.begin_line_object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string& key = section.table.columns[i].key;
      if (const auto* text = std::get_if<std::string>(&row[i])) {
        json.field(key, *text);
      } else if (const auto* figure = std::get_if<Figure>(&row[i])) {
        write_figure(json, key, *figure);
      } else {
        json.key(key).null();
      }
    }
    json.end_object();
  }
  json.end_array();
  write_texts(json, "notes", section.notes);
  json.end_object();
}

}  // namespace

std::string capacity_json(const CapacityReport& report) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("version", report.version);
  if (!report.date.empty()) {
    json.field("date", report.date);
  }
  json.field("title", report.title).field("command", report.command);
  if (!report.currency.empty()) {
    json.field("currency", report.currency);
  }
  json.field("answered", report.answered).field("decision", report.decision);
  json.key("headlines").begin_object();
  for (const HeadlineFigure& headline : report.headlines) {
    write_figure(json, headline.key, headline.figure);
  }
  json.end_object();
  json.key("assumed").begin_array();
  for (const ReportAssumption& assumption : report.assumed) {
    json.begin_line_object().field("what", assumption.what).field("value", assumption.value);
    if (!assumption.interval.empty()) {
      json.field("interval", assumption.interval);
    }
    if (!assumption.source.empty()) {
      json.field("source", assumption.source);
    }
    json.field("set_by", assumption.set_by).end_object();
  }
  json.end_array();
  write_texts(json, "warnings", report.warnings);
  json.key("inputs").begin_array();
  for (const ReportInput& input : report.inputs) {
    json.begin_line_object().field("name", input.name).field("fnv1a64", input.fingerprint).end_object();
  }
  json.end_array();
  json.key("sections").begin_array();
  for (const ReportSection& section : report.sections) {
    write_section(json, section);
  }
  return json.end_array().end_object().text();
}

}  // namespace tpplan
