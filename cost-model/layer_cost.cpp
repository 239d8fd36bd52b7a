#include "cost-model/layer_cost.h"

#include <algorithm>

#include "cost-model/context_parallel.h"
#include "cost-model/layer_sizes.h"
#include "cost-model/peft.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

LayerKey layer_key(const Layout& layout) {
  LayerKey key;
  key.tp = layout.tp;
  key.cp = layout.cp;
  key.ep = layout.ep;
  key.etp = layout.etp;
  key.micro_batch = layout.micro_batch;
  key.recompute_layers = layout.recompute == RecomputeKind::full ? layout.recompute_layers : 0;
  key.sequence_parallel = layout.sequence_parallel;
  key.paired = layout.schedule == Schedule::dualpipe;
  key.recompute = layout.recompute;
  key.recompute_modules = layout.recompute == RecomputeKind::selective ? layout.recompute_modules : std::uint16_t{0};
  key.cp_type = layout.cp_type;
  key.ranks_order = layout.ranks_order;
  return key;
}

PassCosts& PassCosts::operator+=(const PassCosts& other) {
  forward += other.forward;
  backward += other.backward;
  weight_gradient += other.weight_gradient;
  recompute += other.recompute;
  tp_forward += other.tp_forward;
  tp_backward += other.tp_backward;
  cp_forward += other.cp_forward;
  cp_backward += other.cp_backward;
  ep_forward += other.ep_forward;
  ep_backward += other.ep_backward;
  ep_hidden_forward += other.ep_hidden_forward;
  ep_hidden_backward += other.ep_hidden_backward;
  host_forward += other.host_forward;
  host_backward += other.host_backward;
  forward_launch += other.forward_launch;
  backward_launch += other.backward_launch;
  starved_forward += other.starved_forward;
  starved_backward += other.starved_backward;
  return *this;
}

PassCosts operator*(PassCosts costs, double n) {
  costs.forward *= n;
  costs.backward *= n;
  costs.weight_gradient *= n;
  costs.recompute *= n;
  costs.tp_forward *= n;
  costs.tp_backward *= n;
  costs.cp_forward *= n;
  costs.cp_backward *= n;
  costs.ep_forward *= n;
  costs.ep_backward *= n;
  costs.ep_hidden_forward *= n;
  costs.ep_hidden_backward *= n;
  costs.host_forward *= n;
  costs.host_backward *= n;
  costs.forward_launch *= n;
  costs.backward_launch *= n;
  costs.starved_forward *= n;
  costs.starved_backward *= n;
  return costs;
}

