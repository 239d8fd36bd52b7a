#include "planner/commands/sweep_mpi.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <thread>

#include "comm-bench/mpi_session.h"
#include "comm-bench/mpi_watchdog.h"
#include "planner/commands/help.h"
#include "planner/commands/sweep.h"
#include "planner/report/sweep_row.h"

namespace tpplan {
namespace {

using bench::Communicator;

constexpr int kBadInput = 2;
constexpr int kEnvironmentFailure = 3;
constexpr Seconds kPatience(60);  ///< a rank that does not answer for so long is given up
constexpr auto kBetweenLooks = std::chrono::microseconds(200);

// Messages: to rank 0 "" asks for a cell, "CELL ROW" brings a row, kLeaving ends; from rank 0 a cell, or "" for none.
constexpr std::string_view kLeaving = "leaving";

/// Where the threads of a rank get cells that rank 0 hands out. MPI is called by the main thread only: threads leave
/// their wishes and rows here, and wait.
class RemoteCells {
 public:
  std::optional<std::size_t> take() {
    std::unique_lock lock(mutex_);
    outgoing_.emplace_back();
    answered_.wait(lock, [this] { return !answers_.empty(); });
    const std::optional<std::size_t> cell = answers_.front();
    answers_.pop_front();
    return cell;
  }
  void deliver(std::size_t cell, const std::string& row) {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back(std::to_string(cell) + " " + row);
  }

  std::deque<std::string> take_outgoing() {
    const std::lock_guard lock(mutex_);
    return std::exchange(outgoing_, {});
  }
  void answer(std::optional<std::size_t> cell) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(cell);
    answered_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  std::deque<std::string> outgoing_;
  std::deque<std::optional<std::size_t>> answers_;
};

/// One rank of a sweep.
class Rank {
 public:
  Rank(const PlannerOptions& options, bench::MpiSession& session, bench::Watchdog& watchdog, std::ostream& out,
       std::ostream& err)
      : options_(options), world_(session.world()), watchdog_(watchdog), out_(out), err_(err) {}

  int run() {
    watchdog_.begin("start-up");
    threads_ = sweep_threads(options_, world_.split_by_host().size());
    if (!prepare()) {
      return kBadInput;
    }
    watchdog_.begin("the sweep");
    if (world_.rank() == 0) {
      lead();
    } else {
      follow();
    }
    const int code = world_.rank() == 0 ? run_->finish() : 0;
    return std::stoi(world_.broadcast(std::to_string(code), 0));
  }

  /// Says why, with the rank and host where it happened, and ends every rank.
  [[noreturn]] void end_job(const std::exception& error) const {
    const bool told_elsewhere = dynamic_cast<const bench::Interrupted*>(&error) != nullptr;
    if (!told_elsewhere || world_.rank() == 0) {
      const bool of_a_rank = dynamic_cast<const bench::CommError*>(&error) != nullptr;
      const std::string where = of_a_rank ? "" : "rank " + std::to_string(world_.rank()) + " (" + world_.host() + "): ";
      std::cerr << "tpplan: error: " << where << error.what() << how_to_go_on() << std::endl;
    }
    if (!told_elsewhere) {
      watchdog_.say_goodbye();
      bench::MpiSession::abort(kEnvironmentFailure);
    }
    std::_Exit(kEnvironmentFailure);
  }

 private:
  /// Why the sweep ends here, as far as rank 0 can help.
  [[nodiscard]] std::string how_to_go_on() const {
    return run_ != nullptr && !run_->how_to_go_on().empty() ? "\ntpplan: " + run_->how_to_go_on() : "";
  }

