// Megatron-LM: flags of pretrain_gpt.py (megatron/training/arguments.py and the dataclasses it is made from).
#include <algorithm>

#include "cost-model/layer_sizes.h"
#include "planner/export/export_target.h"
#include "planner/export/megatron_words.h"
#include "planner/export/settings.h"

namespace tpplan {
namespace {

/// Whether the router's bias balances the experts without a loss (DeepSeek-V3): Megatron has it with sigmoid scores. A
/// bias beside those of the experts (gpt-oss) is a plain one, which it has not.
bool balances_by_bias(const MoeSpec& moe) { return moe.router_bias && !moe.expert_bias; }

using Flags = std::vector<std::string>;

/// A setting as a flag: "--flag value", "--flag" for a switch that is on; nothing for one that is off.
void add_flags(Flags& flags, const Settings& settings) {
  for (const Setting& setting : settings) {
    if (const bool* on = std::get_if<bool>(&setting.value)) {
      if (*on) {
        flags.push_back(setting.key);
      }
      continue;
    }
    flags.push_back(setting.key + " " + value_text(setting, '\0'));
  }
}

std::string array_of(std::string_view name, const Flags& flags) {
  std::string text = std::string(name) + "=(\n";
  for (const std::string& flag : flags) {
    text += "  " + flag + "\n";
  }
  return text + ")\n";
}

/// Which layers have experts, as a Python list: "([0]*3+[1]*58)".
std::string expert_pattern(const ModelSpec& model) {
  std::string text;
  for (std::size_t i = 0; i < model.moe_layers.size();) {
    std::size_t end = i;
    while (end < model.moe_layers.size() && model.moe_layers[end] == model.moe_layers[i]) {
      ++end;
    }
    text += (text.empty() ? "" : "+") + std::string("[") + (model.moe_layers[i] != 0 ? "1" : "0") + "]*" +
            std::to_string(end - i);
    i = end;
  }
  return "'(" + text + ")'";
}

bool is_megatron_bias(const ModelSpec& model) { return model.attention_bias == AttentionBias::all && model.mlp_bias; }

Flags model_flags(const ExportRequest& request) {
  const ModelSpec& model = request.job.model;
  Flags flags;
  Settings settings = settings_of(request, Target::megatron);
  std::erase_if(settings, [&](const Setting& setting) {
    const JobFact fact = key_named(Target::megatron, setting.key)->fact;
    return !describes_model(fact) || (fact == JobFact::kv_heads && model.kv_heads == model.heads);
  });
  add_flags(flags, settings);
  const auto when = [&flags](bool there, std::string_view flag) {
    if (there) {
      flags.emplace_back(flag);
    }
  };
  flags.push_back("--max-position-embeddings " +
                  std::to_string(std::max(request.job.training.seq, model.learned_positions)));
  flags.emplace_back(model.learned_positions > 0 ? "--position-embedding-type learned_absolute"
                                                 : "--position-embedding-type rope");
  flags.emplace_back(model.norm == NormKind::rms ? "--normalization RMSNorm" : "--normalization LayerNorm");
  when(!model.latent && model.kv_heads != model.heads, "--group-query-attention");
  when(model.latent.has_value(), "--multi-latent-attention");
  when(model.qk_norm != QkNorm::none, "--qk-layernorm");
  when(model.gated_mlp, "--swiglu");
  when(!is_megatron_bias(model), "--disable-bias-linear");
  when(model.attention_bias == AttentionBias::qkv || (model.attention_bias == AttentionBias::all && !model.mlp_bias),
       "--add-qkv-bias");
  if (model.moe) {
    const int moe_layers = model.moe_layer_count();
    if (moe_layers < model.layers) {
      flags.push_back("--moe-layer-freq " + expert_pattern(model));
    }
    if (balances_by_bias(*model.moe)) {
      flags.emplace_back("--moe-router-score-function sigmoid");
      flags.emplace_back("--moe-router-enable-expert-bias");
    }
    flags.emplace_back("--moe-grouped-gemm");
    flags.push_back(dispatcher_flags(request.job));
    if (request.job.training.expert_capacity > 0) {
      flags.push_back("--moe-expert-capacity-factor " + shortest(request.job.training.expert_capacity));
    }
  }
  flags.emplace_back("--make-vocab-size-divisible-by 128");
  flags.emplace_back("--attention-dropout 0.0");
  flags.emplace_back("--hidden-dropout 0.0");
  return flags;
}

/// What the flags leave open of a model, or cannot say.
std::vector<std::string> model_remarks(const ModelSpec& model) {
  const bool scored = !model.moe || balances_by_bias(*model.moe);
  const std::string open = scored ? "activation function, rotary base and norm epsilon"
                                  : "activation function, rotary base, norm epsilon and the router's score function";
  std::vector<std::string> remarks{open +
                                   " are not in the model file: Megatron-LM's defaults apply; add flags to MODEL_ARGS "
                                   "or after the script's name"};
  const auto when = [&remarks](bool there, std::string_view what) {
    if (there) {
      remarks.push_back("not expressible here: " + std::string(what));
    }
  };
  when(model.attention_window > 0, "sliding-window layers of " + std::to_string(model.attention_window) +
                                       " tokens (--window-size and --window-attn-skip-freq, by release)");
  when(model.norms_per_layer != 2, std::to_string(model.norms_per_layer) + " norms per layer");
  when(model.attention_sinks, "attention sinks (--softmax-type learnable, by release)");
  when(model.embedding_norm || model.embedding_projection > 0 || !model.final_norm,
       "norm or projection at the embedding");
  when(model.query_gate, "gated queries");
  when(model.output_bias || model.head_bias || (model.attention_bias == AttentionBias::all) != model.mlp_bias ||
           (model.moe && model.moe->expert_bias),
       "biases of some of the matrices");
  return remarks;
}

/// ZeRO-1 is the distributed optimizer, ZeRO-2 and 3 Megatron's FSDP.
void add_sharding(Flags& flags, const ExportRequest& request) {
  const Layout& layout = request.layout();
  const TrainingSpec& training = request.job.training;
  if (layout.zero >= 2) {
    flags.emplace_back("--use-megatron-fsdp");
    flags.emplace_back(layout.zero == 3 ? "--data-parallel-sharding-strategy optim_grads_params"
                                        : "--data-parallel-sharding-strategy optim_grads");
    flags.emplace_back("--ckpt-format fsdp_dtensor");
  }
  const auto replicas = number_of(request.job, layout, JobFact::dp_replicas).value_or(1);
  if (layout.zero > 0 && replicas > 1) {
    flags.push_back("--num-distributed-optimizer-instances " + std::to_string(replicas));
    if (layout.zero >= 2) {
      flags.emplace_back("--outer-dp-sharding-strategy no_shard");
    }
  }
  const double habit = request.job.profile.dp_overlap_default;
  const bool reduce = switched_on(training.overlap_dp_grad, habit);
  if (reduce) {
    flags.emplace_back("--overlap-grad-reduce");
  }
  if (reduce && layout.zero > 0 && switched_on(training.overlap_dp_param, habit)) {
    flags.emplace_back("--overlap-param-gather");
  }
  if (training.gradient_bytes > 0 && training.gradient_bytes < 4) {
    flags.emplace_back("--grad-reduce-in-bf16");
  }
}

Flags layout_flags(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const TrainingSpec& training = request.job.training;
  Flags flags;
  Settings settings = settings_of(
      request, Target::megatron,
      {JobFact::dp_replicas, JobFact::recompute_layers, JobFact::seq, JobFact::micro_batch, JobFact::global_batch});
  std::erase_if(settings, [&](const Setting& setting) {
    const JobFact fact = key_named(Target::megatron, setting.key)->fact;
    return describes_model(fact) || (fact == JobFact::vpp && !request.stages_are_equal());
  });
  add_flags(flags, settings);
  if (!request.stages_are_equal()) {
    flags.push_back("--pipeline-model-parallel-layout '" + megatron_stages(request) + "'");
  }
  if (layout.pp > 1 && layout.ranks_order == RanksOrder::tp_cp_pp_dp) {
    flags.emplace_back("--use-tp-pp-dp-mapping");
  }
  add_sharding(flags, request);
  if (layout.tp > 1 && layout.sequence_parallel &&
      switched_on(training.overlap_tp, request.job.profile.tp_overlap_default)) {
    flags.emplace_back("--tp-comm-overlap");
  }
  if (layout.vpp > 1 && training.overlap_pp == Switch::off) {
    flags.emplace_back("--no-overlap-p2p-communication");
  }
  if (layout.ep > 1 && training.overlap_ep == Switch::on) {
    flags.emplace_back("--overlap-moe-expert-parallel-comm");
  }
  for (const MegatronRecompute& word : megatron_recompute(layout)) {
    flags.push_back("--recompute-" + std::string(word.key) + " " + word.flag_value);
  }
  if (layout.offload == Offload::activations) {
    flags.push_back("--cpu-offloading-num-layers " + std::to_string(request.job.model.layers - 1));
  }
  return flags;
}

Flags training_flags(const ExportRequest& request) {
  const Layout& layout = request.layout();
  Flags flags;
  for (const JobFact fact : {JobFact::seq, JobFact::micro_batch, JobFact::global_batch}) {
    add_flags(flags, {*setting_of(*key_of(Target::megatron, fact), request)});
  }
  const auto precision =
      their_word(Target::megatron, JobFact::precision, word_of(request.job, layout, JobFact::precision));
  if (precision && !precision->empty()) {
    flags.emplace_back(*precision);
  }
  flags.emplace_back("--train-iters \"$TRAIN_ITERS\"");
  flags.emplace_back("--lr \"$LR\"");
  flags.push_back("--optimizer " + std::string(layout.optimizer == Optimizer::sgd    ? "sgd"
                                               : layout.optimizer == Optimizer::muon ? "muon"
                                                                                     : "adam"));
  if (layout.optimizer == Optimizer::adam_bf16) {
    flags.emplace_back("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
  }
  if (layout.offload == Offload::optimizer) {
    flags.emplace_back("--optimizer-cpu-offload");
    if (layout.optimizer != Optimizer::adam_bf16) {
      flags.emplace_back("--use-precision-aware-optimizer");
    }
  }
  if (request.job.training.flash_attention) {
    flags.emplace_back("--attention-backend flash");
  }
  return flags;
}

}  // namespace

std::string write_megatron(const ExportRequest& request) {
  const Layout& layout = request.layout();
  std::string text;
  for (const std::string& remark : model_remarks(request.job.model)) {
    text += "# " + remark + "\n";
  }
  text += array_of("MODEL_ARGS", model_flags(request)) + "\n";
  text += array_of("LAYOUT_ARGS", layout_flags(request)) + "\n";
  text += array_of("TRAINING_ARGS", training_flags(request)) + "\n";
  text += array_of("DATA_ARGS",
                   {"--data-path \"$DATA_PATH\"", "--tokenizer-type \"${TOKENIZER_TYPE:-HuggingFaceTokenizer}\"",
                    "--tokenizer-model \"$TOKENIZER_MODEL\"", "--split 1,0,0", "--eval-iters 0", "--log-interval 1",
                    "--log-throughput"}) +
          "\n";
  const bool ordered = layout.zero < 2 && (layout.tp > 1 || layout.cp > 1) &&
                       request.job.cluster.gpu.architecture.rfind("blackwell", 0) != 0;
  text += environment(request, ordered ? 1 : 0,
                      "Megatron-LM asks for it with tensor or context parallelism before Blackwell");
  if (layout.zero >= 2) {
    text += "#   CUDA_DEVICE_MAX_CONNECTIONS must not be 1 with FSDP\n";
  }
  return text + "\n";
}

LaunchLine launch_megatron(const ExportRequest&) {
  return {
      torchrun("pretrain_gpt.py \"${MODEL_ARGS[@]}\" \"${LAYOUT_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" "
               "\"${DATA_ARGS[@]}\" \"$@\"")};
}

}  // namespace tpplan
