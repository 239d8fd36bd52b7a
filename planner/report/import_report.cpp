#include "planner/report/import_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cost-model/units.h"
#include "cost-model/words.h"
#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr int kIndent = 2;

using Json = nlohmann::ordered_json;

/// A text of JSON as part of what is written.
void copy(JsonWriter& json, const Json& value) {
  if (value.is_object()) {
    json.begin_object();
    for (const auto& member : value.items()) {
      json.key(member.key());
      copy(json, member.value());
    }
    json.end_object();
  } else if (value.is_array()) {
    json.begin_line_array();
    for (const Json& element : value) {
      copy(json, element);
    }
    json.end_array();
  } else if (value.is_string()) {
    json.value(value.get<std::string>());
  } else if (value.is_boolean()) {
    json.value(value.get<bool>());
  } else {
    json.value(value.get<std::int64_t>());
  }
}

/// "run.sh:12, :13": the lines alone of "run.sh:12 --flag" and so on.
std::string lines_of(const std::vector<std::string>& places) {
  std::string text;
  std::string file;
  for (const std::string& place : places) {
    const std::string line = place.substr(0, place.find(' '));
    const std::size_t colon = line.rfind(':');
    const bool same = line.substr(0, colon) == file;
    file = line.substr(0, colon);
    text += (text.empty() ? "" : ", ") + (same ? line.substr(colon) : line);
  }
  return text;
}

/// "heading: " and a wrapped text, nothing when the text is empty.
std::string paragraph(const Terminal& terminal, const std::string& heading, const std::string& text) {
  return text.empty()
             ? ""
             : heading + "\n" + std::string(kIndent, ' ') + wrap(text, terminal.width, kIndent, kIndent) + "\n\n";
}

std::string step_text(const Plan& plan) {
  const StepEstimate& step = plan.estimate.step;
  const MemoryEstimate& memory = plan.estimate.memory;
  const Interval<Seconds> time = interval80(step.total(), step.step_error);
  return format(step.total()) + " per step (80 % interval " + format(time.low) + " to " + format(time.high) + "), " +
         format(memory.total()) + " of " + format(memory.capacity) +
         " per GPU: " + (plan.fits == Fits::no ? "does not fit" : std::string(name_of(plan.fits)));
}

/// "12 % shorter than now", or that the job is as good.
std::string gain_text(const ImportComparison& comparison) {
  const auto ratio = best_over_present(comparison);
  if (!ratio) {
    return comparison.present.broken.empty() ? "it fits, the present layout does not" : "";
  }
  const long percent = std::lround(100 * (1 - *ratio));
  const double error = comparison.present.plan.estimate.step.step_error;
  if (percent < 1) {
    return "the present layout is as good as the best found";
  }
  // Both predictions share profile and links: as in the ranking, a quarter of the interval tells plans apart.
  const bool close = 1 / *ratio < 1 + error / 2;
  return std::to_string(percent) + " % shorter than now" + (close ? ", within what predictions can tell apart" : "");
}

std::string comparison_text(const ImportComparison& comparison, const Terminal& terminal) {
  const Job& job = comparison.job;
  std::string text = "prediction for " + wrap(job_line(job), terminal.width, kIndent, 15) + "\n";
  const auto line = [&](const std::string& name, const std::string& content) {
    const std::string start = std::string(kIndent, ' ') + name + std::string(9 - name.size(), ' ');
    text += start + wrap(content, terminal.width, 11, 11) + "\n";
  };
  const Explanation& present = comparison.present;
  if (!present.broken.empty()) {
    for (const BrokenRule& rule : present.broken) {
      line("now", std::string(rule.name) + ": " + rule.arithmetic);
    }
  } else {
    line("now", step_text(present.plan));
  }
  if (!comparison.best) {
    line("best", "no layout fits");
  } else {
    line("best", step_text(*comparison.best));
    line("", to_text(comparison.best->layout));
    const std::string gain = gain_text(comparison);
    if (!gain.empty()) {
      line("gain", gain);
    }
  }
  return text + "\n";
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) {
    json.value(text);
  }
  json.end_array();
}

template <class Row, class What, class Value>
void write_assumed(JsonWriter& json, const std::vector<Row>& rows, What what, Value value) {
  for (const Row& row : rows) {
    json.begin_line_object();
    json.field("what", row.*what).field("value", row.*value);
    json.end_object();
  }
}

}  // namespace

std::optional<double> best_over_present(const ImportComparison& comparison) {
  if (!comparison.present.broken.empty() || comparison.present.plan.fits == Fits::no || !comparison.best) {
    return std::nullopt;
  }
  return comparison.best->estimate.step.total() / comparison.present.plan.estimate.step.total();
}

