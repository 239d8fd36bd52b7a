#include "planner/export/export_features.h"

#include "planner/export/export_request.h"

namespace tpplan {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }

bool zero_is(const Layout& layout, int stage) { return layout.zero == stage; }
std::string zero_text(const Job&, const Layout& layout) { return "zero " + number(layout.zero); }
std::string recompute_asked(const Job&, const Layout& layout) { return "recompute " + recompute_text(layout); }
std::string offload_asked(const Job&, const Layout& layout) {
  return "offload " + std::string(name_in(kOffloadNames, layout.offload));
}
bool other_overlap(const Job& job) {
  const TrainingSpec& training = job.training;
  for (const Switch choice :
       {training.overlap_dp_param, training.overlap_tp, training.overlap_pp, training.overlap_ep}) {
    if (choice != Switch::by_profile) {
      return true;
    }
  }
  return false;
}

}  // namespace

const std::vector<FeatureRow>& feature_rows() {
  static const std::vector<FeatureRow> rows{
      {kPipelineStages, true, "no-pipeline", [](const Job&, const Layout& l) { return l.pp > 1; },
       [](const Job&, const Layout& l) { return "pp " + number(l.pp); }, "pp 1"},
      {kTensorParallel, true, "no-tensor-parallelism", [](const Job&, const Layout& l) { return l.tp > 1; },
       [](const Job&, const Layout& l) { return "tp " + number(l.tp); }, "tp 1"},
      {kContextParallel, true, "no-context-parallelism", [](const Job&, const Layout& l) { return l.cp > 1; },
       [](const Job&, const Layout& l) { return "cp " + number(l.cp); }, "cp 1"},
      {kExperts, true, "no-experts", [](const Job& job, const Layout&) { return job.moe(); },
       [](const Job& job, const Layout&) { return job.model.name + " with experts"; }, "--to megatron"},
      {kNoZero, true, "zero-stage", [](const Job&, const Layout& l) { return zero_is(l, 0); }, zero_text, "zero 3"},
      {kZero1, true, "zero-stage", [](const Job&, const Layout& l) { return zero_is(l, 1); }, zero_text, "zero 0 or 2"},
      {kZero2, true, "zero-stage", [](const Job&, const Layout& l) { return zero_is(l, 2); }, zero_text, "zero 1"},
      {kZero3, true, "zero-stage", [](const Job&, const Layout& l) { return zero_is(l, 3); }, zero_text, "zero 1"},
      {kShardGroup, true, "shard-group", [](const Job&, const Layout& l) { return l.shard_group > 0; },
       [](const Job&, const Layout& l) { return "shard-group " + number(l.shard_group); }, "no shard-group"},
      {kRecomputeFull, true, "recompute-kind",
       [](const Job&, const Layout& l) { return l.recompute == RecomputeKind::full; }, recompute_asked,
       "recompute none"},
      {kRecomputeSome, true, "recompute-kind",
       [](const Job&, const Layout& l) { return l.recompute == RecomputeKind::full && l.recompute_layers > 0; },
       recompute_asked, "recompute full"},
      {kSelective, true, "recompute-kind",
       [](const Job&, const Layout& l) { return l.recompute == RecomputeKind::selective; }, recompute_asked,
       "recompute none or full"},
      {kSelectiveOp, true, "recompute-kind",
       [](const Job&, const Layout& l) { return l.recompute == RecomputeKind::selective_op; }, recompute_asked,
       "recompute none or full"},
      {kOffloadOptimizer, true, "offload-kind",
       [](const Job&, const Layout& l) { return l.offload == Offload::optimizer; }, offload_asked, "offload none"},
      {kOffloadActivations, true, "offload-kind",
       [](const Job&, const Layout& l) { return l.offload == Offload::activations; }, offload_asked, "offload none"},
      {kGivenStages, true, "stage-depths",
       [](const Job& job, const Layout& l) {
         return l.pp > 1 && (!job.training.layers_per_stage.empty() || stages_are_balanced(job, l.pp));
       },
       [](const Job&, const Layout&) { return std::string("a number of layers per stage"); },
       "no layers-per-stage, --stage-balance framework"},
      {kVirtualStages, true, "no-virtual-stages", [](const Job&, const Layout& l) { return l.vpp > 1; },
       [](const Job&, const Layout& l) { return "vpp " + number(l.vpp); }, "vpp 1"},
      {kVppGroup, true, "vpp-group", [](const Job&, const Layout& l) { return l.vpp_group > 0; },
       [](const Job&, const Layout& l) { return "vpp-group " + number(l.vpp_group); }, "no vpp-group"},
      {kStagesNear, true, "ranks-order",
       [](const Job&, const Layout& l) { return l.pp > 1 && l.ranks_order != RanksOrder::tp_cp_dp_pp; },
       [](const Job&, const Layout& l) {
         return "ranks-order " + std::string(name_in(kRanksOrderNames, l.ranks_order));
       },
       "ranks-order tp-cp-dp-pp"},
      {kSequenceParallel, true, "sequence-parallelism", [](const Job&, const Layout& l) { return l.sequence_parallel; },
       [](const Job&, const Layout&) { return std::string("sequence-parallel on"); }, "sequence-parallel off"},
      {kNoSequenceParallel, true, "sequence-parallelism",
       [](const Job&, const Layout& l) { return l.tp > 1 && !l.sequence_parallel; },
       [](const Job&, const Layout&) { return std::string("tp without sequence parallelism"); },
       "sequence-parallel on"},
      {kPeft, false, "", [](const Job& job, const Layout&) { return job.training.peft != PeftMethod::none; },
       [](const Job& job, const Layout&) { return "--peft " + std::string(name_in(kPeftNames, job.training.peft)); },
       "the training script makes the adapters"},
      {kOptimizerKind, false, "",
       [](const Job&, const Layout& l) { return l.optimizer != Optimizer::adam && l.optimizer != Optimizer::adamw; },
       [](const Job&, const Layout& l) { return "optimizer " + std::string(name_in(kOptimizerNames, l.optimizer)); },
       "the training script chooses it"},
      {kDispatcher, false, "",
       [](const Job& job, const Layout&) {
         return job.moe() && job.training.dispatcher != Dispatcher::by_profile &&
                job.training.dispatcher != Dispatcher::all_to_all;
       },
       [](const Job& job, const Layout&) {
         return "--dispatcher " + std::string(name_in(kDispatcherNames, job.training.dispatcher));
       },
       "the model's code chooses it"},
      {kCapacity, false, "",
       [](const Job& job, const Layout&) { return job.moe() && job.training.expert_capacity > 0; },
       [](const Job& job, const Layout&) { return "--expert-capacity " + shortest(job.training.expert_capacity); },
       "the model's code limits it"},
      {kGradientType, false, "", [](const Job& job, const Layout&) { return job.training.gradient_bytes > 0; },
       [](const Job& job, const Layout&) {
         return std::string("--gradient-dtype ") + (job.training.gradient_bytes < 4 ? "bf16" : "fp32");
       },
       "the program's habit applies"},
      {kPrefetch, false, "", [](const Job& job, const Layout&) { return job.training.prefetch >= 0; },
       [](const Job& job, const Layout&) { return "--prefetch " + number(job.training.prefetch); },
       "the program's habit applies"},
      {kGradOverlap, false, "",
       [](const Job& job, const Layout&) { return job.training.overlap_dp_grad != Switch::by_profile; },
       [](const Job&, const Layout&) { return std::string("--overlap dp-grad"); }, "the program's habit applies"},
      {kOverlaps, false, "", [](const Job& job, const Layout&) { return other_overlap(job); },
       [](const Job&, const Layout&) { return std::string("--overlap dp-param, tp, pp or ep"); },
       "the program's habits apply"},
      {kGradReduce, false, "", [](const Job&, const Layout& l) { return l.grad_reduce != GradReduce::by_framework; },
       [](const Job&, const Layout& l) {
         return "grad-reduce " + std::string(name_in(kGradReduceNames, l.grad_reduce));
       },
       "the training script decides (no_sync)"},
      {kEightBit, false, "", [](const Job& job, const Layout&) { return job.training.precision >= Precision::fp8; },
       [](const Job& job, const Layout& l) { return "precision " + word_of(job, l, JobFact::precision); },
       "the model's code converts its products"},
      {kCpVariant, false, "", [](const Job&, const Layout& l) { return l.cp > 1; },
       [](const Job&, const Layout& l) { return "cp-type " + std::string(name_in(kCpTypeNames, l.cp_type)); },
       "the model's attention chooses it"},
  };
  return rows;
}

}  // namespace tpplan
