#include <algorithm>
#include <cmath>

#include "planner/capacity/buy_or_rent.h"
#include "planner/capacity/sections.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr double kHour = 3600;
constexpr double kGiB = 1073741824;
constexpr int kHistories = 1000;
constexpr std::uint64_t kSeed = 20240723;
constexpr double kMostInterruptions = 1000;  ///< of a segment, for histories to be simulated
constexpr double kStorageLimit = 0.05;

}  // namespace

ReportSection failures_section(const Subject& subject) {
  const TrainingRun& run = subject.run;
  const FailureModel& failures = run.failures;
  ReportSection section{.id = "failures", .title = "Failures and checkpoints"};
  section.table.columns = {{"interval_min", "minutes between", FigureStyle::number, 9},
                           {"wasted", "wasted", FigureStyle::share, 9},
                           {"checkpoints", "checkpoints", FigureStyle::share, 5},
                           {"lost_work", "lost work", FigureStyle::share, 5},
                           {"restarts", "restarts", FigureStyle::share, 5},
                           {"wasted_first_order", "first order", FigureStyle::share, 4},
                           {"wasted_simulated", "simulated", FigureStyle::share, 4},
                           {"meaning", "", FigureStyle::text, 8}};
  const Seconds best = best_interval(failures);
  struct Row {
    Seconds interval;
    std::string meaning;
  };
  std::vector<Row> rows;
  for (const double factor : {0.125, 0.25, 0.5, 2.0, 4.0, 8.0}) {
    rows.push_back({best * factor, ""});
  }
  rows.push_back({best, "least waste"});
  rows.push_back({young_interval(failures), "Young"});
  rows.push_back({daly_interval(failures), "Daly"});
  if (subject.around.checkpoint_every) {
    rows.push_back({*subject.around.checkpoint_every, "--checkpoint-every"});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.interval < b.interval; });
  std::optional<std::size_t> marked;
  for (const Row& row : rows) {
    if (row.interval == run.interval) {
      marked = section.table.rows.size();
    }
    const WastedTime parts = wasted_time(failures, row.interval);
    // Long enough histories that each holds several interruptions.
    const int segments = std::max(1, static_cast<int>(std::lround(20 * failures.mtbf / (row.interval + best))));
    const bool gets_on = interruptions_per_segment(failures, row.interval) <= kMostInterruptions;
    section.table.rows.push_back(
        {Figure{row.interval.raw() / 60}, Figure{wasted_share(failures, row.interval)}, Figure{parts.checkpoints},
         Figure{parts.lost_work}, Figure{parts.restarts}, Figure{wasted_share_first_order(failures, row.interval)},
         gets_on ? ReportCell(Figure{simulated_waste(failures, row.interval, segments, kHistories, kSeed)})
                 : ReportCell(),
         row.meaning});
  }
  section.charts = {{.kind = ChartKind::lines,
                     .title = "Wasted time over the checkpoint interval",
                     .x = "interval_min",
                     .series = {"wasted", "wasted_first_order", "wasted_simulated"},
                     .x_label = "minutes of training between checkpoints",
                     .y_label = "share of the wall time",
                     .x_logarithmic = true,
                     .marked_row = marked}};
  section.summary = {"An interruption every " + brief_number(failures.mtbf.raw() / kHour) + " h; a checkpoint of " +
                         format(run.checkpoint) + " stops training for " + format(failures.checkpoint) +
                         ", a restart takes " + brief_number(failures.restart.raw() / 60) + " min.",
                     "Least is wasted with a checkpoint every " + brief_number(best.raw() / 60) +
                         " min: " + brief_percent(wasted_share(failures, best)) + " of the time; goodput " +
                         brief_percent(run.goodput) + "."};
  if (subject.around.goodput) {
    section.summary.push_back("The goodput was given; the failure model does not decide it.");
  } else {
    section.summary.push_back(with_separators(recommended_spares(subject.around, run)) +
                              " spare nodes keep a replacement at hand for 99 % of the "
                              "interruptions that take a node out.");
  }
  section.notes = {
      "wasted: exact for Poisson failures, 1 - t / (M e^(R/M) (e^((t+C)/M) - 1)) (Daly, FGCS 22 (2006)); first order: "
      "C/t + (t/2 + R)/M (Young, CACM 17 (1974)); simulated: mean of " +
      with_separators(kHistories) + " random histories"};
  return section;
}

