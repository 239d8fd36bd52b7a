// Rules on what happens inside one layer: tensor, context, expert and sequence parallelism, recomputation.
#include <algorithm>

#include "planner/rule_rows.h"

namespace tpplan::detail {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }

bool a_megatron(const Job& job) {
  return job.training.framework == Framework::megatron || job.training.framework == Framework::megatron_deepspeed;
}

bool axes_not_positive(const Job&, const Layout& layout) {
  return std::any_of(kAxes.begin(), kAxes.end(), [&](const AxisRow& axis) { return layout.*axis.field < 1; }) ||
         layout.shard_group < 0 || layout.vpp_group < 0 || layout.recompute_layers < 0;
}

std::string first_axis_below_one(const Job&, const Layout& layout) {
  for (const AxisRow& axis : kAxes) {
    if (layout.*axis.field < 1) {
      return std::string(axis.option) + " " + std::to_string(layout.*axis.field) + " < 1";
    }
  }
  return "shard-group, vpp-group and full:N count GPUs, micro-batches and layers";
}

bool heads_do_not_divide(const Job& job, const Layout& layout) { return job.model.heads % layout.tp != 0; }

bool kv_heads_do_not_divide(const Job& job, const Layout& layout) {
  if (job.model.latent) {
    return false;  // every head has its own keys and values after the up-projection
  }
  const int kv = job.model.kv_heads;
  if (kv % layout.tp == 0) {
    return false;
  }
  return layout.tp % kv != 0 || !habits_of(job.training.framework).replicates_kv_heads;
}

/// The narrowest FFN width that tp divides: of the dense layers, and of the shared experts.
int ffn_that_does_not_divide(const Job& job, const Layout& layout) {
  const bool all_moe = job.moe() && job.model.moe_layer_count() == job.model.layers;
  if (!all_moe && job.model.ffn_hidden % layout.tp != 0) {
    return job.model.ffn_hidden;
  }
  return job.model.moe && job.model.moe->shared_ffn % layout.tp != 0 ? job.model.moe->shared_ffn : 0;
}
bool ffn_does_not_divide(const Job& job, const Layout& layout) { return ffn_that_does_not_divide(job, layout) != 0; }

bool experts_without_moe(const Job& job, const Layout& layout) {
  return !job.model.moe && (layout.ep > 1 || layout.etp > 1);
}

bool experts_do_not_divide(const Job& job, const Layout& layout) {
  return job.model.moe && job.model.moe->experts % layout.ep != 0;
}

bool expert_width_does_not_divide(const Job& job, const Layout& layout) {
  return job.model.moe && job.model.moe->expert_ffn % layout.etp != 0;
}

bool odd_expert_split(const Job& job, const Layout& layout) {
  return job.model.moe && job.training.framework != Framework::megatron && layout.etp != 1 && layout.etp != layout.tp;
}

/// Ring and all-gather give every rank two slices, one of each half, so that the causal work is balanced.
int sequence_slices(const Layout& layout) { return layout.cp_type == CpType::ulysses ? layout.cp : 2 * layout.cp; }
bool sequence_does_not_divide(const Job& job, const Layout& layout) {
  return layout.cp > 1 && job.training.seq % sequence_slices(layout) != 0;
}

bool cp_type_not_offered(const Job& job, const Layout& layout) {
  const auto& offered = habits_of(job.training.framework).cp_types;
  return layout.cp > 1 && std::find(offered.begin(), offered.end(), layout.cp_type) == offered.end();
}

bool ulysses_heads_do_not_divide(const Job& job, const Layout& layout) {
  return layout.cp > 1 && layout.cp_type == CpType::ulysses && job.model.heads % (layout.tp * layout.cp) != 0;
}

bool sequence_parallel_alone(const Job&, const Layout& layout) { return layout.sequence_parallel && layout.tp == 1; }

bool overlap_without_sequence_parallel(const Job& job, const Layout& layout) {
  return job.training.overlap_tp == Switch::on && layout.tp > 1 && !layout.sequence_parallel;
}

bool moe_without_sequence_parallel(const Job& job, const Layout& layout) {
  return job.model.moe && a_megatron(job) && layout.tp > 1 && !layout.sequence_parallel;
}

bool slices_do_not_divide(const Job& job, const Layout& layout) {
  return layout.sequence_parallel && layout.tp > 1 &&
         (job.training.seq % layout.cp != 0 || job.training.seq / layout.cp % layout.tp != 0);
}

bool recompute_not_there(const Job& job, const Layout& layout) {
  if (layout.recompute == RecomputeKind::selective_op) {
    return a_megatron(job) || job.training.framework == Framework::nanotron;
  }
  if (layout.recompute != RecomputeKind::selective) {
    return false;
  }
  constexpr int kMoeModules = kMoeActivation | kMoe | kSharedExperts;
  return ((layout.recompute_modules & kMoeModules) != 0 && !job.model.moe) ||
         ((layout.recompute_modules & kMlaUpProjection) != 0 && !job.model.latent);
}

