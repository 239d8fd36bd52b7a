#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm-bench/backend.h"
#include "comm-bench/groups.h"
#include "comm-bench/measure.h"
#include "comm-bench/mpi_session.h"
#include "comm-bench/mpi_watchdog.h"
#include "comm-bench/payload.h"
#include "comm-bench/sweep_cells.h"

namespace tpplan::bench {

/// single: a barrier before each repetition, a sample is one operation. batched: a sample is the mean of operations
/// issued back to back, as nccl-tests measures.
enum class Mode { single, batched };
inline constexpr std::string_view kModeNames[] = {"single", "batched"};

/// Faults that tests ask for through the environment; -1 is none.
struct Faults {
  int hanging_rank = -1;
  int dying_rank = -1;
  int lying_rank = -1;  ///< reports wrong data
  static Faults from_environment();
};

struct SweepRequest {
  std::vector<Collective> collectives;
  std::vector<Dtype> dtypes;
  std::size_t least_bytes = 1024;
  std::size_t most_bytes = std::size_t{1} << 30;
  std::vector<GroupSet> sets;
  Mode mode = Mode::single;
  Seconds budget;
  StoppingRule rule;
  Faults faults;
};

/// One measured cell. Times are the maximum over all ranks of all groups of the set.
struct SampleRow {
  Cell cell;
  GroupSet set;
  Mode mode = Mode::single;
  Check check = Check::off;
  std::size_t wrong_elements = 0;
  Stop stop = Stop::budget;
  Summary summary;
  std::vector<Seconds> samples;
  [[nodiscard]] int ranks() const { return static_cast<int>(set.members.front().size()); }
  /// Payload over median time, and that times the collective's wire factor (nccl-tests' algbw and busbw).
  [[nodiscard]] BytesPerSecond algorithm_bandwidth() const;
  [[nodiscard]] BytesPerSecond bus_bandwidth() const;
};

struct SweepOutcome {
  std::size_t rows = 0;
  std::size_t wrong_rows = 0;
  std::vector<std::string> unmeasured;  ///< cells the budget did not reach
  std::string rechecked;                ///< the cell measured again at the end, empty if none
  Drift drift;
  std::vector<std::string> notes;
};

/// Called on rank 0 for every row as soon as it is complete.
using RowSink = std::function<void(const SampleRow&)>;

/// Measures every cell; collective over all ranks, rank 0 decides and the others follow. The outcome is filled on rank
/// 0 only.
SweepOutcome run_sweep(Backend& backend, const Communicator& world, const Topology& topology, Watchdog& watchdog,
                       const SweepRequest& request, const RowSink& sink);

}  // namespace tpplan::bench
