#include "planner/capacity/build_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "planner/capacity/inverse.h"
#include "planner/errors.h"
#include "planner/option_values.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr double kHour = 3600;
constexpr int kMostNodes = 4096;
constexpr std::size_t kRunnersUp = 4;
constexpr double kLeastGoodput = 0.01;  ///< below it a run gets nowhere

/// One model on one cluster, planned, or the reason why not.
struct Candidate {
  const ModelSpec* model = nullptr;
  const Hardware* hardware = nullptr;
  std::optional<PricedPlan> plan;
  TrainingRun run;
  bool meets = true;  ///< deadline and budget
  std::string reason;
};

/// FNV-1a of 64 bits.
std::string fingerprint(const std::string& bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void add_input(std::vector<ReportInput>& inputs, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (path != "-" && file) {
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    inputs.push_back({path, fingerprint(bytes)});
  }
}

/// "4096" of a GPU that --gpu names becomes a cluster of usual servers.
std::string cluster_name(const std::string& word, const PlannerOptions& options, const GpuCatalogue& gpus) {
  int count = 0;
  constexpr int kMostGpus = 1 << 24;
  if (!read_count(word, 1, kMostGpus, count).empty() || try_find_spec("cluster", word)) {
    return word;
  }
  if (options.gpu.empty()) {
    throw UsageError({"--cluster " + word + ": a number of GPUs needs --gpu to say which"}, "report");
  }
  const GpuSpec& gpu = gpus.find(options.gpu);
  const int host = std::min(gpu.gpus_per_host, count);
  if (count % host != 0) {
    throw UsageError(
        {"--cluster " + word + ": servers of " + gpu.name + " hold " + std::to_string(host) +
         " GPUs; nearest: " + std::to_string(count / host * host) + " or " + std::to_string((count / host + 1) * host)},
        "report");
  }
  return std::to_string(count / host) + "x" + std::to_string(host) + "x" + gpu.id;
}

std::string tokens_text(double tokens) {
  return tokens >= 1e12 ? brief_number(tokens * 1e-12) + " T tokens" : brief_number(tokens * 1e-9) + " G tokens";
}

std::string days_text(const TrainingRun& run) {
  return brief_number(run.wall.value.raw() / 24) + " days (" + brief_number(run.wall.low.raw() / 24) + " to " +
         brief_number(run.wall.high.raw() / 24) + ")";
}

/// All that is loaded once for a report, and the choice.
class ReportBuilder {
 public:
  ReportBuilder(const PlannerOptions& options, const std::function<void(std::string_view)>& tick,
                std::string& file_warnings)
      : options_(options), asked_(options.capacity), gpus_(shipped_gpus()), tick_(tick), planner_(options, [this] {
          tick_(now_);
        }) {
    for (const std::string& name : split(options.model, ',')) {
      models_.push_back(resolve_model(name, &file_warnings));
      add_input(report_.inputs, try_find_spec("model", name).value_or(""));
    }
    for (const std::string& word : split(options.cluster, ',')) {
      const std::string name = cluster_name(word, options, gpus_);
      hardware_.emplace_back(name, gpus_, &file_warnings);
      add_input(report_.inputs, try_find_spec("cluster", name).value_or(""));
    }
    PriceList prices = asked_.prices.empty() ? shipped_prices(gpus_) : load_prices(asked_.prices, gpus_);
    add_input(report_.inputs, asked_.prices.empty() ? data_folder("clusters/prices") + "/listed.json" : asked_.prices);
    around_ = circumstances_from(asked_, std::move(prices), circumstances_assumed_);
  }

  CapacityReport build(const std::string& date);

 private:
  double tokens_for(const ModelSpec& model) const;
  Candidate candidate(const ModelSpec& model, const Hardware& hardware);
  Candidate sized_candidate(const ModelSpec& model, const Hardware& hardware, double tokens);
  void judge(Candidate& candidate) const;
  const Candidate* chosen() const;
  [[nodiscard]] bool equal_tokens() const;  ///< every plan trains on as many
  ReportSection clusters_section() const;
  void decide(const Candidate& best);
  [[nodiscard]] bool all_priced() const;
  void warn_of_slower();
  void adopt_allocation();
  void list_assumptions(const Candidate& best);

  const PlannerOptions& options_;
  const CapacityOptions& asked_;
  GpuCatalogue gpus_;
  std::function<void(std::string_view)> tick_;
  std::string now_ = "planning";
  Planner planner_;
  std::vector<ModelSpec> models_;
  std::vector<Hardware> hardware_;
  Circumstances around_;
  std::vector<ReportAssumption> circumstances_assumed_;
  std::vector<Candidate> candidates_;
  CapacityReport report_;
};

/// Given, else what the budget buys (worked out per cluster, 0 here), else by the ratio.
double ReportBuilder::tokens_for(const ModelSpec& model) const {
  if (asked_.tokens) {
    return *asked_.tokens;
  }
  return asked_.tokens_per_parameter * static_cast<double>(parameter_counts(model).active);
}

Candidate ReportBuilder::sized_candidate(const ModelSpec& model, const Hardware& hardware, double tokens) {
  Candidate result{&model, &hardware, {}, {}, true, ""};
  const SizePricer price = [&](int nodes) -> std::optional<SizedRun> {
    const auto cluster = hardware.sized(nodes);
    auto plan = cluster ? planner_.best(model, *cluster, 0, &result.reason) : std::nullopt;
    if (!plan) {
      return std::nullopt;
    }
    const TrainingRun run = training_run(around_, *plan, tokens);
    return SizedRun{nodes, *std::move(plan), run};
  };
  DeadlineAnswer answer = answer_deadline(price, Hours(asked_.deadline->raw() / kHour), kMostNodes);
  if (answer.sizes.empty()) {
    return result;
  }
  const auto fastest = std::min_element(answer.sizes.begin(), answer.sizes.end(), [](const auto& a, const auto& b) {
    return a.run.wall.value < b.run.wall.value;
  });
  const std::size_t index = answer.cheapest.value_or(static_cast<std::size_t>(fastest - answer.sizes.begin()));
  result.run = answer.sizes[index].run;
  // Planned once more for the runners-up.
  result.plan = planner_.best(model, answer.sizes[index].plan.job.cluster, kRunnersUp);
  result.reason.clear();
  return result;
}

Candidate ReportBuilder::candidate(const ModelSpec& model, const Hardware& hardware) {
  const double tokens = tokens_for(model);
  Candidate result{&model, &hardware, {}, {}, true, ""};
  if (asked_.deadline) {
    result = sized_candidate(model, hardware, tokens);
  } else {
    result.plan = planner_.best(model, hardware.cluster(), kRunnersUp, &result.reason);
    if (result.plan) {
      result.run = training_run(around_, *result.plan, tokens);
    }
  }
  if (result.plan && asked_.budget && !asked_.tokens && result.run.rent) {
    const double affordable = tokens * (*asked_.budget / result.run.rent->value.raw());
    result.run = training_run(around_, *result.plan, affordable);
  }
  judge(result);
  return result;
}

void ReportBuilder::judge(Candidate& candidate) const {
  if (!candidate.plan) {
    candidate.meets = false;
    return;
  }
  if (candidate.run.goodput < kLeastGoodput) {
    candidate.meets = false;
    candidate.reason = "an interruption every " + format(candidate.run.failures.mtbf) + ", a restart takes " +
                       format(candidate.run.failures.restart);
  }
  if (asked_.deadline && candidate.run.wall.value.raw() * kHour > asked_.deadline->raw()) {
    candidate.meets = false;
    candidate.reason += (candidate.reason.empty() ? "" : "; ") + std::string("misses the deadline");
  }
  if (asked_.budget && candidate.run.rent && candidate.run.rent->value.raw() > *asked_.budget * (1 + 1e-9)) {
    candidate.meets = false;
    candidate.reason += (candidate.reason.empty() ? "" : "; ") + std::string("over the budget");
  }
}

bool ReportBuilder::all_priced() const {
  return std::all_of(candidates_.begin(), candidates_.end(),
                     [](const Candidate& c) { return !c.plan || c.run.rent.has_value(); });
}

/// Clusters of the same GPU of which the larger one is slower.
void ReportBuilder::warn_of_slower() {
  for (const Candidate& small : candidates_) {
    for (const Candidate& large : candidates_) {
      if (!small.plan || !large.plan || small.model != large.model) {
        continue;
      }
      const ClusterSpec& few = small.plan->job.cluster;
      const ClusterSpec& many = large.plan->job.cluster;
      if (few.gpu.id == many.gpu.id && few.gpus() < many.gpus() &&
          large.run.tokens_per_second < small.run.tokens_per_second) {
        report_.warnings.push_back(cluster_text(many) + " train slower than " + cluster_text(few) + ": " +
                                   with_separators(std::llround(large.run.tokens_per_second)) + " against " +
                                   with_separators(std::llround(small.run.tokens_per_second)) + " tokens/s");
      }
    }
  }
}

/// Of the first model: what meets deadline and budget first; then most tokens, least rent where everything has a price,
/// least time.
const Candidate* ReportBuilder::chosen() const {
  const bool priced = all_priced();
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (!candidate.plan || candidate.model != &models_.front()) {
      continue;
    }
    const auto better = [&](const Candidate& a, const Candidate& b) {
      if (a.meets != b.meets) {
        return a.meets;
      }
      if (asked_.budget && !asked_.tokens && a.run.tokens != b.run.tokens) {
        return a.run.tokens > b.run.tokens;
      }
      return priced ? a.run.rent->value < b.run.rent->value : a.run.wall.value < b.run.wall.value;
    };
    if (best == nullptr || better(candidate, *best)) {
      best = &candidate;
    }
  }
  return best;
}