namespace {

bool in_mask(const Operation& op, std::uint16_t mask) { return (op.module & mask) != 0; }

/// Multiprocessors that DualPipe sets aside for its exchanges, which then are hidden whole beside as much work
/// (DeepSeek-V3 report, arXiv 2412.19437, section 3.2.2).
constexpr double kReservedMultiprocessors = 20;

/// Launches of one layer, for the host's side of the step, and what the GPU waits for the host beyond them in a forward
/// pass.
struct Launches {
  double forward = 0, backward = 0;
  Seconds wait;
};

PassCosts sum(const Job& job, const LayerKey& key, const OperationList& list, Launches launches) {
  PassCosts costs;
  Seconds gemm_forward(0);
  Seconds memory_forward(0);
  double collectives = 0;
  const double sms = job.cluster.gpu.sms > 0 ? job.cluster.gpu.sms : 100;
  const double fewer_sms = key.paired && key.ep > 1 ? sms / (sms - std::min(kReservedMultiprocessors, sms / 2)) : 1;
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
        costs.ep_forward += op.forward;
        costs.ep_backward += op.input_gradient + (again ? op.forward : Seconds(0));
        collectives += 1;
        break;
      default: {
        const double slower = op.kind == OperationKind::memory ? 1 : fewer_sms;
        costs.forward += op.forward * slower;
        costs.backward += (op.input_gradient + op.weight_gradient) * slower;
        costs.weight_gradient += op.weight_gradient * slower;
        if (again) {
          costs.recompute += op.forward * slower;
        }
        (op.kind == OperationKind::gemm ? gemm_forward : memory_forward) += op.forward * slower;
      }
    }
  }
  if (key.recompute == RecomputeKind::selective_op) {
    costs.recompute = gemm_forward * job.profile.selective_op_share + memory_forward;
  }
  const Seconds work = costs.forward + costs.backward + costs.recompute;
  const Seconds wait_backward = launches.wait * job.profile.moe_host_backward_factor;
  const Seconds waits = launches.wait + wait_backward;
  const Seconds exchanges = costs.ep_forward + costs.ep_backward;
  if (exchanges > Seconds(0)) {
    double exposed = job.profile.ep_exposed;
    if (key.paired) {
      exposed = beside(work, exchanges, 0) / exchanges;
    } else if (switched_on(job.training.overlap_ep, 0)) {
      // The exchanges of one micro-batch run beside the passes of another, and while the GPU waits for the host.
      exposed = beside(work + waits, exchanges, job.profile.ep_exposed_overlapped) / exchanges;
    }
    if (key.paired) {
      costs.ep_hidden_forward = costs.ep_forward * (1 - exposed);
      costs.ep_hidden_backward = costs.ep_backward * (1 - exposed);
    }
    costs.ep_forward *= exposed;
    costs.ep_backward *= exposed;
  }
  const double repeated = key.recompute == RecomputeKind::full ? launches.forward
                          : costs.recompute.raw() > 0          ? launches.forward * 0.3
                                                               : 0;
  const double graphs = job.training.cuda_graphs ? 0.15 : 1;
  const Seconds launch = Seconds(job.profile.launch_s * graphs);
  const Seconds gap = Seconds(job.profile.kernel_gap_s * graphs);
  const double comm_launches = collectives * job.profile.collective_launches;
  // Of one forward pass; embedding and head have no launches of their own.
  const Seconds modules = launches.forward > 0 ? Seconds(job.profile.layer_host_s * graphs) : Seconds(0);
  costs.forward_launch = launch * (launches.forward + comm_launches) + modules;
  costs.backward_launch = launch * (launches.backward + repeated + comm_launches) +
                          (repeated > 0 ? modules * (repeated / launches.forward) : Seconds(0));
  if (key.recompute == RecomputeKind::full && launches.forward > 0) {
    costs.backward_launch += Seconds(job.profile.checkpoint_host_s * graphs);
  }
  costs.host_forward = gap * launches.forward;
  costs.host_backward = gap * (launches.backward + repeated);
  costs.starved_forward = max(Seconds(0), costs.forward_launch - costs.forward_total());
  costs.starved_backward = max(Seconds(0), costs.backward_launch - costs.backward_total());
  costs.host_forward += costs.starved_forward;
  costs.host_backward += costs.starved_backward;
  double shown = 1;
  if (key.paired && waits > Seconds(0)) {
    // Work of the other micro-batch keeps the GPU busy meanwhile: only what the two passes cannot cover shows.
    const Seconds spare = costs.total() - costs.forward_launch - costs.backward_launch;
    shown = max(Seconds(0), waits - spare) / waits;
  }
  costs.host_forward += launches.wait * shown;
  costs.host_backward += wait_backward * shown;
  return costs;
}

/// FFN width per token of a MoE layer whose tensors stay: of a recomputed activation its input alone, two thirds.
double kept_ffn_width(const Job& job, const LayerSizes& s, std::uint16_t dropped_modules) {
  const auto& moe = *job.model.moe;
  const double routed = static_cast<double>(moe.top_k) * moe.expert_ffn * job.routed_factor() / s.sp;
  const double shared = moe.shared_ffn / s.tp;
  if ((dropped_modules & kMoe) != 0) {
    return 0;
  }
  return routed * ((dropped_modules & kMoeActivation) != 0 ? 2.0 / 3 : 1) +
         ((dropped_modules & kSharedExperts) != 0 ? 0 : shared);
}

/// bytes_per_token() of latent attention: a list's row of queries, keys and values stands for the latent vectors, the
/// queries before and after rotation and the up-projected keys and values, which mla_up_proj drops; a row of queries
/// alone is the attention output, as wide as the values.
double latent_bytes_per_token(const Job& job, const LayerSizes& s, const TokenBytes& row, double ffn_width,
                              std::uint16_t dropped_modules) {
  const auto& mla = *job.model.latent;
  const double heads = s.heads_local;
  double bytes = 0;
  if (row.kv > 0) {
    bytes = row.q * (2.0 * mla.q_lora + 2 * mla.kv_lora + mla.qk_rope) / s.sp;
    if ((dropped_modules & kMlaUpProjection) == 0) {
      bytes += row.q * heads * (2 * s.width_qk + mla.qk_nope + mla.v);
    }
  } else {
    bytes = row.q * heads * s.width_v;
  }
  LayerSizes rest = s;
  rest.q = 0;
  rest.kv = 0;
  return bytes + bytes_per_token(job, rest, row, ffn_width);
}

