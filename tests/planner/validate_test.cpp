#include "planner/validate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/commands/validate.h"
#include "planner/report/scatter_svg.h"
#include "planner/report/validate_ratchet.h"
#include "planner/report/validate_report.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

constexpr double kGib = 1073741824.0;
const std::string kData = std::string(TPPLAN_SOURCE_DIR) + "/tests/data/validate/";

/// Predictions made by hand: no cost model is involved.
class HandMade {
 public:
  RunPrediction& add(const std::string& group, double measured, double predicted) {
    auto& record = records_.emplace_back();
    record.id = group + std::to_string(records_.size());
    record.group = group;
    record.input_key = record.id;
    record.measured.step_s = measured;
    auto& run = runs.emplace_back();
    run.record = &record;
    run.step_error = predicted / measured - 1;
    run.estimate.step.compute = Seconds(predicted);
    return run;
  }
  RunRecord& record(std::size_t i) { return records_[i]; }
  std::vector<RunPrediction> runs;

 private:
  std::deque<RunRecord> records_;
};

const ProfileSet& shipped_profiles() {
  static const ProfileSet profiles = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  return profiles;
}

std::vector<RunRecord> shipped_records(const std::string& name) {
  static const GpuCatalogue catalogue = shipped_gpus();
  std::string warnings;
  return read_runs(std::string(TPPLAN_SOURCE_DIR) + "/tests/data/runs/" + name + ".jsonl", catalogue, warnings);
}

