#include "planner/export/export_request.h"

#include <algorithm>
#include <functional>

#include "cost-model/pipeline.h"
#include "cost-model/stage_balance.h"

namespace tpplan {
namespace {

/// Groups of ranks that each hold all states.
std::int64_t state_replicas(const Layout& layout) {
  if (layout.zero == 0) {
    return layout.dp;
  }
  return layout.shard_group == 0 ? 1 : std::int64_t{layout.dp} * layout.cp / layout.shard_group;
}

std::optional<std::int64_t> when(bool there, std::int64_t value) { return there ? std::optional(value) : std::nullopt; }
std::optional<std::int64_t> above_zero(std::int64_t value) { return when(value > 0, value); }

std::optional<std::int64_t> layout_number(const Job& job, const Layout& layout, JobFact fact) {
  switch (fact) {
    case JobFact::world:
      return layout.world();
    case JobFact::dp:
      return layout.dp;
    case JobFact::dp_replicas:
      return state_replicas(layout);
    case JobFact::dp_shards:
      return layout.dp / std::max<std::int64_t>(1, state_replicas(layout));
    case JobFact::shard_group:
      return above_zero(layout.shard_group);
    case JobFact::tp:
      return layout.tp;
    case JobFact::pp:
      return layout.pp;
    case JobFact::cp:
      return layout.cp;
    case JobFact::ep:
      return when(job.moe(), layout.ep);
    case JobFact::etp:
      return when(job.moe(), layout.etp);
    case JobFact::vpp:
      return when(layout.vpp > 1, layout.vpp);
    case JobFact::vpp_group:
      return above_zero(layout.vpp_group);
    case JobFact::sequence_parallel:
      return layout.sequence_parallel ? 1 : 0;
    case JobFact::zero:
      return layout.zero;
    case JobFact::recompute_layers:
      return when(layout.recompute == RecomputeKind::full, std::max(1, layout.recompute_layers));
    case JobFact::seq:
      return job.training.seq;
    case JobFact::micro_batch:
      return layout.micro_batch;
    case JobFact::global_batch:
      return job.training.global_batch;
    case JobFact::micro_batches:
      return micro_batches(job, layout);
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> model_number(const ModelSpec& model, JobFact fact) {
  const MoeSpec moe = model.moe.value_or(MoeSpec{});
  const LatentAttention latent = model.latent.value_or(LatentAttention{});
  switch (fact) {
    case JobFact::layers:
      return model.layers;
    case JobFact::hidden:
      return model.hidden;
    case JobFact::ffn:
      return above_zero(model.ffn_hidden);
    case JobFact::heads:
      return model.heads;
    case JobFact::kv_heads:
      return when(!model.latent, model.kv_heads);
    case JobFact::head_dim:
      return when(!model.latent, model.head_dim);
    case JobFact::vocab:
      return model.vocab;
    case JobFact::tied_embeddings:
      return model.tied_embeddings ? 1 : 0;
    case JobFact::window:
      return above_zero(model.attention_window);
    case JobFact::experts:
      return above_zero(moe.experts);
    case JobFact::top_k:
      return above_zero(moe.top_k);
    case JobFact::expert_ffn:
      return above_zero(moe.expert_ffn);
    case JobFact::shared_ffn:
      return above_zero(moe.shared_ffn);
    case JobFact::routing_groups:
      return above_zero(moe.routing_groups);
    case JobFact::routing_group_limit:
      return above_zero(moe.routing_group_limit);
    case JobFact::q_lora:
      return above_zero(latent.q_lora);
    case JobFact::kv_lora:
      return above_zero(latent.kv_lora);
    case JobFact::qk_nope:
      return above_zero(latent.qk_nope);
    case JobFact::qk_rope:
      return above_zero(latent.qk_rope);
    case JobFact::v_head:
      return above_zero(latent.v);
    case JobFact::mtp_layers:
      return above_zero(model.mtp_layers);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool ExportRequest::stages_are_equal() const {
  return std::adjacent_find(stage_layers.begin(), stage_layers.end(), std::not_equal_to<>()) == stage_layers.end();
}

std::vector<int> export_stage_layers(const Job& job, const Layout& layout) {
  const int depth = depth_of(layout.schedule, layout.pp, layout.vpp);
  const auto contents =
      stages_are_balanced(job, layout.pp)
          ? stage_contents(job, layout.pp, depth, balanced_stages(job, layout, layer_costs(job, layer_key(layout))))
          : stage_contents(job, layout.pp, depth);
  std::vector<int> layers;
  layers.reserve(contents.size());
  for (const StageContent& content : contents) {
    layers.push_back(content.dense + content.moe);
  }
  return layers;
}

std::optional<std::int64_t> number_of(const Job& job, const Layout& layout, JobFact fact) {
  return describes_model(fact) ? model_number(job.model, fact) : layout_number(job, layout, fact);
}

std::string word_of(const Job& job, const Layout& layout, JobFact fact) {
  switch (fact) {
    case JobFact::precision:
      return std::string(name_of(job.training.precision)) +
             (job.training.fp8_recipe.empty() || job.training.precision != Precision::fp8
                  ? ""
                  : ":" + job.training.fp8_recipe);
    case JobFact::schedule:
      return std::string(name_in(kScheduleNames, layout.schedule));
    case JobFact::cp_type:
      return std::string(name_in(kCpTypeNames, layout.cp_type));
    case JobFact::recompute:
      return std::string(name_in(kRecomputeNames, layout.recompute));
    default:
      return "";
  }
}

}  // namespace tpplan
