#include "planner/export/export_rules.h"

#include <algorithm>

#include "cost-model/pipeline.h"
#include "planner/export/export_request.h"
#include "planner/export/torchtitan_stages.h"
#include "planner/rule_rows.h"

namespace tpplan {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }
std::string name_of(Target target) { return std::string(name_in(kTargetNames, target)); }

constexpr std::uint32_t bit(Target target) { return 1U << static_cast<unsigned>(target); }

/// What a target asks of a layout beyond the words it has. `refused` gives the arithmetic and the nearest legal value,
/// empty when all is well.
struct TargetRule {
  std::uint32_t targets;
  std::string_view rule;
  std::string (*refused)(const Job&, const Layout&);
};

std::int64_t shards_of(const Job& job, const Layout& layout) {
  return number_of(job, layout, JobFact::dp_shards).value_or(1);
}

std::string states_of_whole_replicas(const Job&, const Layout& layout) {
  if (layout.zero == 0 || layout.shard_group == 0 || layout.shard_group % layout.cp == 0) {
    return "";
  }
  return "shard-group " + number(layout.shard_group) + " % cp " + number(layout.cp) + " = " +
         number(layout.shard_group % layout.cp) + ": states are shared by whole context-parallel groups" +
         "; nearest: shard-group " + number((layout.shard_group / layout.cp + 1) * layout.cp) + ", or cp 1";
}

std::string replicas_of_cut_models(const Job&, const Layout& layout) {
  if (layout.zero > 0 || (layout.tp == 1 && layout.cp == 1) || layout.dp == 1) {
    return "";
  }
  return "zero 0 with tp " + number(layout.tp) + ", cp " + number(layout.cp) + " and dp " + number(layout.dp) +
         ": replicas alone do not combine with them; nearest: zero 3";
}

std::string context_shards_states(const Job&, const Layout& layout) {
  return layout.zero == 0 && layout.cp > 1
             ? "zero 0 with cp " + number(layout.cp) +
                   ": context-parallel ranks share states as FSDP does; nearest: zero 3, or cp 1"
             : "";
}

std::string tokens_of_slices(const Job& job, const Layout& layout) {
  const std::int64_t tokens = std::int64_t{layout.micro_batch} * job.training.seq;
  const std::int64_t slices =
      (layout.sequence_parallel ? std::int64_t{layout.tp} : 1) * (layout.cp > 1 ? 2 * std::int64_t{layout.cp} : 1);
  if (tokens % slices == 0) {
    return "";
  }
  return number(tokens) + " tokens of a micro-batch % " + number(slices) +
         " slices (tp x 2 cp) = " + number(tokens % slices) + "; nearest: --seq " +
         std::to_string((job.training.seq / slices + 1) * slices);
}

std::string experts_on_all_ranks(const Job& job, const Layout& layout) {
  if (!job.moe()) {
    return "";
  }
  const std::int64_t ranks = shards_of(job, layout) * layout.cp * layout.tp;
  if (layout.etp != 1) {
    return "etp " + number(layout.etp) + ": experts are not cut; nearest: etp 1";
  }
  if (layout.ep < layout.tp) {
    return "ep " + number(layout.ep) + " < tp " + number(layout.tp) +
           ": experts lie on all tensor-parallel ranks; nearest: ep " + number(layout.tp);
  }
  if (ranks % layout.ep != 0) {
    return "(" + number(shards_of(job, layout)) + " shards x cp " + number(layout.cp) + " x tp " + number(layout.tp) +
           ") % ep " + number(layout.ep) + " = " + number(ranks % layout.ep) + "; nearest: ep " + number(layout.tp);
  }
  return "";
}

std::string stages_by_layers(const Job& job, const Layout& layout) {
  const int layers = job.model.layers;
  if (layout.pp == 1 || torchtitan_reaches(layers, layout.pp, layout.pp * layout.vpp)) {
    return "";
  }
  int nearest = layout.vpp - 1;
  while (!torchtitan_reaches(layers, layout.pp, layout.pp * nearest)) {
    --nearest;
  }
  return "pp " + number(layout.pp) + " x vpp " + number(layout.vpp) + " = " + number(layout.pp * layout.vpp) +
         " stages: no number of layers per stage makes so many of " + number(layers) + " layers; nearest: vpp " +
         number(nearest);
}

