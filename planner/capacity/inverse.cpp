#include "planner/capacity/inverse.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tpplan {
namespace {

bool meets(const SizedRun& run, Hours deadline) { return run.run.wall.value <= deadline; }

/// Sizes looked at so far; a size without a plan is remembered as such.
class Sizes {
 public:
  explicit Sizes(const SizePricer& price) : price_(price) {}
  const SizedRun* at(int nodes) {
    const auto known = runs_.find(nodes);
    const auto& run = known != runs_.end() ? known->second : runs_.emplace(nodes, price_(nodes)).first->second;
    return run ? &*run : nullptr;
  }
  std::vector<SizedRun> take() {
    std::vector<SizedRun> all;
    for (auto& [nodes, run] : runs_) {
      if (run) {
        all.push_back(*std::move(run));
      }
    }
    return all;
  }

 private:
  const SizePricer& price_;
  std::map<int, std::optional<SizedRun>> runs_;
};

/// Narrows (misses, meets] down to neighbours, ten sizes at a time.
void refine(Sizes& sizes, Hours deadline, int misses, int met) {
  constexpr int kParts = 10;
  while (met - misses > 1) {
    const int step = std::max(1, (met - misses) / kParts);
    int next = met;
    for (int nodes = misses + step; nodes < met; nodes += step) {
      const SizedRun* run = sizes.at(nodes);
      if (run != nullptr && meets(*run, deadline)) {
        next = nodes;
        break;
      }
      misses = nodes;
    }
    met = next;
    if (step == 1) {
      return;
    }
  }
}

}  // namespace

DeadlineAnswer answer_deadline(const SizePricer& price, Hours deadline, int most_nodes) {
  constexpr int kPatience = 3;
  Sizes sizes(price);
  int last_miss = 0;
  int first_met = 0;
  int slower = 0;
  Hours before(std::numeric_limits<double>::infinity());
  for (int nodes = 1; nodes <= most_nodes && slower < kPatience; nodes *= 2) {
    const SizedRun* run = sizes.at(nodes);
    if (run == nullptr) {
      last_miss = first_met == 0 ? nodes : last_miss;
      continue;
    }
    if (first_met != 0) {
      break;  // one size beyond
    }
    if (meets(*run, deadline)) {
      first_met = nodes;
    } else {
      last_miss = nodes;
      slower = run->run.wall.value >= before ? slower + 1 : 0;
      before = run->run.wall.value;
    }
  }
  if (first_met != 0) {
    refine(sizes, deadline, last_miss, first_met);
  }
  DeadlineAnswer answer;
  answer.sizes = sizes.take();
  for (std::size_t i = 0; i < answer.sizes.size(); ++i) {
    const SizedRun& size = answer.sizes[i];
    if (!meets(size, deadline)) {
      continue;
    }
    if (!answer.smallest) {
      answer.smallest = answer.cheapest = i;
    } else if (size.run.rent && answer.sizes[*answer.cheapest].run.rent &&
               size.run.rent->value < answer.sizes[*answer.cheapest].run.rent->value) {
      answer.cheapest = i;
    }
  }
  return answer;
}

std::optional<double> smallest_where(double low, double high, double precision,
                                     const std::function<bool(double)>& met) {
  if (!met(high)) {
    return std::nullopt;
  }
  if (met(low)) {
    return low;
  }
  while (high / low > 1 + precision) {
    const double middle = std::sqrt(low * high);
    (met(middle) ? high : low) = middle;
  }
  return high;
}

int largest_multiple(int step, int most, double precision, const std::function<bool(int)>& met) {
  int low = 0;  // in steps; holds
  int high = 1;
  while (high <= most / step && met(high * step)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, most / step + 1);
  while (high - low > 1 && high - low > precision * low) {
    const int middle = low + (high - low) / 2;
    (met(middle * step) ? low : high) = middle;
  }
  return low * step;
}

}  // namespace tpplan
