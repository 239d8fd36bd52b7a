// The model that Megatron's settings describe, with the defaults of its argument parser and of TransformerConfig.
#include <algorithm>
#include <array>

#include "cost-model/words.h"
#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

struct VocabularyRow {
  std::string_view tokenizer;
  std::int64_t size;
};
/// Tokenizers whose size is the same for everyone.
constexpr std::array<VocabularyRow, 3> kVocabularies{
    {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}, {"BertWordPieceLowerCase", 30522}}};

/// "[0,1,2]" of the layers without experts.
std::string dense_layers(const std::vector<int>& pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  return "[" + text + "]";
}

void read_vocabulary(SettingReader& reader, const MegatronKeys& keys) {
  JobDraft& draft = reader.draft();
  const auto tokenizer = reader.word(keys("--tokenizer-type"));
  if (draft.number(JobFact::vocab)) {
    return;
  }
  for (const VocabularyRow& row : kVocabularies) {
    if (row.tokenizer == tokenizer) {
      draft.say_derived(JobFact::vocab, row.size, {reader.origin(keys("--tokenizer-type"))});
      return;
    }
  }
  constexpr std::int64_t kUsual = 50257;
  draft.say_derived(JobFact::vocab, kUsual, {});
  draft.assumed.emplace_back("vocabulary", "50,257 tokens (GPT-2's): the tokenizer is not in the file");
}

void read_experts(SettingReader& reader, const MegatronKeys& keys) {
  JobDraft& draft = reader.draft();
  const auto layers = draft.number_or(JobFact::layers, 0);
  if (!draft.number(JobFact::top_k)) {
    draft.say_derived(JobFact::top_k, 2, {});
  }
  if (!draft.number(JobFact::expert_ffn)) {
    draft.say_derived(JobFact::expert_ffn, draft.number_or(JobFact::ffn, 0), draft.origins(JobFact::ffn));
  }
  draft.router_bias = reader.on(keys("--moe-router-enable-expert-bias"));
  const std::string_view key = keys("--moe-layer-freq");
  if (const auto text = reader.word(key)) {
    const auto pattern = megatron_layer_pattern(*text, static_cast<int>(layers));
    if (!pattern) {
      draft.error(reader.origin(key), "\"" + *text + "\" is no pattern of " + std::to_string(layers) + " layers",
                  "a number, or a list such as ([0]*3+[1]*58)");
    } else if (std::find(pattern->begin(), pattern->end(), 0) != pattern->end()) {
      draft.dense_layers = dense_layers(*pattern);
    }
  }
}

void read_latent_attention(SettingReader& reader, const MegatronKeys& keys) {
  JobDraft& draft = reader.draft();
  if (!reader.on(keys("--multi-latent-attention"))) {
    for (const JobFact fact :
         {JobFact::q_lora, JobFact::kv_lora, JobFact::qk_nope, JobFact::qk_rope, JobFact::v_head}) {
      draft.forget(fact);
    }
    return;
  }
  draft.latent_attention = true;
  struct Row {
    JobFact fact;
    std::int64_t usual;
  };
  // core/transformer/transformer_config.py, MLATransformerConfig; --q-lora-rank has no default.
  constexpr std::array<Row, 5> kUsual{{{JobFact::q_lora, 0},
                                       {JobFact::kv_lora, 512},
                                       {JobFact::qk_nope, 128},
                                       {JobFact::qk_rope, 64},
                                       {JobFact::v_head, 128}}};
  for (const Row& row : kUsual) {
    if (!draft.number(row.fact)) {
      draft.say_derived(row.fact, row.usual, {});
    }
  }
  draft.forget(JobFact::kv_heads);
  draft.forget(JobFact::head_dim);
}

}  // namespace

void read_megatron_model(SettingReader& reader, const MegatronKeys& keys) {
  JobDraft& draft = reader.draft();
  if (!draft.number(JobFact::layers) || !draft.number(JobFact::hidden) || !draft.number(JobFact::heads)) {
    return;
  }
  draft.describes_model = true;
  const auto say = [&draft](std::string key, std::string value) {
    draft.model_words.emplace_back(std::move(key), std::move(value));
  };
  const bool yaml = reader.file().format != ConfigFormat::shell;
  const std::string activation = lower(reader.word(keys("--activation")).value_or(""));
  const bool gated = reader.on(keys("--swiglu")) || activation.find("glu") != std::string::npos;
  say("gated_mlp", gated ? "true" : "false");
  const auto hidden = draft.number_or(JobFact::hidden, 0);
  if (!draft.number(JobFact::ffn)) {
    // megatron/training/arguments.py: 4 x hidden, two thirds of it in multiples of 64 when gated.
    draft.say_derived(JobFact::ffn, gated ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden, draft.origins(JobFact::hidden));
  }
  // On a command line groups count with --group-query-attention alone.
  const bool grouped = reader.on(keys("--group-query-attention"));
  if (!yaml && !grouped) {
    draft.forget(JobFact::kv_heads);
  } else if (grouped && !draft.number(JobFact::kv_heads)) {
    draft.say_derived(JobFact::kv_heads, 1, {});
  }
  const std::string norm = lower(reader.word(keys("--normalization")).value_or("layernorm"));
  say("norm", norm.find("rms") != std::string::npos ? "\"rms\"" : "\"layer\"");
  const bool bias = !reader.on(keys("--disable-bias-linear")) && reader.flag(keys("--bias")).value_or(true) &&
                    reader.flag(keys("--add-bias-linear")).value_or(true);
  const bool query_bias = reader.on(keys("--add-qkv-bias"));
  say("attention_bias", bias ? "\"all\"" : query_bias ? "\"qkv\"" : "\"none\"");
  say("mlp_bias", bias ? "true" : "false");
  if (reader.on(keys("--qk-layernorm"))) {
    say("qk_norm", "\"per-head\"");
  }
  const std::string positions = reader.word(keys("--position-embedding-type")).value_or("learned_absolute");
  const auto rows = reader.count(keys("--max-position-embeddings"));
  const bool rotary = positions != "learned_absolute" || reader.on(keys("--use-rotary-position-embeddings"));
  if (!rotary) {
    say("learned_positions", std::to_string(rows.value_or(draft.number_or(JobFact::seq, 1))));
  }
  const auto shared = reader.flag(keys("--share-embeddings-and-output-weights"));
  if (shared) {
    draft.say(JobFact::tied_embeddings, *shared ? 1 : 0, reader.origin(keys("--share-embeddings-and-output-weights")));
  } else if (!draft.number(JobFact::tied_embeddings)) {
    draft.say_derived(JobFact::tied_embeddings, 1, {});
  }
  read_vocabulary(reader, keys);
  if (draft.number_or(JobFact::experts, 0) > 1) {
    read_experts(reader, keys);
  } else {
    draft.forget(JobFact::experts);
  }
  read_latent_attention(reader, keys);
}

}  // namespace tpplan
