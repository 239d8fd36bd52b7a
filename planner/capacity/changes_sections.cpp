#include <algorithm>
#include <cmath>

#include "cost-model/cluster_tiers.h"
#include "planner/capacity/model_shapes.h"
#include "planner/capacity/sections.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

void scale_tiers(ClusterSpec& cluster, double factor, bool (*wanted)(const NetworkTier&)) {
  for (NetworkTier& tier : cluster.tiers) {
    if (wanted(tier)) {
      tier.bandwidth = tier.bandwidth * factor;
      tier.per_peer = tier.per_peer * factor;
    }
  }
}

/// One part of the hardware or of its circumstances, made `factor` times as good.
struct Upgrade {
  std::string_view name;
  void (*change)(ClusterSpec& cluster, Circumstances& around, double factor);
};
constexpr std::array<Upgrade, 9> kUpgrades{{
    {"GPU arithmetic",
     [](ClusterSpec& c, Circumstances&, double f) {
       for (FlopsPerSecond& peak : c.gpu.peak) {
         peak = peak * f;
       }
     }},
    {"GPU memory bandwidth",
     [](ClusterSpec& c, Circumstances&, double f) { c.gpu.memory_bandwidth = c.gpu.memory_bandwidth * f; }},
    {"GPU memory",
     [](ClusterSpec& c, Circumstances&, double f) {
       c.gpu.memory = c.gpu.memory * f;
       c.gpu.usable = c.gpu.usable * f;
     }},
    {"links inside the node",
     [](ClusterSpec& c, Circumstances&, double f) {
       scale_tiers(c, f, [](const NetworkTier& tier) { return !is_network(tier); });
     }},
    {"network", [](ClusterSpec& c, Circumstances&, double f) { scale_tiers(c, f, is_network); }},
    {"host link", [](ClusterSpec& c, Circumstances&, double f) { c.host_link = c.host_link * f; }},
    {"time between failures",
     [](ClusterSpec&, Circumstances& a, double f) {
       a.gpu_mtbf = a.gpu_mtbf * f;
       a.node_mtbf = a.node_mtbf * f;
     }},
    {"checkpoint bandwidth",
     [](ClusterSpec& c, Circumstances& a, double f) {
       a.write_per_node = a.write_per_node * f;
       c.storage_write = c.storage_write * f;
       c.storage_read = c.storage_read * f;
       if (a.write) {
         a.write = *a.write * f;
       }
       if (a.read) {
         a.read = *a.read * f;
       }
     }},
    {"restart time", [](ClusterSpec&, Circumstances& a, double f) { a.restart = a.restart / f; }},
}};

/// A comparison by one measure: how many nodes of another GPU there are.
struct Basis {
  std::string_view name;
  int (*nodes)(const Subject& subject, const ClusterSpec& one_node);
};
int whole(double nodes) { return static_cast<int>(std::floor(nodes * (1 + 1e-9))); }
constexpr std::array<Basis, 3> kBases{{
    {"equal count",
     [](const Subject& s, const ClusterSpec& one) {
       return whole(static_cast<double>(s.plan.job.cluster.gpus()) / one.gpus_per_node);
     }},
    {"equal money",
     [](const Subject& s, const ClusterSpec& one) {
       const Price* own = s.around.prices.hourly(s.plan.job.cluster);
       const Price* other = s.around.prices.hourly(one);
       return own == nullptr || other == nullptr || other->hour->value.raw() <= 0
                  ? -1
                  : whole(own->hour->value / other->hour->value * s.plan.job.cluster.gpus() / one.gpus_per_node);
     }},
    {"equal power",
     [](const Subject& s, const ClusterSpec& one) {
       return whole(site_power(s.around.power, s.plan.job.cluster).value / site_power(s.around.power, one).value);
     }},
}};

/// Rows of the comparison that cannot be filled carry the reason.
std::vector<ReportCell> reason_row(std::string_view basis, const std::string& gpu, std::string reason) {
  return {std::string(basis), gpu, {}, {}, {}, {}, {}, {}, {}, std::move(reason)};
}