struct Outcome {
  int code = 0;
  std::string out, err;
};
Outcome run_command(PlannerOptions options) {
  options.command = "validate";
  std::ostringstream out, err;
  Outcome outcome;
  outcome.code = run_validate(options, out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

}  // namespace

TEST_CASE("error statistics are those of the sizes and the bias keeps the sign") {
  // Sizes 0.01 0.02 0.03 0.10: median 0.025, mean 0.04, nearest rank of 0.9 x 4 = 3.6 is the 4th. Signed and sorted:
  // -0.10 -0.02 0.01 0.03, middle (-0.02 + 0.01) / 2.
  const auto stats = error_stats({0.01, -0.02, 0.03, -0.10});
  CHECK(stats.n == 4);
  CHECK(stats.median == doctest::Approx(0.025));
  CHECK(stats.mape == doctest::Approx(0.04));
  CHECK(stats.p90 == doctest::Approx(0.10));
  CHECK(stats.max == doctest::Approx(0.10));
  CHECK(stats.bias == doctest::Approx(-0.005));
  CHECK(error_stats({}).n == 0);
}

TEST_CASE("Kendall's tau counts pairs in order and leaves ties out") {
  // Pairs of measured 1 2 3 against predicted 1 3 2: (1,2) and (1,3) agree, (2,3) does not: (2 - 1) / 3.
  CHECK(kendall_tau({{1, 1}, {2, 3}, {3, 2}}) == doctest::Approx(1.0 / 3));
  // The pair tied in prediction does not count: one concordant pair of two others.
  CHECK(kendall_tau({{1, 1}, {2, 2}, {3, 2}}) == doctest::Approx(1.0));
  CHECK(kendall_tau({{1, 3}, {2, 2}, {3, 1}}) == doctest::Approx(-1.0));
}

TEST_CASE("regret is the time lost by trusting the order of prediction") {
  const std::vector<LayoutTimes> rows{{12, 1.0}, {11, 1.1}, {10.5, 1.2}, {10, 1.3}, {20, 1.4}};
  CHECK(regret(rows, 1) == doctest::Approx(0.2));   // 12 against 10
  CHECK(regret(rows, 3) == doctest::Approx(0.05));  // the best of 12 11 10.5
  CHECK(regret(rows, 5) == doctest::Approx(0.0));
  CHECK(regret(rows, 9) == doctest::Approx(0.0));
}

TEST_CASE("layouts tied in prediction take the mean of the tied") {
  // The first two are tied: (12 + 10) / 2 = 11 against 10.
  CHECK(regret({{12, 1}, {10, 1}, {15, 2}, {16, 3}, {17, 4}}, 1) == doctest::Approx(0.1));
  // Best of three with one sure (14) and two drawn of a tie of 10 12 16: the pairs give 10, 10, 12, all below 14.
  CHECK(regret({{14, 1}, {10, 2}, {12, 2}, {16, 2}, {18, 3}}, 3) == doctest::Approx((10 + 10 + 12) / 30.0 - 1));
}

TEST_CASE("a sweep ranks distinct layouts and averages their repeats") {
  HandMade made;
  // Five layouts, predicted in the order 1 2 3 4 5; the first was measured twice, 11 and 13: mean 12.
  const std::vector<std::pair<double, double>> times{{11, 1}, {10, 2}, {14, 3}, {15, 4}, {16, 5}, {13, 1}};
  for (const auto& [measured, predicted] : times) {
    made.add("g", measured, predicted);
  }
  made.record(5).input_key = made.record(0).input_key;
  auto group = group_reports(made.runs).front();
  CHECK(group.ranking.sweeps == 1);
  CHECK(group.ranking.top1_regret_mean == doctest::Approx(0.2));    // 12 against 10
  CHECK(group.ranking.best3_regret_mean == doctest::Approx(0.0));   // 10 is among the first three
  CHECK(group.ranking.kendall_tau_median == doctest::Approx(0.8));  // 9 of 10 pairs agree
  CHECK(group.repeated == 1);
  CHECK(group.repeat_spread == doctest::Approx(2.0 / 12));
  SUBCASE("four distinct layouts are no sweep") {
    made.record(4).input_key = made.record(3).input_key;
    CHECK(group_reports(made.runs).front().ranking.sweeps == 0);
  }
  SUBCASE("runs of other inputs are another sweep") {
    made.record(4).sweep_key = "elsewhere";
    CHECK(group_reports(made.runs).front().ranking.sweeps == 0);
  }
}

TEST_CASE("suspect runs are reported apart and skipped runs by reason") {
  HandMade made;
  made.add("g", 10, 11);
  made.add("g", 10, 30);
  made.add("g", 10, 10);
  made.record(1).suspect = "contradicts its neighbour";
  made.runs[2].skipped = "no such GPU";
  const auto group = group_reports(made.runs).front();
  CHECK(group.rows == 3);
  CHECK(group.step.n == 1);
  CHECK(group.step.median == doctest::Approx(0.1));
  CHECK(group.suspect == 1);
  CHECK(group.step_with_suspect.n == 2);
  CHECK(group.step_with_suspect.median == doctest::Approx(1.05));  // of 0.1 and 2
  CHECK(group.skip_reasons.at("no such GPU") == 1);
  CHECK(group.suspect_reasons.at("contradicts its neighbour") == 1);
}

TEST_CASE("verdicts count tight as fitting") {
  HandMade made;
  const std::vector<std::pair<Fits, bool>> verdicts{
      {Fits::fits, false}, {Fits::tight, false}, {Fits::no, true}, {Fits::tight, true}, {Fits::no, false}};
  for (const auto& [said, out_of_memory] : verdicts) {
    made.add("g", 10, 10).predicted_fits = said;
    made.record(made.runs.size() - 1).measured.out_of_memory = out_of_memory;
  }
  const auto fits = group_reports(made.runs).front().fits;
  CHECK(fits.n == 5);
  CHECK(fits.right == 3);
  CHECK(fits.false_fits == 1);  // said tight, ran out of memory
  CHECK(fits.false_oom == 1);
  CHECK(fits.tight == 2);
  CHECK(fits.called_fits == 3);
}

TEST_CASE("coverage is the share of runs whose measurement lies inside the interval") {
  HandMade made;
  // Width 0.25: measured in [10 / 1.25, 10 x 1.25] = [8, 12.5].
  for (const double measured : {7.9, 8.1, 12.4, 12.6, 10.0}) {
    made.add("g", measured, 10).estimate.step.step_error = 0.25;
  }
  CHECK(*group_reports(made.runs).front().coverage_step == doctest::Approx(0.6));
}

TEST_CASE("memory of an unknown kind is compared with the nearest figure and not counted") {
  HandMade made;
  auto& run = made.add("g", 10, 10);
  run.memory_error = 0.5;
  CHECK(group_reports(made.runs).front().memory.n == 0);
  run.compared_figure = MemoryFigure::device;
  CHECK(group_reports(made.runs).front().memory.n == 1);
  // The same through a record: of allocated, reserved and device figures the nearest to the measurement is shown.
  auto records = shipped_records("lab");
  for (auto& record : records) {
    record.measured.peak_kind = MemoryFigure::unknown;
    record.measured.peak_mem_gib = 1e4;  // far above all three: device is the largest
  }
  auto runs = prepare(records, shipped_profiles());
  predict(runs.front());
  CHECK(runs.front().predicted_peak_gib == doctest::Approx(runs.front().estimate.memory.total().raw() / kGib));
  CHECK_FALSE(runs.front().memory_counted());
}

TEST_CASE("runs are grouped by the keys asked for and the total comes last") {
  HandMade made;
  for (int i = 0; i < 4; ++i) {
    made.add("g", 10, 10);
    made.record(made.runs.size() - 1).framework = i < 3 ? "megatron" : "fsdp";
    made.record(made.runs.size() - 1).layout.tp = i < 1 ? 1 : 8;
  }
  const auto groups = group_reports(made.runs, {"framework", "tp"});
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].group == "fsdp tp=8");
  CHECK(groups[1].group == "megatron tp=1");
  CHECK(groups[2].group == "megatron tp=8");
  CHECK(groups[2].rows == 2);
  CHECK(groups[3].group == "all runs");
  CHECK(groups[3].rows == 4);
}