std::string import_table(const ImportReport& report, const Terminal& terminal) {
  const ImportedJob& job = report.job;
  std::string text =
      wrap("a job of " + job.program + ", read from " + joined(report.files, ", "), terminal.width, kIndent) + "\n\n";
  text += "layout\n" + std::string(kIndent, ' ') + wrap(job.layout_text, terminal.width, kIndent, kIndent) + "\n\n";
  TextTable table;
  table.columns = {{"what", false, 9}, {"value", false, 8}, {"read from", false, 7}};
  for (const ImportedRow& row : job.rows) {
    table.rows.push_back({row.what, row.value, row.from.empty() ? "derived" : lines_of(row.from)});
  }
  text += table.render(terminal, kIndent) + "\n";
  if (job.world == 0) {
    text += wrap("The files do not say how many GPUs the job has, so dp is not known: --cluster says it.",
                 terminal.width, 0) +
            "\n\n";
  }
  if (!job.model_text.empty()) {
    text += "The model is described in the files (--save-model FILE.json writes it).\n\n";
  } else if (!job.model_name.empty()) {
    text += wrap("The files name the model " + job.model_name + " and do not describe it.", terminal.width, 0) + "\n\n";
  }
  std::string assumed;
  for (const auto& [what, value] : job.assumed) {
    assumed += (assumed.empty() ? "" : "; ") + what + ": " + value;
  }
  text += paragraph(terminal, "assumed", assumed);
  text += paragraph(terminal, "left open in the files", joined(job.open, ", "));
  text += paragraph(terminal, "not read, though it may bear on time or memory", joined(job.unread, ", "));
  for (const std::string& remark : job.remarks) {
    text += wrap("note: " + remark, terminal.width, 6) + "\n";
  }
  text += job.remarks.empty() ? "" : "\n";
  text += std::to_string(job.passed_over) + " further settings bear on neither time nor memory.\n\n";
  if (report.comparison != nullptr) {
    text += comparison_text(*report.comparison, terminal);
  }
  return text + "next: " + report.next + "\n";
}

std::string import_json(const ImportReport& report) {
  const ImportedJob& job = report.job;
  JsonWriter json;
  json.begin_object().field("schema_version", kSchemaVersion);
  write_texts(json, "files", report.files);
  json.field("program", job.program).field("framework", name_of(job.framework)).field("layout", job.layout_text);
  json.key("world");
  job.world > 0 ? json.value(job.world) : json.null();
  json.key("training").begin_object();
  for (const auto& [name, value] : job.options) {
    json.field(name, value);
  }
  json.end_object();
  json.key("settings").begin_array();
  for (const ImportedRow& row : job.rows) {
    json.begin_object().field("key", row.key).field("value", row.value);
    write_texts(json, "read_from", row.from);
    json.end_object();
  }
  json.end_array();
  json.key("model");
  if (job.model_text.empty()) {
    job.model_name.empty() ? json.null() : json.value(job.model_name);
  } else {
    copy(json, Json::parse(job.model_text));
  }
  json.key("assumed").begin_array();
  using Pair = std::pair<std::string, std::string>;
  write_assumed(json, job.assumed, &Pair::first, &Pair::second);
  if (report.comparison != nullptr) {
    write_assumed(json, report.comparison->assumed, &Assumption::what, &Assumption::value);
  }
  json.end_array();
  write_texts(json, "left_open", job.open);
  write_texts(json, "unread", job.unread);
  write_texts(json, "notes", job.remarks);
  json.field("passed_over", job.passed_over);
  if (report.comparison != nullptr) {
    const ImportComparison& comparison = *report.comparison;
    json.key("present").begin_object();
    json.key("broken_rules").begin_array();
    for (const BrokenRule& rule : comparison.present.broken) {
      json.begin_object().field("rule", rule.name).field("arithmetic", rule.arithmetic).end_object();
    }
    json.end_array();
    if (comparison.present.broken.empty()) {
      write_plan_members(json, comparison.job, comparison.present.plan);
    }
    json.end_object();
    json.key("best");
    if (comparison.best) {
      json.begin_object();
      write_plan_members(json, comparison.job, *comparison.best);
      json.end_object();
    } else {
      json.null();
    }
    json.key("best_over_present");
    const auto ratio = best_over_present(comparison);
    ratio ? json.value(*ratio) : json.null();
  }
  json.field("next", report.next).end_object();
  return json.text();
}

}  // namespace tpplan
