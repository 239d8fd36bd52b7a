#include "comm-bench/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>

#include "comm-bench/backend.h"
#include "comm-bench/compute.h"
#include "comm-bench/mpi_watchdog.h"
#include "comm-bench/preflight_facts.h"
#include "comm-bench/samples.h"
#include "comm-bench/sweep.h"
#include "comm-bench/table.h"

namespace tpplan::bench {

namespace {

constexpr int kDone = 0;
constexpr int kCheckFailed = 1;
constexpr int kEnvironmentFailed = 3;
constexpr double kComputeShare = 0.6;  ///< of the budget, when collectives follow
constexpr double kBudgetReserve = 0.95;

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

/// The hosts of all ranks; tests may pretend that a host is several (TPPLAN_TEST_RANKS_PER_NODE).
Topology topology_of(const Communicator& world) {
  const Communicator neighbours = world.split_by_host();
  std::string key = neighbours.broadcast(std::to_string(world.rank()), 0);
  std::string name = world.host();
  if (const char* text = std::getenv("TPPLAN_TEST_RANKS_PER_NODE"); text != nullptr && std::atoi(text) > 0) {
    const std::string part = std::to_string(neighbours.rank() / std::atoi(text));
    key += "/" + part;
    name += "-part" + part;
  }
  return topology_from(world.all_gather(key), world.all_gather(name));
}

/// Everything that lives until the end of the job. It is built up step by step and, when a step fails, is left as it is
/// (see run_program): freeing GPU memory can hang behind a collective that never finishes.
class Program {
 public:
  Program(const Options& options, const Communicator& world, Watchdog& watchdog)
      : options_(options), world_(world), watchdog_(watchdog), leads_(world.rank() == 0) {}

  int run() {
    const Clock::time_point start = Clock::now();
    watchdog_.begin("start-up");
    topology_ = topology_of(world_);
    local_rank_ = topology_.local_ranks()[static_cast<std::size_t>(world_.rank())];
    gather_facts();
    const std::string refusal = choose_backend();
    fill_header();
    for (const PreflightWarning& warning : header_.warnings) say(rendered(warning, header_.facts));
    if (options_.check_only) return check();
    if (!refusal.empty()) {
      say("error: " + refusal);
      return kEnvironmentFailed;
    }
    const GroupPlan groups = plan_groups(topology_, options_.groups);
    for (const std::string& note : groups.notes) say("note: " + note);
    header_.notes = groups.notes;
    open_output();

    SampleEnd end;
    if (options_.compute) end.compute = compute();
    make_backend();
    const Seconds left(kBudgetReserve * options_.budget.raw() - since(start).raw());
    end.sweep = sweep(groups, max(left, options_.budget * 0.05));
    end.seconds = since(start).raw();
    return finish(end);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Seconds since(Clock::time_point start) {
    return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
  }

  void say(const std::string& line) const {
    if (leads_) std::cerr << "comm-bench: " << line << std::endl;
  }

  [[nodiscard]] int ranks_on_node() const {
    const int node = topology_.node_of[static_cast<std::size_t>(world_.rank())];
    return static_cast<int>(std::count(topology_.node_of.begin(), topology_.node_of.end(), node));
  }

  void gather_facts() {
    watchdog_.begin("asking GPUs and hosts");
    RankPlace place;
    place.rank = world_.rank();
    place.local_rank = local_rank_;
    place.ranks_on_host = ranks_on_node();
    place.world_ranks = world_.size();
    place.node = topology_.node_of[static_cast<std::size_t>(world_.rank())];
    place.host = world_.host();
    place.nccl_backend = options_.backend != BackendChoice::mpi;
    for (const std::string& process : world_.all_gather(std::to_string(getpid()))) {
      place.job_processes.push_back(std::stol(process));
    }
    const std::vector<std::string> answers = world_.gather(to_json(std::vector<RankFacts>{collect_facts(place)}), 0);
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      for (RankFacts& facts : facts_from_json("facts of rank " + std::to_string(rank), answers[rank])) {
        header_.facts.push_back(std::move(facts));
      }
    }
  }

  /// Decides for all ranks; the answer is why the run cannot go on, or nothing.
  std::string choose_backend() {
    uses_nccl_ = false;
    header_.backend_reason = "asked for";
    std::string refusal;
    if (options_.backend != BackendChoice::mpi) {
      std::string problem = nccl_problem();
      uses_nccl_ = problem.empty();
      if (options_.backend == BackendChoice::automatic) {
        header_.backend_reason = uses_nccl_ ? "every rank has a GPU of its own" : problem;
        say(std::string("backend ") + (uses_nccl_ ? "nccl" : "mpi") + ": " + header_.backend_reason);
      } else {
        refusal = problem.empty() ? "" : "--backend nccl: " + problem;
        uses_nccl_ = true;
      }
    }
    return refusal;
  }

  /// Why NCCL cannot run on all ranks, the same text on every rank.
  std::string nccl_problem() {
    const std::vector<std::string> reasons = world_.all_gather(NcclBackend::why_not().value_or(""));
    for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
      if (!reasons[rank].empty()) {
        return world_.size() == 1 ? reasons[rank] : "rank " + std::to_string(rank) + ": " + reasons[rank];
      }
    }
    std::string shared;
    for (const PreflightWarning& warning : preflight(header_.facts)) {
      if (warning.id == "gpu-shared" || warning.id == "gpu-none") shared = warning.message + "; " + warning.fix;
    }
    return world_.broadcast(shared, 0);
  }