std::string recompute_text_of_problem(const Job& job, const Layout& layout) {
  if (layout.recompute == RecomputeKind::selective_op) {
    return "selective:op is not in " + std::string(name_of(job.training.framework)) +
           "; nearest: selective, or selective:core_attn+mlp+norm";
  }
  std::string missing;
  for (const auto& row : kRecomputeModuleNames) {
    const bool of_moe = (row.value & (kMoeActivation | kMoe | kSharedExperts)) != 0;
    const bool there = of_moe ? job.model.moe.has_value() : row.value != kMlaUpProjection || job.model.latent;
    if ((layout.recompute_modules & row.value) != 0 && !there) {
      missing += (missing.empty() ? "" : ", ") + std::string(row.name);
    }
  }
  return job.model.name + " has no " + missing + "; nearest: selective:core_attn+mlp+norm";
}

bool packed_weights_not_offered(const Job& job, const Layout&) {
  const Framework framework = job.training.framework;
  return job.training.holds_nf4() && framework != Framework::fsdp && framework != Framework::deepspeed &&
         framework != Framework::plain;
}

bool packed_weights_cut(const Job& job, const Layout& layout) { return job.training.holds_nf4() && layout.tp > 1; }

}  // namespace

std::vector<Rule> layer_rules() {
  return {
      {"axes-positive", "every parallel size is at least 1", RuleDepth::layer, axes_not_positive, first_axis_below_one},
      {"heads-divide-tp",
       "attention heads must divide by tp: a rank holds whole heads (Megatron-LM "
       "core/transformer/transformer_config.py)",
       RuleDepth::layer, heads_do_not_divide,
       [](const Job& job, const Layout& layout) {
         return number(job.model.heads) + " heads % tp " + number(layout.tp) + " = " +
                number(job.model.heads % layout.tp) + nearest_values(job, layout, &Layout::tp, heads_do_not_divide);
       }},
      {"kv-heads-divide-tp",
       "key/value heads must be a multiple of tp, or a divisor where the framework replicates them "
       "(Megatron-LM core/transformer/transformer_config.py; nanotron and TorchTitan do not replicate)",
       RuleDepth::layer, kv_heads_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const int kv = job.model.kv_heads;
         std::string text = number(kv) + " key/value heads % tp " + number(layout.tp) + " = " + number(kv % layout.tp);
         if (habits_of(job.training.framework).replicates_kv_heads) {
           text += " and tp " + number(layout.tp) + " % " + number(kv) + " = " + number(layout.tp % kv);
         } else {
           text += ", and " + std::string(name_of(job.training.framework)) + " does not replicate them";
         }
         return text + nearest_values(job, layout, &Layout::tp, kv_heads_do_not_divide);
       }},
      {"ffn-divides-tp",
       "the FFN width must divide by tp: a rank holds whole columns (Megatron-LM core/tensor_parallel/layers.py)",
       RuleDepth::layer, ffn_does_not_divide,
       [](const Job& job, const Layout& layout) {
         const int width = ffn_that_does_not_divide(job, layout);
         return "FFN width " + number(width) + " % tp " + number(layout.tp) + " = " + number(width % layout.tp) +
                nearest_values(job, layout, &Layout::tp, ffn_does_not_divide);
       }},
      {"experts-need-moe", "ep and etp split experts, and a dense model has none (Megatron-LM training/arguments.py)",
       RuleDepth::layer, experts_without_moe,
       [](const Job& job, const Layout& layout) {
         return job.model.name + " is dense: ep " + number(layout.ep) + ", etp " + number(layout.etp) +
                "; nearest: ep 1, etp 1";
       }},
      {"experts-divide-ep",
       "routed experts must divide by ep: a rank holds whole experts (Megatron-LM training/arguments.py)",
       RuleDepth::layer, experts_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const int experts = job.model.moe->experts;
         return number(experts) + " experts % ep " + number(layout.ep) + " = " + number(experts % layout.ep) +
                nearest_values(job, layout, &Layout::ep, experts_do_not_divide);
       }},
      {"expert-ffn-divides-etp",
       "the width of an expert must divide by etp (Megatron-LM core/transformer/moe/experts.py)", RuleDepth::layer,
       expert_width_does_not_divide,
       [](const Job& job, const Layout& layout) {
         const int width = job.model.moe->expert_ffn;
         return "expert width " + number(width) + " % etp " + number(layout.etp) + " = " + number(width % layout.etp) +
                nearest_values(job, layout, &Layout::etp, expert_width_does_not_divide);
       }},
      {"etp-one-or-tp",
       "outside Megatron-Core experts are split as the rest or not at all: etp is 1 or tp "
       "(TorchTitan distributed/parallel_dims.py)",
       RuleDepth::layer, odd_expert_split,
       [](const Job& job, const Layout& layout) {
         return "etp " + number(layout.etp) + " is neither 1 nor tp " + number(layout.tp) +
                nearest_values(job, layout, &Layout::etp, odd_expert_split);
       }},
      {"sequence-divides-cp",
       "with cp > 1 the sequence must divide by 2 cp (by cp with Ulysses): causal work is balanced by giving each rank "
       "an early and a late slice (Megatron-LM training/arguments.py)",
       RuleDepth::layer, sequence_does_not_divide,
       [](const Job& job, const Layout& layout) {
         const int slices = sequence_slices(layout);
         const std::string divisor =
             layout.cp_type == CpType::ulysses ? "cp " + number(layout.cp) : "(2 x cp " + number(layout.cp) + ")";
         return number(job.training.seq) + " tokens % " + divisor + " = " + number(job.training.seq % slices) +
                nearest_values(job, layout, &Layout::cp, sequence_does_not_divide);
       }},
      {"cp-type-offered",
       "a framework has its own variants of context parallelism (DeepSpeed: Ulysses; TorchTitan: ring "
       "and all-gather; nanotron: ring)",
       RuleDepth::layer, cp_type_not_offered,
       [](const Job& job, const Layout& layout) {
         std::vector<std::string> offered;
         for (const CpType type : habits_of(job.training.framework).cp_types) {
           offered.emplace_back(name_in(kCpTypeNames, type));
         }
         return std::string(name_of(job.training.framework)) + " has no " +
                std::string(name_in(kCpTypeNames, layout.cp_type)) + "; nearest: cp-type " + one_of(offered) +
                ", or cp 1";
       }},
      {"ulysses-heads-divide-cp",
       "Ulysses gives each rank whole heads of the whole sequence: heads / tp must divide by cp (arXiv 2309.14509)",
       RuleDepth::layer, ulysses_heads_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const int parts = layout.tp * layout.cp;
         return number(job.model.heads) + " heads % (tp " + number(layout.tp) + " x cp " + number(layout.cp) +
                ") = " + number(job.model.heads % parts) +
                nearest_values(job, layout, &Layout::cp, ulysses_heads_do_not_divide);
       }},
      {"sequence-parallel-needs-tp",
       "sequence parallelism splits what tp leaves whole, so tp = 1 switches it off (Megatron-LM "
       "training/arguments.py)",
       RuleDepth::layer, sequence_parallel_alone,
       [](const Job& job, const Layout& layout) {
         return "sequence-parallel on with tp 1" + nearest_values(job, layout, &Layout::tp, sequence_parallel_alone) +
                ", or sequence-parallel off";
       }},
      {"tp-overlap-needs-sequence-parallel",
       "tensor-parallel collectives run beside products chunk by chunk, for which sequence parallelism splits them "
       "(Megatron-LM training/arguments.py, --tp-comm-overlap)",
       RuleDepth::layer, overlap_without_sequence_parallel,
       [](const Job&, const Layout& layout) {
         return "overlap tp with tp " + number(layout.tp) +
                " and sequence-parallel off; nearest: sequence-parallel on, or overlap tp=off";
       }},
      {"moe-needs-sequence-parallel",
       "a mixture of experts trained with tp > 1 needs sequence parallelism (Megatron-LM "
       "core/transformer/moe/moe_layer.py)",
       RuleDepth::layer, moe_without_sequence_parallel,
       [](const Job& job, const Layout& layout) {
         return job.model.name + " has experts, tp " + number(layout.tp) +
                " and sequence-parallel off; nearest: sequence-parallel on, or tp 1";
       }},
      {"sequence-divides-tp",
       "sequence parallelism gives each tp rank an equal slice: seq / cp must divide by tp "
       "(Megatron-LM core/tensor_parallel/mappings.py)",
       RuleDepth::layer, slices_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const int tokens = job.training.seq / layout.cp;
         return number(job.training.seq) + " tokens / cp " + number(layout.cp) + " = " + number(tokens) + ", % tp " +
                number(layout.tp) + " = " + number(tokens % layout.tp) +
                nearest_values(job, layout, &Layout::tp, slices_do_not_divide) + ", or sequence-parallel off";
       }},
      {"recompute-modules",
       "selective recomputation can only drop modules that the model and the framework have "
       "(Megatron-LM core/transformer/transformer_config.py; per operation: TorchTitan, FSDP)",
       RuleDepth::layer, recompute_not_there, recompute_text_of_problem},
      {"packed-weights-offered",
       "4-bit weights (qlora) are a habit of programs around Hugging Face models: FSDP, DeepSpeed and plain PyTorch "
       "with bitsandbytes or torchao (huggingface/peft, axolotl-ai-cloud/axolotl)",
       RuleDepth::layer, packed_weights_not_offered,
       [](const Job& job, const Layout&) {
         return std::string(name_of(job.training.framework)) +
                " has no 4-bit weights; nearest: --framework fsdp, or --peft lora";
       }},
      {"packed-weights-whole",
       "a matrix packed in 4-bit blocks is not cut by tensor parallelism (bitsandbytes Params4bit is one flat tensor); "
       "ZeRO-3 or FSDP divides it",
       RuleDepth::layer, packed_weights_cut,
       [](const Job& job, const Layout& layout) {
         return "qlora with tp " + number(layout.tp) + nearest_values(job, layout, &Layout::tp, packed_weights_cut) +
                ", or zero 3";
       }},
  };
}

}  // namespace tpplan::detail
