#include "planner/commands/report.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <ostream>

#include "planner/capacity/build_report.h"
#include "planner/report/capacity_output.h"
#include "planner/report/output.h"

namespace tpplan {
namespace {

/// What is being worked on, on one line of a terminal's standard error once the report takes more than a second.
class ProgressLine {
 public:
  explicit ProgressLine(std::ostream& err) : err_(err), shown_on_(isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_) {
      err_ << "\r\033[K" << std::flush;
    }
  }
  void update(std::string_view what) {
    ++searches_;
    if (shown_on_ && std::chrono::steady_clock::now() - start_ > std::chrono::seconds(1)) {
      shown_ = true;
      err_ << "\r\033[K" << what << ": search " << searches_ << std::flush;
    }
  }

 private:
  std::ostream& err_;
  bool shown_on_;
  bool shown_ = false;
  int searches_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

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
constexpr std::array<Writer, 3> kWriters{{
    {OutputFormat::table, capacity_table},
    {OutputFormat::json,
     [](const CapacityReport& report, const Terminal&, std::string&) { return capacity_json(report); }},
    {OutputFormat::markdown,
     [](const CapacityReport& report, const Terminal&, std::string&) { return capacity_markdown(report); }},
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
    report = build_report(
        planned, date, [&progress](std::string_view what) { progress.update(what); }, file_warnings);
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