bool ReportBuilder::equal_tokens() const {
  std::optional<double> tokens;
  return std::all_of(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
    return !candidate.plan ||
           std::exchange(tokens, candidate.run.tokens).value_or(candidate.run.tokens) == candidate.run.tokens;
  });
}

ReportSection ReportBuilder::clusters_section() const {
  ReportSection section{.id = "clusters", .title = "Models and clusters"};
  section.table.columns = {{"model", "model", FigureStyle::text, models_.size() > 1 ? 9 : 0},
                           {"cluster", "cluster", FigureStyle::text, 9},
                           {"gpus", "GPUs", FigureStyle::count, 8},
                           {"tokens_billion", "G tokens", FigureStyle::number, equal_tokens() ? 4 : 8},
                           {"layout", "best layout", FigureStyle::text, 2},
                           {"step_time_s", "step s", FigureStyle::number, 3},
                           {"tokens_per_s", "tokens/s", FigureStyle::count, 5},
                           {"mfu", "MFU", FigureStyle::share, 5},
                           {"goodput", "goodput", FigureStyle::share, 5},
                           {"time_days", "days", FigureStyle::number, 9},
                           {"gpu_hours", "GPU-hours", FigureStyle::count, 6},
                           {"cost", "cost " + around_.prices.currency, FigureStyle::count, 8},
                           {"energy_mwh", "MWh", FigureStyle::number, 4},
                           {"electricity_cost", "electricity", FigureStyle::count, 3},
                           {"co2_t", "t CO2", FigureStyle::number, 3},
                           {"spare_nodes", "spare nodes paid for", FigureStyle::count, 2},
                           {"reason", "remark", FigureStyle::text, 7}};
  for (const Candidate& candidate : candidates_) {
    std::vector<ReportCell> row{candidate.model->name};
    if (!candidate.plan) {
      row.emplace_back(candidate.hardware->text());
      row.resize(section.table.columns.size() - 1);
      row.emplace_back(candidate.reason);
      section.table.rows.push_back(std::move(row));
      // A narrow terminal has no room for the remark, and a row without an answer needs its reason.
      section.notes.push_back(candidate.model->name + " on " + candidate.hardware->text() + ": " + candidate.reason);
      continue;
    }
    const TrainingRun& run = candidate.run;
    const PricedPlan& plan = *candidate.plan;
    const double step = plan.plan.estimate.step.total().raw();
    row.emplace_back(cluster_text(plan.job.cluster) +
                     (candidate.hardware->text() == plan.job.cluster.name ? "" : ", " + candidate.hardware->text()));
    row.emplace_back(Figure{static_cast<double>(plan.job.cluster.gpus())});
    row.emplace_back(Figure{run.tokens * 1e-9});
    row.emplace_back(to_text(plan.plan.layout));
    row.emplace_back(Figure{step, interval80(step, run.step_error).low, interval80(step, run.step_error).high});
    row.emplace_back(Figure{run.tokens_per_second});
    row.emplace_back(Figure{mfu(plan.job, plan.plan.layout, plan.plan.estimate.step)});
    row.emplace_back(Figure{run.goodput});
    row.emplace_back(Figure{run.wall.value.raw() / 24, run.wall.low.raw() / 24, run.wall.high.raw() / 24});
    row.emplace_back(figure_of(run.gpu_hours));
    row.push_back(run.rent ? ReportCell(figure_of(*run.rent)) : ReportCell());
    row.emplace_back(figure_of(run.energy, 1e-3));
    row.push_back(run.electricity ? ReportCell(figure_of(*run.electricity)) : ReportCell());
    row.push_back(run.carbon ? ReportCell(figure_of(*run.carbon, 1e-3)) : ReportCell());
    row.emplace_back(Figure{static_cast<double>(run.spares)});
    row.emplace_back(candidate.reason.empty() && run.price == nullptr ? "no price known" : candidate.reason);
    section.table.rows.push_back(std::move(row));
  }
  section.charts = {{.kind = ChartKind::bars,
                     .title = "Time to train",
                     .x = "cluster",
                     .series = {"time_days"},
                     .group_by = models_.size() > 1 ? "model" : "",
                     .x_label = "cluster",
                     .y_label = "days"}};
  section.notes.emplace_back(
      "days from start to end: tokens / (tokens/s x goodput); GPU-hours of all GPUs paid for, spare nodes too; energy "
      "at the site's meter; intervals carry the 80 % interval of the step time, the range of prices and of the power "
      "assumptions");
  return section;
}