TEST_CASE("the interval holds four fifths of the left-out residuals") {
  std::vector<LeftOutError> errors;
  for (int i = 1; i <= 9; ++i) {
    LeftOutError error;
    error.step_error = std::expm1(0.01 * i * (i % 2 == 0 ? 1 : -1));
    errors.push_back(error);
  }
  // 0.8 (n + 1) = 8: the eighth of nine residuals 0.01 .. 0.09.
  const auto widths = interval_widths(errors);
  REQUIRE(widths.step);
  CHECK(*widths.step == doctest::Approx(std::expm1(0.08)));
  CHECK_FALSE(widths.memory);
  errors.resize(4);
  CHECK_FALSE(interval_widths(errors).step);
}

TEST_CASE("a fit finds the constants that made the runs") {
  // Measurements are replaced by predictions with known constants: the fit, which starts elsewhere, must return them.
  auto records = shipped_records("megatron2020");
  std::erase_if(records, [](const RunRecord& record) { return record.gpu_id.rfind("a100", 0) != 0; });
  auto more = shipped_records("megatron2021");
  records.insert(records.end(), more.begin(), more.end());
  auto runs = prepare(records, shipped_profiles());
  const std::string name = runs.front().job.profile.name;
  const std::vector<std::pair<double FrameworkProfile::*, double>> truth{{&FrameworkProfile::elementwise_factor, 1.3},
                                                                         {&FrameworkProfile::fast_link_factor, 0.6}};
  for (auto& run : runs) {
    for (const auto& [field, value] : truth) {
      run.job.profile.*field = value;
    }
    run.job.profile.free_constants = {{"elementwise_factor", 0.3, 3}, {"fast_link_factor", 0.2, 2}};
    predict(run);
    records[static_cast<std::size_t>(&run - runs.data())].measured.step_s = run.estimate.step.total().raw();
  }
  for (auto& run : runs) {
    run.job.profile.elementwise_factor = 0.8;
    run.job.profile.fast_link_factor = 1.1;
  }
  const auto fit = fit_profile(name, runs);
  REQUIRE(fit.names == std::vector<std::string>{"elementwise_factor", "fast_link_factor"});
  CHECK(fit.value[0] == doctest::Approx(1.3).epsilon(1e-3));
  CHECK(fit.value[1] == doctest::Approx(0.6).epsilon(1e-3));
  CHECK(fit.median_before > 0.01);
  CHECK(fit.median_after < 1e-4);
  CHECK(fit.low[0] <= fit.value[0]);
  CHECK(fit.value[0] <= fit.high[0]);
  CHECK(fit.start[0] == doctest::Approx(0.8));
  SUBCASE("and predicts what it has not seen") {
    for (const auto part : {LeaveOut::model, LeaveOut::group}) {
      for (const auto& error : left_out_errors(name, runs, part, shipped_profiles())) {
        CHECK(std::abs(*error.step_error) < 2e-3);
      }
    }
  }
  SUBCASE("of a profile that no run uses is refused") {
    CHECK_THROWS_WITH_AS(fit_profile("none-such", runs), doctest::Contains("none-such"), SpecError);
  }
}

