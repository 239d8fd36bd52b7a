#include "planner/report/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

constexpr std::array<std::string_view, 6> kKindNames{
    "", "send", "wait for send", "gather parameters", "reduce gradients", "optimizer"};

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

std::string slice(const std::string& name, const SimulatedOperation& operation, const std::string& args) {
  const std::int64_t start = nanoseconds(operation.start);
  return R"("name":)" + json_quoted(name) + R"(,"ts":)" + microseconds(start) + R"(,"dur":)" +
         microseconds(nanoseconds(operation.end) - start) + R"(,"args":{)" + args + "}";
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

void add_counter(int r, double at, Bytes activations, Bytes states, EventList& events) {
  events.add("C", r, 0,
             R"("name":"memory","ts":)" + microseconds(nanoseconds(at)) + R"(,"args":{"activations":)" +
                 shortest(activations.raw()) + R"(,"states":)" + shortest(states.raw()) + "}");
}

/// Micro-batches at the start and at the end of a step that are shown.
struct Shown {
  int first = 0, last = 0, total = 0;
  [[nodiscard]] bool has(int micro_batch) const { return micro_batch < first || micro_batch >= total - last; }
};

Shown shown_of(const SimulatedStep& step, std::size_t most_events) {
  const int total = step.schedule.micro_batches;
  std::size_t events = 0;
  for (const auto& operation : step.operations) {
    events += operation.kind == SimulatedKind::transfer ? 4 : 2;  // slices and flows, or a slice and a counter
  }
  if (events <= most_events) {
    return {total, 0, total};
  }
  const auto per_micro_batch = std::max<std::size_t>(1, events / static_cast<std::size_t>(total));
  const int shown = std::clamp(static_cast<int>(most_events / per_micro_batch), 2, total);
  return {shown - shown / 2, shown / 2, total};
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
  } else if (operation.kind == SimulatedKind::transfer) {
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
  std::vector<Bytes> kept(step.ranks.size());
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& memory = step.ranks[r].memory;
    add_counter(static_cast<int>(r), 0, Bytes(0), memory.weights + memory.gradients + memory.optimizer, events);
  }
  int flow = 0;
  for (const auto& operation : step.operations) {
    const bool of_micro_batch = operation.kind == SimulatedKind::pass || operation.kind == SimulatedKind::transfer ||
                                operation.kind == SimulatedKind::wait;
    const int r = operation.rank;
    if (operation.kind == SimulatedKind::pass) {
      const auto& rank = step.ranks[static_cast<std::size_t>(r)];
      auto& held = kept[static_cast<std::size_t>(r)];
      for (const Pass* pass : {&operation.pass, operation.pass.with_next ? &operation.beside : nullptr}) {
        if (pass != nullptr && pass->kind != PassKind::backward) {
          const Bytes chunk = rank.chunk_activations[static_cast<std::size_t>(pass->chunk)];
          held += pass->kind == PassKind::forward ? chunk : -chunk;
        }
      }
    }
    if (of_micro_batch && !shown.has(operation.pass.micro_batch) &&
        !(operation.pass.with_next && shown.has(operation.beside.micro_batch))) {
      continue;
    }
    std::string args = of_micro_batch ? pass_arguments(operation.pass) : std::string();
    if (operation.kind == SimulatedKind::transfer) {
      args += R"(,"bytes":)" + shortest(operation.bytes.raw());
    }
    const std::string name = operation_name(operation);
    events.add("X", r, thread_of(operation.stream), slice(name, operation, args));
    if (operation.kind == SimulatedKind::pass) {
      const auto& memory = step.ranks[static_cast<std::size_t>(r)].memory;
      add_counter(r, operation.end, kept[static_cast<std::size_t>(r)],
                  memory.weights + memory.gradients + memory.optimizer, events);
    }
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
  events.add("i", 0, 1, R"("name":"step ends","ts":)" + microseconds(nanoseconds(step.makespan)) + R"(,"s":"g")");
  return R"({"displayTimeUnit":"ms","traceEvents":[)" + events.text() + "\n]}\n";
}

}  // namespace tpplan