void ReportBuilder::decide(const Candidate& best) {
  const TrainingRun& run = best.run;
  const ClusterSpec& cluster = best.plan->job.cluster;
  std::string text = best.model->name + " on " + tokens_text(run.tokens) + ": " + cluster_text(cluster) + " with " +
                     to_text(best.plan->plan.layout) + ", " + days_text(run);
  if (run.rent) {
    text += " and " + figure_text(figure_of(*run.rent), FigureStyle::count) + " " + around_.prices.currency;
  }
  text += ".";
  if (!best.meets) {
    text = "Nothing meets what was asked (" + best.reason + "). Nearest: " + text;
  } else if (asked_.budget && !asked_.tokens) {
    text += " That is the most that " + brief_number(*asked_.budget) + " " + around_.prices.currency + " buys.";
  } else if (asked_.deadline) {
    text += std::string(run.rent ? " The cheapest" : " The smallest") + " size that meets " +
            brief_number(asked_.deadline->raw() / 86400) + " days.";
  } else if (candidates_.size() > 1) {
    text += std::string(all_priced() ? " The cheapest" : " The fastest") + " of " + std::to_string(hardware_.size()) +
            " clusters.";
  }
  report_.decision = std::move(text);
  report_.answered = best.meets;
  report_.headlines = {{"time to train",
                        "time_days",
                        {run.wall.value.raw() / 24, run.wall.low.raw() / 24, run.wall.high.raw() / 24},
                        "days"}};
  if (run.rent) {
    report_.headlines.push_back({"cost", "cost", figure_of(*run.rent), around_.prices.currency});
  } else {
    report_.headlines.push_back({"GPU-hours", "gpu_hours", figure_of(run.gpu_hours), "h"});
  }
  report_.headlines.push_back({"energy", "energy_mwh", figure_of(run.energy, 1e-3), "MWh"});
}

