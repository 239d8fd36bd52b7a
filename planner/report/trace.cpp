#include "planner/report/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

constexpr double kNanoseconds = 1e9;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanoseconds); }

/// Microseconds with three decimals, exact.
std::string microseconds(std::int64_t ns) {
  std::string decimals = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - decimals.size(), '0') + decimals;
}

int thread_of(StreamKind kind) { return static_cast<int>(kind) + 1; }

constexpr std::array<std::string_view, 11> kKindNames{"",
                                                      "send",
                                                      "wait for send",
                                                      "gather parameters",
                                                      "reduce gradients",
                                                      "optimizer",
                                                      "clip gradients",
                                                      "copy",
                                                      "fixed time of a step",
                                                      "launch",
                                                      "load tokens of"};

/// One event a line, commas between them.
class EventList {
 public:
  void add(std::string_view phase, int process, int thread, std::string_view rest) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += R"({"ph":")";
    text_ += phase;
    text_ += R"(","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(thread) + ",";
    text_ += rest;
    text_ += "}";
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string slice(const std::string& name, double from, double to, const std::string& args) {
  const std::int64_t start = nanoseconds(from);
  return R"("name":)" + json_quoted(name) + R"(,"ts":)" + microseconds(start) + R"(,"dur":)" +
         microseconds(nanoseconds(to) - start) + R"(,"args":{)" + args + "}";
}

std::string slice(const std::string& name, const SimulatedOperation& operation, const std::string& args) {
  return slice(name, operation.start, operation.end, args);
}

std::string pass_arguments(const Pass& pass) {
  return R"("micro_batch":)" + std::to_string(pass.micro_batch) + R"(,"chunk":)" + std::to_string(pass.chunk);
}

void describe_stages(const SimulatedStep& step, EventList& events) {
  for (int r = 0; r < static_cast<int>(step.ranks.size()); ++r) {
    events.add("M", r, 0, R"("name":"process_name","args":{"name":"stage )" + std::to_string(r) + R"("})");
    events.add("M", r, 0, R"("name":"process_sort_index","args":{"sort_index":)" + std::to_string(r) + "}");
    for (const auto& row : kStreamKinds) {
      const int thread = thread_of(row.kind);
      events.add("M", r, thread, R"("name":"thread_name","args":{"name":)" + json_quoted(row.name) + "}");
      events.add("M", r, thread, R"("name":"thread_sort_index","args":{"sort_index":)" + std::to_string(thread) + "}");
    }
  }
}

/// Bytes that a rank holds, by owner, from a moment on.
void add_counter(int r, const MemorySample& sample, const MemoryEstimate& resident, EventList& events) {
  const auto series = [](std::string_view name, Bytes bytes) {
    return "\"" + std::string(name) + "\":" + shortest(bytes.raw());
  };
  events.add("C", r, 0,
             R"("name":"memory","ts":)" + microseconds(nanoseconds(sample.at)) + R"(,"args":{)" +
                 series("activations", sample.activations) + "," + series("layer in work", sample.working) + "," +
                 series("loss", sample.loss) + "," +
                 series("communication and gathered", sample.communication + sample.gathered) + "," +
                 series("states", resident.weights + resident.gradients + resident.optimizer) + "}");
}

/// Micro-batches at the start and at the end of a step that are shown.
struct Shown {
  int first = 0, last = 0, total = 0;
  [[nodiscard]] bool has(int micro_batch) const { return micro_batch < first || micro_batch >= total - last; }
};

Shown shown_of(const SimulatedStep& step, std::size_t most_events) {
  const int total = step.schedule.micro_batches;
  std::size_t events = step.parts.size();
  for (const auto& operation : step.operations) {
    events += operation.kind == SimulatedKind::transfer ? 4 : 1;  // slices and flows
  }
  for (const auto& rank : step.ranks) {
    events += rank.samples.size();
  }
  if (events <= most_events) {
    return {total, 0, total};
  }
  const auto per_micro_batch = std::max<std::size_t>(1, events / static_cast<std::size_t>(total));
  const int shown = std::clamp(static_cast<int>(most_events / per_micro_batch), 2, total);
  return {shown - shown / 2, shown / 2, total};
}

bool of_micro_batch(const SimulatedOperation& operation) {
  return operation.kind == SimulatedKind::pass || operation.kind == SimulatedKind::transfer ||
         operation.kind == SimulatedKind::wait || operation.kind == SimulatedKind::launch ||
         operation.kind == SimulatedKind::load;
}

bool is_shown(const Shown& shown, const SimulatedOperation& operation) {
  return !of_micro_batch(operation) || shown.has(operation.pass.micro_batch) ||
         (operation.pass.with_next && shown.has(operation.beside.micro_batch));
}

