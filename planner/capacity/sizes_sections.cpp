#include <algorithm>
#include <cmath>

#include "cost-model/cluster_tiers.h"
#include "planner/capacity/inverse.h"
#include "planner/capacity/sections.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr double kHour = 3600;
constexpr double kGigabit = 1e9 / 8;
constexpr double kNoLimit = 0.05;  ///< slower than with the fastest network by this: no limit
constexpr int kMostNodes = 4096;

SizePricer size_pricer(const Subject& subject) {
  return [&subject](int nodes) -> std::optional<SizedRun> {
    const auto cluster = subject.hardware.sized(nodes);
    if (!cluster) {
      return std::nullopt;
    }
    auto plan = subject.planner.best(subject.model, *cluster);
    if (!plan) {
      return std::nullopt;
    }
    const TrainingRun run = training_run(subject.around, *plan, subject.run.tokens);
    return SizedRun{nodes, *std::move(plan), run};
  };
}

/// Powers of two around the cluster's own size, from one node to four times the nodes, and that size.
std::vector<SizedRun> usual_sizes(const Subject& subject) {
  const SizePricer price = size_pricer(subject);
  const int own = subject.plan.job.cluster.nodes;
  std::vector<int> nodes;
  for (int n = 1; n <= std::min(kMostNodes, 4 * own); n *= 2) {
    nodes.push_back(n);
  }
  if (std::find(nodes.begin(), nodes.end(), own) == nodes.end()) {
    nodes.push_back(own);
    std::sort(nodes.begin(), nodes.end());
  }
  std::vector<SizedRun> sizes;
  for (const int n : nodes) {
    if (auto run = price(n)) {
      sizes.push_back(*std::move(run));
    }
  }
  return sizes;
}

void fill_sizes(ReportSection& section, const std::vector<SizedRun>& sizes, const Subject& subject) {
  section.table.columns = {{"nodes", "nodes", FigureStyle::count, 9},
                           {"gpus", "GPUs", FigureStyle::count, 8},
                           {"layout", "layout", FigureStyle::text, 1},
                           {"global_batch", "batch", FigureStyle::count, 3},
                           {"step_time_s", "step s", FigureStyle::number, 2},
                           {"tokens_per_s", "tokens/s", FigureStyle::count, 6},
                           {"ideal_tokens_per_s", "ideal", FigureStyle::count, 1},
                           {"efficiency", "efficiency", FigureStyle::share, 8},
                           {"mtbf_h", "MTBF h", FigureStyle::number, 3},
                           {"goodput", "goodput", FigureStyle::share, 7},
                           {"time_days", "days", FigureStyle::number, 9},
                           {"cost", "cost", FigureStyle::count, 8},
                           {"cost_per_billion_tokens", "per G tokens", FigureStyle::number, 5}};
  if (sizes.empty()) {
    return;
  }
  const double base = sizes.front().run.tokens_per_second / sizes.front().plan.job.cluster.gpus();
  for (const SizedRun& size : sizes) {
    const int gpus = size.plan.job.cluster.gpus();
    const double days = size.run.wall.value.raw() / 24;
    std::vector<ReportCell> row{Figure{static_cast<double>(size.nodes)},
                                Figure{static_cast<double>(gpus)},
                                to_text(size.plan.plan.layout),
                                Figure{static_cast<double>(size.plan.job.training.global_batch)},
                                Figure{size.plan.plan.estimate.step.total().raw()},
                                Figure{size.run.tokens_per_second},
                                Figure{base * gpus},
                                Figure{size.run.tokens_per_second / (base * gpus)},
                                Figure{size.run.failures.mtbf.raw() / kHour},
                                Figure{size.run.goodput},
                                Figure{days, size.run.wall.low.raw() / 24, size.run.wall.high.raw() / 24}};
    if (size.run.rent) {
      row.emplace_back(figure_of(*size.run.rent));
      row.emplace_back(Figure{size.run.rent->value.raw() / (size.run.tokens * 1e-9)});
    } else {
      row.emplace_back();
      row.emplace_back();
    }
    section.table.rows.push_back(std::move(row));
  }
  std::optional<std::size_t> own;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].nodes == subject.plan.job.cluster.nodes) {
      own = i;
    }
  }
  section.charts = {{.kind = ChartKind::lines,
                     .title = "Speed over GPUs",
                     .x = "gpus",
                     .series = {"tokens_per_s", "ideal_tokens_per_s"},
                     .x_label = "GPUs",
                     .y_label = "tokens per second",
                     .x_logarithmic = true,
                     .y_logarithmic = true,
                     .marked_row = own},
                    {.kind = ChartKind::lines,
                     .title = "Efficiency and goodput over GPUs",
                     .x = "gpus",
                     .series = {"efficiency", "goodput"},
                     .x_label = "GPUs",
                     .y_label = "share",
                     .x_logarithmic = true,
                     .marked_row = own}};
  if (sizes.front().run.rent) {
    section.charts.push_back({.kind = ChartKind::lines,
                              .title = "Cost over time to train",
                              .x = "time_days",
                              .series = {"cost"},
                              .x_label = "days",
                              .y_label = "cost in " + subject.around.prices.currency,
                              .x_logarithmic = true,
                              .marked_row = own});
    if (subject.asked.deadline) {
      section.charts.back().lines = {{subject.asked.deadline->raw() / 86400, "deadline", true}};
    }
    if (subject.asked.budget) {
      section.charts.back().lines.push_back({*subject.asked.budget, "budget"});
    }
  }
}

