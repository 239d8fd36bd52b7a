#include "cost-model/layer_cost.h"

#include <algorithm>

#include "cost-model/layer_sizes.h"
#include "cost-model/peft.h"

namespace tpplan {

LayerKey layer_key(const Layout& layout) {
  LayerKey key;
  key.tp = layout.tp;
  key.cp = layout.cp;
  key.ep = layout.ep;
  key.etp = layout.etp;
  key.micro_batch = layout.micro_batch;
  key.sequence_parallel = layout.sequence_parallel;
  key.recompute = layout.recompute;
  key.recompute_modules = layout.recompute == RecomputeKind::selective ? layout.recompute_modules : std::uint16_t{0};
  key.cp_type = layout.cp_type;
  key.ranks_order = layout.ranks_order;
  return key;
}

namespace {

bool in_mask(const Operation& op, std::uint16_t mask) { return (op.module & mask) != 0; }

/// Launches of one layer, for the host's side of the step.
struct Launches {
  double forward = 0, backward = 0;
};

PassCosts sum(const Job& job, const LayerKey& key, const OperationList& list, Launches launches) {
  PassCosts costs;
  Seconds gemm_forward(0);
  Seconds memory_forward(0);
  double collectives = 0;
  const auto ep_share =
      switched_on(job.training.overlap_ep, 0) ? job.profile.ep_exposed_overlapped : job.profile.ep_exposed;
  for (const auto& op : list) {
    const bool again = key.recompute == RecomputeKind::full ||
                       (key.recompute == RecomputeKind::selective && in_mask(op, key.recompute_modules));
    switch (op.kind) {
      case OperationKind::tp_comm:
        costs.tp_forward += op.forward;
        costs.tp_backward += op.input_gradient + (again ? op.forward : Seconds(0));
        collectives += 1;
        break;
      case OperationKind::cp_comm:
        costs.cp_forward += op.forward;
        costs.cp_backward += op.input_gradient + (again ? op.forward : Seconds(0));
        collectives += 1;
        break;
      case OperationKind::ep_comm:
        costs.ep_forward += op.forward * ep_share;
        costs.ep_backward += (op.input_gradient + (again ? op.forward : Seconds(0))) * ep_share;
        collectives += 1;
        break;
      default:
        costs.forward += op.forward;
        costs.backward += op.input_gradient + op.weight_gradient;
        costs.weight_gradient += op.weight_gradient;
        if (again) {
          costs.recompute += op.forward;
        }
        (op.kind == OperationKind::gemm ? gemm_forward : memory_forward) += op.forward;
    }
  }
  if (key.recompute == RecomputeKind::selective_op) {
    costs.recompute = gemm_forward * job.profile.selective_op_share + memory_forward;
  }
  const double repeated = key.recompute == RecomputeKind::full ? launches.forward
                          : costs.recompute.raw() > 0          ? launches.forward * 0.3
                                                               : 0;
  const double graphs = job.training.cuda_graphs ? 0.15 : 1;
  const Seconds launch = Seconds(job.profile.launch_s * graphs);
  const Seconds gap = Seconds(job.profile.kernel_gap_s * graphs);
  const double comm_launches = collectives * job.profile.collective_launches;
  costs.forward_launch = launch * (launches.forward + comm_launches);
  costs.backward_launch = launch * (launches.backward + repeated + comm_launches);
  costs.host_forward = gap * launches.forward;
  costs.host_backward = gap * (launches.backward + repeated);
  const Seconds busy_forward = costs.forward_total();
  const Seconds busy_backward = costs.backward_total();
  costs.host_forward += max(Seconds(0), costs.forward_launch - busy_forward);
  costs.host_backward += max(Seconds(0), costs.backward_launch - busy_backward);
  return costs;
}

Bytes kept(const Job& job, const LayerKey& key, const LayerSizes& s, const std::vector<TokenBytes>& rows,
           bool moe_layer, std::uint16_t dropped_modules) {
  double per_token = 0;
  const double ffn = ffn_width_per_token(job, s, moe_layer);
  for (const auto& row : rows) {
    if (applies(job, key, row) && (row.module & dropped_modules) == 0) {
      per_token += bytes_per_token(job, s, row, ffn) * (narrow(job.training.precision) ? row.narrow : 1);
    }
  }
  if (moe_layer) {
    // Routed copies kept around the experts: dispatched inputs, router state (12 bytes an expert and token).
    const auto& moe = *job.model.moe;
    const double width = narrow(job.training.precision) ? 1 : 2;
    const double copies = static_cast<double>(moe.top_k) * job.training.expert_imbalance / s.sp;
    per_token += 12.0 * moe.experts / s.sp + copies * (width * s.h + 8);
  }
  if (job.adapters != 0) {
    per_token = std::max(0.0, per_token + adapter_token_bytes(job, key, s, moe_layer, dropped_modules));
  }
  return Bytes(per_token * s.tokens * job.profile.activation_factor);
}

Bytes layer_activations(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer) {
  switch (key.recompute) {
    case RecomputeKind::full:
      return Bytes(2 * s.h / s.sp * s.tokens);
    case RecomputeKind::selective_op:
      if (!job.profile.activations_selective_op.empty()) {
        return kept(job, key, s, job.profile.activations_selective_op, moe_layer, kNorm | kMlp);
      }
      return kept(job, key, s, job.profile.activations, moe_layer, kCoreAttention | kNorm);
    case RecomputeKind::selective:
      return kept(job, key, s, job.profile.activations, moe_layer, key.recompute_modules);
    default:
      return kept(job, key, s, job.profile.activations, moe_layer, 0);
  }
}

/// What the weight gradients of a layer need, relative to all that the layer keeps.
double weight_share(const OperationList& list, Bytes activations) {
  double elements = 0;
  for (const auto& op : list) {
    if (op.kind == OperationKind::gemm) {
      elements += op.count * op.m * (op.k + op.n);
    }
  }
  return activations.raw() > 0 ? std::min(1.0, kActivationBytes * elements / activations.raw()) : 1;
}

Flops model_flops(const OperationList& list, const Job& job) {
  Flops total(0);
  for (const auto& op : list) {
    if (op.kind == OperationKind::gemm) {
      total += op.flops_forward * (job.adapters == 0 ? 3.0 : 2.0);  // frozen products have no weight gradients
    } else if (op.kind == OperationKind::attention) {
      // Causal-halved convention whatever the kernel computes.
      total += op.flops_forward * (job.training.flash_attention ? 3.0 : 1.5 * job.mean_attended);
    }
  }
  return total;
}

}  // namespace

LayerCosts layer_costs(const Job& job, const LayerKey& key) {
  const auto s = sizes_of(job, key);
  const auto& profile = job.profile;
  LayerCosts out;
  const auto dense_list = layer_operations(job, key, false);
  out.dense = sum(job, key, dense_list, {profile.kernels_forward, profile.kernels_backward});
  out.dense_params = rank_parameters(job, key, false).dense;
  out.dense_activations = layer_activations(job, key, s, false);
  out.dense_activations_all = kept(job, key, s, profile.activations, false, 0);
  out.model_flops_dense = model_flops(dense_list, job);
  out.weight_share = weight_share(dense_list, out.dense_activations);
  if (job.moe()) {
    const auto moe_list = layer_operations(job, key, true);
    out.moe = sum(job, key, moe_list, {profile.kernels_forward * 2, profile.kernels_backward * 2});
    // An eager MoE layer waits for the token counts on the host: its host time adds to the GPU's. A dispatcher that is
    // driven by the GPU (DeepEP, HybridEP) inside CUDA graphs does not wait.
    const bool waits = !job.training.cuda_graphs || job.training.dispatcher == Dispatcher::by_profile ||
                       job.training.dispatcher == Dispatcher::all_to_all;
    if (waits) {
      const Seconds forward(profile.moe_host_forward_s);
      out.moe.host_forward += forward;
      out.moe.host_backward += forward * profile.moe_host_backward_factor;
    }
    const auto params = rank_parameters(job, key, true);
    out.moe_params = params.dense;
    out.expert_params = params.expert;
    out.moe_activations = layer_activations(job, key, s, true);
    out.moe_activations_all = kept(job, key, s, profile.activations, true, 0);
    out.model_flops_moe = model_flops(moe_list, job);
    out.weight_share = weight_share(moe_list, out.moe_activations);
  }
  // Ends of the pipeline are never recomputed.
  LayerKey ends = key;
  ends.recompute = RecomputeKind::none;
  out.embedding = sum(job, ends, embedding_operations(job, key), {});
  const auto head_list = head_operations(job, key);
  out.head = sum(job, ends, head_list, {});
  out.model_flops_head = model_flops(head_list, job);

  const double padded_rows = s.vocab_local;
  const double other_rows = static_cast<double>(embedding_parameters(job.model)) -
                            static_cast<double>(job.model.vocab) *
                                (job.model.embedding_projection > 0 ? job.model.embedding_projection : s.h);
  out.embedding_params = padded_rows * s.h + std::max(0.0, other_rows);
  out.head_params = padded_rows * s.h + (job.model.head_bias ? padded_rows : 0) + s.h;
  out.layer_input = Bytes(2 * s.h / s.sp * s.tokens);
  const double gather = key.sequence_parallel ? 4 * s.h : 0;
  const double scores =
      job.training.flash_attention ? 0 : std::max(0.0, 4 * s.heads_local * job.training.seq - 19 * s.h);
  out.backward_transient = Bytes((std::max(4 * s.ffn_local, scores) + gather) * s.tokens);
  out.head_activations =
      Bytes((profile.head_input_bytes / 2 * s.h / s.sp + profile.head_input_bytes / 2 * s.h + gather) * s.tokens);
  const double logit_bytes = job.training.loss == Loss::fused     ? 2
                             : job.training.loss == Loss::chunked ? std::min(9.0, profile.loss_allocated_per_logit)
                                                                  : profile.loss_allocated_per_logit;
  const bool other_loss = job.adapters != 0 && profile.adapter_loss_per_logit > 0;
  out.loss_transient = Bytes((other_loss ? profile.adapter_loss_per_logit : logit_bytes) * s.vocab_local * s.tokens);
  out.boundary = Bytes(2 * s.h / s.sp * s.tokens);
  if (job.adapters != 0) {
    add_adapter_sizes(job, key, s, out);
  } else if (profile.dummy_weight_gradients > 0.5) {
    // One shared 16-bit buffer per distinct weight shape of a layer: qkv, projection, up(+gate), down.
    const double gate = job.model.gated_mlp ? 2 : 1;
    out.dummy_gradients =
        Bytes(2 * (s.h * (s.q_local + 2 * s.kv_local) + s.q_local * s.h + (gate + 1) * s.h * s.ffn_local));
    out.head_dummy_gradient = Bytes(2 * s.vocab_local * s.h);
  }
  return out;
}

}  // namespace tpplan