void ReportBuilder::list_assumptions(const Candidate& best) {
  std::vector<Assumption> job;
  (void)planner_.job(options_, *best.model, best.plan->job.cluster, &job);
  for (Assumption& assumption : job) {
    report_.assumed.push_back({std::move(assumption.what), std::move(assumption.value), "", "", assumption.set_by});
  }
  if (!asked_.tokens && !(asked_.budget && best.run.rent)) {
    report_.assumed.push_back(
        {"tokens", tokens_text(best.run.tokens), "",
         brief_number(asked_.tokens_per_parameter) + " per active parameter (Hoffmann et al., arXiv:2203.15556)",
         "--tokens"});
  }
  std::vector<const Price*> listed;
  for (const Candidate& candidate : candidates_) {
    const Price* price = candidate.plan ? candidate.run.price : nullptr;
    if (price == nullptr || std::find(listed.begin(), listed.end(), price) != listed.end()) {
      continue;
    }
    listed.push_back(price);
    const Between<Money>& hour = *price->hour;
    report_.assumed.push_back(
        {"price of " + price->subject,
         brief_number(hour.value.raw()) + " " + around_.prices.currency + " per GPU-hour" +
             (around_.prices.shipped ? ", listed" : ""),
         hour.low < hour.high ? brief_number(hour.low.raw()) + " to " + brief_number(hour.high.raw()) : "",
         origin_text(*price, around_.prices), "--price"});
  }
  report_.assumed.insert(report_.assumed.end(), circumstances_assumed_.begin(), circumstances_assumed_.end());
}

