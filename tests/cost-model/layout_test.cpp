#include "cost-model/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

std::vector<int> split(int layers, int stages) {
  std::vector<int> result;
  for (int stage = 0; stage < stages; ++stage) {
    result.push_back(stage_layers(layers, stages, stage));
  }
  return result;
}

std::string error_of(std::string_view text, int world) {
  try {
    (void)parse_layout(text, world);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("layers that divide are spread evenly and uneven ones spare the ends") {
  CHECK(split(32, 4) == std::vector<int>{8, 8, 8, 8});
  // 126 + embedding + loss = 128 = 16 x 8: the ends hold 7.
  CHECK(split(126, 16) == std::vector<int>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  // 22 + 2 = 8 x 3: "both the initial and final pipeline stages possess one fewer transformer layer" (arXiv
  // 2401.10241).
  CHECK(split(22, 8) == std::vector<int>{2, 3, 3, 3, 3, 3, 3, 2});
  // One layer is missing for an even split: the last stage, with the head, does without.
  CHECK(split(31, 4) == std::vector<int>{8, 8, 8, 7});
  CHECK(split(29, 4) == std::vector<int>{7, 8, 7, 7});
  CHECK(split(5, 2) == std::vector<int>{3, 2});
  // Fewer layers than stages: the ends hold embedding and head only.
  CHECK(split(6, 8) == std::vector<int>{0, 1, 1, 1, 1, 1, 1, 0});
  CHECK(split(7, 1) == std::vector<int>{7});
}

TEST_CASE("no layer is lost or counted twice and stages differ by at most one layer") {
  for (int layers = 1; layers <= 130; ++layers) {
    for (int stages = 1; stages <= 64; ++stages) {
      const std::vector<int> result = split(layers, stages);
      CHECK(std::accumulate(result.begin(), result.end(), 0) == layers);
      const auto [low, high] = std::minmax_element(result.begin(), result.end());
      CHECK(*high - *low <= 1);
      CHECK(result.back() == *low);
    }
  }
}

TEST_CASE("a layout text names axes as the options do and derives dp") {
  const Layout layout = parse_layout("tp=8 pp=4,micro-batch=2  cp=2 recompute=full:3 zero=1", 512);
  CHECK(layout.tp == 8);
  CHECK(layout.pp == 4);
  CHECK(layout.cp == 2);
  CHECK(layout.dp == 8);  // 512 / (8 x 4 x 2)
  CHECK(layout.micro_batch == 2);
  CHECK(layout.zero == 1);
  CHECK(layout.recompute == RecomputeKind::full);
  CHECK(layout.recompute_layers == 3);
  CHECK(layout.sequence_parallel);
  CHECK(layout.schedule == Schedule::f1b1);
  CHECK(parse_layout("micro_batch=2 sp=off tp=2", 4) == parse_layout("tp=2 mbs=2 sequence-parallel=off", 4));
  CHECK(parse_layout("pp=2 vpp=4", 4).schedule == Schedule::interleaved);
  CHECK(parse_layout("", 4).dp == 4);
}

TEST_CASE("what a layout text leaves out comes from the defaults") {
  Layout defaults;
  defaults.zero = 3;
  defaults.etp = 0;  // the experts' tensor parallel size follows tp
  defaults.cp_type = CpType::ulysses;
  const Layout layout = parse_layout("tp=4 cp=2", 16, defaults);
  CHECK(layout.zero == 3);
  CHECK(layout.etp == 4);
  CHECK(layout.cp_type == CpType::ulysses);
  CHECK(parse_layout("tp=4 etp=1", 16, defaults).etp == 1);
  CHECK_FALSE(parse_layout("tp=1", 16, defaults).sequence_parallel);
}

TEST_CASE("layers per stage are read where they are wanted") {
  std::vector<int> stages;
  const Layout layout = parse_layout("pp=3 layers-per-stage=3+3+2", 6, {}, &stages);
  CHECK(layout.pp == 3);
  CHECK(stages == std::vector<int>{3, 3, 2});
  CHECK(error_of("pp=3 layers-per-stage=3+3+2", 6).find("unknown key \"layers-per-stage\"") != std::string::npos);
}

TEST_CASE("a layout text with several mistakes reports them all at their places") {
  const std::string error = error_of("tp=8 micro-bach=2 zero=4 pp=two dp", 64);
  CHECK(error.find("--layout:1:6: error: unknown key \"micro-bach\"") != std::string::npos);
  CHECK(error.find("did you mean \"micro-batch\"?") != std::string::npos);
  CHECK(error.find("--layout:1:24: error: zero: \"4\" is not a value") != std::string::npos);
  CHECK(error.find("expected 0, 1, 2 or 3") != std::string::npos);
  CHECK(error.find("--layout:1:29: error: pp: \"two\" is not a value") != std::string::npos);
  CHECK(error.find("dp: no value") != std::string::npos);
  CHECK(error_of("tp=2 tp=4", 8).find("--layout:1:6: error: tp is given twice") != std::string::npos);
  CHECK(error_of("tp=0", 8).find("a whole number of at least 1") != std::string::npos);
}

TEST_CASE("a dp that disagrees with the cluster is an error with the arithmetic") {
  const std::string error = error_of("tp=8 pp=4 dp=4", 64);
  CHECK(error.find("--layout:1:14: error: dp: 4 replicas disagree with the cluster") != std::string::npos);
  CHECK(error.find("64 GPUs / (tp 8 x pp 4 x cp 1) = 2") != std::string::npos);
  CHECK(error_of("tp=8 pp=4 dp=2", 64).empty());
  // 96 % (8 x 5): a matter of the rules, not of the text.
  CHECK(parse_layout("tp=8 pp=5", 96).dp == 2);
}

TEST_CASE("recomputation is written and read in the same words") {
  for (const char* text : {"none", "selective", "selective:op", "full", "full:4", "selective:core_attn+mlp",
                           "selective:norm+moe_act", "selective:mla_up_proj"}) {
    Layout layout;
    CHECK(set_recompute(layout, text));
    CHECK(recompute_text(layout) == text);
  }
  for (const char* text : {"", "some", "full:", "full:0", "selective:", "selective:attention", "none:1"}) {
    Layout layout;
    layout.recompute = RecomputeKind::full;
    CHECK_FALSE(set_recompute(layout, text));
    CHECK(layout.recompute == RecomputeKind::full);
  }
}

TEST_CASE("groups of 0 mean the usual ones as plans write them") {
  const Layout layout = parse_layout("tp=2 shard_group=0 vpp_group=0", 8);
  CHECK(layout.shard_group == 0);
  CHECK(layout.vpp_group == 0);
  CHECK_THROWS_AS(parse_layout("shard-group=-1", 8), SpecError);
}

TEST_CASE("random layouts survive printing and reading") {
  std::mt19937 random(7);
  const auto draw = [&random](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  constexpr std::array<const char*, 5> kRecomputes{"none", "selective", "selective:mlp+norm", "full", "full:2"};
  for (int i = 0; i < 10000; ++i) {
    Layout layout;
    layout.tp = 1 << draw(4);
    layout.pp = 1 + draw(7);
    layout.cp = 1 << draw(3);
    layout.dp = 1 + draw(9);
    layout.ep = 1 << draw(3);
    layout.etp = 1 << draw(2);
    layout.vpp = 1 + draw(3);
    layout.vpp_group = draw(3) * 4;
    layout.micro_batch = 1 + draw(5);
    layout.zero = static_cast<std::uint8_t>(draw(4));
    layout.shard_group = draw(3) * 8;
    layout.sequence_parallel = draw(2) == 1;
    CHECK(set_recompute(layout, kRecomputes[static_cast<std::size_t>(draw(5))]));
    layout.schedule = kScheduleNames[static_cast<std::size_t>(draw(9))].value;
    layout.cp_type = layout.cp > 1 ? kCpTypeNames[static_cast<std::size_t>(draw(3))].value : CpType::ring;
    layout.offload = kOffloadNames[static_cast<std::size_t>(draw(3))].value;
    layout.optimizer = kOptimizerNames[static_cast<std::size_t>(draw(8))].value;
    layout.ranks_order = kRanksOrderNames[static_cast<std::size_t>(draw(2))].value;
    layout.grad_reduce = kGradReduceNames[static_cast<std::size_t>(draw(3))].value;
    const std::string text = to_text(layout);
    CAPTURE(text);
    CHECK(parse_layout(text, static_cast<int>(layout.world())) == layout);
  }
}

}  // namespace
}  // namespace tpplan