std::string size_text(const SizedRun& size, const std::string& currency) {
  std::string text = cluster_text(size.plan.job.cluster) + ": " + brief_number(size.run.wall.value.raw() / 24) +
                     " days (" + brief_number(size.run.wall.low.raw() / 24) + " to " +
                     brief_number(size.run.wall.high.raw() / 24) + ")";
  if (size.run.rent) {
    text += ", " + brief_number(size.run.rent->value.raw()) + " " + currency;
  }
  return text;
}

struct NetworkFamily {
  std::string_view name;
  std::string_view axis;
  bool (*keep)(int);
};
bool one(int value) { return value == 1; }
bool more(int value) { return value > 1; }
bool any(int) { return true; }
constexpr std::array<NetworkFamily, 4> kNetworkFamilies{{{"Any layout", "pp", any},
                                                         {"Data parallel alone (ZeRO, FSDP)", "tp", one},
                                                         {"Tensor and data parallel", "tp", more},
                                                         {"Pipeline parallel", "pp", more}}};

ClusterSpec with_network(const ClusterSpec& cluster, double gigabits) {
  ClusterSpec changed = cluster;
  for (NetworkTier& tier : changed.tiers) {
    if (is_network(tier)) {
      tier.bandwidth = BytesPerSecond(gigabits * kGigabit);
    }
  }
  return changed;
}

PlannerOptions family_options(const Subject& subject, const NetworkFamily& family) {
  PlannerOptions options = subject.planner.options();
  options.calibration = "none";  // measured curves know no other speed
  const int world = subject.plan.job.cluster.gpus();
  restrict_axis(options, family.axis, world, family.keep);
  if (family.name != kNetworkFamilies[0].name && family.axis == "tp") {
    restrict_axis(options, "pp", world, one);
    restrict_axis(options, "cp", world, one);
  }
  return options;
}

}  // namespace

ReportSection scaling_section(const Subject& subject) {
  ReportSection section{.id = "scaling", .title = "Size of the cluster"};
  const std::string& currency = subject.around.prices.currency;
  std::vector<SizedRun> sizes;
  if (subject.asked.deadline) {
    const Hours deadline(subject.asked.deadline->raw() / kHour);
    DeadlineAnswer answer = answer_deadline(size_pricer(subject), deadline, kMostNodes);
    const std::string wanted = brief_number(deadline.raw() / 24) + " days";
    if (answer.smallest) {
      section.summary.push_back("Smallest that meets " + wanted + ": " +
                                size_text(answer.sizes[*answer.smallest], currency) + ".");
      if (answer.sizes[*answer.cheapest].run.rent) {
        section.summary.push_back("Cheapest that meets it: " + size_text(answer.sizes[*answer.cheapest], currency) +
                                  ".");
      }
    } else {
      section.summary.push_back("No size up to " + with_separators(kMostNodes) + " nodes meets " + wanted + ".");
    }
    sizes = std::move(answer.sizes);
  } else {
    sizes = usual_sizes(subject);
  }
  fill_sizes(section, sizes, subject);
  if (!sizes.empty() && sizes.front().run.rent) {
    const auto cheapest = std::min_element(sizes.begin(), sizes.end(), [](const SizedRun& a, const SizedRun& b) {
      return a.run.rent->value < b.run.rent->value;
    });
    section.summary.push_back("Least money of all sizes: " + size_text(*cheapest, currency) + ".");
  }
  constexpr double kEfficient = 0.8;
  const SizedRun* largest = nullptr;
  for (const SizedRun& size : sizes) {
    const double base = sizes.front().run.tokens_per_second / sizes.front().plan.job.cluster.gpus();
    if (size.run.tokens_per_second / size.plan.job.cluster.gpus() >= kEfficient * base) {
      largest = &size;
    }
  }
  if (largest != nullptr) {
    section.summary.push_back("Largest size with an efficiency of " + brief_percent(kEfficient) + ": " +
                              with_separators(largest->plan.job.cluster.gpus()) + " GPUs.");
  }
  const double batch = subject.plan.job.training.global_batch;
  section.notes = {std::string("strong scaling: the global batch is ") +
                   (subject.planner.options().global_batch
                        ? "held at " + with_separators(static_cast<long long>(batch)) + " sequences"
                        : "the model's, rounded to a multiple of the GPUs") +
                   "; efficiency against the smallest size that fits"};
  return section;
}

