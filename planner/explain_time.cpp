// The formulas behind the time terms of an estimate, with the numbers of one layout put in.
#include <algorithm>
#include <cmath>

#include "cost-model/data_loading.h"
#include "cost-model/layer_sizes.h"
#include "cost-model/schedules.h"
#include "planner/explain_collectives.h"
#include "planner/explain_peft.h"
#include "planner/explain_rank.h"

namespace tpplan {
namespace {

using PassTerm = Seconds PassCosts::*;

/// "16 x (8 dense layers x (1.2 ms + 2.4 ms) + head 0.5 ms)" for a pair of members, forward and backward.
std::string per_pass(const ExplainedRank& c, PassTerm forward, PassTerm backward) {
  std::string inside;
  const auto add = [&](const std::string& what, const PassCosts& pass) {
    const Seconds down = forward == nullptr ? Seconds(0) : pass.*forward;
    const Seconds up = pass.*backward;
    if ((down + up).raw() <= 0) {
      return;
    }
    inside += inside.empty() ? "" : " + ";
    inside += what;
    if (forward == nullptr) {
      inside += format(up);
    } else {
      inside += "(" + format(down) + " forward + " + format(up) + " backward)";
    }
  };
  const auto layers = [](int count, const char* kind) {
    return number(count) + " " + kind + (count == 1 ? " layer x " : " layers x ");
  };
  if (c.group.content.dense > 0) {
    add(layers(c.group.content.dense, "dense"), c.costs.dense);
  }
  if (c.group.content.moe > 0) {
    add(layers(c.group.content.moe, "MoE"), c.costs.moe);
  }
  if (c.group.content.embedding) {
    add("embedding ", c.costs.embedding);
  }
  if (c.group.content.head) {
    add("head and loss ", c.costs.head);
  }
  if (c.group.content.mtp > 0) {
    add("multi-token prediction ", c.costs.mtp);
  }
  if (inside.empty()) {
    return "none in this layout";
  }
  const bool brackets = inside.find(" + ") != std::string::npos;
  // Two copies of the model run from both ends: each of a rank's two stages sees half of the micro-batches.
  const bool both_ends = c.layout.schedule == Schedule::dualpipe;
  const double seen = c.micro_batches / (both_ends ? 2 : 1);
  return count_of(seen) + (seen > 1 ? " micro-batches" : " micro-batch") +
         (both_ends ? " through each of its two stages x " : " x ") + (brackets ? "[" + inside + "]" : inside);
}

std::string compute_formula(const ExplainedRank& c) {
  const auto text = per_pass(c, &PassCosts::forward, &PassCosts::backward);
  return c.costs.frozen
             ? text + "; frozen products have no weight gradients, " + adapters_text(c.job.training) + " have" +
                   (c.stage.quantised > 0 ? ", 4-bit weights are unpacked before each product" : "") +
                   (c.costs.untouched_layers > 0 && c.group.content.embedding
                        ? "; the first " + number(c.costs.untouched_layers) + " layers have no backward pass"
                        : "")
             : text;
}
std::string recompute_formula(const ExplainedRank& c) {
  return c.layout.recompute == RecomputeKind::none ? "no recomputation" : per_pass(c, nullptr, &PassCosts::recompute);
}
std::string tp_formula(const ExplainedRank& c) {
  return c.layout.tp == 1 ? "tp 1: none" : per_pass(c, &PassCosts::tp_forward, &PassCosts::tp_backward);
}
std::string cp_formula(const ExplainedRank& c) {
  return c.layout.cp == 1 ? "cp 1: none" : per_pass(c, &PassCosts::cp_forward, &PassCosts::cp_backward);
}
std::string ep_formula(const ExplainedRank& c) {
  if (c.layout.ep * c.layout.etp == 1) {
    return "ep 1: none";
  }
  const auto& sums = c.stage.sums;
  const bool hidden = sums.ep_hidden_forward > Seconds(0) && (sums.ep_forward + sums.ep_backward).raw() <= 0;
  const std::string shown = hidden ? "hidden beside the other micro-batch's passes"
                                   : per_pass(c, &PassCosts::ep_forward, &PassCosts::ep_backward);
  return c.layout.schedule == Schedule::dualpipe
             ? shown +
                   "; whole in (5 pp - 2) / 4 + 2 / pp forward and as many backward passes of a rank, averaged over "
                   "ranks, that run beside no other"
             : shown;
}

std::string pp_formula(const ExplainedRank& c) {
  if (c.layout.pp == 1) {
    return "pp 1: none";
  }
  const std::string text = "transfers of " + format(c.costs.boundary) + " between neighbours (" +
                           speed_of(c.whole, Collective::send_recv, stage_pair(c.whole, c.layout, 1)) + "): ";
  if (row_of(c.layout.schedule).splits_backward && c.layout.schedule != Schedule::dualpipe) {
    return text + "by which they lengthen the bubble, and those exposed beyond two in each of " +
           count_of(c.micro_batches) + " micro-batches (weight gradients stand in for the two)";
  }
  if (c.layout.schedule == Schedule::interleaved) {
    const bool overlapped = switched_on(c.whole.training.overlap_pp, c.whole.profile.pp_overlap_default);
    return text +
           (overlapped ? "" : "those exposed in each chunk of " + count_of(c.micro_batches) + " micro-batches, ") +
           "2 x (pp - 1) = " + number(2 * (c.layout.pp - 1)) + " to fill and drain the pipeline, and those of " +
           number(2 * (c.layout.vpp - 1)) + " rounds of pp that groups of micro-batches do not cover";
  }
  return text + "those exposed in each of " + count_of(c.micro_batches) +
         " micro-batches, and 2 x (pp - 1) = " + number(2 * (c.layout.pp - 1)) + " to fill and drain the pipeline";
}

std::string dp_formula(const ExplainedRank& c) {
  if (c.layout.dp * c.layout.cp == 1) {
    return "one data-parallel rank: none";
  }
  const double wire = c.job.profile.gradient_wire_bytes;
  const auto trained = trained_parameters(c.costs, c.group.content, c.stage, holds_own_head(c));
  const double params = trained.dense + trained.expert;
  const std::string over =
      group_text(c.data.dense_shard) + " (" + speed_of(c.job, Collective::reduce_scatter, c.data.dense_shard) + ")";
  const bool each = reduces_each(c.job, c.layout);
  const std::string beside = each ? "beside the backward pass of every micro-batch" : "beside the last backward pass";
  if (gathers_by_layer(c.job, c.layout)) {
    return "per micro-batch all-gather of " +
           (c.costs.frozen ? "the frozen weights as they are held" : format(Bytes(2 * params))) + " forward" +
           (keeps_gathered(c.job, c.layout) ? "" : " and again backward") + ", reduce-scatter of " +
           format(Bytes(wire * params)) + (each ? "" : " with the last one") + ", over " + over +
           (c.job.training.prefetch == 0 ? "; nothing hides the gathers, which wait for their layer; scatters"
                                         : "; beside compute they") +
           " cost overlap cost x min(compute, communication) + what exceeds compute";
  }
  if (c.layout.zero == 0) {
    return "all-reduce of " + count_of(params) + " gradients x " + shortest(wire) +
           " B = " + format(Bytes(wire * params)) + " over " + group_text(c.data.dense) + " (" +
           speed_of(c.job, Collective::all_reduce, c.data.dense) + "); " + beside +
           " it costs overlap cost x min(compute, communication) + the excess";
  }
  return "reduce-scatter of " + count_of(params) + " gradients x " + shortest(wire) +
         " B = " + format(Bytes(wire * params)) + " " + beside + ", all-gather of " +
         format(Bytes(c.job.profile.weight_bytes * params)) + " beside the first forward pass, over " + over +
         "; overlapped they cost overlap cost x min(compute, communication) + the excess";
}

struct BubbleRow {
  Schedule schedule;
  const char* formula;
};
constexpr std::array<BubbleRow, 9> kBubbles{{
    {Schedule::gpipe, "forward and backward of the other stages once: (pp - 1)(tf + tb) for equal stages"},
    {Schedule::f1b1, "forward and backward of the other stages once: (pp - 1)(tf + tb) for equal stages"},
    {Schedule::interleaved, "forward and backward of the other stages once, / vpp: (pp - 1)(tf + tb) / vpp"},
    {Schedule::zb_h1,
     "others' forward and backward less twice their weight gradients: (pp - 1)(tf + tb - 2 tw), with fewer than pp "
     "micro-batches less (M - 1) tw instead of the second"},
    {Schedule::zb_h2,
     "the longest of: the way of the first gradient less the forward passes that memory holds meanwhile; the same at "
     "the "
     "end of the step; others' tf and tb without tw, less (M - 1) tw"},
    {Schedule::zb_1p,
     "others' forward and backward less twice their weight gradients: (pp - 1)(tf + tb - 2 tw), with fewer than pp "
     "micro-batches less (M - 1) tw instead of the second"},
    {Schedule::zb_2p,
     "the longest of: the way of the first gradient less the forward passes that memory holds meanwhile; the same at "
     "the "
     "end of the step; others' tf and tb without tw, less (M - 1) tw"},
    {Schedule::zb_v,
     "the longest of: the way down and up less the forward passes of chunk 0; others' tf and tb without tw, less tw; "
     "from 2 pp micro-batches on, what tf, tb - tw and tw differ by in every step down and up"},
    {Schedule::dualpipe, "(pp / 2 - 1)(tf + 2 tb - 3 tw) (DeepSeek-V3 report, table 2)"},
}};

std::string bubble_formula(const ExplainedRank& c) {
  if (c.layout.pp == 1) {
    return "pp 1: none";
  }
  std::string text;
  for (const BubbleRow& row : kBubbles) {
    if (row.schedule == c.layout.schedule) {
      text = row.formula;
    }
  }
  if (c.layout.vpp_group > 0) {
    text += ", in groups of " + number(c.layout.vpp_group) + " micro-batches as in groups of pp";
  }
  return text + "; this rank: tf " + format(c.stage.forward) + ", tb " + format(c.stage.backward) + ", of it tw " +
         format(c.stage.weight) + "; a rank faster than the slowest waits for it in every micro-batch";
}

std::string loss_scale_formula(const ExplainedRank& c) {
  const Seconds scaling = loss_scaling(c.job, c.layout, local_parameters(c));
  return scaling > Seconds(0) ? "; of it " + format(scaling) +
                                    " for the fp16 loss scale: gradients read and written once to unscale them and to "
                                    "look for infinities, an all-reduce of 4 B, a wait of the host; no step is skipped"
                              : "";
}

std::string optimizer_formula(const ExplainedRank& c) {
  return count_of(local_parameters(c)) + " local parameters x traffic per parameter / (" +
         format(c.job.cluster.gpu.memory_bandwidth) + " x memory_adam)" +
         (c.layout.offload == Offload::optimizer ? "; it runs on the host: see offload" : "") + loss_scale_formula(c);
}

std::string host_formula(const ExplainedRank& c) {
  return "launches beyond the GPU's work, " + per_pass(c, &PassCosts::host_forward, &PassCosts::host_backward) +
         ", and the fixed time of a step";
}

std::string hosted_formula(const ExplainedRank& c) {
  const Bytes weights = hosted_weights(c.job, c.layout, c.costs, c.group.content, c.stage, c.data);
  return weights > Bytes(0) ? "; " + format(weights) +
                                  " of frozen weights up before each pass, as far as that exceeds the pass beside it"
                            : "";
}

std::string offload_formula(const ExplainedRank& c) {
  switch (c.layout.offload) {
    case Offload::optimizer:
      return "gradients down and weights up for " + count_of(local_parameters(c)) + " parameters over " +
             format(c.job.cluster.host_link) + " between GPU and host, or the update in host memory if that is slower" +
             hosted_formula(c);
    case Offload::activations:
      return "copies of activations over " + format(c.job.cluster.host_link) +
             " that exceed the passes they run beside";
    default: {
      const Seconds paged = paged_update(c.job, c.layout, c.costs, c.group, c.stage, c.data, c.micro_batches);
      return paged > Seconds(0) ? "paged optimizer states beyond the room that the peak leaves, up and down over " +
                                      format(c.job.cluster.host_link)
                                : "no offload";
    }
  }
}

std::string data_formula(const ExplainedRank& c) {
  const DataLoading loading = data_loading(c.job, c.layout);
  const std::string each =
      format(loading.per_micro_batch) + " a micro-batch to read its tokens and hand them to the GPU";
  if (loading.ahead == 0) {
    return count_of(c.micro_batches) + " x " + each + "; " + std::string(name_of(c.job.training.framework)) +
           " loads by default when it needs them";
  }
  return each + ", " + count_of(loading.ahead) + " loaded ahead beside the step" +
         (loading.per_micro_batch * c.micro_batches > Seconds(0) ? "" : ": nothing known of the storage");
}

struct TimeRow {
  std::string_view key;
  std::string (*formula)(const ExplainedRank&);
  bool links;  ///< collective speeds of the link table or the calibration stand behind it
  std::vector<Behind> constants;
};

std::vector<TimeRow> time_rows(const Job& job, const Layout& layout) {
  const bool flash = job.training.flash_attention;
  std::vector<Behind> compute{{From::gpu, "gemm_16bit"},
                              {From::gpu, "gemm_k0"},
                              {From::gpu, "memory_plain"},
                              {From::gpu, "memory_norm"},
                              {From::profile, "elementwise_factor"},
                              {From::profile, "gemm_factor"},
                              {From::profile, "loss_bytes_per_logit"},
                              {From::profile, "weight_gradient_bytes"}};
  if (flash) {
    compute.push_back({From::gpu, "flash_forward"});
    compute.push_back({From::gpu, "flash_backward"});
    compute.push_back({From::profile, "flash_forward_factor"});
    compute.push_back({From::profile, "flash_backward_factor"});
  } else {
    compute.push_back({From::gpu, "batched_gemm"});
    compute.push_back({From::profile, "score_bytes_forward"});
    compute.push_back({From::profile, "score_bytes_backward"});
    if (job.model.head_dim % 8 != 0) {
      compute.push_back({From::profile, "misaligned_head_factor"});
    }
  }
  const Behind fast{From::profile, "fast_link_factor"};
  const Behind network{From::profile, "network_factor"};
  return {
      {"compute", compute_formula, false, compute},
      {"recompute", recompute_formula, false,
       layout.recompute == RecomputeKind::selective_op ? std::vector<Behind>{{From::profile, "selective_op_share"}}
                                                       : std::vector<Behind>{}},
      {"tp_comm", tp_formula, true, {{From::profile, "tp_hidden"}, fast, network}},
      {"cp_comm", cp_formula, true, {{From::profile, "cp_attention_factor"}, fast, network}},
      {"ep_comm",
       ep_formula,
       true,
       {{From::profile, job.training.overlap_ep == Switch::on ? "ep_exposed_overlapped" : "ep_exposed"},
        {From::profile, "all_to_all_factor"},
        network}},
      {"pp_comm", pp_formula, true, {{From::profile, "pp_exposed_transfers"}, network}},
      {"dp_comm",
       dp_formula,
       true,
       {{From::profile, gathers_by_layer(job, layout) ? "fsdp_overlap_cost" : "dp_overlap_cost"},
        {From::profile, "gradient_wire_bytes"},
        fast,
        network}},
      {"bubble", bubble_formula, false, {}},
      {"optimizer", optimizer_formula, false, {{From::profile, "optimizer_bytes"}, {From::gpu, "memory_adam"}}},
      {"host",
       host_formula,
       false,
       {{From::profile, "launch_s"},
        {From::profile, "kernels_forward"},
        {From::profile, "kernels_backward"},
        {From::profile, "layer_host_s"},
        {From::profile, "moe_host_forward_s"},
        {From::profile, "step_fixed_s"}}},
      {"offload", offload_formula, false, {}},
      {"data", data_formula, false, {}},
  };
}

/// The speed of each tier's link in the link table, after the curves that stand in its place.
void add_links(const Job& job, const Layout& layout, std::string_view term, std::vector<ConstantUse>& uses) {
  for (ConstantUse& use : measured_collectives(job, layout, term)) {
    uses.push_back(std::move(use));
  }
  for (std::size_t tier = 0; tier < job.links.size(); ++tier) {
    uses.push_back({"all_reduce fraction of " + job.cluster.tiers[tier].name, job.links[tier].all_reduce,
                    "link table, " + job.links[tier].link});
  }
}

/// The group of pipeline ranks whose times the estimate tells: that with the same compute.
const StageGroup& group_of(const Job& job, const Layout& layout, const PipelineShape& shape, const StepEstimate& step,
                           double micro_batches) {
  const StageGroup* best = &shape.groups.front();
  double least = -1;
  for (const StageGroup& group : shape.groups) {
    const StageCosts stage = stage_costs(layer_costs(job.part(group.part), layer_key(layout)), group.content);
    const Seconds compute = (stage.sums.forward + stage.sums.backward) * micro_batches;
    const double difference = std::abs((compute - step.compute).raw());
    if (least < 0 || difference < least) {
      least = difference;
      best = &group;
    }
  }
  return *best;
}

}  // namespace

std::vector<ExplainedTerm> explained_time(const Job& job, const Plan& plan, int& last_stage) {
  const Layout& layout = plan.layout;
  const StepEstimate& step = plan.estimate.step;
  const PipelineShape shape = pipeline_shape(job, layout);
  const double count =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  const StageGroup& group = group_of(job, layout, shape, step, count / shape.copies);
  last_stage = group.first_rank;
  const Job& on = job.part(group.part);
  const ExplainedRank context = explained_rank(job, layout, group);
  const std::vector<TimeRow> rows = time_rows(on, layout);
  std::vector<ExplainedTerm> terms;
  for (const StepTermRow& term : kStepTerms) {
    for (const TimeRow& row : rows) {
      if (row.key == term.key) {
        ExplainedTerm explained{term.key, term.meaning, (step.*term.field).raw(), row.formula(context), {}};
        if (explained.value > 0) {
          for (const Behind& behind : row.constants) {
            add_constant(on, behind, explained.constants);
          }
          if (row.links) {
            add_links(on, layout, row.key, explained.constants);
          }
        }
        terms.push_back(std::move(explained));
      }
    }
  }
  return terms;
}

}  // namespace tpplan
