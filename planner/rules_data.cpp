// Rules on how states are sharded over data-parallel ranks and moved to the host.
#include <algorithm>

#include "planner/rule_rows.h"

namespace tpplan::detail {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }
std::string framework_of(const Job& job) { return std::string(name_of(job.training.framework)); }

bool stage_not_offered(const Job& job, const Layout& layout) {
  const auto& offered = habits_of(job.training.framework).zero;
  return std::find(offered.begin(), offered.end(), layout.zero) == offered.end();
}

bool sharded_under_pipeline(const Job& job, const Layout& layout) {
  const Framework framework = job.training.framework;
  return layout.zero >= 2 && layout.pp > 1 &&
         (framework == Framework::megatron || framework == Framework::megatron_deepspeed ||
          framework == Framework::deepspeed || framework == Framework::internevo);
}

std::int64_t data_ranks(const Layout& layout) { return std::int64_t{layout.dp} * layout.cp; }
std::int64_t expert_data_ranks(const Layout& layout) {
  return data_ranks(layout) * layout.tp / (std::int64_t{layout.ep} * layout.etp);
}

bool groups_do_not_divide(const Job& job, const Layout& layout) {
  if (layout.shard_group == 0 || layout.zero == 0) {
    return false;
  }
  if (data_ranks(layout) % layout.shard_group != 0) {
    return true;
  }
  const std::int64_t instances = data_ranks(layout) / layout.shard_group;
  return job.model.moe && expert_data_ranks(layout) % instances != 0;
}

bool nothing_to_share(const Job&, const Layout& layout) { return layout.shard_group > 0 && layout.zero == 0; }

bool offload_unsharded(const Job& job, const Layout& layout) {
  return layout.offload == Offload::optimizer && layout.zero == 0 && job.training.framework != Framework::plain;
}

bool activations_cannot_leave(const Job& job, const Layout& layout) {
  return layout.offload == Offload::activations && job.training.framework == Framework::megatron &&
         (layout.pp > 1 || layout.recompute != RecomputeKind::none);
}

bool reduction_not_offered(const Job& job, const Layout& layout) {
  if (layout.grad_reduce == GradReduce::by_framework) {
    return false;
  }
  const std::uint8_t wanted = layout.grad_reduce == GradReduce::each ? kOnEach : kOnLast;
  return layout.zero > 3 || (habits_of(job.training.framework).reduces[layout.zero] & wanted) == 0;
}

bool muon_is_cut(const Job& job, const Layout& layout) {
  return layout.optimizer == Optimizer::muon && layout.zero > 0 && job.training.framework == Framework::megatron;
}

}  // namespace

std::vector<Rule> data_rules() {
  return {
      {"zero-offered", "a framework has its own ZeRO stages (nanotron: 0, 1; TorchTitan: 0, 2, 3; InternEvo: 0, 1, 3)",
       RuleDepth::data, stage_not_offered,
       [](const Job& job, const Layout& layout) {
         std::vector<std::string> offered;
         for (const int stage : habits_of(job.training.framework).zero) {
           offered.push_back(std::to_string(stage));
         }
         return framework_of(job) + " has no ZeRO-" + number(layout.zero) + "; nearest: zero " + one_of(offered);
       }},
      {"sharding-without-pipeline",
       "ZeRO-2, ZeRO-3 and FSDP2 exclude pipeline stages: gradients would be reduced, and weights gathered, for every "
       "micro-batch (DeepSpeed runtime/pipe/engine.py; Megatron-LM training/arguments.py, FSDP2 path)",
       RuleDepth::data, sharded_under_pipeline,
       [](const Job&, const Layout& layout) {
         return "zero " + number(layout.zero) + " with pp " + number(layout.pp) + "; nearest: pp 1, or zero 1";
       }},
      {"shard-group-divides",
       "the ranks that share ZeRO or FSDP states must divide dp x cp, and their number of groups the expert replicas "
       "(Megatron-LM --num-distributed-optimizer-instances; TorchTitan distributed/parallel_dims.py)",
       RuleDepth::data, groups_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const std::int64_t ranks = data_ranks(layout);
         std::string text = "(dp " + number(layout.dp) + " x cp " + number(layout.cp) + ") % shard-group " +
                            number(layout.shard_group) + " = " + number(ranks % layout.shard_group);
         if (ranks % layout.shard_group == 0) {
           const std::int64_t instances = ranks / layout.shard_group;
           text = number(expert_data_ranks(layout)) + " replicas of each expert % " + number(instances) +
                  " shard groups = " + number(expert_data_ranks(layout) % instances);
         }
         return text + nearest_values(job, layout, &Layout::shard_group, groups_do_not_divide);
       }},
      {"shard-group-needs-zero", "a shard group divides ZeRO states, and ZeRO-0 has none", RuleDepth::data,
       nothing_to_share,
       [](const Job&, const Layout& layout) {
         return "shard-group " + number(layout.shard_group) + " with zero 0; nearest: zero 1, or no shard-group";
       }},
      {"reduction-offered",
       "gradients kept whole are accumulated and reduced with the last micro-batch, of sharded ones (ZeRO-2, ZeRO-3) "
       "each micro-batch's is reduced (Megatron-LM core/pipeline_parallel/schedules.py; DeepSpeed runtime/engine.py, "
       "no_sync); PyTorch's DDP and FSDP do either",
       RuleDepth::data, reduction_not_offered,
       [](const Job& job, const Layout& layout) {
         const bool each = layout.grad_reduce == GradReduce::each;
         return "grad-reduce " + std::string(each ? "each" : "last") + " with zero " + number(layout.zero) + " in " +
                framework_of(job) + "; nearest: grad-reduce " + (each ? "last" : "each, or zero 1");
       }},
      {"offload-needs-zero",
       "optimizer states are offloaded by the sharded optimizer only (Megatron-LM --optimizer-cpu-offload; DeepSpeed "
       "runtime/zero/offload_config.py)",
       RuleDepth::data, offload_unsharded,
       [](const Job&, const Layout&) { return std::string("offload optimizer with zero 0; nearest: zero 1"); }},
      {"activation-offload-alone",
       "activation offload excludes pipeline stages and recomputation (Megatron-LM "
       "core/transformer/transformer_config.py)",
       RuleDepth::data, activations_cannot_leave,
       [](const Job&, const Layout& layout) {
         return "offload activations with pp " + number(layout.pp) + " and recompute " + recompute_text(layout) +
                "; nearest: pp 1 with recompute none";
       }},
      {"muon-needs-whole-matrices",
       "Muon orthogonalises whole matrices, which the distributed optimizer cuts (Megatron-LM training/arguments.py)",
       RuleDepth::data, muon_is_cut,
       [](const Job&, const Layout& layout) {
         return "optimizer muon with zero " + number(layout.zero) + "; nearest: zero 0";
       }},
  };
}

}  // namespace tpplan::detail
