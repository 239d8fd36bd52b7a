#pragma once

#include <iosfwd>
#include <memory>

#include "planner/options.h"
#include "planner/report/progress.h"
#include "planner/sweep_grid.h"
#include "planner/sweep_ledger.h"

namespace tpplan {

/// `tpplan sweep GRID.json`: plans every cell of a grid and writes a row of JSON for each, in the order of the cells; 1
/// when nothing fits in any of them. Under mpirun the ranks share the cells.
int run_sweep(const PlannerOptions& options, std::ostream& out, std::ostream& err);

/// What the process that writes keeps of a sweep: ledger, journal, progress. With -o FILE finished rows go to
/// FILE.journal until the last one, and then to FILE; without, to `out` as soon as all before them are there.
class SweepRun {
 public:
  /// Throws UsageError where the journal does not allow to begin or to go on.
  SweepRun(const PlannerOptions& options, const SweepGrid& grid, std::ostream& out, std::ostream& err);

  [[nodiscard]] SweepLedger& ledger() { return *ledger_; }
  void show_progress();
  /// Writes the output once all rows are there, tells of them, and returns the exit code.
  int finish();
  /// What to do after the sweep has ended early, empty when nothing was kept.
  [[nodiscard]] std::string how_to_go_on() const;

 private:
  const PlannerOptions& options_;
  std::ostream& out_;
  std::ostream& err_;
  std::optional<SweepJournal> journal_;
  std::unique_ptr<SweepLedger> ledger_;
  std::unique_ptr<ProgressLine> progress_;
};

/// The grid a command line names. Throws UsageError when it names none.
SweepGrid grid_of(const PlannerOptions& options, std::string* warnings);

/// --jobs, else the processors this process may use, divided by `processes` that share them.
int sweep_threads(const PlannerOptions& options, int processes);

}  // namespace tpplan
