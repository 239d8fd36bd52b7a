#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "cost-model/pipeline.h"
#include "cost-model/simulate_work.h"

namespace tpplan {
namespace {

/// A step is told from shorter ones when it has so many of their periods.
constexpr int kWorthFolding = 24;

/// Micro-batches of the shortest period: slack of a few micro-batches lets ranks that pace the step later hide at
/// first.
constexpr int kShortest = 32;

/// Largest error by unequal periods that is accepted, relative to the step: transfers that share ports never repeat
/// exactly.
constexpr double kRepeats = 1e-4;

/// Three steps, each longer than the one before by a period.
using Three = std::array<std::vector<double>, 3>;

/// The longest of the ranks' times `left` periods after the third step; nothing when some rank's time has not settled.
std::optional<double> continued(const Three& spans, double left) {
  double most = 0;
  for (std::size_t r = 0; r < spans[2].size(); ++r) {
    const double period = spans[2][r] - spans[1][r];
    const double end = spans[2][r] + period * left;
    if (std::abs(period - (spans[1][r] - spans[0][r])) * left > kRepeats * end) {
      return std::nullopt;
    }
    most = std::max(most, end);
  }
  return most;
}

}  // namespace

double Simulator::makespan(const Job& job, const Layout& layout) {
  const int per_micro_batch = layout.dp * layout.micro_batch;
  const int micro_batches = job.training.global_batch / per_micro_batch;
  // Groups of the interleaved schedule and pairs of the two directions of DualPipe stay whole.
  const int whole = std::lcm(2, std::max(layout.vpp_group, layout.schedule == Schedule::interleaved ? layout.pp : 1));
  int period = whole * ((std::max(2 * layout.pp, kShortest) + whole - 1) / whole);
  if (micro_batches < kWorthFolding * period) {
    return run(job, layout, Detail::times).makespan;
  }
  Job shorter = job;
  const auto layers = pipeline_shape(job, layout).layers_per_stage;
  for (; micro_batches >= kWorthFolding * period; period *= 2) {
    const int first = micro_batches % period + 2 * period;
    Three spans;
    bool same_stages = true;
    double once = 0;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      shorter.training.global_batch = (first + static_cast<int>(i) * period) * per_micro_batch;
      same_stages = same_stages && pipeline_shape(shorter, layout).layers_per_stage == layers;
      const double makespan = run(shorter, layout, Detail::times).makespan;
      spans[i] = work_->spans();
      once = makespan - *std::max_element(spans[i].begin(), spans[i].end());
    }
    const int left = (micro_batches - first) / period - 2;
    const auto most = continued(spans, left);
    if (same_stages && most) {
      return *most + once;
    }
  }
  return run(job, layout, Detail::times).makespan;
}

}  // namespace tpplan
