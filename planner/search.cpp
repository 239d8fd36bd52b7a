#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "cost-model/memory_replay.h"
#include "cost-model/simulate.h"
#include "planner/layout_scan.h"

namespace tpplan {
namespace {

/// Share of the 80 % half width that tells plans of one search apart.
constexpr double kOwnError = 0.25;
/// Plans kept beyond those asked for, to replace such as a replay of the allocator finds too large.
constexpr std::size_t kSpare = 16;

Interval<double> interval_of(const Plan& plan, Objective objective) {
  const bool by_memory = objective == Objective::memory;
  const double value = by_memory ? plan.estimate.memory.total().raw() : plan.estimate.step.total().raw();
  const double width = kOwnError * (by_memory ? plan.estimate.memory.error : plan.estimate.step.step_error);
  return interval80(value, width);
}

void mark_ties(std::vector<Plan>& plans, Objective objective) {
  double high = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Interval<double> interval = interval_of(plans[i], objective);
    plans[i].tied_with_previous = i > 0 && interval.low <= high;
    if (!plans[i].tied_with_previous) {
      high = interval.high;
    }
  }
}

/// Hands out layer keys one by one; the scans' sums and best lists do not depend on who took which.
void scan_all(std::vector<LayoutScan>& scans, std::size_t keys, const std::function<void(double)>& progress) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(scans.size());
  const auto work = [&](std::size_t worker) {
    try {
      const std::size_t step = std::max<std::size_t>(1, keys / 100);
      std::size_t reported = 0;
      for (std::size_t key = next++; key < keys; key = next++) {
        scans[worker].visit(key);
        if (worker == 0 && progress && key >= reported + step) {
          reported = key;
          progress(static_cast<double>(key) / static_cast<double>(keys));
        }
      }
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t worker = 1; worker < scans.size(); ++worker) {
    threads.emplace_back(work, worker);
  }
  work(0);
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

/// What `empty` has seen after all layer keys, by that many threads.
LayoutScan scan_space(const LayoutScan& empty, std::size_t keys, int threads,
                      const std::function<void(double)>& progress) {
  const std::size_t workers = std::clamp<std::size_t>(threads > 0 ? static_cast<std::size_t>(threads) : 1, 1,
                                                      std::max<std::size_t>(1, keys / 8));
  std::vector<LayoutScan> scans(workers, empty);
  scan_all(scans, keys, progress);
  for (std::size_t worker = 1; worker < workers; ++worker) {
    scans.front().merge(scans[worker]);
  }
  return std::move(scans.front());
}

}  // namespace

bool AxisChoice::allows(int value) const {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

std::int64_t SearchStats::rejected_total() const {
  return std::accumulate(rejected.begin(), rejected.end(), std::int64_t{0});
}

Plan plan_of(const Job& job, const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  plan.estimate = estimate(job, layout);
  refine_memory(job, layout, plan.estimate.memory);
  plan.fits = verdict(plan.estimate.memory, job.training.memory_headroom);
  plan.layers_per_stage = pipeline_shape(job, layout).layers_per_stage;
  return plan;
}

SearchResult search(const Job& job, const SearchSpace& space, Objective objective, std::size_t top_k, int threads,
                    const std::function<void(double)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  const LayoutSpace candidates = layout_space(job, space);
  const LayoutScan seen = scan_space(LayoutScan(job, candidates, objective, top_k > 0 ? top_k + kSpare : 0),
                                     candidates.layers.size(), threads, progress);

  SearchResult result;
  result.stats = seen.stats();
  for (const LayoutScan::Ranked& ranked : seen.best()) {
    if (result.plans.size() == top_k) {
      result.next.push_back({ranked.layout, ranked.lower_bound});
      continue;
    }
    Plan plan = plan_of(job, ranked.layout);
    if (plan.fits != Fits::no) {
      result.plans.push_back(std::move(plan));
    } else if (!result.closest) {
      result.closest = std::move(plan);
    }
  }
  if (objective == Objective::memory) {
    // Refined memory may order plans otherwise than the closed form that chose them.
    std::stable_sort(result.plans.begin(), result.plans.end(), [](const Plan& a, const Plan& b) {
      return a.estimate.memory.total() < b.estimate.memory.total();
    });
  }
  mark_ties(result.plans, objective);
  result.left_out_bound = seen.left_out_bound();
  if (!result.plans.empty() || (result.stats.ranked > 0 && top_k == 0)) {
    result.closest.reset();
  } else if (!result.closest && seen.closest()) {
    result.closest = plan_of(job, seen.closest()->layout);
  }
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<Plan> undominated_plans(const Job& job, const SearchSpace& space, int threads, SearchStats& stats,
                                    const std::function<void(double)>& progress) {
  const LayoutSpace candidates = layout_space(job, space);
  const LayoutScan seen = scan_space(LayoutScan(job, candidates, Objective::step_time, 0, true),
                                     candidates.layers.size(), threads, progress);
  stats = seen.stats();
  std::vector<Plan> plans;
  for (const LayoutScan::Ranked& ranked : seen.front()) {
    Plan plan = plan_of(job, ranked.layout);
    // A replay of the allocator may move a plan's memory past its neighbour's.
    if (plan.fits != Fits::no &&
        (plans.empty() || plan.estimate.memory.total() < plans.back().estimate.memory.total())) {
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

namespace {

/// Seconds of one simulated step; 0 where its schedule does not exist for the layout's numbers.
double simulated_seconds(Simulator& simulator, const Job& job, const Layout& layout) {
  try {
    return simulator.makespan(job, layout);
  } catch (const std::invalid_argument&) {
    return 0;
  }
}

}  // namespace

void simulate_plans(const Job& job, SearchResult& result) {
  const auto start = std::chrono::steady_clock::now();
  SearchStats& stats = result.stats;
  Simulator simulator;
  std::vector<double> fastest;  // as many as there are plans, in ascending order
  for (Plan& plan : result.plans) {
    plan.simulated_s = simulated_seconds(simulator, job, plan.layout);
    if (plan.simulated_s > 0) {
      fastest.push_back(plan.simulated_s);
    }
  }
  stats.simulated = static_cast<int>(fastest.size());
  std::sort(fastest.begin(), fastest.end());
  std::vector<PassedOver> candidates = result.next;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const PassedOver& a, const PassedOver& b) { return a.lower_bound < b.lower_bound; });
  double best = fastest.empty() ? 0 : fastest.front();
  for (const PassedOver& candidate : candidates) {
    if (fastest.empty() || candidate.lower_bound >= fastest.back()) {
      break;
    }
    const double seconds = simulated_seconds(simulator, job, candidate.layout);
    if (seconds <= 0) {
      continue;
    }
    ++stats.simulated;
    if (seconds >= fastest.back()) {
      continue;
    }
    Plan plan = plan_of(job, candidate.layout);
    if (plan.fits == Fits::no) {
      continue;
    }
    fastest.back() = seconds;
    std::sort(fastest.begin(), fastest.end());
    if (seconds < best) {
      best = seconds;
      plan.simulated_s = seconds;
      result.fastest_simulated = std::move(plan);
    }
  }
  stats.simulation_certain = !fastest.empty() && result.left_out_bound >= fastest.back();
  stats.simulate_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tpplan
