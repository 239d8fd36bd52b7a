#include "planner/explain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/report/explain_report.h"
#include "tests/planner/jobs.h"

namespace tpplan {
namespace {

std::string table_of(const Job& job, const Explanation& explanation, int width = 80, std::string* left_out = nullptr) {
  Terminal terminal;
  terminal.width = width;
  std::string notes;
  std::string text = explain_table({.job = job, .explanation = explanation}, terminal, notes);
  if (left_out != nullptr) {
    *left_out = notes;
  }
  return text;
}

using tests::gpt3_175b;
using tests::llama_7b;
using tests::mixtral_8x7b;
using tests::priced_job;

Layout layout_of(const Job& job, std::string_view text) {
  return parse_layout(text, job.cluster.gpus(), usual_layout(job));
}

const ExplainedTerm& term(const std::vector<ExplainedTerm>& terms, std::string_view key) {
  const auto found = std::find_if(terms.begin(), terms.end(), [&](const ExplainedTerm& t) { return t.key == key; });
  REQUIRE(found != terms.end());
  return *found;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Job gpt_on_512() { return priced_job(gpt3_175b(), "a100-80gb-sxm", 64, 8, 2048, 1536); }

TEST_CASE("the terms of a legal layout are those of its estimate") {
  const Job job = gpt_on_512();
  for (const char* text : {"tp=8 pp=8 recompute=full", "tp=8 pp=8 vpp=2 micro-batch=2 recompute=selective zero=0",
                           "tp=8 pp=16 schedule=zb-h1 recompute=full"}) {
    CAPTURE(std::string(text));
    const Explanation explanation = explain(job, layout_of(job, text));
    const Estimate direct = estimate(job, explanation.layout);
    REQUIRE(explanation.broken.empty());
    REQUIRE(explanation.time.size() == kStepTerms.size());
    REQUIRE(explanation.memory.size() == kMemoryTerms.size());
    for (std::size_t i = 0; i < kStepTerms.size(); ++i) {
      CHECK(explanation.time[i].key == kStepTerms[i].key);
      CHECK(explanation.time[i].value == (direct.step.*kStepTerms[i].field).raw());
      CHECK_FALSE(explanation.time[i].formula.empty());
    }
    for (std::size_t i = 0; i < kMemoryTerms.size(); ++i) {
      CHECK(explanation.memory[i].key == kMemoryTerms[i].key);
      CHECK(explanation.memory[i].value == (direct.memory.*kMemoryTerms[i].field).raw());
      CHECK_FALSE(explanation.memory[i].formula.empty());
    }
  }
}

TEST_CASE("formulas carry the numbers of the layout") {
  const Job job = gpt_on_512();
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=8 micro-batch=2 recompute=full zero=1"));
  // dp = 512 / 64 = 8; 1,536 / (8 x 2) = 96 micro-batches; 96 layers / 8 = 12 a stage.
  CHECK(explanation.micro_batches == 96);
  CHECK(has(term(explanation.time, "compute").formula, "96 micro-batches x"));
  CHECK(has(term(explanation.time, "compute").formula, "12 dense layers x ("));
  CHECK(has(term(explanation.time, "recompute").formula, "96 micro-batches x"));
  CHECK(has(term(explanation.time, "bubble").formula, "(pp - 1)(tf + tb)"));
  CHECK(has(term(explanation.time, "pp_comm").formula, "2 x (pp - 1) = 14"));
  CHECK(has(term(explanation.time, "dp_comm").formula, "reduce-scatter of"));
  CHECK(has(term(explanation.time, "dp_comm").formula, "8 ranks 8 apart"));
  CHECK(has(term(explanation.time, "ep_comm").formula, "ep 1: none"));
  CHECK(has(term(explanation.memory, "optimizer").formula, "divided over 8 ranks"));
  CHECK(has(term(explanation.memory, "activations").formula, "12 dense x"));
}

TEST_CASE("formulas of an interleaved pipeline name the group of micro-batches that is asked for") {
  const Job job = gpt_on_512();
  const Explanation plain = explain(job, layout_of(job, "tp=8 pp=8 vpp=2 micro-batch=2 recompute=full"));
  const Explanation grouped = explain(job, layout_of(job, "tp=8 pp=8 vpp=2 group=16 micro-batch=2 recompute=full"));
  CHECK_FALSE(has(term(plain.time, "bubble").formula, "groups of"));
  CHECK(has(term(grouped.time, "bubble").formula, "in groups of 16 micro-batches"));
  // Rank 0: (2 x 7 + 8 + 1) / 2 and (2 x 7 + 16 + 1) / 2 of a micro-batch on all its layers.
  CHECK(has(term(plain.memory, "activations").formula, "11.5 micro-batches in flight x ["));
  CHECK(has(term(grouped.memory, "activations").formula, "15.5 micro-batches in flight (groups of 16) x ["));
  CHECK(term(grouped.time, "bubble").value == term(plain.time, "bubble").value);
}

TEST_CASE("every constant behind a term says where it comes from") {
  const Job job = gpt_on_512();
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=8 recompute=full"));
  for (const auto* terms : {&explanation.time, &explanation.memory}) {
    for (const ExplainedTerm& explained : *terms) {
      for (const ConstantUse& use : explained.constants) {
        CAPTURE(use.name);
        CHECK_FALSE(use.source.empty());
      }
    }
  }
  const auto& compute = term(explanation.time, "compute").constants;
  CHECK(std::any_of(compute.begin(), compute.end(), [](const ConstantUse& use) { return use.name == "gemm_16bit"; }));
}

TEST_CASE("the parts of a model are its kinds of layers and the two ends") {
  const Job moe = priced_job(mixtral_8x7b(), "h100-80gb-sxm", 4, 8, 4096, 512);
  const Explanation explanation = explain(moe, layout_of(moe, "tp=2 pp=2 ep=4 etp=1"));
  REQUIRE(explanation.broken.empty());
  REQUIRE(explanation.parts.size() == 3);
  CHECK(explanation.parts[0].name == "MoE layer");
  CHECK(explanation.parts[0].count == 32);
  CHECK(explanation.parts[1].name == "embedding");
  CHECK(explanation.parts[2].name == "head and loss");
  for (const ExplainedPart& part : explanation.parts) {
    CHECK(part.operations.size > 0);
    CHECK(part.operations.size < OperationList::kCapacity);
  }
}

TEST_CASE("an illegal layout shows every broken rule and no price") {
  const Job job = priced_job(gpt3_175b(), "a100-80gb-sxm", 12, 8, 2048, 1536);
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=5 schedule=zb-v"));
  REQUIRE(explanation.broken.size() == 2);
  CHECK(explanation.broken[0].name == "world-divides");
  CHECK(explanation.broken[0].arithmetic ==
        "96 % (8 x 5) = 16: 5 pipeline stages do not divide 96 GPUs / tp 8; nearest: pp 4 or 6");
  CHECK(explanation.broken[1].name == "schedule-suits-chunks");
  CHECK(explanation.time.empty());
}

TEST_CASE("a layout that does not fit comes with the cheapest changes that make it fit") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 256);
  const Explanation explanation = explain(job, layout_of(job, "tp=1 micro-batch=16 zero=1"));
  REQUIRE(explanation.plan.fits == Fits::no);
  CHECK(explanation.missing > Bytes(0));
  CHECK(explain(job, layout_of(job, "tp=8 micro-batch=1 zero=1")).missing == Bytes(0));
  REQUIRE(explanation.remedies.size() == 3);
  for (std::size_t i = 0; i < explanation.remedies.size(); ++i) {
    const Remedy& remedy = explanation.remedies[i];
    CAPTURE(remedy.text);
    CHECK(first_broken_rule(job, remedy.plan.layout) < 0);
    CHECK(remedy.plan.fits != Fits::no);
    CHECK(has(remedy.text, "(was "));
    const double time = remedy.plan.estimate.step.total().raw();
    CHECK(remedy.slowdown == doctest::Approx(time / explanation.plan.estimate.step.total().raw() - 1));
  }
  // Found without the code under test: the cheapest micro-batch, recomputation or tp that alone makes it fit.
  double cheapest = 1e300;
  for (const char* text :
       {"micro-batch=8", "micro-batch=4", "micro-batch=2", "micro-batch=1", "micro-batch=16 recompute=selective",
        "micro-batch=16 recompute=full", "tp=2 micro-batch=16", "tp=4 micro-batch=16", "tp=8 micro-batch=16",
        "pp=2 micro-batch=16", "pp=4 micro-batch=16", "pp=8 micro-batch=16", "cp=2 micro-batch=16",
        "cp=4 micro-batch=16", "cp=8 micro-batch=16"}) {
    const Layout layout = layout_of(job, text);
    const Estimate result = estimate(job, layout);
    if (first_broken_rule(job, layout) < 0 && verdict(result.memory, job.training.memory_headroom) != Fits::no) {
      cheapest = std::min(cheapest, result.step.total().raw());
    }
  }
  CHECK(explanation.remedies.front().plan.estimate.step.total().raw() <= cheapest);
}

TEST_CASE("when one change is not enough several are combined") {
  const Job job = priced_job(gpt3_175b(), "a100-80gb-sxm", 8, 8, 2048, 1536);
  const Explanation explanation = explain(job, layout_of(job, "tp=1 micro-batch=8 zero=0"));
  REQUIRE(explanation.plan.fits == Fits::no);
  REQUIRE_FALSE(explanation.remedies.empty());
  for (const Remedy& remedy : explanation.remedies) {
    CHECK(remedy.plan.fits != Fits::no);
    CHECK(has(remedy.text, ", "));
  }
}

TEST_CASE("a model that fits nowhere on the cluster is said to") {
  const Job job = priced_job(gpt3_175b(), "a100-40gb-sxm", 1, 8, 2048, 1536);
  const Explanation explanation = explain(job, layout_of(job, "tp=8"));
  CHECK(explanation.plan.fits == Fits::no);
  CHECK(explanation.remedies.empty());
  CHECK_FALSE(explanation.fallback.has_value());
  CHECK(has(table_of(job, explanation), "no layout of this model fits this cluster"));
}

TEST_CASE("a measured step is compared term by term") {
  const Job job = gpt_on_512();
  const Layout layout = layout_of(job, "tp=8 pp=8 recompute=full");
  const Seconds predicted = estimate(job, layout).step.total();
  const Explanation slower = explain(job, layout, predicted * 1.5);
  REQUIRE(slower.comparison.has_value());
  CHECK_FALSE(slower.comparison->inside_interval);
  for (const StepComparison::Term& each : slower.comparison->terms) {
    // Half of the step is unexplained; a term that alone were wrong would have to be larger by that.
    CHECK((each.needed - each.predicted).raw() == doctest::Approx(predicted.raw() / 2));
  }
  const Explanation close = explain(job, layout, predicted * 1.01);
  CHECK(close.comparison->inside_interval);
  const Explanation faster = explain(job, layout, predicted * 0.2);
  CHECK(has(table_of(job, faster), "cannot explain it"));
}

TEST_CASE("notes tell of padding and of stages of unequal depth") {
  ModelSpec model = gpt3_175b();
  model.layers = 94;
  const Job job = priced_job(model, "a100-80gb-sxm", 64, 8, 2048, 1536);
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=8 recompute=full"));
  REQUIRE(explanation.notes.size() == 2);
  // 50,257 to the next multiple of 128 x 8 = 1,024: 50 x 1,024.
  CHECK(explanation.notes[0] == "vocabulary 50,257 padded to 51,200, a multiple of 128 x tp 8 (megatron)");
  // 94 + 2 = 8 x 12.
  CHECK(has(explanation.notes[1], "layers per pipeline rank: 11, 6 x 12, 11"));
}

TEST_CASE("warnings name what costs speed without being illegal") {
  ModelSpec model = gpt3_175b();
  model.heads = 128;
  model.kv_heads = 128;
  model.head_dim = 100;
  model.hidden = 12800;
  model.vocab = 50257;
  Job job = priced_job(model, "a100-80gb-sxm", 2, 8, 2048, 1536);
  job.training.flash_attention = false;
  const auto found = [&](std::string_view part, const Layout& layout) {
    const auto all = warnings(job, layout);
    return std::any_of(all.begin(), all.end(), [&](const std::string& text) { return has(text, part); });
  };
  CHECK(found("head size 100 is no multiple of 8 and attention is not fused: it costs", layout_of(job, "tp=8")));
  CHECK(found("tp 16 reaches beyond the 8 GPUs joined by", layout_of(job, "tp=16")));
  CHECK_FALSE(found("reaches beyond", layout_of(job, "tp=8")));
  job.training.flash_attention = true;
  CHECK_FALSE(found("head size", layout_of(job, "tp=8")));
  job.model.ffn_hidden = 8 * 1001;
  CHECK(found("FFN width / tp = 1,001 is no multiple of 8", layout_of(job, "tp=8")));
  job.training.framework = Framework::fsdp;
  CHECK(found("vocabulary 50,257 is not padded: 50,304 = 64 x 786", layout_of(job, "tp=1")));
  // 2 micro-batches on 8 stages idle most of the time.
  job.training.framework = Framework::megatron;
  job.training.global_batch = 4;
  job.model.ffn_hidden = 51200;
  CHECK(found("2 micro-batches on 8 stages", layout_of(job, "tp=1 pp=8")));
}

TEST_CASE("text fits eighty columns and says what the verdict is") {
  const Job job = gpt_on_512();
  for (const char* text : {"tp=8 pp=8 recompute=full", "tp=8 pp=5", "tp=8 micro-batch=64"}) {
    const Explanation explanation = explain(job, layout_of(job, text), Seconds(10));
    std::istringstream lines(table_of(job, explanation));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(display_width(line) <= 80);
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

TEST_CASE("columns that do not fit a narrow terminal are named") {
  const Job job = gpt_on_512();
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=8 recompute=full"));
  std::string left_out;
  (void)table_of(job, explanation, 60, &left_out);
  CHECK(left_out ==
        "tpplan: note: left out to fit 60 columns: m x n x k, GFLOP, MiB, source, behind (COLUMNS=N widens the table; "
        "--format json has everything)\n");
  (void)table_of(job, explanation, 200, &left_out);
  CHECK(left_out.empty());
}

TEST_CASE("json carries the terms with formulas and sources") {
  const Job job = gpt_on_512();
  const Explanation explanation = explain(job, layout_of(job, "tp=8 pp=8 recompute=full"), Seconds(20));
  const auto json = nlohmann::json::parse(explain_json({.job = job, .explanation = explanation}));
  CHECK(json.at("schema_version") == 1);
  CHECK(json.at("legal") == true);
  CHECK(json.at("time_terms").size() == kStepTerms.size());
  CHECK(json.at("memory_terms").size() == kMemoryTerms.size());
  double sum = 0;
  for (const auto& each : json.at("time_terms")) {
    sum += each.at("seconds").get<double>();
  }
  CHECK(sum == doctest::Approx(json.at("step_time_s").get<double>()));
  CHECK(json.at("measured").at("measured_step_s") == 20);
  CHECK(json.at("parts").at(0).at("operations").at(0).contains("formula"));
  const Explanation illegal = explain(job, layout_of(job, "tp=7"));
  const auto refused = nlohmann::json::parse(explain_json({.job = job, .explanation = illegal}));
  CHECK(refused.at("legal") == false);
  CHECK(refused.at("broken").at(0).at("rule") == "heads-divide-tp");
  CHECK_FALSE(refused.contains("step_time_s"));
}

}  // namespace
}  // namespace tpplan
