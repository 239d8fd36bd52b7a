#include "planner/single_gpu_fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cost-model/peft.h"
#include "planner/commands/fit.h"
#include "planner/fit_claims.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

const ProfileSet& profiles() {
  static const ProfileSet set = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  return set;
}

FitRequest request_of(const std::string& model, int seq, const std::string& recompute = "full") {
  FitRequest request;
  request.model = resolve_model(model);
  request.training.seq = seq;
  request.training.framework = Framework::fsdp;
  request.training.program = "huggingface";
  request.layout.optimizer = Optimizer::adamw;
  set_recompute(request.layout, recompute);
  return request;
}

FitRow row_of(const FitRequest& request, const std::string& gpu) {
  const GpuCatalogue catalogue = shipped_gpus();
  return single_gpu_fits(request, {&catalogue.find(gpu)}, profiles()).front();
}

const FitCell& cell(const FitRow& row, std::string_view mode) {
  return *std::find_if(row.cells.begin(), row.cells.end(), [&](const FitCell& c) { return c.mode->key == mode; });
}

struct Run {
  int code = 0;
  std::string out, err;
};
Run fit(const std::vector<std::string>& arguments) {
  const auto options = parse_options(arguments);
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_fit(options, out, err);
  return {code, out.str(), err.str()};
}

constexpr double kGB = 1e9;

}  // namespace

TEST_CASE("weights alone take the bytes per parameter that everybody quotes") {
  // 6,738,415,616 x 4 = 26.95 GB and x 2 = 13.48 GB; 13,015,864,320 x 2 = 26.03 GB: the 28, 14 and 26 GB of 7 and 13
  // billion parameters in round numbers.
  CHECK(inference_weights(resolve_model("7b"), 4, 4).raw() / kGB == doctest::Approx(26.953662));
  CHECK(inference_weights(resolve_model("7b"), 2, 2).raw() / kGB == doctest::Approx(13.476831));
  CHECK(inference_weights(resolve_model("13b"), 2, 2).raw() / kGB == doctest::Approx(26.031729));
  // int4: matrices 6,476,005,376 x 0.515869140625, the other 262,410,240 x 2.
  CHECK(inference_weights(resolve_model("7b"), quantised_weight_bytes(true), 2).raw() ==
        doctest::Approx(0.515869140625 * 6476005376.0 + 2 * 262410240.0));
}

TEST_CASE("the key value cache is two vectors of every key value head a token and layer") {
  // 7B: 2 x 2 bytes x 32 layers x 32 heads x 128 = 524,288 bytes a token; Llama 3 8B with 8 heads a quarter of it.
  CHECK(key_value_cache(resolve_model("7b"), 1024, 1).raw() == 524288.0 * 1024);
  CHECK(key_value_cache(resolve_model("llama3-8b"), 1024, 3).raw() == 131072.0 * 1024 * 3);
  // DeepSeek-V3: 61 layers x (512 + 64) x 2 bytes.
  CHECK(key_value_cache(resolve_model("deepseek-v3"), 100, 1).raw() == 61.0 * 576 * 2 * 100);
  // Gemma 2 9B: every second of 42 layers looks back 4,096 tokens only; 2 x 2 x 8 x 256 = 8,192 bytes a token and
  // layer.
  CHECK(key_value_cache(resolve_model("gemma-2-9b"), 8192, 1).raw() == 8192.0 * (21 * 8192 + 21 * 4096));
}

TEST_CASE("what people report of QLoRA of a 7B model on a 24 GB card lies between the two ways to keep activations") {
  // 10 to 15 GB are reported for 1,024 tokens and micro-batch 1: recomputed layers need less than the lower figure,
  // kept ones with the fp32 hidden states of peft's preparation more than the upper one.
  const auto kept = row_of(request_of("7b", 1024, "none"), "rtx-4090");
  CHECK(cell(kept, "qlora").memory.total().raw() / kGB > 15);
  CHECK(cell(kept, "qlora").fits == Fits::fits);
  const auto recomputed = row_of(request_of("7b", 1024, "full"), "rtx-4090");
  CHECK(cell(recomputed, "qlora").memory.total().raw() / kGB < 10);
  CHECK(cell(recomputed, "lora").fits == Fits::fits);
  CHECK(cell(recomputed, "full").fits == Fits::no);
}

TEST_CASE("modes need memory in their order") {
  const auto row = row_of(request_of("llama3-8b", 2048), "h100-80gb-sxm");
  CHECK(cell(row, "inference-int4").memory.total() < cell(row, "inference-int8").memory.total());
  CHECK(cell(row, "inference-int8").memory.total() < cell(row, "inference-bf16").memory.total());
  CHECK(cell(row, "inference-bf16").memory.total() < cell(row, "inference-fp32").memory.total());
  CHECK(cell(row, "qlora").memory.total() < cell(row, "lora").memory.total());
  CHECK(cell(row, "lora").memory.total() < cell(row, "full").memory.total());
  for (const auto& c : row.cells) {
    CHECK(c.low() < c.memory.total());
    CHECK(c.high() > c.memory.total());
  }
}