ReportSection storage_section(const Subject& subject, std::vector<std::string>& warnings) {
  const TrainingRun& run = subject.run;
  const ClusterSpec& cluster = subject.plan.job.cluster;
  const StorageNeeds needs =
      storage_needs(run.tokens, run.tokens_per_second, token_bytes(subject.model.vocab), run.checkpoint,
                    Seconds(run.tokens / run.tokens_per_second), run.failures, run.interval);
  ReportSection section{.id = "storage", .title = "Storage and input"};
  section.table.columns = {{"what", "what", FigureStyle::text, 9},
                           {"value", "value", FigureStyle::number, 9},
                           {"unit", "unit", FigureStyle::text, 9},
                           {"meaning", "", FigureStyle::text, 1}};
  const auto add = [&](std::string what, double value, std::string unit, std::string meaning) {
    section.table.rows.push_back({std::move(what), Figure{value}, std::move(unit), std::move(meaning)});
  };
  add("tokens to read", run.tokens_per_second, "tokens/s", "while training");
  add("read bandwidth", needs.read.raw() * 1e-6, "MB/s", shortest(token_bytes(subject.model.vocab)) + " bytes a token");
  add("data set", needs.dataset.raw() * 1e-12, "TB", "every token once");
  add("checkpoint", needs.checkpoint.raw() / kGiB, "GiB", "16-bit weights and optimizer states");
  add("checkpoints", needs.checkpoints, "in the run", "one every " + brief_number(run.interval.raw() / 60) + " min");
  add("written by all", needs.written.raw() * 1e-12, "TB", "what is kept is less");
  add("write bandwidth needed", needs.write.raw() * 1e-9, "GB/s", "for checkpoints to cost 1 % of the time");
  const double write = (run.checkpoint / run.failures.checkpoint).raw() * subject.around.checkpoint_stall;
  const WastedTime wasted = wasted_time(run.failures, run.interval);
  add("write bandwidth planned", write * 1e-9, "GB/s", "checkpoints cost " + brief_percent(wasted.checkpoints));
  const BytesPerSecond read = subject.around.read ? *subject.around.read : cluster.storage_read;
  if (read.raw() > 0 && read < needs.read) {
    warnings.push_back("storage is the limit: training reads " + format(needs.read) + ", the file system gives " +
                       format(read) + "; the step waits for its input");
  }
  if (wasted.checkpoints > kStorageLimit) {
    warnings.push_back("storage is the limit: checkpoints take " + brief_percent(wasted.checkpoints) +
                       " of the time at " + format(BytesPerSecond(write)) + "; " + format(needs.write) +
                       " would bring that to 1 %");
  }
  return section;
}

