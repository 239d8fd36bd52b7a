#include "planner/commands/report.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <ostream>

#include "planner/capacity/build_report.h"
#include "planner/report/capacity_output.h"
#include "planner/report/output.h"
#include "planner/report/progress.h"

namespace tpplan {
namespace {

/// --date, else the day of SOURCE_DATE_EPOCH (seconds since 1970, UTC), else nothing.
std::string report_date(const PlannerOptions& options) {
  if (!options.date.empty()) {
    return options.date;
  }
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr || *epoch == '\0') {
    return "";
  }
  char* end = nullptr;
  const std::time_t seconds = std::strtoll(epoch, &end, 10);
  if (*end != '\0') {
    throw UsageError({"SOURCE_DATE_EPOCH is \"" + std::string(epoch) + "\", no number of seconds"}, "report");
  }
  std::tm day{};
  gmtime_r(&seconds, &day);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

struct Writer {
  OutputFormat format;
  std::string (*write)(const CapacityReport& report, const Terminal& terminal, std::string& notes);
};
constexpr std::array<Writer, 4> kWriters{{
    {OutputFormat::table, capacity_table},
    {OutputFormat::json,
     [](const CapacityReport& report, const Terminal&, std::string&) { return capacity_json(report); }},
    {OutputFormat::markdown,
     [](const CapacityReport& report, const Terminal&, std::string&) { return capacity_markdown(report); }},
    {OutputFormat::html,
     [](const CapacityReport& report, const Terminal&, std::string&) { return capacity_html(report); }},
}};

}  // namespace

int run_report(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const std::string date = report_date(options);
  PlannerOptions planned = options;
  planned.date = options.capacity.framework_date;
  std::string file_warnings;
  CapacityReport report;
  {
    ProgressLine progress(err);
    int searches = 0;
    report = build_report(
        planned, date,
        [&](std::string_view what) { progress.update(std::string(what) + ": search " + std::to_string(++searches)); },
        file_warnings);
  }
  report.version = TPPLAN_VERSION;
  err << file_warnings;
  std::string notes;
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  std::string text;
  for (const Writer& writer : kWriters) {
    if (writer.format == chosen_format(options)) {
      text = writer.write(report, terminal, notes);
    }
  }
  write_result(options, text, out);
  err << notes;
  return report.answered ? 0 : 1;
}

}  // namespace tpplan
