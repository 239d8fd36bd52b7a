#include "planner/report/replay_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "planner/report/text_table.h"

namespace tpplan {
namespace {

/// One line of the comparison, seconds per step.
struct Line {
  std::string key, name;
  double measured = 0;
  std::optional<double> simulated;  ///< nothing where the cost model has no such term
  double launches = 0;              ///< 0: not of kernels
  bool part = false;                ///< of the step: the parts add up to it where nothing overlaps
};

std::vector<Line> lines_of(const Replay& replay) {
  const auto& measured = replay.measured;
  const auto& simulated = replay.simulated;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < kKernelClasses.size(); ++i) {
    const auto& row = kKernelClasses[i];
    if (row.value == KernelClass::communication) {
      continue;
    }
    const bool modelled = row.value != KernelClass::unknown && row.value != KernelClass::copy;
    if (measured.kernels[i] > 0 || (modelled && simulated.kernels[i] > 0)) {
      lines.push_back({std::string(row.key), std::string(row.name), measured.kernels[i],
                       modelled ? std::optional<double>(simulated.kernels[i]) : std::nullopt, measured.launches[i],
                       true});
    }
  }
  const auto communication = static_cast<std::size_t>(KernelClass::communication);
  const double exposed = simulated.communication_exposed + simulated.pipeline_idle;
  if (measured.kernels[communication] > 0 || exposed > 0) {
    lines.push_back({"communication_exposed", "communication, nothing beside it", measured.communication_exposed,
                     exposed, measured.launches[communication], true});
    for (std::size_t i = 0; i < kCommunicationNames.size(); ++i) {
      if (measured.communication[i] > 0) {
        lines.push_back({std::string(kCommunicationNames[i]),
                         "  " + std::string(kCommunicationNames[i]) + ", hidden too", measured.communication[i],
                         std::nullopt, 0, false});
      }
    }
  }
  lines.push_back({"waits_for_data", "GPU waits for data", measured.waits_for_data, simulated.waits_for_data, 0, true});
  lines.push_back(
      {"waits_for_host", "GPU waits for the host", measured.waits_for_host, simulated.waits_for_host, 0, true});
  lines.push_back({"waits_in_queue", "between queued kernels", measured.waits_in_queue, std::nullopt, 0, true});
  lines.push_back({"step", "step", measured.step, simulated.step, 0, false});
  return lines;
}

std::string milliseconds(double seconds) { return brief_number(seconds * 1e3); }

/// What held the GPU up most, beside its own kernels.
std::string waiting(const TraceTotals& measured) {
  struct Cause {
    double time;
    std::string_view what;
  };
  const std::array<Cause, 4> causes{{{measured.communication_exposed, "the network"},
                                     {measured.waits_for_data, "data"},
                                     {measured.waits_for_host, "the host to launch kernels"},
                                     {measured.waits_in_queue, "kernels that wait for each other"}}};
  const auto most =
      std::max_element(causes.begin(), causes.end(), [](const Cause& a, const Cause& b) { return a.time < b.time; });
  constexpr double kLittle = 0.02;
  if (measured.step <= 0 || most->time < kLittle * measured.step) {
    return "the GPU hardly waited";
  }
  return "the GPU waited mostly for " + std::string(most->what) + ": " + percent(most->time / measured.step, 1) +
         " of the step";
}

}  // namespace

std::string replay_table(const Replay& replay, const Terminal& terminal) {
  const auto& measured = replay.measured;
  std::string text = replay.trace.file + ": " + std::to_string(measured.steps) +
                     (measured.steps == 1 ? " step" : " steps") + " of " + format(Seconds(measured.step)) +
                     ", GPU busy " + percent(measured.step > 0 ? measured.busy / measured.step : 0, 1) + "\n";
  text += "simulated: pipeline stage " + std::to_string(replay.simulated.pipeline_rank) + ", step of " +
          format(Seconds(replay.simulated.step)) + "\n\n";
  TextTable table;
  table.columns = {{.header = "per step", .right = false, .importance = 9},
                   {.header = "kernels", .importance = 1},
                   {.header = "measured (ms)", .importance = 8},
                   {.header = "simulated (ms)", .importance = 7},
                   {.header = "difference (ms)", .importance = 6},
                   {.header = "relative", .importance = 2}};
  const auto lines = lines_of(replay);
  const Line* worst = nullptr;
  const auto difference = [](const Line& line) { return line.simulated ? *line.simulated - line.measured : 0; };
  for (const Line& line : lines) {
    const bool compared = line.simulated.has_value();
    table.rows.push_back({line.name, line.launches > 0 ? brief_number(std::round(line.launches)) : "",
                          milliseconds(line.measured), compared ? milliseconds(*line.simulated) : "-",
                          compared ? milliseconds(difference(line)) : "-",
                          compared && line.measured > 0 ? percent(difference(line) / line.measured, 1) : "-"});
    if (line.part && compared && (worst == nullptr || std::abs(difference(line)) > std::abs(difference(*worst)))) {
      worst = &line;
    }
  }
  text += table.render(terminal) + "\n";
  if (worst != nullptr) {
    text += "differs most: " + worst->name + " (measured " + milliseconds(worst->measured) + " ms, simulated " +
            milliseconds(*worst->simulated) + " ms)\n";
  }
  text += waiting(measured) + "; a profiled program launches kernels more slowly than one that runs freely\n";
  if (!measured.unknown.empty()) {
    text += "\nkernels of no known class, ms per step:\n";
    for (const auto& [name, time] : measured.unknown) {
      text += "  " + milliseconds(time) + "  " + name.substr(0, 100) + "\n";
    }
  }
  for (const std::string& remark : measured.remarks) {
    text += remark + "\n";
  }
  return text;
}

void write_replay(JsonWriter& json, const Replay& replay) {
  const auto& measured = replay.measured;
  json.field("trace", replay.trace.file)
      .field("steps", measured.steps)
      .field("pipeline_rank", replay.simulated.pipeline_rank)
      .field("busy_s", measured.busy);
  json.key("rows").begin_array();
  for (const Line& line : lines_of(replay)) {
    json.begin_line_object();
    json.field("what", line.key).field("kernels", line.launches).field("measured_s", line.measured);
    json.key("simulated_s");
    if (line.simulated) {
      json.value(*line.simulated);
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array();
  for (const auto& [key, list] :
       {std::pair("largest_kernels", &measured.largest), std::pair("unknown_kernels", &measured.unknown)}) {
    json.key(key).begin_array();
    for (const auto& [name, time] : *list) {
      json.begin_line_object();
      json.field("name", name).field("time_s", time).end_object();
    }
    json.end_array();
  }
}

}  // namespace tpplan