  void fill_header() {
    for (RankFacts& facts : header_.facts) facts.nccl_backend = uses_nccl_;
    header_.warnings = preflight(header_.facts);
    header_.command = options_.command;
    header_.started = now_utc();
    header_.backend = uses_nccl_ ? NcclBackend::kName : MpiBackend::kName;
    header_.timing = uses_nccl_ ? NcclBackend::kTiming : MpiBackend::kTiming;
    header_.mode = kModeNames[static_cast<std::size_t>(options_.mode)];
    header_.budget_s = options_.budget.raw();
    header_.topology = topology_;
    if (!options_.anonymous) return;
    header_ = anonymous(std::move(header_));
    topology_ = header_.topology;
  }

  int check() {
    int code = kDone;
    if (leads_) {
      const bool found = std::any_of(header_.warnings.begin(), header_.warnings.end(),
                                     [](const PreflightWarning& warning) { return !warning.is_note; });
      code = found ? kCheckFailed : kDone;
      open_output();
      if (file_) file_->write_line(to_json(SampleEnd{}));
      if (options_.format == OutputFormat::table) {
        std::cout << heading(header_);
        for (const PreflightWarning& warning : header_.warnings) std::cout << rendered(warning, header_.facts) << "\n";
        std::cout << (found ? "check: found problems\n" : "check: nothing found\n") << std::flush;
      }
    }
    return std::stoi(world_.broadcast(std::to_string(code), 0));
  }

  void open_output() {
    if (!leads_) return;
    if (!options_.output.empty()) file_ = std::make_unique<SampleFile>(options_.output);
    emit(to_json(header_));
  }

  void emit(const std::string& json) {
    if (file_) file_->write_line(json);
    if (options_.format == OutputFormat::json) std::cout << json << std::endl;
  }

  /// One line that rewrites itself, for people only.
  void progress() const {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\rcomm-bench: %zu rows ", rows_.size() + compute_rows_.size());
  }

  ComputeOutcome compute() {
    watchdog_.begin("preparing --compute");
    if (local_rank_ == 0) {
      if (uses_nccl_) {
        device_.emplace(CudaCompute(world_.rank(), world_.host(), local_rank_));
      } else {
        device_.emplace(HostCompute());
      }
    }
    ComputeOutcome outcome =
        run_compute(device_, world_, topology_, watchdog_, options_.budget * kComputeShare, [&](const ComputeRow& row) {
          emit(to_json(row));
          compute_rows_.push_back(row);
          progress();
        });
    device_.reset();
    return outcome;
  }

  void make_backend() {
    watchdog_.begin("opening the backend");
    if (uses_nccl_) {
      backend_.emplace(NcclBackend(world_, local_rank_));
    } else {
      backend_.emplace(MpiBackend());
    }
  }

  SweepOutcome sweep(const GroupPlan& groups, Seconds budget) {
    SweepRequest request;
    request.collectives = options_.collectives;
    request.dtypes = options_.dtypes;
    request.least_bytes = options_.least_bytes;
    request.most_bytes = options_.most_bytes;
    request.sets = groups.sets;
    request.mode = options_.mode;
    request.budget = budget;
    request.faults = Faults::from_environment();
    return run_sweep(*backend_, world_, topology_, watchdog_, request, [&](const SampleRow& row) {
      emit(to_json(row));
      rows_.push_back(row);
      progress();
    });
  }

  int finish(const SampleEnd& end) {
    int code = kDone;
    if (leads_) {
      if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%40s\r", "");
      emit(to_json(end));
      if (options_.format == OutputFormat::table) {
        std::cout << heading(header_) << compute_table(compute_rows_) << collective_tables(rows_) << std::flush;
      }
      for (const std::string& line : remarks(end)) say(line);
      const bool wrong = end.sweep.wrong_rows + end.compute.wrong_rows > 0;
      const bool nothing = end.sweep.rows + end.compute.rows == 0;
      if (nothing) say("error: nothing was measured within the budget");
      code = wrong || nothing ? kEnvironmentFailed : kDone;
    }
    return std::stoi(world_.broadcast(std::to_string(code), 0));
  }

  const Options& options_;
  const Communicator& world_;
  Watchdog& watchdog_;
  bool leads_;
  Topology topology_;
  int local_rank_ = 0;
  bool uses_nccl_ = false;
  SampleHeader header_;
  std::unique_ptr<SampleFile> file_;
  std::optional<ComputeDevice> device_;
  std::optional<Backend> backend_;
  std::vector<SampleRow> rows_;
  std::vector<ComputeRow> compute_rows_;
};

}  // namespace

int run_program(const Options& options, MpiSession& session) {
  Watchdog watchdog(session.world(), options.timeout);
  Program program(options, session.world(), watchdog);
  try {
    return program.run();
  } catch (const Interrupted& interrupted) {
    if (session.world().rank() == 0) std::cerr << "comm-bench: " << interrupted.what() << std::endl;
    std::_Exit(kEnvironmentFailed);
  } catch (const std::exception& error) {
    std::cerr << "comm-bench: error: " << error.what() << std::endl;
    watchdog.say_goodbye();
    MpiSession::abort(kEnvironmentFailed);
  }
}

}  // namespace tpplan::bench