TEST_CASE("leaving out leaves the runs as they were") {
  const auto records = shipped_records("korthikanti2022");
  auto runs = prepare(records, shipped_profiles());
  for (auto& run : runs) {
    predict(run);
  }
  const double before = *runs.front().step_error;
  left_out_errors(runs, LeaveOut::model, shipped_profiles());
  CHECK(*runs.front().step_error == before);
}

TEST_CASE("a shipped profile survives being written and read") {
  const auto path = std::filesystem::temp_directory_path() / "tpplan-profile-round-trip.json";
  for (const auto& profile : shipped_profiles().frameworks) {
    CAPTURE(profile.name);
    std::ofstream(path) << to_json(profile);
    const auto again = shipped_profiles().read_profile(path.string());
    CHECK(again.name == profile.name);
    CHECK(again.since == profile.since);
    CHECK(again.architectures == profile.architectures);
    CHECK(again.compiled == profile.compiled);
    CHECK(again.sources == profile.sources);
    CHECK(again.cites == profile.cites);
    CHECK(again.citations == profile.citations);
    CHECK(again.fitted_on == profile.fitted_on);
    CHECK(again.selective_op_list == profile.selective_op_list);
    CHECK(again.step_error == doctest::Approx(profile.step_error).epsilon(1e-3));
    for (const auto& row : profile_scalars()) {
      CAPTURE(std::string(row.key));
      CHECK(again.*row.field == doctest::Approx(profile.*row.field).epsilon(1e-3));
    }
  }
  std::filesystem::remove(path);
}

TEST_CASE("a profile has at most five fitted constants each with bounds around its value") {
  for (const auto& profile : shipped_profiles().frameworks) {
    CAPTURE(profile.name);
    CHECK(profile.fitted_count() <= 5);
    for (const auto& entry : profile.sources) {
      const auto& key = entry.first;
      const auto source = entry.second;
      CAPTURE(key);
      const auto bounds = std::find_if(profile.free_constants.begin(), profile.free_constants.end(),
                                       [&, name = key](const auto& row) { return row.key == name; });
      CHECK((bounds != profile.free_constants.end()) == (source == ConstantSource::fitted));
      for (const auto& row : profile_scalars()) {
        if (row.key == key && bounds != profile.free_constants.end()) {
          CHECK(profile.*row.field >= bounds->low);
          CHECK(profile.*row.field <= bounds->high);
        }
      }
    }
  }
}