  /// Every rank reads the grid for itself; false after rank 0 has told what is wrong with it.
  bool prepare() {
    std::string problem;
    std::string warnings;
    try {
      grid_.emplace(grid_of(options_, &warnings));
      if (world_.rank() == 0) {
        err_ << warnings;
        run_ = std::make_unique<SweepRun>(options_, *grid_, out_, err_);
      }
    } catch (const UsageError& error) {
      problem = error.what();
    } catch (const SpecError& error) {
      problem = error_text(error);
    }
    const std::vector<std::string> hosts = world_.all_gather(world_.host());
    const std::vector<std::string> problems = world_.all_gather(problem);
    const std::vector<std::string> grids =
        world_.all_gather(grid_ ? grid_->identity() + ", " + version_text() : std::string());
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      const std::string who = "rank " + std::to_string(rank) + " (" + hosts[rank] + ")";
      std::string text = problems[rank];
      if (text.empty() && grids[rank] != grids[0] && problems[0].empty()) {
        text = "tpplan: error: " + who +
               " has another grid, other model, cluster or profile files, or another program (" + grids[rank] +
               ") than rank 0 (" + grids[0] + ")";
      } else if (!text.empty() && rank > 0) {
        text = "tpplan: error: " + who + " cannot begin:\n" + text;
      }
      if (!text.empty()) {
        if (world_.rank() == 0) {
          std::cerr << text << std::endl;
        }
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::string compute(std::size_t cell) const { return sweep_row(*grid_, cell, 1); }

  /// One round of the main thread's loop while cells are computed.
  void look_after(SweepWorkers& workers) {
    if (workers.finished()) {
      workers.rethrow();
    } else {
      watchdog_.advance();
    }
    world_.call_waiting();
    std::this_thread::sleep_for(kBetweenLooks);
  }

  void lead() {
    SweepLedger& ledger = run_->ledger();
    SweepWorkers workers(
        threads_, [&ledger] { return ledger.take(); }, [this](std::size_t cell) { return compute(cell); },
        [&ledger](std::size_t cell, std::string row) { ledger.deliver(cell, std::move(row)); });
    guarded([&] {
      int others = world_.size() - 1;
      while (others > 0 || !workers.finished()) {
        while (const auto message = world_.receive()) {
          others -= serve(*message, ledger) ? 0 : 1;
        }
        run_->show_progress();
        look_after(workers);
      }
      workers.rethrow();
    });
  }

  /// False when the rank leaves.
  bool serve(const Communicator::Message& message, SweepLedger& ledger) {
    if (message.text == kLeaving) {
      return false;
    }
    if (message.text.empty()) {
      const std::optional<std::size_t> cell = ledger.take();
      world_.send(cell ? std::to_string(*cell) : "", message.from);
      return true;
    }
    const std::size_t blank = message.text.find(' ');
    ledger.deliver(std::stoul(message.text.substr(0, blank)), message.text.substr(blank + 1));
    return true;
  }

  void follow() {
    RemoteCells cells;
    SweepWorkers workers(
        threads_, [&cells] { return cells.take(); }, [this](std::size_t cell) { return compute(cell); },
        [&cells](std::size_t cell, const std::string& row) { cells.deliver(cell, row); });
    guarded([&] {
      for (bool last = false; !last;) {
        last = workers.finished();  // before the rows are fetched: none comes later
        for (const std::string& text : cells.take_outgoing()) {
          world_.send(text, 0);
        }
        while (const auto message = world_.receive()) {
          cells.answer(message->text.empty() ? std::nullopt : std::optional(std::stoul(message->text)));
        }
        look_after(workers);
      }
      world_.send(std::string(kLeaving), 0);
    });
  }

  /// Ends the job on an error without waiting for the threads: the launcher may not leave the time for it.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const std::exception& error) {
      end_job(error);
    }
  }

  const PlannerOptions& options_;
  Communicator& world_;
  bench::Watchdog& watchdog_;
  std::ostream& out_;
  std::ostream& err_;
  int threads_ = 1;
  std::optional<SweepGrid> grid_;
  std::unique_ptr<SweepRun> run_;  ///< of rank 0
};

}  // namespace

int run_sweep_over_ranks(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  int no_arguments = 0;
  char** arguments = nullptr;
  bench::MpiSession session(no_arguments, arguments);
  bench::Watchdog watchdog(session.world(), kPatience);
  Rank rank(options, session, watchdog, out, err);
  try {
    return rank.run();
  } catch (const std::exception& error) {
    rank.end_job(error);
  }
}

}  // namespace tpplan
