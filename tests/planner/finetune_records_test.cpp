#include "planner/import/finetune_records.h"

#include <doctest/doctest.h>

#include "planner/spec_files.h"

using namespace tpplan;

namespace {

RunRecord record_of(const std::string& text) {
  static const GpuCatalogue catalogue = shipped_gpus();
  std::string warnings;
  const auto records = parse_runs("rows.jsonl", text, catalogue, warnings);
  CHECK(warnings == "");
  REQUIRE(records.size() == 1);
  return records.front();
}

const std::string kRow =
    R"({"id": "a", "source": "s", "framework": "LitGPT", "date": "2024", "model": {"name": "tiny-llama"}, "seq": 512, )"
    R"("precision": "bf16", "gpu": "A10G-24GB", "gpus": 1, "gpus_per_node": 1, )"
    R"("layout": {"dp": 1, "tp": 1, "pp": 1, "peft": "qlora", "config": "tiny-llama/qlora.yaml"}, "mbs": 8, )"
    R"("measured": {"peak_mem_gib": 15.125, "run_minutes": 8.7}, "notes": "n"})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kRow;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a fine-tuning row becomes a record with the settings of its configuration file") {
  const auto record = record_of(kRow);
  CHECK(record.skipped == "");
  CHECK(record.training.global_batch == 8);
  CHECK(record.group == "finetune-litgpt-2024");
  CHECK(record.gpu_id == "a10g");
  CHECK(record.training.program == "litgpt");
  CHECK(record.training.peft == PeftMethod::qlora);
  CHECK_FALSE(record.training.double_quantisation);
  CHECK(record.training.peft_rank == 32);
  CHECK(record.training.peft_targets == std::vector<std::string>{"all", "head"});
  CHECK(record.model.layers == 22);
  CHECK(record.layout.micro_batch == 8);
  CHECK(record.layout.recompute == RecomputeKind::none);
  CHECK(record.measured.peak_kind == MemoryFigure::allocated);
  CHECK(*record.measured.peak_mem_gib == 15.125);
  CHECK_FALSE(record.measured.step_s);
  CHECK_FALSE(record.assumed.empty());
}

TEST_CASE("a row that no configuration settles is skipped with its reason") {
  CHECK(record_of(with("\"seq\": 512, ", "")).skipped ==
        "neither the row nor an example of its program in text states batch and sequence");
  CHECK(record_of(with("qlora\"", "prefix\"")).skipped == "adapters of the kind \"prefix\" are not priced");
  CHECK(record_of(with("\"tiny-llama\"", "\"bigscience/mt0-xxl\"")).skipped ==
        "\"bigscience/mt0-xxl\" has an encoder: only decoder-only transformers are priced");
  CHECK(record_of(with("LitGPT", "Unsloth Equal")).skipped ==
        "\"Unsloth Equal\" is a closed program: what it keeps in memory is not known");
  CHECK(record_of(with("LitGPT", "Axolotl")).skipped == "the memory of the program \"Axolotl\" is not known");
  CHECK(record_of(with("A10G-24GB", "Z1")).skipped == "GPU \"Z1\" is not in the catalogue");
}

TEST_CASE("adapters of LLaMA-Adapter are read with the weights they sit beside") {
  const auto record = record_of(with("qlora\"", "adapter_v2\", \"quant\": \"bnb.nf4-dq\""));
  CHECK(record.skipped == "");
  CHECK(record.training.peft == PeftMethod::adapter_v2);
  CHECK(record.training.holds_nf4());
  CHECK(record.training.double_quantisation);
  CHECK_FALSE(record_of(with("qlora\"", "adapter\", \"quant\": \"None\"")).training.holds_nf4());
}

TEST_CASE("a row of PEFT that states no batch is the one of its example") {
  auto text = with("LitGPT", "PEFT");
  for (const std::string from : {"\"seq\": 512, ", "\"mbs\": 8, ", "\"precision\": \"bf16\", "}) {
    text.replace(text.find(from), from.size(), "");
  }
  text.replace(text.find("qlora\""), 6, "lora\"");
  const auto record = record_of(text);
  CHECK(record.skipped == "");
  CHECK(record.training.seq == 64);
  CHECK(record.layout.micro_batch == 8);
  CHECK(record.training.precision == Precision::fp32);
  CHECK(record.training.peft_rank == 8);
  CHECK_FALSE(record.training.flash_attention);
  CHECK(record.measured.peak_kind == MemoryFigure::allocated);
  text.replace(text.find("\"gpu\""), 5, "\"offload\": \"DeepSpeed CPU offload\", \"gpu\"");
  CHECK(record_of(text).skipped ==
        "what DeepSpeed holds on the GPU beside weights offloaded from a single one is not known");
}

TEST_CASE("full fine-tuning of torchtune on one GPU pages the states of 8-bit Adam") {
  auto text = with("LitGPT", "torchtune");
  text.replace(text.find("qlora\""), 6, "full\"");
  CHECK(record_of(text).layout.optimizer == Optimizer::adam_8bit);
  text.replace(text.find("full\""), 5, "lora\"");
  CHECK(record_of(text).layout.optimizer == Optimizer::adam);
}

TEST_CASE("rows of Unsloth and of what it was compared with take the settings of its report") {
  for (const auto* framework : {"Hugging Face", "Flash Attention 2", "Unsloth Open"}) {
    CAPTURE(framework);
    const auto record = record_of(with("LitGPT", framework));
    CHECK(record.skipped == "");
    CHECK(record.training.peft_rank == 16);
    CHECK(record.training.peft_targets.empty());
    CHECK(record.layout.recompute == RecomputeKind::full);
    CHECK(record.training.flash_attention == (std::string(framework) != "Hugging Face"));
  }
}

TEST_CASE("a full run that measured less than its weights gradients and moments is suspect") {
  // TinyLlama: 8 bytes x 1.1 billion = 8.2 GiB.
  CHECK(record_of(with("qlora\", \"config\": \"tiny-llama/qlora.yaml", "full\", \"config\": \"tiny-llama/full.yaml"))
            .suspect == "");
  auto text = with("qlora\", \"config\": \"tiny-llama/qlora.yaml", "full\", \"config\": \"tiny-llama/full.yaml");
  text.replace(text.find("15.125"), 6, "6.5");
  CHECK(record_of(text).suspect ==
        "weights, gradients and moments of the stated configuration alone exceed the measured memory");
}