ReportSection network_section(const Subject& subject) {
  ReportSection section{.id = "network", .title = "How fast a network"};
  const ClusterSpec& cluster = subject.plan.job.cluster;
  if (cluster.tiers.empty() || !is_network(cluster.tiers.back())) {
    section.summary = {"One node: no network takes part."};
    return section;
  }
  section.table.columns = {{"family", "family", FigureStyle::text, 9},
                           {"network_gbit_per_s_per_gpu", "Gbit/s/GPU", FigureStyle::count, 9},
                           {"network_gbit_per_s_per_node", "per node", FigureStyle::count, 8},
                           {"layout", "layout", FigureStyle::text, 2},
                           {"step_time_s", "step s", FigureStyle::number, 8},
                           {"exposed", "exposed", FigureStyle::share, 7},
                           {"slower", "slower by", FigureStyle::share, 8}};
  constexpr double kEndless = 1600;  ///< Gbit/s per GPU, twice the fastest ports of today
  constexpr double kSlowest = 1;
  const double own = cluster.tiers.back().bandwidth.raw() / kGigabit;
  std::vector<double> speeds{3.125, 6.25, 12.5, 25, 50, 100, 200, 400, 800, 1600};
  if (std::find(speeds.begin(), speeds.end(), own) == speeds.end()) {
    speeds.push_back(own);
    std::sort(speeds.begin(), speeds.end());
  }
  for (const NetworkFamily& family : kNetworkFamilies) {
    const PlannerOptions options = family_options(subject, family);
    const auto step = [&](double gigabits) {
      return subject.planner.best(options, subject.model, with_network(cluster, gigabits));
    };
    const auto endless = step(kEndless);
    if (!endless) {
      continue;
    }
    const double best = endless->plan.estimate.step.total().raw();
    const auto enough_at = [&](const PricedPlan& plan) {
      return plan.plan.estimate.step.total().raw() <= best * (1 + kNoLimit);
    };
    double too_slow = kSlowest;
    double fast_enough = 0;  // none
    for (const double speed : speeds) {
      const auto plan = step(speed);
      if (!plan) {
        continue;
      }
      if (!enough_at(*plan)) {
        too_slow = speed;
        fast_enough = 0;
      } else if (fast_enough <= 0) {
        fast_enough = speed;
      }
      const StepEstimate& estimate = plan->plan.estimate.step;
      const Seconds exposed =
          estimate.tp_comm + estimate.cp_comm + estimate.ep_comm + estimate.pp_comm + estimate.dp_comm;
      section.table.rows.push_back({std::string(family.name), Figure{speed}, Figure{speed * cluster.gpus_per_node},
                                    to_text(plan->plan.layout), Figure{estimate.total().raw()},
                                    Figure{exposed / estimate.total()}, Figure{estimate.total().raw() / best - 1}});
    }
    if (fast_enough <= 0) {
      continue;
    }
    const auto enough = smallest_where(too_slow, fast_enough, 0.02, [&](double speed) {
      const auto plan = step(speed);
      return plan && enough_at(*plan);
    });
    if (enough) {
      section.summary.push_back(std::string(family.name) + ": the network is no limit from " + brief_number(*enough) +
                                " Gbit/s per GPU on (" + brief_number(*enough * cluster.gpus_per_node) +
                                " per node); this cluster has " + brief_number(own) + ".");
    }
  }
  section.charts = {{.kind = ChartKind::lines,
                     .title = "The best step over the network's speed",
                     .x = "network_gbit_per_s_per_gpu",
                     .series = {"step_time_s"},
                     .group_by = "family",
                     .x_label = "Gbit/s per GPU and direction",
                     .y_label = "seconds per step",
                     .x_logarithmic = true,
                     .y_logarithmic = true,
                     .lines = {{own, "this cluster", true}}}};
  section.notes = {
      "no limit: within " + brief_percent(kNoLimit) +
      " of the best step at 1,600 Gbit/s per GPU, twice the fastest ports of today; slower by: against that "
      "step; the layout is planned anew at every speed; rated links, no measured curves; exposed: "
      "communication that compute does not hide, inside the nodes too"};
  return section;
}

}  // namespace tpplan
