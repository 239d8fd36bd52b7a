#include "planner/commands/diff.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/commands/plan.h"
#include "planner/report/diff_report.h"
#include "planner/spec_files.h"

namespace {

namespace fs = std::filesystem;
using namespace tpplan;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const DiffSection& section_of(const Difference& difference, const std::string& key) {
  for (const DiffSection& section : difference.sections) {
    if (section.key == key) {
      return section;
    }
  }
  FAIL("no section " << key);
  return difference.sections.front();
}

const DiffTerm& term_of(const DiffSection& section, const std::string& key) {
  for (const DiffTerm& term : section.terms) {
    if (term.key == key) {
      return term;
    }
  }
  FAIL("no term " << key);
  return section.terms.front();
}

/// A file that `plan --format json` writes, gone after the test.
class PlanOutput {
 public:
  PlanOutput(const std::string& name, std::vector<std::string> arguments)
      : path_((fs::temp_directory_path() / name).string()) {
    arguments.insert(arguments.end(), {"--top", "3", "-o", path_});
    std::ostringstream out, err;
    run_plan(parse_options(arguments), out, err);
  }
  PlanOutput(const PlanOutput&) = delete;
  PlanOutput& operator=(const PlanOutput&) = delete;
  ~PlanOutput() { fs::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string refusal(const std::vector<std::string>& words) {
  std::vector<std::string> arguments{"diff"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::ostringstream out, err;
  try {
    run_diff(parse_options(arguments), out, err);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("terms of one unit are ordered by the size of their change and others by relative change") {
  DiffSection times{"t",
                    "t",
                    {{"a", "a", DiffUnit::seconds, 1, 1.5},
                     {"b", "b", DiffUnit::seconds, 10, 8},
                     {"c", "c", DiffUnit::seconds, 3, 3},
                     {"d", "d", DiffUnit::seconds, 0, 0.1}}};
  sort_terms(times);
  CHECK(times.terms[0].key == "b");  // -2
  CHECK(times.terms[1].key == "a");  // +0.5
  CHECK(times.terms[2].key == "d");  // +0.1
  CHECK(times.terms[3].key == "c");
  DiffSection mixed{"m",
                    "m",
                    {{"a", "a", DiffUnit::seconds, 1, 1.5},
                     {"b", "b", DiffUnit::bytes, 1000, 1100},
                     {"c", "c", DiffUnit::bytes, std::nullopt, 5}}};
  sort_terms(mixed);
  CHECK(mixed.terms[0].key == "c");  // only on one side
  CHECK(mixed.terms[1].key == "a");  // 50 %
  CHECK(mixed.terms[2].key == "b");  // 10 %
}

TEST_CASE("the changes of the terms of two plans add up to the change of the step") {
  const PlanOutput a("tpplan-diff-a.json", {"--model", "7b", "--cluster", "8xA100"});
  const PlanOutput b("tpplan-diff-b.json", {"--model", "7b", "--cluster", "8xA100", "--seq", "2048"});
  const Difference difference = diff_plans(load_plan_file(a.path(), 1), load_plan_file(b.path(), 1));
  double sum = 0;
  for (const DiffTerm& term : section_of(difference, "breakdown").terms) {
    sum += term.change();
  }
  CHECK(sum == doctest::Approx(term_of(section_of(difference, "result"), "step_time_s").change()).epsilon(1e-6));
  sum = 0;
  for (const DiffTerm& term : section_of(difference, "memory").terms) {
    sum += term.change();
  }
  CHECK(sum == doctest::Approx(term_of(section_of(difference, "result"), "memory_bytes").change()).epsilon(1e-6));
  bool named = false;
  for (const DiffInput& input : difference.inputs) {
    named = named || (input.name == "training.seq" && input.a == "4096" && input.b == "2048");
  }
  CHECK(named);
}

TEST_CASE("a plan does not differ from itself and differs from the second plan of its file") {
  const PlanOutput file("tpplan-diff-self.json", {"--model", "7b", "--cluster", "8xA100"});
  const Difference same = diff_plans(load_plan_file(file.path(), 1), load_plan_file(file.path(), 1));
  CHECK(same.inputs.empty());
  CHECK(contains(same.summary, "both steps take"));
  const Difference second = diff_plans(load_plan_file(file.path(), 1), load_plan_file(file.path(), 2));
  REQUIRE(!second.inputs.empty());
  CHECK(contains(second.inputs.front().name, "layout."));
  CHECK(refusal({file.path(), file.path() + "#2"}).empty());
  CHECK(contains(refusal({file.path(), file.path() + "#7"}), "no plan 7 among 3"));
}

TEST_CASE("clusters are compared tier by tier") {
  const Difference difference = diff_clusters(resolve_cluster("64x8xA100"), resolve_cluster("64x8xH100"));
  // Shipped figures: 312 and 989 TFLOP/s dense bf16, 200 and 400 Gbit/s per GPU.
  const DiffTerm& peak = term_of(section_of(difference, "GPU"), "bf16_flops_per_s");
  CHECK(*peak.a == doctest::Approx(312e12));
  CHECK(*peak.b == doctest::Approx(989.4e12).epsilon(0.001));
  const DiffTerm& network = term_of(section_of(difference, "network"), "tier2_bytes_per_s");
  CHECK(*network.relative() == doctest::Approx(1.0));
  const DiffTerm& fp8 = term_of(section_of(difference, "GPU"), "fp8_flops_per_s");
  CHECK(!fp8.a);
  CHECK(!term_of(section_of(difference, "cluster"), "gpus").differs());
  CHECK(contains(diff_table(difference, Terminal{}), "only in B"));
}

TEST_CASE("models are compared by parameters and shape") {
  const Difference difference = diff_models(resolve_model("7b"), resolve_model("13b"));
  CHECK(*term_of(section_of(difference, "parameters"), "total_params").a == 6738415616.0);
  CHECK(*term_of(section_of(difference, "shape"), "layers").b == 40);
  const auto json = nlohmann::json::parse(diff_json(difference));
  CHECK(json["kind"] == "models");
  CHECK(json["sections"][0]["terms"][0]["relative"].is_number());
}

TEST_CASE("calibrations are compared at sizes that both measured") {
  CollectiveCurve curve;
  curve.collective = Collective::all_reduce;
  curve.placement = {1, 8, 1};
  curve.pieces = {{Bytes(1e12), Seconds(1e-5), BytesPerSecond(1e11)}};
  curve.points = {{64_KiB, Seconds(2e-5), {}, {}}, {1_MiB, Seconds(4e-5), {}, {}}, {64_MiB, Seconds(1e-3), {}, {}}};
  Calibration a;
  a.curves = {curve};
  a.launch_eager = Seconds(4e-6);
  Calibration b = a;
  b.curves[0].points.erase(b.curves[0].points.begin());  // measured from 1 MiB on
  b.curves[0].points[1].time = Seconds(2e-3);
  b.curves.push_back(curve);
  b.curves[1].placement = {2, 8, 1};
  const Difference difference = diff_calibrations(a, b);
  const DiffSection& collectives = section_of(difference, "collectives");
  REQUIRE(collectives.terms.size() == 2);
  CHECK(collectives.terms[0].name == "all_reduce on 1x8, 64 MiB");
  CHECK(*collectives.terms[0].relative() == doctest::Approx(1));
  CHECK(!collectives.terms[1].differs());
  REQUIRE(difference.inputs.size() == 1);
  CHECK(difference.inputs[0].b == "all_reduce on 2x8");
}

TEST_CASE("two things of different kinds are told apart") {
  CHECK(contains(refusal({"7b", "8xA100"}), "\"7b\" is a model and \"8xA100\" is a cluster"));
  CHECK(contains(refusal({"7b"}), "diff takes two"));
  CHECK(contains(refusal({"no-such-thing", "8xA100"}), "\"no-such-thing\" is no file"));
  CHECK(contains(refusal({"1x8xno-such-gpu", "8xA100"}), "no-such-gpu"));
}