std::string experts_borrow_ranks(const Job& job, const Layout& layout) {
  if (!job.moe()) {
    return "";
  }
  if (layout.ep == 1) {
    return layout.etp == layout.tp
               ? ""
               : "ep 1 with etp " + number(layout.etp) + " and tp " + number(layout.tp) +
                     ": without expert parallelism experts are cut as the rest is; nearest: etp " + number(layout.tp);
  }
  const std::int64_t least = std::int64_t{layout.cp} * (layout.etp == 1 ? layout.tp : 1);
  const std::int64_t ranks = shards_of(job, layout) * least;
  if (layout.ep % least == 0 && ranks % layout.ep == 0) {
    return "";
  }
  return "ep " + number(layout.ep) + " must be a multiple of cp" + (layout.etp == 1 ? " x tp " : " ") + number(least) +
         " and divide " + number(ranks) + " ranks; nearest: ep " + number(least);
}

std::string zero_under_pipeline(const Job&, const Layout& layout) {
  return layout.zero >= 2 && layout.pp > 1 ? "zero " + number(layout.zero) + " with pp " + number(layout.pp) +
                                                 ": gradients of a pipeline are reduced once a step; nearest: zero 1, "
                                                 "or pp 1"
                                           : "";
}

std::string groups_of_zero3(const Job&, const Layout& layout) {
  return layout.shard_group > 0 && layout.zero != 3
             ? "shard-group " + number(layout.shard_group) + " with zero " + number(layout.zero) +
                   ": hpZ keeps copies of the weights of ZeRO-3; nearest: zero 3, or no shard-group"
             : "";
}

std::string experts_beside_zero3(const Job&, const Layout& layout) {
  if (layout.ep == 1 || layout.zero < 3 || (layout.tp == 1 && layout.cp == 1 && layout.shard_group == 0)) {
    return "";
  }
  return "ep " + number(layout.ep) + " with zero 3: AutoEP then takes neither tp, cp nor shard groups; nearest: zero 2";
}

std::string whole_kv_heads(const Job& job, const Layout& layout) {
  const int kv = job.model.kv_heads;
  return job.model.latent || kv % layout.tp == 0
             ? ""
             : number(kv) + " key/value heads % tp " + number(layout.tp) + " = " + number(kv % layout.tp) +
                   ": heads are not copied; nearest: tp " + number(kv);
}

std::string llama_shape(const Job& job, const Layout&) {
  const ModelSpec& model = job.model;
  std::string odd;
  const auto note = [&odd](bool there, std::string_view what) {
    if (there) {
      odd += (odd.empty() ? "" : ", ") + std::string(what);
    }
  };
  note(!model.gated_mlp, "an FFN without gate");
  note(model.norm != NormKind::rms || model.norms_per_layer != 2, "its norms");
  note(model.latent.has_value(), "latent attention");
  note(model.attention_bias != AttentionBias::none || model.mlp_bias || model.output_bias || model.head_bias, "biases");
  note(model.qk_norm != QkNorm::none, "normalised queries");
  note(model.attention_window > 0 || model.attention_sinks, "its attention");
  note(model.learned_positions > 0, "learned positions");
  note(model.head_dim * model.heads != model.hidden, "heads that do not add up to the width");
  note(model.mtp_layers > 0, "prediction modules");
  return odd.empty() ? "" : job.model.name + " has " + odd + ", a LlamaConfig has not; nearest: --to megatron";
}

