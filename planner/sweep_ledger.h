#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "planner/sweep_journal.h"

namespace tpplan {

/// Which cells of a sweep are to be done and the rows of those that are. Shared by threads: every member may be called
/// at any time.
class SweepLedger {
 public:
  /// `known` are rows from a journal. `journal`, when not null, gets every further row; `in_order`, when set, gets all
  /// rows in the order of the cells, each as soon as those before it are there.
  SweepLedger(std::size_t cells, const std::vector<std::pair<std::size_t, std::string>>& known, SweepJournal* journal,
              std::function<void(const std::string&)> in_order);

  /// The next cell to compute, nothing when all are handed out.
  std::optional<std::size_t> take();
  /// Throws EnvironmentError when the journal cannot be written.
  void deliver(std::size_t cell, std::string row);

  [[nodiscard]] std::size_t cells() const { return rows_.size(); }
  [[nodiscard]] std::size_t known() const { return known_; }  ///< from the journal
  [[nodiscard]] std::size_t done() const;
  [[nodiscard]] bool complete() const { return done() == cells(); }
  /// Every row in the order of the cells; once complete.
  [[nodiscard]] const std::vector<std::string>& rows() const { return rows_; }

 private:
  void pass_on();

  mutable std::mutex mutex_;
  std::vector<std::string> rows_;  ///< by cell, empty where there is none yet
  std::size_t known_ = 0;
  std::size_t done_ = 0;
  std::size_t next_ = 0;    ///< cells below are handed out
  std::size_t passed_ = 0;  ///< rows given to in_order_
  SweepJournal* journal_;
  std::function<void(const std::string&)> in_order_;
};

/// Threads that compute cells until there are none or one of them fails.
class SweepWorkers {
 public:
  using Take = std::function<std::optional<std::size_t>()>;
  using Compute = std::function<std::string(std::size_t cell)>;
  using Deliver = std::function<void(std::size_t cell, std::string row)>;
  SweepWorkers(int threads, Take take, Compute compute, Deliver deliver);
  ~SweepWorkers();  ///< lets every thread finish its cell
  SweepWorkers(const SweepWorkers&) = delete;
  SweepWorkers& operator=(const SweepWorkers&) = delete;

  [[nodiscard]] bool finished() const { return running_ == 0; }
  /// Throws what a thread threw, if one did.
  void rethrow();

 private:
  void work();

  Take take_;
  Compute compute_;
  Deliver deliver_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> running_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace tpplan