ReportSection buy_or_rent_section(const Subject& subject) {
  const Circumstances& around = subject.around;
  const ClusterSpec& cluster = subject.plan.job.cluster;
  const Price* bought = around.prices.purchase(cluster);
  const Price* rented = around.prices.hourly(cluster);
  ReportSection section{.id = "buy-or-rent", .title = "Buy or rent"};
  if (bought == nullptr || rented == nullptr) {
    section.summary = {std::string("No answer: the price list has no ") +
                       (bought == nullptr ? "purchase price (purchase_per_gpu)" : "hourly price (per_gpu_hour)") +
                       " of " + cluster.gpu.id + "; give both in the file of --price."};
    return section;
  }
  const double gpus = cluster.gpus();
  Ownership owned;
  owned.purchase = bought->purchase->value;
  owned.years = around.prices.years.value_or(owned.years);
  owned.resale = around.prices.resale.value_or(0);
  owned.financing = around.prices.financing.value_or(0);
  owned.hosting = around.prices.hosting.value_or(Money(0));
  owned.power = site_power(around.power, cluster).value / gpus;
  owned.electricity = around.electricity.value_or(Money(0));
  const Money rent = rented->hour->value;
  const Hours even = break_even_hourly(owned, rent);
  const std::string currency = " " + around.prices.currency;
  section.summary = {"One GPU bought for " + brief_number(owned.purchase.raw()) + currency + " and used for " +
                         brief_number(owned.years) + " years, against " + brief_number(rent.raw()) + currency +
                         " an hour: owning is " +
                         (std::isfinite(even.raw()) && even <= kYear
                              ? "cheaper from " + with_separators(std::llround(even.raw())) +
                                    " hours of work a year on (" + brief_percent(even / kYear) + " of the year)."
                              : std::string("never cheaper, however much it works.")),
                     "A purchase price of " + brief_number(owned.purchase.raw() * 1.2) + currency + " moves that to " +
                         brief_number([&] {
                           Ownership dearer = owned;
                           dearer.purchase = owned.purchase * 1.2;
                           return break_even_hourly(dearer, rent).raw();
                         }()) +
                         " hours, a rent of " + brief_number(rent.raw() * 0.8) + " to " +
                         brief_number(break_even_hourly(owned, rent * 0.8).raw()) + ", " +
                         brief_number(owned.years + 1) + " years of use to " + brief_number([&] {
                           Ownership longer = owned;
                           longer.years += 1;
                           return break_even_hourly(longer, rent).raw();
                         }()) +
                         "."};
  const double tokens = tokens_per_hour(subject.run) / gpus;
  section.table.columns = {{"utilisation", "at work", FigureStyle::share, 9},
                           {"hours_per_year", "hours a year", FigureStyle::count, 8},
                           {"owning_per_year", "owning a year", FigureStyle::count, 7},
                           {"renting_per_year", "renting a year", FigureStyle::count, 7},
                           {"owning_per_hour", "owning per hour", FigureStyle::number, 6},
                           {"owning_per_billion_tokens", "owning per G tokens", FigureStyle::number, 5},
                           {"renting_per_billion_tokens", "renting per G tokens", FigureStyle::number, 5},
                           {"break_even_months", "paid back after months", FigureStyle::number, 8}};
  for (const double utilisation : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
    const Hours at_work = kYear * utilisation;
    const Money owning = ownership_year(owned, at_work).total();
    const Money renting = rent * at_work.raw();
    const double months = break_even_months(owned, rent, utilisation);
    const double billions = tokens * at_work.raw() * 1e-9;
    section.table.rows.push_back({Figure{utilisation}, Figure{at_work.raw()}, Figure{owning.raw()},
                                  Figure{renting.raw()}, Figure{owning.raw() / at_work.raw()},
                                  Figure{owning.raw() / billions}, Figure{renting.raw() / billions},
                                  std::isfinite(months) ? ReportCell(Figure{months}) : ReportCell("never")});
  }
  section.charts = {{.kind = ChartKind::lines,
                     .title = "A year of one GPU",
                     .x = "utilisation",
                     .series = {"owning_per_year", "renting_per_year"},
                     .x_label = "share of the year at work",
                     .y_label = around.prices.currency},
                    {.kind = ChartKind::lines,
                     .title = "Paid back",
                     .x = "utilisation",
                     .series = {"break_even_months"},
                     .x_label = "share of the year at work",
                     .y_label = "months"}};
  section.notes = {
      "rented: " + origin_text(*rented, around.prices) + "; bought: " + origin_text(*bought, around.prices),
      "owning: straight-line depreciation to the resale value, interest on the mean of both, hosting, and "
      "electricity for the hours at work"};
  return section;
}

}  // namespace tpplan
