#pragma once

#include <string>

#include "planner/replay.h"
#include "planner/report/json_writer.h"
#include "planner/report/terminal.h"

namespace tpplan {

/// What a profiler trace and the cost model say of one step, side by side.
struct Replay {
  const KinetoTrace& trace;
  TraceTotals measured;
  SimulatedTotals simulated;
};

/// Classes of operations with measured and simulated time, what the GPU waited for, the term that differs most, and the
/// kernels that no class knows.
std::string replay_table(const Replay& replay, const Terminal& terminal);
/// The same as members of an open JSON object.
void write_replay(JsonWriter& json, const Replay& replay);

}  // namespace tpplan