CapacityReport ReportBuilder::build(const std::string& date) {
  report_.date = date;
  report_.command = "tpplan report " + options_text(options_, "report", {"output", "format", "color", "jobs"});
  report_.currency = around_.prices.currency;
  for (const ModelSpec& model : models_) {
    report_.title += (report_.title.empty() ? "" : ", ") + model.name;
    for (const Hardware& hardware : hardware_) {
      now_ = model.name + " on " + hardware.text();
      candidates_.push_back(candidate(model, hardware));
    }
  }
  const Candidate* best = chosen();
  report_.title += best != nullptr && equal_tokens() ? " on " + tokens_text(best->run.tokens) : "";
  report_.sections.push_back(clusters_section());
  if (best == nullptr) {
    report_.answered = false;
    report_.decision = "No layout fits on any of the clusters.";
    report_.assumed = circumstances_assumed_;
    return std::move(report_);
  }
  decide(*best);
  list_assumptions(*best);
  report_.warnings = warnings(best->plan->job, best->plan->plan.layout);
  warn_of_slower();
  const Subject subject{planner_, around_, asked_, gpus_, *best->model, *best->hardware, *best->plan, best->run};
  for (const SectionRow& row : section_rows()) {
    const bool wanted = asked_.sections.empty() ? row.usual(subject)
                                                : std::find(asked_.sections.begin(), asked_.sections.end(), row.id) !=
                                                      asked_.sections.end();
    if (wanted) {
      now_ = row.id;
      report_.sections.push_back(row.build(subject, report_.warnings));
    }
  }
  adopt_allocation();
  return std::move(report_);
}

/// With an amount of compute to allocate the decision is its answer.
void ReportBuilder::adopt_allocation() {
  for (const ReportSection& section : report_.sections) {
    if (section.id != "allocation" || section.summary.empty()) {
      continue;
    }
    for (const auto& row : section.table.rows) {
      const auto at = [&](std::string_view key) { return std::get_if<Figure>(&row[column_of(section.table, key)]); };
      if (at("time_days") == nullptr || at("tokens_per_parameter")->value != asked_.tokens_per_parameter) {
        continue;
      }
      report_.title = models_.front().name + " in proportion, for a given amount of compute";
      report_.decision = section.summary.front();
      report_.headlines = {{"parameters", "parameters_billion", *at("parameters_billion"), "billion"},
                           {"time to train", "time_days", *at("time_days"), "days"},
                           {"GPU-hours", "gpu_hours", *at("gpu_hours"), "h"}};
    }
  }
}

template <ReportSection (*section)(const Subject&)>
ReportSection built(const Subject& subject, std::vector<std::string>&) {
  return section(subject);
}
bool always(const Subject&) { return true; }
bool several_nodes(const Subject& subject) { return subject.plan.job.cluster.nodes > 1; }
bool compute_given(const Subject& subject) { return subject.asked.flops || subject.asked.gpu_hours; }
/// Tables too long to be read are there for their drawings.
bool drawn(const Subject& subject) { return chosen_format(subject.planner.options()) == OutputFormat::html; }
bool calibrated(const Subject& subject) { return drawn(subject) && !subject.plan.job.calibration.curves.empty(); }
bool piped(const Subject& subject) { return drawn(subject) && subject.plan.plan.layout.pp > 1; }
bool purchase_known(const Subject& subject) {
  return subject.around.prices.purchase(subject.plan.job.cluster) != nullptr;
}

}  // namespace

const std::vector<SectionRow>& section_rows() {
  static const std::vector<SectionRow> rows{
      {"layouts", "best layouts, time and memory by what they go to", always, built<layouts_section>},
      {"families", "best layout of each family, and the rule of thumb", always, built<families_section>},
      {"failures", "interruptions, checkpoints, goodput", always, built<failures_section>},
      {"storage", "what the run asks of the file system", always, storage_section},
      {"scaling", "sizes of the cluster, deadline, cost over time", always, built<scaling_section>},
      {"network", "the speed at which the network is no limit", several_nodes, built<network_section>},
      {"upgrades", "each part of the hardware halved and doubled", always, built<upgrades_section>},
      {"limits", "the largest model and the longest sequence", always, built<limits_section>},
      {"hardware", "other GPUs at equal count, money and power", always, built<hardware_section>},
      {"buy-or-rent", "owning against renting", purchase_known, built<buy_or_rent_section>},
      {"roofline", "matrix products and attention under the roofline", drawn, built<roofline_section>},
      {"timeline", "one step, pass by pass", piped, built<timeline_section>},
      {"calibration", "measured against fitted collectives", calibrated, built<calibration_section>},
      {"allocation", "model size and tokens for --flops or --gpu-hours", compute_given, built<allocation_section>},
  };
  return rows;
}

CapacityReport build_report(const PlannerOptions& options, const std::string& date,
                            const std::function<void(std::string_view)>& tick, std::string& file_warnings) {
  return ReportBuilder(options, tick, file_warnings).build(date);
}

}  // namespace tpplan
