#include <algorithm>
#include <cmath>
#include <map>

#include "cost-model/fit.h"
#include "planner/import/log_evidence.h"
#include "planner/import/samples.h"

namespace tpplan {

namespace {

constexpr double kBadDeviation = 0.1;  // an old "error" column says so much for a wrong result
constexpr std::size_t kNotesPerRun = 4;

struct CollectiveSpelling {
  std::string_view operation;
  Collective collective;
};
constexpr CollectiveSpelling kFitted[] = {
    {"all_reduce", Collective::all_reduce},
    {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter},
    {"alltoall", Collective::all_to_all},
    {"sendrecv", Collective::send_recv},
    {"broadcast", Collective::broadcast},
};

std::optional<Collective> collective_of(const std::string& operation) {
  for (const CollectiveSpelling& row : kFitted) {
    if (row.operation == operation) return row.collective;
  }
  return std::nullopt;
}

/// The row of the table with the same bus factor, for operations that the planner does not price.
Collective nearest_collective(const std::string& operation) {
  const bool ring = operation == "gather" || operation == "scatter" || operation == "alltoallv";
  return collective_of(operation).value_or(ring ? Collective::all_gather : Collective::broadcast);
}

std::string at_line(std::size_t line, const std::string& text) {
  return line == 0 ? text : "line " + std::to_string(line) + ": " + text;
}

/// Checks of one group of rows in both places, gathered before curves are made.
class GroupCheck {
 public:
  GroupCheck(const BenchmarkRun& run, const RowGroup& group, std::string operation, int ranks)
      : run_(run), group_(group), operation_(std::move(operation)), ranks_(ranks) {}

  /// Why no curve can be made of these rows, empty when one can.
  [[nodiscard]] std::string refusal() {
    check_wrong();
    if (!refusal_.empty()) return refusal_;
    check_identities();
    if (!refusal_.empty()) return refusal_;
    check_order();
    return refusal_;
  }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// The time of one operation in microseconds, 0 when the row cannot tell it.
  [[nodiscard]] double time_us(const BenchmarkRow& row, const PlaceFigures& figures) const {
    if (!std::isfinite(figures.time_us)) return 0;
    if (!run_.cpu_time) return figures.time_us;
    // The time column is the host's: the bandwidth is that of the transfer, where it has three digits.
    return figures.algbw >= 1 ? static_cast<double>(row.size) / (figures.algbw * 1e3) : 0;
  }

 private:
  [[nodiscard]] bool wrong(const PlaceFigures& figures) const {
    if (figures.over_threshold) return true;
    if (!figures.wrong || std::isnan(*figures.wrong)) return figures.wrong.has_value();
    return run_.error_is_deviation ? *figures.wrong >= kBadDeviation : *figures.wrong > 0;
  }

  void check_wrong() {
    std::size_t bad = 0;
    std::size_t first = 0;
    for (const BenchmarkRow* row : group_.rows) {
      const bool any = (row->out_of_place && wrong(*row->out_of_place)) || (row->in_place && wrong(*row->in_place));
      if (!any) continue;
      if (bad == 0) first = row->line;
      ++bad;
    }
    if (bad == 0) return;
    refusal_ = "wrong results in " + std::to_string(bad) + (bad == 1 ? " row" : " rows") +
               (first > 0 ? ", first in line " + std::to_string(first) : "") +
               ": a fabric that corrupts data cannot be planned with; repair it and measure again";
  }

  /// algbw * time = size within the digits printed, and busbw = factor * algbw.
  void check_identities() {
    std::size_t checked = 0;
    std::size_t off = 0;
    std::size_t first = 0;
    const double factor = bus_factor(operation_, ranks_);
    bool old_bandwidth = false;
    for (const BenchmarkRow* row : group_.rows) {
      for (const std::optional<PlaceFigures>* place : {&row->out_of_place, &row->in_place}) {
        if (!*place || row->size <= 0 || (*place)->algbw < 0.05 || !std::isfinite((*place)->busbw)) continue;
        const PlaceFigures& figures = **place;
        ++checked;
        const double size = static_cast<double>(row->size);
        const double product = figures.algbw * figures.time_us * 1e3 / size;
        const double digits = 0.006 / figures.algbw + 0.006 / std::max(figures.time_us, 0.01) + 0.002;
        // Before 2020-06 all_gather and reduce_scatter printed the bus bandwidth in both columns.
        const bool old = std::abs(figures.busbw / figures.algbw - 1) < 1e-9 && factor < 1 &&
                         std::abs(product / factor - 1) <= digits;
        old_bandwidth = old_bandwidth || old;
        const bool time_fits = run_.cpu_time || std::abs(product - 1) <= digits || old;
        const bool bus_fits =
            old || figures.algbw < 0.5 ||
            std::abs(figures.busbw / figures.algbw - factor) <= 0.002 + 0.006 * (1 + factor) / figures.algbw;
        if (time_fits && bus_fits) continue;
        if (off == 0) first = row->line;
        ++off;
      }
    }
    if (old_bandwidth)
      warnings_.emplace_back("algbw and busbw are those of old versions: recomputed from time and size");
    if (off == 0) return;
    const std::string what = std::to_string(off) + " of " + std::to_string(checked) +
                             " figures contradict size, time and " + std::to_string(ranks_) + " ranks, first in line " +
                             std::to_string(first);
    if (off * 3 > checked) {
      refusal_ = what + ": the table was edited or belongs to another collective";
    } else {
      warnings_.push_back(what);
    }
  }