std::vector<ReportCell> hardware_row(const Subject& subject, const Basis& basis, const GpuSpec& gpu, int nodes) {
  const std::string name = gpu.name;
  constexpr int kMostNodes = 1 << 17;
  if (nodes < 0) {
    return reason_row(basis.name, name, "no price per hour (--price)");
  }
  if (nodes == 0 || nodes > kMostNodes) {
    return reason_row(basis.name, name, "not one server of " + std::to_string(gpu.gpus_per_host) + " for that");
  }
  const ClusterSpec cluster = usual_cluster(gpu, nodes, gpu.gpus_per_host);
  PlannerOptions options = subject.planner.options();
  options.precision = subject.plan.job.training.precision;
  options.calibration = "none";
  std::string why;
  const auto plan = subject.planner.best(options, subject.model, cluster, 0, &why);
  if (!plan) {
    return reason_row(basis.name, name, why);
  }
  const TrainingRun run = training_run(subject.around, *plan, subject.run.tokens);
  std::vector<ReportCell> row{std::string(basis.name),
                              name,
                              Figure{static_cast<double>(cluster.gpus())},
                              Figure{run.tokens_per_second},
                              Figure{mfu(plan->job, plan->plan.layout, plan->plan.estimate.step)},
                              Figure{run.wall.value.raw() / 24, run.wall.low.raw() / 24, run.wall.high.raw() / 24}};
  row.push_back(run.rent ? ReportCell(figure_of(*run.rent)) : ReportCell());
  row.emplace_back(figure_of(run.energy, 1e-3));
  row.emplace_back(to_text(plan->plan.layout));
  row.emplace_back();
  return row;
}

/// "equal money: no price per hour (--price): GB200, MI300X": a narrow terminal has no room for the last column.
std::vector<std::string> reasons_of(const ReportTable& hardware) {
  std::vector<std::string> notes;
  for (const auto& row : hardware.rows) {
    const auto* reason = std::get_if<std::string>(&row.back());
    if (reason == nullptr || reason->empty()) {
      continue;
    }
    const std::string start = std::get<std::string>(row[0]) + ": " + *reason + ": ";
    const std::string& gpu = std::get<std::string>(row[1]);
    const auto same = std::find_if(notes.begin(), notes.end(),
                                   [&](const std::string& note) { return note.compare(0, start.size(), start) == 0; });
    if (same == notes.end()) {
      notes.push_back(start + gpu);
    } else {
      *same += ", " + gpu;
    }
  }
  return notes;
}

/// The model in the proportions of `like` that `flops` train on `ratio` tokens per parameter.
ModelSpec model_for(const ModelSpec& like, double flops, double ratio, int seq) {
  double params = std::sqrt(flops / (6 * ratio));
  constexpr int kRounds = 8;  // attention's share depends on the size
  for (int i = 0; i < kRounds; ++i) {
    params = std::sqrt(params * flops / (ratio * flops_per_token(scaled_model(like, params), seq)));
  }
  return scaled_model(like, params);
}

}  // namespace