TEST_CASE("the JSON form of validate has the documented keys") {
  PlannerOptions options;
  options.operands = {kData + "mixed.jsonl"};
  options.format = OutputFormat::json;
  const auto outcome = run_command(options);
  CHECK(outcome.code == 0);
  const auto root = nlohmann::json::parse(outcome.out);
  CHECK(root.at("schema_version") == 1);
  const auto& rows = root.at("rows");
  REQUIRE(rows.size() == 5);
  for (const auto& row : rows) {
    for (const auto* key : {"id",
                            "group",
                            "measured_step_s",
                            "predicted_step_s",
                            "predicted_step_low_s",
                            "predicted_step_high_s",
                            "step_error",
                            "measured_peak_mem_gib",
                            "predicted_peak_mem_gib",
                            "predicted_allocated_gib",
                            "predicted_reserved_gib",
                            "predicted_device_gib",
                            "predicted_mem_low_gib",
                            "predicted_mem_high_gib",
                            "memory_kind",
                            "memory_error",
                            "measured_oom",
                            "predicted_fits",
                            "host_bound",
                            "suspect",
                            "skipped"}) {
      CAPTURE(std::string(key));
      CHECK(row.contains(key));
    }
  }
  const auto& first = rows[0];
  const double predicted = first.at("predicted_step_s");
  CHECK(first.at("step_error").get<double>() == doctest::Approx(predicted / 2.0 - 1));  // 2 s measured
  // The interval is symmetric in the logarithm.
  CHECK(first.at("predicted_step_low_s").get<double>() * first.at("predicted_step_high_s").get<double>() ==
        doctest::Approx(predicted * predicted));
  CHECK(first.at("memory_kind") == "reserved");
  CHECK(first.at("predicted_peak_mem_gib") == first.at("predicted_reserved_gib"));
  CHECK(first.at("suspect").is_null());
  CHECK(first.at("skipped").is_null());
  CHECK(rows[1].at("measured_oom") == true);
  CHECK(rows[1].at("step_error").is_null());
  CHECK(rows[2].at("suspect") == "slower than its twin");
  CHECK(rows[3].at("skipped").get<std::string>().find("tpu-v4") != std::string::npos);
  CHECK(rows[3].at("predicted_step_s").is_null());
  CHECK(rows[4].at("group") == "other-group");
  CHECK(rows[4].at("memory_kind") == "unknown");

  const auto& groups = root.at("groups");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].at("group") == "mixed");
  CHECK(groups[0].at("rows") == 4);
  CHECK(groups[0].at("step").at("n") == 1);
  CHECK(groups[0].at("memory").at("n") == 1);
  CHECK(groups[0].at("memory").at("reserved").at("n") == 1);
  CHECK(groups[0].at("memory").contains("device"));
  CHECK(groups[0].at("fits").at("n") == 2);
  CHECK(groups[0].at("coverage80").contains("step"));
  CHECK(groups[0].at("ranking").at("sweeps") == 0);
  CHECK(groups[1].at("memory").at("n") == 0);  // unknown kind
  CHECK(groups[2].at("group") == "all runs");
}

TEST_CASE("the table names suspects and skipped runs with their reasons") {
  PlannerOptions options;
  options.operands = {kData + "mixed.jsonl"};
  options.worst = 1;
  const auto outcome = run_command(options);
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("mixed: 1 suspect") != std::string::npos);
  CHECK(outcome.out.find("1 x slower than its twin") != std::string::npos);
  CHECK(outcome.out.find("1 x tpu-v4 cannot be planned with") != std::string::npos);
  CHECK(outcome.out.find("largest errors of the step time") != std::string::npos);
  CHECK(outcome.out.find("would have to be") != std::string::npos);
}