  /// Sizes that go up and down within one table come from several processes writing into each other.
  void check_order() {
    std::size_t restarts = 0;
    std::size_t rises = 0;
    std::int64_t smallest = INT64_MAX;
    for (const BenchmarkRow* row : group_.rows) smallest = std::min(smallest, row->size);
    for (std::size_t i = 1; i < group_.rows.size(); ++i) {
      const bool back = group_.rows[i]->size < group_.rows[i - 1]->size;
      if (back && group_.rows[i]->size != smallest) ++restarts;
      if (group_.rows[i]->size > group_.rows[i - 1]->size) ++rises;
    }
    if (restarts > 0 && rises > 0) {
      refusal_ =
          "sizes go up and down within one table: several processes that do not know of each other (built without "
          "MPI?) wrote into one file";
    }
  }

  const BenchmarkRun& run_;
  const RowGroup& group_;
  std::string operation_;
  int ranks_;
  std::string refusal_;
  std::vector<std::string> warnings_;
};

/// OSU and IMB count the bytes of one rank's block where nccl-tests counts those of all.
double payload_over_size(const std::string& tool, Collective collective, int ranks) {
  const bool per_rank = collective == Collective::all_gather || collective == Collective::all_to_all;
  return (tool == "OSU" || tool == "IMB") && per_rank ? ranks : 1;
}

std::vector<CurvePoint> points_of(const RowGroup& group, bool in_place, const GroupCheck& check, double payload) {
  std::map<std::int64_t, std::vector<double>> by_size;  // repeated sweeps give several times per size
  for (const BenchmarkRow* row : group.rows) {
    const std::optional<PlaceFigures>& figures = in_place ? row->in_place : row->out_of_place;
    if (!figures || row->size <= 0) continue;
    const double time = check.time_us(*row, *figures);
    if (time > 0) by_size[row->size].push_back(time);
  }
  std::vector<CurvePoint> points;
  for (auto& [size, times] : by_size) {
    std::sort(times.begin(), times.end());
    const double middle = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
    points.push_back({Bytes(payload * static_cast<double>(size)), Seconds(middle * 1e-6), Seconds(times.front() * 1e-6),
                      Seconds(times.back() * 1e-6)});
  }
  return points;
}

/// The closing average is the plain mean of every bus bandwidth: it tells when rows were cut or edited.
void check_average(const BenchmarkRun& run, std::vector<std::string>& warnings) {
  if (!run.average_busbw || run.rows.empty()) return;
  double sum = 0;
  std::size_t count = 0;
  for (const BenchmarkRow& row : run.rows) {
    for (const std::optional<PlaceFigures>* place : {&row.out_of_place, &row.in_place}) {
      if (!*place) continue;
      sum += (*place)->busbw;
      ++count;
    }
  }
  const double mean = sum / static_cast<double>(count);
  const double allowed = 0.006 + 1e-4 * std::abs(*run.average_busbw);
  if (!std::isfinite(mean) || std::abs(mean - *run.average_busbw) <= allowed) return;
  warnings.push_back("the average at the end (" + shortest(*run.average_busbw) + " GB/s) is not that of the rows (" +
                     shortest(std::round(mean * 1000) / 1000) + "): rows were cut or edited");
}

std::string origin_of(const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group) {
  std::string origin = log.name.substr(log.name.find_last_of('/') + 1);
  if (run.line > 0) origin += ":" + std::to_string(run.line);
  origin += " (" + log.tool;
  if (!run.section.empty() && run.section != "/") origin += ", " + run.section;
  if (!group.redop.empty() && group.redop != "none" && group.redop != "sum") origin += ", redop " + group.redop;
  if (run.graph) origin += ", CUDA graphs";
  if (run.blocking) origin += ", blocking";
  return origin + ")";
}

void add_run_notes(const BenchmarkLog& log, const BenchmarkRun& run, std::vector<std::string>& warnings) {
  for (std::size_t i = 0; i < run.warnings.size() && i < kNotesPerRun; ++i) {
    warnings.push_back(at_line(run.warnings[i].line, run.warnings[i].text));
  }
  if (run.warnings.size() > kNotesPerRun) {
    warnings.push_back(std::to_string(run.warnings.size() - kNotesPerRun) + " more such lines");
  }
  check_average(run, warnings);
  if (run.failed && !log.failures.empty()) {
    warnings.push_back("the run did not finish: " + at_line(log.failures[0].line, log.failures[0].text));
  }
  if (run.cpu_time) {
    warnings.emplace_back(
        "the time column is that of the host (-C 1): times are taken from the bandwidths, small sizes left out");
  }
  if (run.blocking) warnings.emplace_back("blocking mode (-z): each time includes a wait, and with -z 1 a barrier");
}

void add_group(Samples& samples, const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group,
               const ImportOptions& options, const std::vector<std::string>& run_warnings) {
  const OperationEvidence operation = operation_of(log, run, group, options);
  const PlacementEvidence placement = placement_of(log, run, group, operation.operation, options);
  SampleCurve sample;
  sample.operation = operation.operation;
  sample.collective = collective_of(operation.operation);
  sample.rows = group.rows.size();
  sample.refusal = placement.refusal;
  sample.warnings = run_warnings;
  for (const std::string* warning : {&operation.warning, &placement.warning}) {
    if (!warning->empty()) sample.warnings.push_back(*warning);
  }
  CollectiveCurve& curve = sample.curve;
  curve.collective = nearest_collective(operation.operation);
  curve.placement = placement.placement;
  curve.concurrent_groups = placement.concurrent_groups;
  curve.dtype = group.type;
  curve.mode = run.blocking ? "single" : "batched";
  curve.origin = origin_of(log, run, group);

  GroupCheck check(run, group, operation.operation, placement.placement.ranks());
  if (sample.refusal.empty()) {
    sample.refusal = check.refusal();
    sample.warnings.insert(sample.warnings.end(), check.warnings().begin(), check.warnings().end());
  }
  const double payload = payload_over_size(log.tool, curve.collective, std::max(1, curve.placement.ranks()));
  const std::vector<CurvePoint> places[2] = {points_of(group, false, check, payload),
                                             points_of(group, true, check, payload)};
  bool told = false;
  for (const bool in_place : {false, true}) {
    const std::vector<CurvePoint>& points = places[in_place ? 1 : 0];
    if (points.empty()) continue;
    SampleCurve one = sample;
    if (told) one.warnings.clear();  // notes on the whole table stand with its first place
    told = true;
    one.curve.in_place = in_place;
    one.curve.points = points;
    const std::vector<CurvePoint>& twin = places[in_place ? 0 : 1];
    judge_curve(one, twin.empty() ? nullptr : &twin);
    samples.curves.push_back(std::move(one));
  }
  if (!told) {
    if (sample.refusal.empty()) sample.refusal = "no row has a usable time";
    samples.curves.push_back(std::move(sample));
  }
}

void add_variables(Samples& samples, const BenchmarkRun& run) {
  for (const std::pair<const std::string, std::string>& variable : run.variables) {
    const auto same = std::find_if(samples.variables.begin(), samples.variables.end(),
                                   [&](const auto& pair) { return pair.first == variable.first; });
    if (same == samples.variables.end()) samples.variables.emplace_back(variable);
  }
}

}  // namespace

Samples samples_of_log(BenchmarkLog log, const ImportOptions& options) {
  Samples samples;
  samples.file = log.name;
  samples.tool = log.tool;
  for (const ImportNote& note : log.warnings) samples.warnings.push_back(at_line(note.line, note.text));
  for (const BenchmarkRun& run : log.runs) {
    add_variables(samples, run);
    for (const BenchmarkDevice& device : run.devices) {
      if (samples.gpu_model.empty()) samples.gpu_model = device.model;
    }
    std::vector<std::string> run_warnings;
    add_run_notes(log, run, run_warnings);
    if (run.rows.empty()) samples.warnings.insert(samples.warnings.end(), run_warnings.begin(), run_warnings.end());
    for (const RowGroup& group : row_groups(run)) {
      add_group(samples, log, run, group, options, run_warnings);
      run_warnings.clear();
    }
  }
  if (log.rows() == 0) {
    for (std::size_t i = 0; i < log.failures.size() && i < kNotesPerRun; ++i) {
      samples.warnings.push_back(at_line(log.failures[i].line, log.failures[i].text));
    }
  }
  samples.log = std::move(log);
  return samples;
}

}  // namespace tpplan