ReportSection upgrades_section(const Subject& subject) {
  ReportSection section{.id = "upgrades", .title = "Which upgrade helps most"};
  section.table.columns = {{"upgrade", "what changes", FigureStyle::text, 9},
                           {"days_halved", "days at half", FigureStyle::number, 8},
                           {"days_doubled", "days at double", FigureStyle::number, 8},
                           {"saved", "saved by doubling", FigureStyle::share, 9},
                           {"layout_doubled", "layout at double", FigureStyle::text, 3}};
  PlannerOptions options = subject.planner.options();
  options.calibration = "none";  // measured curves know no other speed
  const ClusterSpec& cluster = subject.plan.job.cluster;
  struct Outcome {
    std::optional<double> days;
    std::string layout;
  };
  const auto outcome = [&](const Upgrade& upgrade, double factor) {
    ClusterSpec changed = cluster;
    Circumstances around = subject.around;
    upgrade.change(changed, around, factor);
    for (ClusterSpec& part : changed.parts) {
      Circumstances unused;
      upgrade.change(part, unused, factor);
    }
    const auto plan = subject.planner.best(options, subject.model, changed);
    return plan ? Outcome{training_run(around, *plan, subject.run.tokens).wall.value.raw() / 24,
                          to_text(plan->plan.layout)}
                : Outcome{};
  };
  const Outcome unchanged = outcome({"", [](ClusterSpec&, Circumstances&, double) {}}, 1);
  if (!unchanged.days) {
    section.summary = {"Nothing fits with rated links."};
    return section;
  }
  struct Row {
    std::string_view name;
    Outcome half, twice;
    double saved = 0;
  };
  std::vector<Row> rows;
  for (const Upgrade& upgrade : kUpgrades) {
    Row row{upgrade.name, outcome(upgrade, 0.5), outcome(upgrade, 2)};
    row.saved = row.twice.days ? 1 - *row.twice.days / *unchanged.days : 0;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.saved > b.saved; });
  for (const Row& row : rows) {
    const auto days = [](const Outcome& o) {
      return o.days ? ReportCell(Figure{*o.days}) : ReportCell("does not fit");
    };
    section.table.rows.push_back(
        {std::string(row.name), days(row.half), days(row.twice), Figure{row.saved}, row.twice.layout});
  }
  section.charts = {{.kind = ChartKind::tornado,
                     .title = "Days to train with one part halved or doubled",
                     .x = "upgrade",
                     .series = {"days_halved", "days_doubled"},
                     .x_label = "",
                     .y_label = "days",
                     .lines = {{*unchanged.days, "as it is"}}}};
  section.summary = {"Doubling " + std::string(rows.front().name) +
                     " helps most: " + brief_percent(rows.front().saved) + " less time than the " +
                     brief_number(*unchanged.days) + " days as it is; next " + std::string(rows[1].name) + " with " +
                     brief_percent(rows[1].saved) + "."};
  section.notes = {
      "one part at a time, everything else and the prices kept, the layout planned anew; a rate that is "
      "doubled is used to the same share"};
  return section;
}

ReportSection hardware_section(const Subject& subject) {
  ReportSection section{.id = "hardware", .title = "Other hardware for the same work"};
  const std::string precision(name_of(subject.plan.job.training.precision));
  section.table.columns = {
      {"basis", "basis", FigureStyle::text, 9},   {"gpu", "GPU", FigureStyle::text, 10},
      {"gpus", "GPUs", FigureStyle::count, 8},    {"tokens_per_s", "tokens/s", FigureStyle::count, 7},
      {"mfu", "MFU", FigureStyle::share, 5},      {"time_days", "days", FigureStyle::number, 9},
      {"cost", "cost", FigureStyle::count, 8},    {"energy_mwh", "MWh", FigureStyle::number, 6},
      {"layout", "layout", FigureStyle::text, 1}, {"reason", "no answer because", FigureStyle::text, 8}};
  const std::vector<std::string> usual{"a100-80gb-sxm", "h100-80gb-sxm", "h200-141gb-sxm", "b200-180gb-sxm",
                                       "gb200",         "mi300x",        "ascend-910b1",   "rtx-4090",
                                       "l40s",          "v100-32gb-sxm"};
  for (const Basis& basis : kBases) {
    for (const std::string& id : subject.asked.compare.empty() ? usual : subject.asked.compare) {
      const GpuSpec& gpu = subject.gpus.find(id);
      if (gpu.peak_of(subject.plan.job.training.precision).raw() <= 0) {
        section.table.rows.push_back(reason_row(basis.name, gpu.name, "has no " + precision));
        continue;
      }
      if (!gpu.unplannable.empty()) {
        section.table.rows.push_back(reason_row(basis.name, gpu.name, gpu.unplannable));
        continue;
      }
      const int nodes = basis.nodes(subject, usual_cluster(gpu, 1, gpu.gpus_per_host));
      section.table.rows.push_back(hardware_row(subject, basis, gpu, nodes));
    }
  }
  section.charts = {{.kind = ChartKind::bars,
                     .title = "Days to train",
                     .x = "gpu",
                     .series = {"time_days"},
                     .group_by = "basis",
                     .x_label = "GPU",
                     .y_label = "days"}};
  section.summary = {"Usual servers of each GPU, " + precision + " for all (dense peaks), measured against " +
                     cluster_text(subject.plan.job.cluster) +
                     ": as many GPUs, for the same money an hour, at the same power."};
  section.notes = reasons_of(section.table);
  section.notes.emplace_back(
      "whole servers only, so that a little of the money or power may stay unused; prices are those of the "
      "list, each with its date; rated links");
  return section;
}

