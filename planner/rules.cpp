#include "planner/rules.h"

#include <algorithm>
#include <array>

#include "planner/rule_rows.h"

namespace tpplan {
namespace {

std::vector<Schedule> every_schedule() {
  std::vector<Schedule> all;
  for (const auto& row : kScheduleNames) {
    all.push_back(row.value);
  }
  return all;
}

/// In the order of kFrameworkTable.
std::vector<FrameworkHabits> framework_habits() {
  const std::vector<CpType> all_cp{CpType::ring, CpType::all_gather, CpType::ulysses};
  const std::vector<std::string> by_module{"none", "selective", "full"};
  const std::vector<std::string> by_operation{"none", "selective:op", "full"};
  const std::vector<std::string> layers_only{"none", "full"};
  constexpr std::array<std::uint8_t, 4> kWholeOrShard{kOnLast, kOnLast, kOnEach, kOnEach};
  constexpr std::uint8_t kEither = kOnEach | kOnLast;
  constexpr std::array<std::uint8_t, 4> kFree{kEither, kEither, kEither, kEither};
  return {
      {Framework::megatron, every_schedule(), {0, 1, 2, 3}, {0, 1}, 1, all_cp, by_module, true, kWholeOrShard},
      {Framework::megatron_deepspeed,
       {Schedule::f1b1, Schedule::interleaved},
       {0, 1, 2, 3},
       {0, 1},
       1,
       {CpType::ulysses},
       by_module,
       true,
       kWholeOrShard},
      {Framework::deepspeed,
       {Schedule::f1b1},
       {0, 1, 2, 3},
       {0, 1, 2, 3},
       1,
       {CpType::ulysses},
       layers_only,
       true,
       kWholeOrShard},
      {Framework::fsdp, every_schedule(), {0, 1, 2, 3}, {0, 2, 3}, 3, all_cp, by_operation, false, kFree},
      {Framework::torchtitan,
       every_schedule(),
       {0, 2, 3},
       {0, 2, 3},
       3,
       {CpType::ring, CpType::all_gather},
       by_operation,
       false,
       kFree},
      {Framework::nanotron,
       {Schedule::f1b1, Schedule::gpipe},
       {0, 1},
       {0, 1},
       1,
       {CpType::ring},
       by_module,
       false,
       kWholeOrShard},
      {Framework::internevo, every_schedule(), {0, 1, 3}, {0, 1, 3}, 1, all_cp, layers_only, false, kWholeOrShard},
      {Framework::plain, every_schedule(), {0, 1, 2, 3}, {0, 1}, 0, all_cp, by_module, true, kFree},
  };
}

std::vector<Rule> all_rules() {
  std::vector<Rule> all = detail::layer_rules();
  for (const auto& part : {detail::pipeline_rules(), detail::data_rules()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Layout with(const Job& job, Layout layout, std::int32_t Layout::*axis, std::int32_t value) {
  layout.*axis = value;
  if (axis != &Layout::dp) {
    const std::int64_t product = std::int64_t{layout.tp} * layout.pp * layout.cp;
    layout.dp = static_cast<std::int32_t>(std::max<std::int64_t>(1, job.cluster.gpus() / product));
  }
  return layout;
}

bool divides_world(const Job& job, const Layout& layout) { return layout.world() == job.cluster.gpus(); }

}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<Rule> rows = all_rules();
  return rows;
}

int first_broken_rule(const Job& job, const Layout& layout) {
  const auto& all = rules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].broken(job, layout)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<int> broken_rules(const Job& job, const Layout& layout) {
  std::vector<int> broken;
  const auto& all = rules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].broken(job, layout)) {
      broken.push_back(static_cast<int>(i));
      if (i == 0) {
        break;  // without positive axes no other rule can be computed
      }
    }
  }
  return broken;
}

const FrameworkHabits& habits_of(Framework framework) {
  static const std::vector<FrameworkHabits> rows = framework_habits();
  return rows[static_cast<std::size_t>(framework)];
}

Layout usual_layout(const Job& job) {
  const FrameworkHabits& habits = habits_of(job.training.framework);
  Layout layout;
  layout.zero = habits.usual_zero;
  layout.cp_type = habits.cp_types.front();
  layout.etp = job.moe() ? 0 : 1;
  return layout;
}

int micro_batches(const Job& job, const Layout& layout) {
  return static_cast<int>(job.training.global_batch / (std::int64_t{layout.dp} * layout.micro_batch));
}

namespace detail {

std::string_view option_of(std::int32_t Layout::*axis) {
  for (const AxisRow& row : kAxes) {
    if (row.field == axis) {
      return row.option;
    }
  }
  return axis == &Layout::shard_group ? "shard-group" : "full:N";
}

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

std::string nearest_values(const Job& job, const Layout& layout, std::int32_t Layout::*axis, Broken broken) {
  const std::string option(option_of(axis));
  const std::int32_t now = layout.*axis;
  const std::int32_t limit = std::max({now, job.cluster.gpus(), job.training.global_batch});
  enum class Demand { all_rules, this_and_world, this_rule };
  for (const Demand demand : {Demand::all_rules, Demand::this_and_world, Demand::this_rule}) {
    std::vector<std::string> found;
    const auto legal = [&](std::int32_t value) {
      const Layout candidate = with(job, layout, axis, value);
      return !broken(job, candidate) && (demand == Demand::this_rule || divides_world(job, candidate)) &&
             (demand != Demand::all_rules || first_broken_rule(job, candidate) < 0);
    };
    for (std::int32_t value = now - 1; value >= 1; --value) {
      if (legal(value)) {
        found.push_back(std::to_string(value));
        break;
      }
    }
    for (std::int32_t value = now + 1; value <= limit; ++value) {
      if (legal(value)) {
        found.push_back(std::to_string(value));
        break;
      }
    }
    if (!found.empty()) {
      return "; nearest: " + option + " " + one_of(found);
    }
  }
  return "; no value of " + option + " is legal";
}

std::string nearest_batches(const Job& job, const Layout& layout, std::int64_t unit, std::int64_t least,
                            Broken broken) {
  std::string text = nearest_values(job, layout, &Layout::micro_batch, broken);
  text = text.rfind("; nearest", 0) == 0 ? text + ", " : "; nearest: ";
  const std::int64_t batch = job.training.global_batch;
  const std::int64_t below = batch / unit * unit;
  const std::int64_t above = std::max(least, (batch / unit + 1) * unit);
  text += "global batch ";
  if (below >= least && below > 0 && below < batch) {
    text += with_separators(below) + " or ";
  }
  return text + with_separators(above);
}

}  // namespace detail
}  // namespace tpplan
