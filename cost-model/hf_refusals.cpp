// Kinds of models that cannot be planned, and why.

#include <array>

#include "cost-model/hf_config.h"
#include "cost-model/words.h"

namespace tpplan::detail {
namespace {

constexpr std::string_view kEncoderDecoder =
    "it is an encoder-decoder model; only decoder-only transformers can be planned";
constexpr std::string_view kEncoder = "it is an encoder; only decoder-only transformers can be planned";
constexpr std::string_view kStateSpace = "it is a state-space or recurrent model without attention layers";
constexpr std::string_view kHybrid =
    "it is a hybrid of attention and state-space, convolution or linear-attention layers";

struct Refusal {
  std::string_view reason;
  std::string_view types;      ///< whole values of model_type, separated by blanks
  std::string_view fragments;  ///< parts of a model_type or class name, in lower case
};

// The first row that matches speaks.
constexpr std::array kRefusals = {
    Refusal{"its sparse-attention indexer has weights and costs that are not modelled", "deepseek_v32 glm_moe_dsa",
            "deepseekv32 glmmoedsa"},
    Refusal{"its cross-attention layers read from a vision tower", "mllama mllama_text_model", "mllama"},
    Refusal{"its per-layer embeddings and alternating updates are not modelled", "gemma3n gemma3n_text", "gemma3n"},
    Refusal{"its layers differ from each other (block_configs of an architecture search)", "nemotron-nas deci",
            "decilm"},
    Refusal{"its layers differ from each other in width", "openelm", "openelm"},
    Refusal{kHybrid, "minimax minimax_text_01 minimax_m1 bamba zamba zamba2 lfm2 lfm2_moe hymba plamo2 kimi_linear",
            "jamba nemotron_h nemotronh qwen3_next qwen3next qwen3_5 falcon_h1 falconh1 bamba zamba recurrent_gemma "
            "recurrentgemma griffin lfm2 hymba plamo2 kimi_linear kimilinear minimaxtext01 minimaxm1 samba phi4flash"},
    Refusal{kStateSpace, "rwkv rwkv5 rwkv6 rwkv7 xlstm retnet hyena", "mamba rwkv xlstm retnet hyena"},
    Refusal{kEncoderDecoder, "t5 mt5 umt5 byt5 longt5 switch_transformers bart mbart led marian fsmt nllb-moe",
            "t5for t5model t5encoder bartfor mbart pegasus marian m2m_100 m2m100 blenderbot prophetnet whisper "
            "encoder-decoder encoderdecoder seamless t5gemma florence"},
    Refusal{kEncoder, "bert vit clip dpr esm data2vec-text",
            "bertfor bertmodel bert- bert_ roberta deberta electra albert xlm- xlmfor longformer big_bird bigbird "
            "modernbert nomic wav2vec hubert siglip cliptext clipmodel clip_ vit_ vitfor dinov2"},
};

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string refusal_reason(const std::string& type, const std::string& architecture) {
  const std::string low_type = lower(type);
  const std::string low_class = lower(architecture);
  for (const Refusal& row : kRefusals) {
    if (any_word(row.types, [&](std::string_view name) { return name == low_type; }) ||
        any_word(row.fragments,
                 [&](std::string_view part) { return holds(low_type, part) || holds(low_class, part); })) {
      return std::string(row.reason);
    }
  }
  return "";
}

}  // namespace tpplan::detail