ReportSection allocation_section(const Subject& subject) {
  ReportSection section{.id = "allocation", .title = "Model size and tokens for this much compute"};
  section.table.columns = {{"tokens_per_parameter", "tokens per parameter", FigureStyle::number, 9},
                           {"parameters_billion", "B parameters", FigureStyle::number, 9},
                           {"tokens_billion", "G tokens", FigureStyle::number, 9},
                           {"flops", "FLOP", FigureStyle::number, 2},
                           {"layout", "best layout", FigureStyle::text, 7},
                           {"mfu", "MFU", FigureStyle::share, 6},
                           {"time_days", "days", FigureStyle::number, 8},
                           {"gpu_hours", "GPU-hours", FigureStyle::count, 8},
                           {"cost", "cost", FigureStyle::count, 7}};
  const ClusterSpec& cluster = subject.plan.job.cluster;
  const double wanted = subject.asked.tokens_per_parameter;
  for (const double ratio : {wanted / 4, wanted / 2, wanted, wanted * 2, wanted * 4, wanted * 8}) {
    // The rate at which GPU-hours turn into FLOPs depends on the size that they are spent on: a few rounds settle it.
    double flops = subject.asked.flops.value_or(0);
    double flops_per_gpu_hour =
        tokens_per_hour(subject.run) / cluster.gpus() * flops_per_token(subject.model, subject.plan.job.training.seq);
    std::optional<PricedPlan> plan;
    double params = 0;
    double tokens = 0;
    constexpr int kRounds = 6;
    for (int round = 0; round < kRounds; ++round) {
      if (subject.asked.gpu_hours) {
        flops = *subject.asked.gpu_hours * flops_per_gpu_hour;
      }
      const int seq = subject.plan.job.training.seq;
      const ModelSpec model = model_for(subject.model, flops, ratio, seq);
      tokens = flops / flops_per_token(model, seq);
      plan = subject.planner.best(model, cluster);
      if (!plan) {
        break;
      }
      params = static_cast<double>(parameter_counts(model).total);
      flops_per_gpu_hour =
          tokens_per_hour(training_run(subject.around, *plan, tokens)) / cluster.gpus() * flops_per_token(model, seq);
      if (!subject.asked.gpu_hours) {
        break;
      }
    }
    std::vector<ReportCell> row{Figure{ratio}, Figure{params * 1e-9}, Figure{tokens * 1e-9}, Figure{flops}};
    if (!plan) {
      row.insert(row.end(), {"nothing fits", {}, {}, {}, {}});
    } else {
      const TrainingRun run = training_run(subject.around, *plan, tokens);
      row.emplace_back(to_text(plan->plan.layout));
      row.emplace_back(Figure{mfu(plan->job, plan->plan.layout, plan->plan.estimate.step)});
      row.emplace_back(Figure{run.wall.value.raw() / 24, run.wall.low.raw() / 24, run.wall.high.raw() / 24});
      row.emplace_back(figure_of(run.gpu_hours));
      row.push_back(run.rent ? ReportCell(figure_of(*run.rent)) : ReportCell());
      if (ratio == wanted) {
        section.summary.push_back("At " + brief_number(ratio) +
                                  " tokens per parameter: " + brief_number(params * 1e-9) + " B parameters on " +
                                  brief_number(tokens * 1e-9) + " G tokens, " + to_text(plan->plan.layout) + ", " +
                                  brief_number(run.wall.value.raw() / 24) + " days on " + cluster_text(cluster) + ".");
      }
    }
    section.table.rows.push_back(std::move(row));
  }
  section.notes = {"model shapes in the proportions of " + subject.model.name +
                       "; FLOP: 6 per active parameter outside the input embedding, and attention over half the "
                       "sequence; whole layers and heads meet a ratio within some 10 %",
                   "about 20 tokens per parameter is compute-optimal (Hoffmann et al., arXiv:2203.15556); more tokens "
                   "make a smaller model that is cheaper to run"};
  return section;
}

}  // namespace tpplan
