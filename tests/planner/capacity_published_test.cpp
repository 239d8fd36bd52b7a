#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "planner/capacity/workload.h"
#include "planner/report/text_table.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

const std::string kSource = TPPLAN_SOURCE_DIR;

/// A published training run and its prediction.
struct PublishedRun {
  std::string name, layout, restricted;
  double gpu_hours = 0, predicted = 0, tokens = 0, tflops = 0, goodput = 0;
  bool given = false;  ///< the layout is published
  [[nodiscard]] double error() const { return predicted / gpu_hours - 1; }
};

PublishedRun predicted(ObjectReader row, double goodput) {
  PublishedRun run;
  run.name = row.text("name");
  PlannerOptions options;
  options.command = "report";
  options.framework = framework_from(row.text("framework"));
  options.date = row.text("date");
  options.seq = static_cast<int>(row.count("seq", 1, 1 << 20));
  options.global_batch = static_cast<int>(row.count("global_batch", 1, 1 << 20));
  options.precision = precision_from(row.text("precision", "bf16"));
  std::string model_name = row.text("model");
  if (model_name.find('/') != std::string::npos) {
    model_name.insert(0, kSource + "/");
  }
  const ModelSpec model = resolve_model(model_name);
  const ClusterSpec cluster = resolve_cluster(row.text("cluster"));
  run.tokens = row.number("tokens", 1, 1e15);
  run.gpu_hours = row.number("gpu_hours", 1, 1e12);
  run.goodput = row.number("goodput", 0.1, 1, goodput);
  const std::string layout = row.text("layout", "");
  if (auto fixed = row.optional_object("restrict")) {
    for (const std::string& key : fixed->keys()) {
      const auto axis = std::find_if(kAxes.begin(), kAxes.end(), [&](const AxisRow& a) { return a.option == key; });
      REQUIRE_MESSAGE(axis != kAxes.end(), key);
      options.space.axes[static_cast<std::size_t>(axis - kAxes.begin())].values = {
          static_cast<int>(fixed->count(key, 1, 1 << 20))};
      run.restricted += (run.restricted.empty() ? "" : " ") + key;
    }
  }
  row.text("source");
  row.ignore("assumed");
  row.close();

  run.given = !layout.empty();
  const Planner planner(options, [] {});
  double tokens_per_s = 0;
  if (run.given) {
    Job job = planner.job(options, model, cluster);
    const Layout parsed = parse_layout(layout, cluster.gpus(), {}, &job.training.layers_per_stage);
    const Estimate estimated = estimate(job, parsed);
    tokens_per_s = tokens_per_second(job, estimated.step);
    run.layout = to_text(parsed);
    run.tflops = estimated.step.model_flops.raw() / estimated.step.total().raw() * 1e-12;
  } else {
    const auto best = planner.best(model, cluster);
    REQUIRE_MESSAGE(best, run.name);
    tokens_per_s = best->tokens_per_second();
    run.layout = to_text(best->plan.layout);
    const StepEstimate& step = best->plan.estimate.step;
    run.tflops = step.model_flops.raw() / step.total().raw() * 1e-12;
  }
  run.predicted = run.tokens / tokens_per_s / run.goodput * cluster.gpus() / 3600;
  return run;
}

std::vector<PublishedRun> published_runs() {
  SpecDocument document = SpecDocument::load(kSource + "/tests/data/capacity/published-totals.json");
  ObjectReader root = document.root();
  root.ignore("note");
  const double goodput = root.number("goodput", 0.1, 1);
  std::vector<PublishedRun> runs;
  ArrayReader rows = root.array("runs");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    runs.push_back(predicted(rows.object(i), goodput));
  }
  root.close();
  document.finish();
  return runs;
}

std::string table_of(const std::vector<PublishedRun>& runs) {
  TextTable table;
  table.columns = {{"run", false}, {"published GPU-hours"},  {"predicted"},    {"error"},
                   {"goodput"},    {"step TFLOP/s per GPU"}, {"layout", false}};
  for (const PublishedRun& run : runs) {
    const long long percent = std::llround(100 * run.error());
    table.rows.push_back({run.name, with_separators(std::llround(run.gpu_hours)),
                          with_separators(std::llround(run.predicted / 1000) * 1000),
                          (percent > 0 ? "+" : "") + std::to_string(percent) + " %", shortest(run.goodput),
                          brief_number(run.tflops),
                          "`" + run.layout + "`" +
                              (run.given                ? ""
                               : run.restricted.empty() ? " (best plan)"
                                                        : " (" + run.restricted + " published)")});
  }
  return github_table(table);
}

}  // namespace

TEST_CASE("three quarters of the published totals of GPU-hours are within 30 percent at one goodput") {
  const std::vector<PublishedRun> runs = published_runs();
  REQUIRE(runs.size() >= 8);
  std::size_t near = 0;
  for (const PublishedRun& run : runs) {
    MESSAGE(run.name, ": ", 100 * run.error(), " %");
    near += std::abs(run.error()) <= 0.3 ? 1U : 0U;
  }
  CHECK(4 * near >= 3 * runs.size());
}

TEST_CASE("the table of published totals in the documentation is the one that is predicted") {
  const std::string path = kSource + "/docs/capacity.md";
  constexpr std::string_view kBegin = "<!-- published totals -->\n";
  constexpr std::string_view kEnd = "<!-- end -->";
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = text.find(kEnd, begin == std::string::npos ? 0 : begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const std::string made = table_of(published_runs());
  const char* update = std::getenv("TPPLAN_UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    text.replace(begin + kBegin.size(), end - begin - kBegin.size(), made);
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  // Profiles that were fitted anew change it: TPPLAN_UPDATE_GOLDEN=1 writes it again.
  CHECK(text.substr(begin + kBegin.size(), end - begin - kBegin.size()) == made);
}