Bytes kept(const Job& job, const LayerKey& key, const LayerSizes& s, const std::vector<TokenBytes>& rows,
           bool moe_layer, std::uint16_t dropped_modules) {
  double per_token = 0;
  const bool narrowed = narrow(job.training.precision);
  const double ffn = moe_layer ? kept_ffn_width(job, s, dropped_modules) : s.ffn_local;
  LayerSizes attended = s;
  attended.kv = attended_kv_heads(job, key) * job.model.head_dim;
  for (const auto& row : rows) {
    if (applies(job, key, row) && (row.module & dropped_modules & (moe_layer ? ~kMlp : ~0)) == 0) {
      per_token += (job.model.latent ? latent_bytes_per_token(job, s, row, ffn, dropped_modules)
                                     : bytes_per_token(job, attended, row, ffn)) *
                   (narrowed ? row.narrow : 1);
    }
  }
  if (moe_layer) {
    // Router state (12 bytes an expert and token) and the routed copies that the experts take in.
    const auto& moe = *job.model.moe;
    const double copies =
        (dropped_modules & kMoe) != 0 ? 0 : static_cast<double>(moe.top_k) * job.routed_factor() / s.sp;
    const double outputs = 2 * job.profile.routed_outputs_kept;
    per_token += 12.0 * moe.experts / s.sp + copies * (((narrowed ? 1 : 2) + outputs) * s.h + 8);
  }
  if (job.adapters != 0) {
    per_token = std::max(0.0, per_token + adapter_token_bytes(job, key, s, moe_layer, dropped_modules));
  }
  return Bytes(per_token * s.widening * s.tokens * job.profile.activation_factor);
}