std::string mpt_shape(const Job& job, const Layout&) {
  const ModelSpec& model = job.model;
  const bool odd = model.latent || model.qk_norm == QkNorm::per_head || model.attention_sinks ||
                   model.head_dim * model.heads != model.hidden || model.mtp_layers > 0 || model.norms_per_layer != 2 ||
                   model.attention_bias == AttentionBias::qkv || model.full_attention_every > 0;
  return odd ? job.model.name + " has an attention or norms that mpt_causal_lm has not; nearest: --to accelerate" : "";
}

std::string groups_gather_again(const Job&, const Layout& layout) {
  return layout.shard_group > 0 && layout.zero == 2
             ? "shard-group " + number(layout.shard_group) +
                   " with zero 2: HYBRID_SHARD frees gathered weights; nearest: zero 3, or no shard-group"
             : "";
}

std::string one_kind_of_slices(const Job&, const Layout& layout) {
  return layout.cp > 1 && layout.sequence_parallel
             ? "cp " + number(layout.cp) +
                   " with sequence-parallel on: one mode of sequence parallelism at a time; nearest: "
                   "sequence-parallel off, or cp 1"
             : "";
}

std::string scheduler_nodes(const Job&, const Layout& layout) {
  return layout.schedule == Schedule::zb_v
             ? "schedule zb-v needs scheduler_nodes, a graph of measured passes; nearest: schedule interleaved"
             : "";
}

std::string experts_in_data_ranks(const Job& job, const Layout& layout) {
  return job.moe() && layout.dp % layout.ep != 0 ? "dp " + number(layout.dp) + " % ep " + number(layout.ep) + " = " +
                                                       number(layout.dp % layout.ep) + "; nearest: ep " + number(1)
                                                 : "";
}

std::string adapters_unknown(const Job& job, const Layout&) {
  return job.training.peft == PeftMethod::none ? "" : "--peft: pretraining alone is written; nearest: --to accelerate";
}

std::string optimizers_of_megatron(const Job&, const Layout& layout) {
  const bool known = layout.optimizer == Optimizer::adam || layout.optimizer == Optimizer::adamw ||
                     layout.optimizer == Optimizer::adam_bf16 || layout.optimizer == Optimizer::sgd ||
                     layout.optimizer == Optimizer::muon;
  const std::string name = "optimizer " + std::string(name_in(kOptimizerNames, layout.optimizer));
  if (!known) {
    return name + ": --optimizer has adam, sgd and muon; nearest: optimizer adam or adam-bf16";
  }
  // Narrow moments and offload both take the precision-aware optimizer, which is Adam and distributed.
  if (layout.optimizer == Optimizer::adam_bf16 && layout.zero == 0) {
    return name + " with zero 0: narrow moments belong to the distributed optimizer; nearest: zero 1";
  }
  if (layout.offload == Offload::optimizer &&
      (layout.optimizer == Optimizer::sgd || layout.optimizer == Optimizer::muon)) {
    return name + " with offload optimizer: only Adam's states leave; nearest: optimizer adam, or offload none";
  }
  return "";
}

