#include "planner/sweep_ledger.h"

namespace tpplan {

SweepLedger::SweepLedger(std::size_t cells, const std::vector<std::pair<std::size_t, std::string>>& known,
                         SweepJournal* journal, std::function<void(const std::string&)> in_order)
    : rows_(cells), journal_(journal), in_order_(std::move(in_order)) {
  for (const auto& [cell, row] : known) {
    known_ += rows_[cell].empty() ? 1 : 0;
    rows_[cell] = row;
  }
  done_ = known_;
  pass_on();
}

std::optional<std::size_t> SweepLedger::take() {
  const std::lock_guard lock(mutex_);
  while (next_ < rows_.size() && !rows_[next_].empty()) {
    ++next_;
  }
  return next_ < rows_.size() ? std::optional(next_++) : std::nullopt;
}

void SweepLedger::deliver(std::size_t cell, std::string row) {
  const std::lock_guard lock(mutex_);
  if (journal_ != nullptr) {
    journal_->add(row);
  }
  rows_[cell] = std::move(row);
  ++done_;
  pass_on();
}

std::size_t SweepLedger::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void SweepLedger::pass_on() {
  while (in_order_ && passed_ < rows_.size() && !rows_[passed_].empty()) {
    in_order_(rows_[passed_++]);
  }
}

SweepWorkers::SweepWorkers(int threads, Take take, Compute compute, Deliver deliver)
    : take_(std::move(take)), compute_(std::move(compute)), deliver_(std::move(deliver)), running_(threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

SweepWorkers::~SweepWorkers() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void SweepWorkers::work() {
  try {
    while (!stop_) {
      const std::optional<std::size_t> cell = take_();
      if (!cell) {
        break;
      }
      deliver_(*cell, compute_(*cell));
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    stop_ = true;
  }
  --running_;
}

void SweepWorkers::rethrow() {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

}  // namespace tpplan