Bytes layer_activations(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer) {
  switch (key.recompute) {
    case RecomputeKind::full:
      return s.element * (s.h / s.sp * s.tokens * hidden_bytes(job) / 2);
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

/// What a layer's FFN has freed again when its attention runs backward, of what the layer then held.
Bytes freed_by_ffn(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer) {
  if (key.recompute == RecomputeKind::selective_op) {
    return Bytes(0);
  }
  const auto modules = key.recompute == RecomputeKind::selective ? key.recompute_modules : std::uint16_t{0};
  const auto ffn = static_cast<std::uint16_t>(modules | (moe_layer ? kMoe : kMlp));
  const auto& rows = job.profile.activations;
  return max(Bytes(0), kept(job, key, s, rows, moe_layer, modules) - kept(job, key, s, rows, moe_layer, ffn));
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

namespace {

LayerKey without_recomputation(LayerKey key) {
  key.recompute = RecomputeKind::none;
  key.recompute_layers = 0;
  key.recompute_modules = 0;
  key.paired = false;
  return key;
}

}  // namespace

bool LayerLists::serve(const LayerKey& other) const { return without_recomputation(other) == key; }

LayerLists layer_lists(const Job& job, const LayerKey& key) {
  LayerLists lists;
  lists.key = without_recomputation(key);
  lists.dense = layer_operations(job, key, false);
  if (job.moe()) {
    lists.moe = layer_operations(job, key, true);
  }
  lists.embedding = embedding_operations(job, key);
  lists.head = head_operations(job, key);
  if (job.model.mtp_layers > 0) {
    lists.mtp = mtp_operations(job, key);
  }
  return lists;
}

LayerCosts layer_costs(const Job& job, const LayerKey& key) { return layer_costs(job, key, layer_lists(job, key)); }

LayerCosts layer_costs(const Job& job, const LayerKey& key, const LayerLists& lists) {
  const auto s = sizes_of(job, key);
  const auto& profile = job.profile;
  LayerCosts out;
  out.recompute_layers = key.recompute_layers;
  LayerKey kept_whole = key;
  kept_whole.recompute = RecomputeKind::none;
  const auto& dense_list = lists.dense;
  out.dense = sum(job, key, dense_list, {profile.kernels_forward, profile.kernels_backward, {}});
  out.dense_params = rank_parameters(job, key, false).dense;
  out.dense_activations = layer_activations(job, key, s, false);
  out.dense_activations_all = kept(job, key, s, profile.activations, false, 0);
  out.model_flops_dense = model_flops(dense_list, job);
  out.weight_share = weight_share(dense_list, out.dense_activations);
  if (key.recompute == RecomputeKind::full) {
    out.dense_once = sum(job, kept_whole, dense_list, {profile.kernels_forward, profile.kernels_backward, {}});
  }
  if (job.moe()) {
    const auto& moe_list = lists.moe;
    // An eager MoE layer waits for the token counts on the host: its host time adds to the GPU's. Graphs of the rest of
    // the layer leave the exchange and the experts; an exchange of one copy per expert still needs the counts itself.
    const auto dispatcher = job.training.dispatcher;
    const bool graphed =
        job.training.cuda_graphs && dispatcher != Dispatcher::by_profile && dispatcher != Dispatcher::all_to_all;
    const double share = (graphed ? profile.moe_host_graphed : 1) *
                         (dispatcher == Dispatcher::deepep_proxied ? profile.moe_host_proxied : 1);
    const Launches launches{profile.kernels_forward * 2, profile.kernels_backward * 2,
                            Seconds(profile.moe_host_forward_s * share)};
    out.moe = sum(job, key, moe_list, launches);
    const auto params = rank_parameters(job, key, true);
    out.moe_params = params.dense;
    out.expert_params = params.expert;
    out.moe_activations = layer_activations(job, key, s, true);
    out.moe_activations_all = kept(job, key, s, profile.activations, true, 0);
    out.model_flops_moe = model_flops(moe_list, job);
    out.weight_share = weight_share(moe_list, out.moe_activations);
    if (key.recompute == RecomputeKind::full) {
      out.moe_once = sum(job, kept_whole, moe_list, launches);
    }
  }
  // Ends of the pipeline are never recomputed.
  out.embedding = sum(job, kept_whole, lists.embedding, {});
  const auto& head_list = lists.head;
  out.head = sum(job, kept_whole, head_list, {});
  // Of their launches only those of collectives are known.
  for (PassCosts* end : {&out.embedding, &out.head}) {
    end->starved_forward = Seconds(0);
    end->starved_backward = Seconds(0);
  }
  out.model_flops_head = model_flops(head_list, job);

  const double padded_rows = s.vocab_local;
  const double other_rows = static_cast<double>(embedding_parameters(job.model)) -
                            static_cast<double>(job.model.vocab) *
                                (job.model.embedding_projection > 0 ? job.model.embedding_projection : s.h);
  out.embedding_params = padded_rows * s.h + std::max(0.0, other_rows);
  out.head_params = padded_rows * s.h + (job.model.head_bias ? padded_rows : 0) + s.h;
  out.layer_input = s.element * (s.h / s.sp * s.tokens * hidden_bytes(job) / 2);
  if (job.model.mtp_layers > 0) {
    const auto& projection = lists.mtp;
    out.mtp = sum(job, kept_whole, projection, {4, 8, {}});
    out.mtp += job.moe() ? out.moe : out.dense;
    out.mtp += out.head;
    out.mtp_params = (job.moe() ? out.moe_params : out.dense_params) + 2 * s.h * s.h / s.tp + 3 * s.h;
    // Inputs of both norms and what they put out side by side.
    out.mtp_activations = (job.moe() ? out.moe_activations : out.dense_activations) + out.layer_input * 4.0;
    out.model_flops_mtp =
        (job.moe() ? out.model_flops_moe : out.model_flops_dense) + out.model_flops_head + model_flops(projection, job);
  }
  const double gather = key.sequence_parallel ? 4 * s.h : 0;
  const double scores =
      job.training.flash_attention ? 0 : std::max(0.0, 4 * s.heads_local * job.training.seq - 19 * s.h);
  Bytes widest(std::max(2 * hidden_bytes(job) * s.ffn_local, scores) * s.widening * s.tokens);
  // Until its weight gradients a layer keeps the inputs and output gradients of its products: of the FFN's second
  // product the input is not freed, and when the softmax of the scores is differentiated all of the FFN's and the
  // gradient of the attention's output are there.
  const double products = job.model.gated_mlp ? 2 : 1;
  const double kept_for_weights = 6 * s.h + 2 * (1 + products) * s.ffn_local;
  Bytes widest_split(std::max(6 * s.ffn_local, scores > 0 ? scores + kept_for_weights : 0) * s.widening * s.tokens);
  if (key.cp > 1) {
    const Bytes buffers = context_parallel_buffers(job, key, s);
    widest = max(widest, buffers - freed_by_ffn(job, key, s, job.moe()));
    widest_split = max(widest_split, buffers + Bytes(kept_for_weights * s.widening * s.tokens));
  }
  const Bytes gathered(gather * s.widening * s.tokens);
  out.backward_transient = widest + gathered;
  out.backward_transient_split = widest_split + gathered;
  out.head_activations =
      Bytes((profile.head_input_bytes / 2 * s.h / s.sp + profile.head_input_bytes / 2 * s.h + gather) * s.widening *
            s.tokens);
  const double logit_bytes = job.training.loss == Loss::fused     ? 2
                             : job.training.loss == Loss::chunked ? std::min(9.0, profile.loss_allocated_per_logit)
                                                                  : profile.loss_allocated_per_logit;
  const bool other_loss = job.adapters != 0 && profile.adapter_loss_per_logit > 0;
  out.loss_transient = Bytes((other_loss ? profile.adapter_loss_per_logit : logit_bytes) * s.vocab_local * s.tokens);
  out.boundary = out.layer_input;
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
