#include "comm-bench/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace tpplan::bench {

namespace {

constexpr std::uint64_t kSeed = 20250704;
constexpr int kBatch = 20;    ///< operations of a sample in batched mode, as nccl-tests' -n
constexpr int kBigBatch = 5;  ///< the same above kBigBytes
constexpr std::size_t kBigBytes = std::size_t{64} << 20;
constexpr std::size_t kSmallBytes = std::size_t{1} << 20;
constexpr int kWarmUpsSmall = 5;
constexpr int kWarmUpsLarge = 2;
constexpr std::size_t kDriftBytes = std::size_t{1} << 20;
constexpr std::size_t kDriftSamples = 30;
constexpr unsigned kHangSeconds = 3600;

int number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

/// What one rank does of a visit; `repetitions` 0 ends the sweep.
struct Order {
  std::size_t cell = 0;
  int repetitions = 0;
  bool first = false;
};

class Sweep {
 public:
  Sweep(Backend& backend, const Communicator& world, Watchdog& watchdog, const SweepRequest& request)
      : backend_(backend), world_(world), watchdog_(watchdog), request_(request) {}

  SweepOutcome run(const Topology& topology, const RowSink& sink) {
    watchdog_.begin("preparing the groups");
    const std::size_t most = affordable_bytes(topology);
    cells_ =
        make_cells(request_.collectives, request_.dtypes, payload_sizes(request_.least_bytes, most), request_.sets);
    const BufferSizes buffers = largest_buffers(cells_, request_.sets);
    std::visit([&](auto& backend) { backend.reserve(buffers); }, backend_);
    open_groups();
    wrong_.assign(cells_.cells.size(), 0);
    if (world_.rank() == 0) {
      lead(sink);
    } else {
      follow();
    }
    return std::move(outcome_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The largest payload whose buffers fit on every rank.
  std::size_t affordable_bytes(const Topology& topology) {
    const std::vector<std::vector<int>> by_node = topology.ranks_by_node();
    const int node = topology.node_of[static_cast<std::size_t>(world_.rank())];
    const int neighbours = static_cast<int>(by_node[static_cast<std::size_t>(node)].size());
    const double here = std::visit([&](const auto& backend) { return backend.memory_available(neighbours); }, backend_);
    const double everywhere = -world_.maximum({-here}).front();
    std::size_t most = request_.most_bytes;
    while (2.0 * static_cast<double>(most) > everywhere && most / 2 >= request_.least_bytes) most /= 2;
    if (most < request_.most_bytes) {
      outcome_.notes.push_back("the largest payload is " + size_text(most) + " instead of " +
                               size_text(request_.most_bytes) + ": two buffers of it must fit in the free memory, " +
                               format(Bytes(everywhere)) + " a rank");
    }
    return most;
  }

  void open_groups() {
    for (const GroupSet& set : request_.sets) {
      watchdog_.begin("opening the groups of " + set.name);
      int mine = -1;
      int place = 0;
      for (std::size_t group = 0; group < set.members.size(); ++group) {
        const auto& members = set.members[group];
        const auto found = std::find(members.begin(), members.end(), world_.rank());
        if (found == members.end()) continue;
        mine = static_cast<int>(group);
        place = static_cast<int>(found - members.begin());
      }
      const std::optional<Communicator> members = world_.split(mine, place);
      channels_.push_back(-1);
      if (members) {
        channels_.back() = std::visit([&](auto& backend) { return backend.open_channel(*members); }, backend_);
      }
    }
  }

  void lead(const RowSink& sink) {
    const Clock::time_point start = Clock::now();
    const auto elapsed = [&] { return Seconds(std::chrono::duration<double>(Clock::now() - start).count()); };
    Schedule schedule(cells_.sizes, request_.rule, request_.budget, kSeed);
    std::vector<bool> written(cells_.cells.size(), false);
    std::optional<std::size_t> rechecked;
    while (const std::optional<Visit> next = schedule.next(elapsed())) {
      const Seconds before = elapsed();
      const std::vector<Seconds> samples = visit(tell({next->cell, next->repetitions, next->first}));
      schedule.record(*next, samples, elapsed() - before, elapsed());
      const std::size_t cell = next->cell;
      // A wrong result is written at once and not measured further.
      if (wrong_[cell] > 0) schedule.drop(cell);
      if (wrong_[cell] == 0 && schedule.stop(cell) == Stop::keep_going) continue;
      write(cell, schedule, sink);
      written[cell] = true;
      if (wrong_[cell] == 0 && schedule.stop(cell) == Stop::interval) rechecked = better_recheck(rechecked, cell);
    }
    for (std::size_t cell = 0; cell < cells_.cells.size(); ++cell) {
      if (written[cell]) continue;
      if (schedule.samples(cell).empty()) {
        outcome_.unmeasured.push_back(describe(cell));
      } else {
        write(cell, schedule, sink);
      }
    }
    if (rechecked) recheck(*rechecked, schedule);
    tell({});
  }

  void follow() {
    for (;;) {
      const Order order = heard();
      if (order.repetitions == 0) return;
      visit(order);
    }
  }

  Order tell(Order order) {
    std::ostringstream text;
    text << order.cell << ' ' << order.repetitions << ' ' << order.first;
    static_cast<void>(world_.broadcast(text.str(), 0));
    return order;
  }

  Order heard() {
    std::istringstream text(world_.broadcast({}, 0));
    Order order;
    text >> order.cell >> order.repetitions >> order.first;
    return order;
  }

  /// Runs the samples of one visit on every rank; the result is their maximum over the ranks.
  std::vector<Seconds> visit(const Order& order) {
    const Cell& cell = cells_.cells[order.cell];
    const Operation& operation = cell.operation;
    const int channel = channels_[cell.set];
    const int ranks = static_cast<int>(request_.sets[cell.set].members.front().size());
    watchdog_.begin(describe(order.cell));
    if (order.first) misbehave();
    Payload payload(operation.dtype, ranks, kSeed + operation.bytes);
    if (order.first) check(order.cell, payload);

    const auto run = [&](int count) {
      if (channel < 0) return 0.0;
      return std::visit([&](auto& backend) { return backend.run(operation, channel, count); }, backend_);
    };
    const auto prepare = [&] {
      if (channel >= 0) std::visit([&](auto& backend) { backend.prepare(operation, channel, payload); }, backend_);
    };
    const int full_warm_ups = operation.bytes <= kSmallBytes ? kWarmUpsSmall : kWarmUpsLarge;
    const int warm_ups = order.first ? full_warm_ups : 1;
    prepare();
    for (int i = 0; i < warm_ups; ++i) run(1);
    watchdog_.advance();

    const bool grows = operation.in_place && operation.collective == Collective::all_reduce;
    const int in_range = grows ? std::max(1, repeats_in_range(operation.dtype, ranks) - warm_ups) : 1 << 20;
    const int batch = operation.bytes > kBigBytes ? kBigBatch : kBatch;
    std::vector<double> times;
    for (int i = 0; i < order.repetitions; ++i) {
      if (grows && i % in_range == 0) prepare();
      world_.barrier();
      times.push_back(run(request_.mode == Mode::single ? 1 : batch));
      watchdog_.advance();
    }
    std::vector<Seconds> samples;
    for (const double time : world_.maximum(std::move(times))) samples.emplace_back(time);
    return samples;
  }

  void check(std::size_t index, Payload& payload) {
    const Cell& cell = cells_.cells[index];
    const int channel = channels_[cell.set];
    double wrong = 0;
    if (channel >= 0 && checkable(cell)) {
      wrong = static_cast<double>(std::visit(
          [&](auto& backend) { return backend.wrong_elements(cell.operation, channel, payload); }, backend_));
      if (world_.rank() == request_.faults.lying_rank) wrong += 1;
    }
    wrong_[index] = static_cast<std::size_t>(world_.sum({wrong}).front());
    watchdog_.advance();
  }

  [[nodiscard]] bool checkable(const Cell& cell) const {
    return request_.sets[cell.set].members.front().size() <= static_cast<std::size_t>(kMostRanksChecked);
  }

  /// Only when a test asks for it.
  void misbehave() {
    if (world_.rank() == request_.faults.hanging_rank) sleep(kHangSeconds);
    if (world_.rank() == request_.faults.dying_rank) raise(SIGKILL);
  }

  void write(std::size_t index, const Schedule& schedule, const RowSink& sink) {
    SampleRow row;
    row.cell = cells_.cells[index];
    row.set = request_.sets[row.cell.set];
    row.mode = request_.mode;
    row.wrong_elements = wrong_[index];
    row.check = !checkable(row.cell) ? Check::off : wrong_[index] > 0 ? Check::wrong : Check::ok;
    row.stop = schedule.stop(index) == Stop::interval ? Stop::interval : Stop::budget;
    row.samples = schedule.samples(index);
    row.summary = summary(row.samples);
    ++outcome_.rows;
    if (row.check == Check::wrong) ++outcome_.wrong_rows;
    sink(row);
  }

  /// The cell nearest to 1 MiB among those measured well.
  [[nodiscard]] std::size_t better_recheck(std::optional<std::size_t> known, std::size_t candidate) const {
    const auto distance = [&](std::size_t cell) {
      return std::abs(std::log2(cells_.sizes[cell].bytes / Bytes(static_cast<double>(kDriftBytes))));
    };
    return known && distance(*known) <= distance(candidate) ? *known : candidate;
  }

  void recheck(std::size_t cell, const Schedule& schedule) {
    const std::vector<Seconds>& before = schedule.samples(cell);
    const int repetitions = static_cast<int>(std::min(before.size(), kDriftSamples));
    const std::vector<Seconds> after = visit(tell({cell, repetitions, false}));
    outcome_.rechecked = describe(cell);
    outcome_.drift = drift(before, after);
  }

  [[nodiscard]] std::string describe(std::size_t cell) const {
    return described(cells_.cells[cell], request_.sets[cells_.cells[cell].set]);
  }

  Backend& backend_;
  const Communicator& world_;
  Watchdog& watchdog_;
  const SweepRequest& request_;
  Cells cells_;
  std::vector<int> channels_;       ///< per set, -1 when this rank is in none of its groups
  std::vector<std::size_t> wrong_;  ///< elements, per cell
  SweepOutcome outcome_;
};

}  // namespace

Faults Faults::from_environment() {
  return {number_from_environment("TPPLAN_TEST_HANG_RANK"), number_from_environment("TPPLAN_TEST_DIE_RANK"),
          number_from_environment("TPPLAN_TEST_WRONG_RANK")};
}

BytesPerSecond SampleRow::algorithm_bandwidth() const {
  if (summary.median.raw() <= 0) return {};
  return Bytes(static_cast<double>(cell.operation.bytes)) / summary.median;
}

BytesPerSecond SampleRow::bus_bandwidth() const {
  return algorithm_bandwidth() * row_of(cell.operation.collective).wire_factor(ranks());
}

SweepOutcome run_sweep(Backend& backend, const Communicator& world, const Topology& topology, Watchdog& watchdog,
                       const SweepRequest& request, const RowSink& sink) {
  return Sweep(backend, world, watchdog, request).run(topology, sink);
}

}  // namespace tpplan::bench