/// Time between the micro-batches shown at the start and those shown at the end, per rank.
struct Gap {
  double from = 0, to = 0;
  [[nodiscard]] bool has(double at) const { return at > from && at < to; }
};

std::vector<Gap> gaps_of(const SimulatedStep& step, const Shown& shown) {
  std::vector<Gap> gaps(step.ranks.size(), Gap{0, step.makespan});
  for (const auto& operation : step.operations) {
    if (operation.kind != SimulatedKind::pass) {
      continue;
    }
    auto& gap = gaps[static_cast<std::size_t>(operation.rank)];
    if (operation.pass.micro_batch < shown.first) {
      gap.from = std::max(gap.from, operation.end);
    } else if (is_shown(shown, operation)) {
      gap.to = std::min(gap.to, operation.start);
    }
  }
  for (auto& gap : gaps) {
    gap.to = shown.first == shown.total ? gap.from : gap.to;
  }
  return gaps;
}

void add_parts(const SimulatedStep& step, const Shown& shown, const std::vector<Gap>& gaps, EventList& events) {
  for (const auto& part : step.parts) {
    const auto& pass = step.operations[part.operation];
    if (is_shown(shown, pass) && !gaps[static_cast<std::size_t>(pass.rank)].has(pass.start)) {
      events.add("X", pass.rank, thread_of(part.stream),
                 slice(step.part_names[part.name], part.start, part.end, pass_arguments(pass.pass)));
    }
  }
}

}  // namespace

std::string operation_name(const SimulatedOperation& operation) {
  const auto pass_name = [](const Pass& pass) {
    return std::string(row_of(pass.kind).letter) + " " + std::to_string(pass.micro_batch);
  };
  std::string name(kKindNames[static_cast<std::size_t>(operation.kind)]);
  if (operation.kind == SimulatedKind::pass) {
    name = pass_name(operation.pass);
    if (operation.pass.with_next) {
      name += " + " + pass_name(operation.beside);
    }
  } else if (operation.kind == SimulatedKind::transfer || operation.kind == SimulatedKind::launch ||
             operation.kind == SimulatedKind::load) {
    name += " " + pass_name(operation.pass);
  }
  return name;
}

std::string chrome_trace(const SimulatedStep& step, std::string& note, std::size_t most_events) {
  const Shown shown = shown_of(step, most_events);
  if (shown.first < shown.total) {
    note = "the trace has micro-batches 0 to " + std::to_string(shown.first - 1) + " and the last " +
           std::to_string(shown.last) + " of " + std::to_string(shown.total) + ", to stay below " +
           std::to_string(most_events) + " events\n";
  }
  EventList events;
  describe_stages(step, events);
  events.add("i", 0, 1, R"("name":"step begins","ts":0.000,"s":"g")");
  const auto gaps = gaps_of(step, shown);
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    for (const auto& sample : step.ranks[r].samples) {
      if (!gaps[r].has(sample.at)) {
        add_counter(static_cast<int>(r), sample, step.ranks[r].memory, events);
      }
    }
  }
  int flow = 0;
  for (const auto& operation : step.operations) {
    const int r = operation.rank;
    if (!is_shown(shown, operation) ||
        (!of_micro_batch(operation) && gaps[static_cast<std::size_t>(r)].has(operation.start))) {
      continue;
    }
    std::string args = of_micro_batch(operation) ? pass_arguments(operation.pass) : std::string();
    if (operation.kind == SimulatedKind::transfer) {
      args += R"(,"bytes":)" + shortest(operation.bytes.raw());
    }
    const std::string name = operation_name(operation);
    events.add("X", r, thread_of(operation.stream), slice(name, operation, args));
    if (operation.kind == SimulatedKind::transfer) {
      const int thread = thread_of(operation.stream == StreamKind::send_next ? StreamKind::receive_previous
                                                                             : StreamKind::receive_next);
      const std::string received = "receive " + name.substr(std::string_view("send ").size());
      events.add("X", operation.receiver, thread, slice(received, operation, args));
      const std::string arrow = R"("name":"transfer","cat":"transfer","id":)" + std::to_string(++flow) + R"(,"ts":)" +
                                microseconds(nanoseconds(operation.start));
      events.add("s", r, thread_of(operation.stream), arrow);
      events.add("f", operation.receiver, thread, arrow + R"(,"bp":"e")");
    }
  }
  add_parts(step, shown, gaps, events);
  events.add("i", 0, 1, R"("name":"step ends","ts":)" + microseconds(nanoseconds(step.makespan)) + R"(,"s":"g")");
  return R"({"displayTimeUnit":"ms","traceEvents":[)" + events.text() + "\n]}\n";
}

}  // namespace tpplan