TEST_CASE("the longest sequence and the largest batch are the last that fit") {
  const auto request = request_of("7b", 1024);
  const auto row = row_of(request, "rtx-4090");
  for (const auto* mode : {"inference-int4", "qlora", "lora"}) {
    CAPTURE(mode);
    const auto& c = cell(row, mode);
    REQUIRE(c.longest_seq > 1024);
    auto longer = request;
    longer.training.seq = c.longest_seq;
    CHECK(cell(row_of(longer, "rtx-4090"), mode).fits == Fits::fits);
    longer.training.seq = c.longest_seq + 1;
    CHECK(cell(row_of(longer, "rtx-4090"), mode).fits != Fits::fits);
    auto more = request;
    more.layout.micro_batch = c.largest_batch;
    CHECK(cell(row_of(more, "rtx-4090"), mode).fits == Fits::fits);
    more.layout.micro_batch = c.largest_batch + 1;
    CHECK(cell(row_of(more, "rtx-4090"), mode).fits != Fits::fits);
  }
}

TEST_CASE("a larger card takes whatever a smaller one of its kind takes") {
  const auto request = request_of("13b", 1024);
  const auto small = row_of(request, "a100-40gb-sxm");
  const auto large = row_of(request, "a100-80gb-sxm");
  for (std::size_t i = 0; i < small.cells.size(); ++i) {
    CHECK(large.cells[i].longest_seq >= small.cells[i].longest_seq);
    CHECK(large.cells[i].largest_batch >= small.cells[i].largest_batch);
  }
}

TEST_CASE("fit prints every mode of five usual GPUs unless others are named") {
  const auto run = fit({"fit", "--model", "7b", "--format", "csv"});
  CHECK(run.code == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 1 + 5 * 7);
  CHECK(run.out.find("rtx-4060-laptop,") != std::string::npos);
  const auto named = fit({"fit", "--model", "7b", "--gpu", "l40s,h200", "rtx-3090", "--format", "csv"});
  CHECK(std::count(named.out.begin(), named.out.end(), '\n') == 1 + 3 * 7);
  const auto json = fit({"fit", "--model", "7b", "--gpu", "rtx-4090", "--format", "json"});
  CHECK(json.out.find("\"longest_seq\"") != std::string::npos);
  const auto text = fit({"fit", "--model", "7b", "--gpu", "rtx-4090"});
  CHECK(text.out.find("verdict") != std::string::npos);
}

TEST_CASE("fit ends with 1 when nothing fits and refuses what it does not know") {
  CHECK(fit({"fit", "--model", "llama3-405b", "--gpu", "rtx-4060-laptop", "--format", "csv"}).code == 1);
  CHECK_THROWS_AS(fit({"fit", "--model", "7b", "--gpu", "rtx-4091"}), SpecError);
  CHECK_THROWS_AS(fit({"fit"}), UsageError);
  CHECK_THROWS_AS(fit({"fit", "--model", "7b", "--peft", "lora:targets=vproj"}), UsageError);
}

TEST_CASE("claims of others about a model of this size stand beside the answer for it") {
  const GpuCatalogue catalogue = shipped_gpus();
  const auto& card = catalogue.find("rtx-4090");
  const auto claims = claims_about(request_of("7b", 4096), card, profiles());
  REQUIRE(claims.size() == 4);
  CHECK(claims[0].claimed == "10 to 15 GB");
  CHECK(claims[2].what == "7B weights in fp32");
  CHECK(claims[2].claimed == "28.0 GB");
  CHECK(claims[2].here == "27.0 GB");  // 6,738,415,616 x 4
  CHECK(claims[3].here == "13.5 GB");
  const auto larger = claims_about(request_of("13b", 1024), card, profiles());
  REQUIRE(larger.size() == 1);
  CHECK(larger[0].claimed == "26.0 GB");
  CHECK(larger[0].here == "26.0 GB");  // 13,015,864,320 x 2
  CHECK(claims_about(request_of("70b", 1024), card, profiles()).empty());
  // The peak is asked at 1,024 tokens whatever the reference of the table.
  const auto same = claims_about(request_of("7b", 512), card, profiles());
  CHECK(same[0].here == claims[0].here);
  CHECK(fit({"fit", "--model", "7b", "--gpu", "l40s"}).out.find("claims of others:") != std::string::npos);
}

TEST_CASE("loading needs the held weights and what the largest matrix needs while it changes") {
  const auto row = row_of(request_of("7b", 1024), "rtx-4090");
  const double context = 0.6 * 1073741824.0;
  // QLoRA: 6,476,005,376 weights in NF4 and 262,410,240 in fp32 at last, while 16 bits of the embedding, 32000 x 4096,
  // are still there.
  CHECK(cell(row, "qlora").load_peak.raw() ==
        doctest::Approx(0.515869140625 * 6476005376.0 + 4 * 262410240.0 + 2 * 131072000.0 + context));
  CHECK(cell(row, "lora").load_peak.raw() == doctest::Approx(2 * 6738415616.0 + context));
  // Packed for inference: the largest product, 4096 x 11008, in 16 bits beside all others in 4.
  CHECK(cell(row, "inference-int4").load_peak.raw() ==
        doctest::Approx(0.515869140625 * 6476005376.0 + 2 * 262410240.0 + 2 * 4096 * 11008.0 + context));
  CHECK(cell(row, "full").load_peak.raw() == 0);
  CHECK(cell(row, "qlora").load_peak < cell(row, "qlora").memory.total());
}

TEST_CASE("fit refuses adapters that its table does not hold") {
  CHECK_THROWS_WITH_AS(fit({"fit", "--model", "7b", "--peft", "adapter"}),
                       "error: --peft: fit compares lora and qlora; give their rank and targets (lora:rank=8)",
                       SpecError);
}