TEST_CASE("a file without a usable record ends with 1 and bad usage is refused") {
  PlannerOptions options;
  options.operands = {kData + "unusable.jsonl"};
  const auto outcome = run_command(options);
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("has no usable record") != std::string::npos);

  CHECK_THROWS_AS(run_command(PlannerOptions{}), UsageError);
  options.operands = {kData + "mixed.jsonl"};
  options.group_by = {"frmework"};
  CHECK_THROWS_WITH_AS(run_command(options), doctest::Contains("did you mean \"framework\"?"), UsageError);
  options.group_by.clear();
  options.fit_profile = "fsdp-2033";
  CHECK_THROWS_WITH_AS(run_command(options), doctest::Contains("unknown profile \"fsdp-2033\""), UsageError);
  options.fit_profile.clear();
  options.leave_out = "mixd";
  CHECK_THROWS_WITH_AS(run_command(options), doctest::Contains("did you mean \"mixed\"?"), UsageError);
  options.leave_out.clear();
  options.operands = {kData + "no-such-file.jsonl"};
  CHECK_THROWS_AS(run_command(options), SpecError);
}

TEST_CASE("each term's needed value makes the prediction equal the measurement") {
  HandMade made;
  auto& run = made.add("g", 12, 10);  // 2 s are missing
  run.estimate.step.compute = Seconds(8);
  run.estimate.step.bubble = Seconds(2);
  const auto& report = ValidateReport{made.runs, {}, group_reports(made.runs), {}, {}, 1};
  const auto text = worst_runs(report, Terminal{});
  // 8 + 2 = 10 s of compute is x 1.25, 2 + 2 = 4 s of bubble is x 2: the smaller change is compute's.
  CHECK(text.find("10 (x 1.25)") != std::string::npos);
  CHECK(text.find("4 (x 2)") != std::string::npos);
  CHECK(text.find("smallest change that explains it: compute x 1.25") != std::string::npos);
}

TEST_CASE("the scatter plot puts a run where its logarithms say and tells what it shows") {
  HandMade made;
  made.add("g", 1, 10);
  made.record(0).framework = "megatron";
  const auto svg = scatter_svg(made.runs);
  // One decade from 1 to 10 s over 560 units from x = 70 and y = 60: measured 1 s is the left end, predicted 10 s the
  // top.
  CHECK(svg.find("M70.0 60.0") != std::string::npos);
  CHECK(svg.find("<title") != std::string::npos);
  CHECK(svg.find("<desc") != std::string::npos);
  CHECK(svg.find("megatron: 1 runs") != std::string::npos);
}

TEST_CASE("the ratchet tells a risen group and a risen mean") {
  Ratchet then;
  then.groups["a"].step = 0.050;
  then.groups["b"].step = 0.100;
  then.groups["a"].memory = 0.02;
  auto now = then;
  CHECK(regressions(then, now).empty());
  now.groups["a"].step = 0.0529;  // up 0.29 points, made good by b
  now.groups["b"].step = 0.0900;
  CHECK(regressions(then, now).empty());
  now.groups["a"].step = 0.0540;
  REQUIRE(regressions(then, now).size() == 1);
  CHECK(regressions(then, now).front().find("a: step median 5.0 % before, 5.4 % now") != std::string::npos);
  now.groups["a"].step = 0.0510;
  now.groups["b"].step = 0.1000;
  REQUIRE(regressions(then, now).size() == 1);
  CHECK(regressions(then, now).front().find("mean of step medians") != std::string::npos);
  now = then;
  now.groups["c"].step = 0.9;  // a new group is nobody's fault
  CHECK(regressions(then, now).empty());
}

TEST_CASE("the ratchet survives being written and read") {
  Ratchet ratchet;
  ratchet.groups["a"].step = 0.05123;
  ratchet.groups["a"].left_out_step = 0.07;
  ratchet.groups["b"].memory = 0.01;
  const auto path = std::filesystem::temp_directory_path() / "tpplan-ratchet.json";
  std::ofstream(path) << to_json(ratchet);
  const auto again = load_ratchet(path.string());
  std::filesystem::remove(path);
  CHECK(*again.groups.at("a").step == doctest::Approx(0.05123));
  CHECK(*again.groups.at("a").left_out_step == doctest::Approx(0.07));
  CHECK_FALSE(again.groups.at("b").step);
  CHECK(again.mean_step() == doctest::Approx(0.05123));
}
