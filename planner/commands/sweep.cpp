#include "planner/commands/sweep.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>

#include "planner/commands/help.h"
#include "planner/launcher.h"
#include "planner/report/output.h"
#include "planner/report/sweep_row.h"

#ifdef TPPLAN_HAVE_MPI
#include "planner/commands/sweep_mpi.h"
#endif

namespace tpplan {
namespace {

bool given(const PlannerOptions& options, std::string_view option) {
  return std::any_of(options.given.begin(), options.given.end(),
                     [option](const auto& entry) { return entry.first == option; });
}

bool to_file(const PlannerOptions& options) { return !options.output.empty() && options.output != "-"; }

std::string journal_path(const PlannerOptions& options) { return options.output + ".journal"; }

int allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int counted = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return counted > 0 ? counted : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// All cells in this process.
int run_alone(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  std::string warnings;
  const SweepGrid grid = grid_of(options, &warnings);
  err << warnings;
  SweepRun run(options, grid, out, err);
  SweepLedger& ledger = run.ledger();
  const std::size_t pending = ledger.cells() - ledger.done();
  const int processors = sweep_threads(options, 1);
  const int threads = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(processors), pending));
  const int threads_of_search = std::max(1, processors / std::max(1, threads));
  {
    SweepWorkers workers(
        threads, [&ledger] { return ledger.take(); },
        [&](std::size_t cell) { return sweep_row(grid, cell, threads_of_search); },
        [&ledger](std::size_t cell, std::string row) { ledger.deliver(cell, std::move(row)); });
    while (!workers.finished()) {
      std::this_thread::sleep_for(kBetweenLooks);
      run.show_progress();
    }
    workers.rethrow();
  }
  return run.finish();
}

}  // namespace

SweepGrid grid_of(const PlannerOptions& options, std::string* warnings) {
  if (options.operands.size() != 1) {
    throw UsageError(
        {options.operands.empty() ? "the grid is missing: a JSON file with models, clusters and what varies"
                                  : "sweep takes one grid, got " + std::to_string(options.operands.size())},
        "sweep");
  }
  if (options.resume && !to_file(options)) {
    throw UsageError({"--resume needs -o FILE: the rows of an unfinished sweep are kept beside that file"}, "sweep");
  }
  return SweepGrid::load(options.operands.front(), warnings);
}

int sweep_threads(const PlannerOptions& options, int processes) {
  return given(options, "jobs") ? options.jobs : std::max(1, allowed_processors() / std::max(1, processes));
}

SweepRun::SweepRun(const PlannerOptions& options, const SweepGrid& grid, std::ostream& out, std::ostream& err)
    : options_(options), out_(out), err_(err) {
  std::vector<std::pair<std::size_t, std::string>> known;
  std::function<void(const std::string&)> in_order;
  if (to_file(options)) {
    const SweepIdentity identity{version_text(), grid.identity(), grid.cells()};
    journal_.emplace(options.resume ? SweepJournal::resume(journal_path(options), identity, known)
                                    : SweepJournal::begin(journal_path(options), identity));
  } else {
    in_order = [this](const std::string& row) { out_ << row << '\n' << std::flush; };
  }
  ledger_ = std::make_unique<SweepLedger>(grid.cells(), std::move(known), journal_ ? &*journal_ : nullptr,
                                          std::move(in_order));
  if (options.resume) {
    err_ << "tpplan: sweep: " << ledger_->known() << " of " << ledger_->cells() << " cells were done before\n";
  }
  progress_ = std::make_unique<ProgressLine>(err);
}

void SweepRun::show_progress() {
  progress_->update_count("sweep", "cells", ledger_->done(), ledger_->cells(), ledger_->known());
}

int SweepRun::finish() {
  progress_.reset();
  std::string text;
  std::size_t fitting = 0, tight = 0, too_large = 0, refused = 0;
  for (std::size_t cell = 0; cell < ledger_->cells(); ++cell) {
    const std::string& row = ledger_->rows()[cell];
    const std::string status = sweep_row_head(options_.operands.front(), cell, row).status;
    fitting += status == "fits" || status == "tight" ? 1 : 0;
    tight += status == "tight" ? 1 : 0;
    too_large += status == "nothing-fits" ? 1 : 0;
    refused += status == "refused" ? 1 : 0;
    text += row + "\n";
  }
  if (journal_) {
    write_file(options_.output, text);
    journal_->remove();
  }
  err_ << "tpplan: sweep: " << ledger_->cells() << " cells: " << fitting << " with a plan";
  if (tight > 0) {
    err_ << " (" << tight << " of them tight)";
  }
  err_ << ", " << too_large << " where nothing fits, " << refused << " refused\n";
  return fitting > 0 ? 0 : 1;
}

std::string SweepRun::how_to_go_on() const {
  if (!journal_) {
    return "";
  }
  return std::to_string(ledger_->done()) + " of " + std::to_string(ledger_->cells()) + " cells are kept in " +
         journal_path(options_) + "; the same command with --resume goes on";
}

int run_sweep(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (const auto process = launched(); process && process->size > 1) {
#ifdef TPPLAN_HAVE_MPI
    return run_sweep_over_ranks(options, out, err);
#else
    if (process->rank > 0) {
      return 3;
    }
    throw EnvironmentError("this tpplan was built without MPI, and " + std::to_string(process->size) +
                           " copies of it were started: run it without mpirun, or build it where MPI is found "
                           "(Debian: libopenmpi-dev)");
#endif
  }
  return run_alone(options, out, err);
}

}  // namespace tpplan
