#pragma once

#include <cstddef>
#include <string>

#include "cost-model/simulate.h"

namespace tpplan {

constexpr std::size_t kMostTraceEvents = 100000;

/// A simulated step in the trace event format that Perfetto and chrome://tracing read: a process per pipeline stage, a
/// thread per stream, slices with micro-batch, chunk and bytes (inside a pass those of its layers, each on its stream),
/// flows from send to receive, a counter of memory by owner per stage, instants at the step's start and end. Times are
/// microseconds in steps of a nanosecond, so that slices that touch do not overlap. When the step has more than
/// `most_events` events, only its first and last micro-batches are written; `note` then says so.
std::string chrome_trace(const SimulatedStep& step, std::string& note, std::size_t most_events = kMostTraceEvents);

/// "F 3", "send B 0", "optimizer": what an operation is called in traces, alike for alike operations but for numbers.
std::string operation_name(const SimulatedOperation& operation);

}  // namespace tpplan
