#include "cost-model/layer_sizes.h"

#include <algorithm>
#include <array>

namespace tpplan {

bool narrow(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::mxfp8 || precision == Precision::nvfp4;
}

Precision wide_precision(const Job& job) {
  if (!narrow(job.training.precision)) {
    return job.training.precision;
  }
  return job.cluster.gpu.peak_of(Precision::bf16).raw() > 0 ? Precision::bf16 : Precision::fp16;
}

LayerSizes sizes_of(const Job& job, const LayerKey& key) {
  const auto& model = job.model;
  LayerSizes s;
  s.tp = key.tp;
  s.sp = key.sequence_parallel ? key.tp : 1;
  s.tokens = static_cast<double>(job.training.seq) * key.micro_batch / key.cp;
  s.sequence_tokens = s.tokens / s.sp;
  s.h = model.hidden;
  s.q = static_cast<double>(model.heads) * model.head_dim;
  s.kv = static_cast<double>(std::max(model.kv_heads, key.tp)) * model.head_dim;
  s.heads_local = static_cast<double>(model.heads) / key.tp;
  s.kv_heads_local = std::max(1.0, static_cast<double>(model.kv_heads) / key.tp);
  s.width_qk = model.head_dim;
  s.width_v = model.head_dim;
  if (model.latent) {
    s.width_qk = model.latent->qk_nope + model.latent->qk_rope;
    s.width_v = model.latent->v;
    s.q = model.heads * s.width_qk;
    s.kv = model.heads * s.width_v;
    s.kv_heads_local = s.heads_local;
  }
  s.q_local = s.q / key.tp;
  s.kv_local = model.latent ? s.kv / key.tp : s.kv_heads_local * model.head_dim;
  s.ffn_local = static_cast<double>(model.ffn_hidden) / key.tp;
  s.vocab_local = static_cast<double>(padded_vocab(job, key.tp)) / key.tp;
  const auto precision = job.training.precision;
  s.widening = precision == Precision::fp32 || precision == Precision::tf32 ? 2 : 1;
  s.element = Bytes(kActivationBytes * s.widening);
  return s;
}

double memory_fraction(const GpuConstants& gpu, MemoryKind kind) {
  // In the order of the enumeration.
  constexpr std::array<double GpuConstants::*, 4> kFractions{&GpuConstants::memory_plain, &GpuConstants::memory_norm,
                                                             &GpuConstants::memory_adam, &GpuConstants::memory_dynamic};
  return gpu.*kFractions[static_cast<std::size_t>(kind)];
}

Seconds memory_time(const Job& job, Bytes bytes, MemoryKind kind) {
  return bytes / (job.cluster.gpu.memory_bandwidth * memory_fraction(job.constants, kind));
}

bool applies(const Job& job, const LayerKey& key, const TokenBytes& row) {
  const auto& training = job.training;
  const bool flash = training.flash_attention;
  const bool frozen_norms = training.peft != PeftMethod::none && training.peft != PeftMethod::adapter_v2;
  return (row.flash < 0 || (row.flash == 1) == flash) &&
         (row.rms_kernel < 0 || (row.rms_kernel == 1) == training.fused_norm) &&
         (row.tp_above_one < 0 || (row.tp_above_one == 1) == (key.tp > 1)) &&
         (row.frozen < 0 || (row.frozen == 1) == frozen_norms) &&
         (row.grouped < 0 || (row.grouped == 1) == (job.model.kv_heads < job.model.heads));
}

namespace {

double divisor(const LayerSizes& s, ShardedBy by) {
  return by == ShardedBy::tp ? s.tp : by == ShardedBy::sequence ? s.sp : 1;
}

}  // namespace

double bytes_per_token(const Job& job, const LayerSizes& s, const TokenBytes& row, double ffn_width) {
  const double latent_kv = s.kv;
  const double body = row.h * s.h + row.q * s.q + row.kv * latent_kv + row.heads * job.model.heads +
                      row.scores * job.model.heads * job.training.seq + row.constant;
  const double f = job.model.gated_mlp || row.f_plain < 0 ? row.f : row.f_plain;
  return body / divisor(s, row.sharded_by) + f * ffn_width;
}

double ffn_width_per_token(const Job& job, const LayerSizes& s, bool moe_layer) {
  if (!moe_layer) {
    return s.ffn_local;
  }
  const auto& moe = *job.model.moe;
  const double routed = static_cast<double>(moe.top_k) * moe.expert_ffn * job.routed_factor();
  return routed / s.sp + moe.shared_ffn / s.tp;
}

RankParameters rank_parameters(const Job& job, const LayerKey& key, bool moe_layer) {
  const auto& layer = moe_layer ? job.moe_layer : job.dense_layer;
  // Key/value heads fewer than tp are replicated: their weights do not divide further.
  double attention = static_cast<double>(layer.attention) / key.tp;
  if (!job.model.latent && job.model.kv_heads < key.tp) {
    const double kv_weights = 2.0 * job.model.hidden * job.model.kv_heads * job.model.head_dim;
    attention += kv_weights / job.model.kv_heads - kv_weights / key.tp;
  }
  RankParameters out;
  out.dense = attention + static_cast<double>(layer.mlp) / key.tp + static_cast<double>(layer.attention_replicated) +
              static_cast<double>(layer.router) + static_cast<double>(layer.norms);
  out.expert = static_cast<double>(layer.experts) / (static_cast<double>(key.ep) * key.etp);
  return out;
}

bool switched_on(Switch choice, double habit) {
  return choice == Switch::by_profile ? habit > 0.5 : choice == Switch::on;
}

}  // namespace tpplan