// Sources, in the trees named in export_targets.cpp: TorchTitan distributed/parallel_dims.py, trainer.py,
// config/parallelism.py; DeepSpeed runtime/pipe/engine.py, runtime/zero/config.py, module_inject/auto_ep_config.py;
// accelerate parallelism_config.py; nanotron config/config.py; llm-foundry models/mpt; Colossal-AI
// booster/plugin/hybrid_parallel_plugin.py and shardformer/policies/llama.py.
constexpr std::array<TargetRule, 19> kTargetRules{{
    {bit(Target::torchtitan) | bit(Target::torchtitan_toml) | bit(Target::accelerate) | bit(Target::llm_foundry),
     "shard-group-whole", states_of_whole_replicas},
    {bit(Target::torchtitan) | bit(Target::torchtitan_toml), "cp-shards-states", context_shards_states},
    {bit(Target::torchtitan) | bit(Target::torchtitan_toml), "stages-by-layers", stages_by_layers},
    {bit(Target::torchtitan), "tokens-divide", tokens_of_slices},
    {bit(Target::torchtitan), "ep-spans-tp", experts_on_all_ranks},
    {bit(Target::torchtitan_toml), "ep-borrows-ranks", experts_borrow_ranks},
    {bit(Target::megatron), "optimizer-known", optimizers_of_megatron},
    {bit(Target::accelerate), "replicas-alone", replicas_of_cut_models},
    {bit(Target::deepspeed) | bit(Target::colossalai), "zero-without-pipeline", zero_under_pipeline},
    {bit(Target::deepspeed), "shard-group-needs-zero-3", groups_of_zero3},
    {bit(Target::deepspeed), "autoep-alone", experts_beside_zero3},
    {bit(Target::nanotron) | bit(Target::colossalai), "kv-heads-whole", whole_kv_heads},
    {bit(Target::nanotron), "llama-shape", llama_shape},
    {bit(Target::llm_foundry), "mpt-shape", mpt_shape},
    {bit(Target::llm_foundry), "shard-group-zero-3", groups_gather_again},
    {bit(Target::colossalai), "one-sequence-mode", one_kind_of_slices},
    {bit(Target::colossalai), "zbv-graph", scheduler_nodes},
    {bit(Target::colossalai), "ep-divides-dp", experts_in_data_ranks},
    {bit(Target::megatron) | bit(Target::megatron_bridge) | bit(Target::nanotron) | bit(Target::llm_foundry) |
         bit(Target::torchtitan) | bit(Target::torchtitan_toml),
     "adapters-elsewhere", adapters_unknown},
}};

/// Quantities that are said by words, and when a job says them.
struct WordRow {
  JobFact fact;
  std::string_view option;
  bool (*said)(const Layout&);
};
constexpr std::array<WordRow, 3> kWordRows{{
    {JobFact::precision, "precision", [](const Layout&) { return true; }},
    {JobFact::schedule, "schedule", [](const Layout& layout) { return layout.pp > 1; }},
    {JobFact::cp_type, "cp-type", [](const Layout& layout) { return layout.cp > 1; }},
}};

}  // namespace

std::vector<Refusal> export_refusals(Target target, std::uint32_t expresses, const Job& job, const Layout& layout) {
  std::vector<Refusal> refusals;
  for (const FeatureRow& row : feature_rows()) {
    if (row.refused && (expresses & row.feature) == 0 && row.asked(job, layout)) {
      refusals.push_back(
          {row.rule, name_of(target) + " has no " + row.text(job, layout) + "; nearest: " + std::string(row.nearest)});
    }
  }
  for (const WordRow& row : kWordRows) {
    std::vector<std::string> words;
    for (const FrameworkWord& word : framework_words()) {
      if (word.target == target && word.fact == row.fact) {
        words.emplace_back(word.ours);
      }
    }
    std::string ours = word_of(job, layout, row.fact);
    if (row.fact == JobFact::precision && (expresses & kEightBit) == 0 && job.training.precision >= Precision::fp8) {
      ours = "bf16";  // told as an omission
    }
    if (!words.empty() && row.said(layout) && std::find(words.begin(), words.end(), ours) == words.end()) {
      refusals.push_back({"value-known", name_of(target) + " has no " + std::string(row.option) + " " + ours +
                                             "; nearest: " + std::string(row.option) + " " + detail::one_of(words)});
    }
  }
  for (const TargetRule& rule : kTargetRules) {
    if ((rule.targets & bit(target)) != 0) {
      if (std::string arithmetic = rule.refused(job, layout); !arithmetic.empty()) {
        refusals.push_back({rule.rule, std::move(arithmetic)});
      }
    }
  }
  return refusals;
}

std::vector<std::string> export_omissions(Target, std::uint32_t expresses, const Job& job, const Layout& layout) {
  std::vector<std::string> texts;
  for (const FeatureRow& row : feature_rows()) {
    if (!row.refused && (expresses & row.feature) == 0 && row.asked(job, layout)) {
      texts.push_back(row.text(job, layout) + " (" + std::string(row.nearest) + ")");
    }
  }
  return texts;
}

}  // namespace tpplan
