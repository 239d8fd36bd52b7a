#include <doctest/doctest.h>

#include <set>
#include <string>

#include "planner/layout_scan.h"
#include "planner/search.h"
#include "tests/planner/jobs.h"

using namespace tpplan;

TEST_CASE("full recomputation is searched with the smallest number of layers that fits") {
  const auto job = tests::priced_job(tests::llama_7b(), "a100-40gb-sxm", 1, 8, 4096, 256);
  SearchSpace open;
  open.axes[1].values = {1, 2};  // tp
  open.axes[2].values = {1, 2};  // pp
  open.axes[6].values = {1};     // vpp
  open.zero = {1};
  const auto found = search(job, open, Objective::step_time, 200);
  int partly = 0;
  for (const Plan& plan : found.plans) {
    Layout layout = plan.layout;
    if (layout.recompute != RecomputeKind::full || layout.recompute_layers == 0) {
      continue;
    }
    ++partly;
    CHECK(verdict(estimate(job, layout).memory, job.training.memory_headroom) == Fits::fits);
    if (layout.recompute_layers > 1) {
      --layout.recompute_layers;
      CHECK(verdict(estimate(job, layout).memory, job.training.memory_headroom) != Fits::fits);
    }
  }
  CHECK(partly > 0);

  // Every number of layers tried one by one finds no faster plan.
  SearchSpace every = open;
  every.recompute = {"none", "selective:mlp", "full"};
  for (int layers = 1; layers < 32; ++layers) {
    every.recompute.push_back("full:" + std::to_string(layers));
  }
  const auto fastest = [](const SearchResult& result) {
    for (const Plan& plan : result.plans) {
      if (plan.fits == Fits::fits) {
        return plan.estimate.step.total();
      }
    }
    return Seconds(0);
  };
  const auto brute = search(job, every, Objective::step_time, 2000);
  CHECK(fastest(found) > Seconds(0));
  CHECK(fastest(found) == fastest(brute));
  CHECK(found.stats.enumerated == found.stats.costed() + found.stats.rejected_total());
}

TEST_CASE("what is recomputed by itself is what the framework can drop and fused attention has not dropped yet") {
  const auto tried = [](const Job& job) {
    std::string texts;
    std::set<std::string> seen;
    for (const Layout& layout : layout_space(job, {}).layers) {
      if (seen.insert(recompute_text(layout)).second) {
        texts += (texts.empty() ? "" : " ") + recompute_text(layout);
      }
    }
    return texts;
  };
  const auto on = [](const ModelSpec& model, Framework framework = Framework::megatron) {
    return tests::priced_job(model, "h100-80gb-sxm", 1, 8, 4096, 256, framework);
  };
  CHECK(tried(on(tests::llama_7b())) == "none selective:mlp full");
  CHECK(tried(on(tests::mixtral_8x7b())) == "none selective:norm+moe_act full");
  const auto deepseek = load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json");
  CHECK(tried(on(deepseek)) == "none selective:norm+moe_act+mla_up_proj full");
  Job unfused = on(tests::llama_7b());
  unfused.training.flash_attention = false;
  CHECK(tried(unfused) == "none selective full");
  CHECK(tried(on(tests::llama_7b(), Framework::nanotron)) == "none full");
  CHECK(tried(on(tests::llama_7b(), Framework::torchtitan)) == "none selective:op full");
}
