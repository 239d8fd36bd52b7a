// The formulas behind the memory terms of an estimate, with the numbers of one layout put in.
#include <algorithm>
#include <cmath>

#include "cost-model/schedules.h"
#include "planner/explain_peft.h"
#include "planner/explain_rank.h"

namespace tpplan {
namespace {

std::string per_parameter(Bytes bytes, double params) {
  return params > 0 ? shortest(std::round(bytes.raw() / params * 1000) / 1000) + " B x " + count_of(params) +
                          " parameters of the rank"
                    : "no parameters";
}

std::string sharded_over(const ExplainedRank& c) {
  if (c.layout.zero == 0) {
    return "";
  }
  std::string text = ", divided over " + count_of(c.data.dense_shards) + " ranks";
  if (c.stage.expert_params > 0) {
    text += " (experts over " + count_of(c.data.expert_shards) + ")";
  }
  return text;
}

FrozenRank frozen(const ExplainedRank& c) { return {c.job, c.layout, c.costs, c.group, c.stage, c.data}; }

std::string weights_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  if (c.costs.frozen) {
    return frozen_weights_formula(frozen(c));
  }
  return c.layout.zero >= 3 ? "ZeRO-3 keeps only its shard, under optimizer" : per_parameter(m.weights, parameters(c));
}
std::string gradients_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  if (c.costs.frozen) {
    return adapter_gradients_formula(frozen(c));
  }
  if (c.layout.zero >= 2 && c.micro_batches > 1 && !reduces_each(c.job, c.layout)) {
    return per_parameter(m.gradients, parameters(c)) + ", whole until the last micro-batch";
  }
  return per_parameter(m.gradients, parameters(c)) +
         (c.layout.zero >= 2 ? " on average" + sharded_over(c) : std::string());
}
std::string optimizer_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  if (c.costs.frozen) {
    return adapter_states_formula(frozen(c));
  }
  if (c.layout.offload == Offload::optimizer) {
    return format(m.host_bytes) + " in host memory";
  }
  return per_parameter(m.optimizer, local_parameters(c)) + sharded_over(c);
}
std::string activations_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  const double held = m.in_flight;
  std::string text = shortest(std::round(held * 100) / 100) + (held > 1 ? " micro-batches" : " micro-batch") +
                     " in flight" + (c.layout.vpp_group > 0 ? " (groups of " + number(c.layout.vpp_group) + ")" : "") +
                     " x [";
  if (c.group.content.dense > 0) {
    const int untouched = c.group.content.embedding ? std::min(c.costs.untouched_layers, c.group.content.dense) : 0;
    text += number(c.group.content.dense - untouched) + " dense x " + format(c.costs.dense_activations);
  }
  if (c.group.content.moe > 0) {
    text += (c.group.content.dense > 0 ? " + " : "") + number(c.group.content.moe) + " MoE x " +
            format(c.costs.moe_activations);
  }
  if (c.group.content.mtp > 0) {
    text += " + multi-token prediction " + format(c.costs.mtp_activations);
  }
  text += "] kept with recompute " + recompute_text(c.layout);
  if (m.moment == 1) {
    text += ", + what the first layer of the backward pass adds";
  }
  if (c.costs.untouched_layers > 0 && c.group.content.embedding) {
    text += "; the first " + number(c.costs.untouched_layers) + " lie below every prompt and keep nothing";
  }
  return text + (c.layout.offload == Offload::activations ? "; all but two layers in host memory" : "");
}
std::string loss_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  if (m.loss.raw() <= 0) {
    return "not alive at the worst moment";
  }
  return "logits and their softmax " + format(c.costs.loss_transient) + ", the head's input " +
         format(c.costs.head_activations);
}
std::string gathered_memory(const ExplainedRank& c, const MemoryEstimate& m) {
  const bool alone = c.costs.frozen && c.data.dense_shards <= 1 && c.layout.offload != Offload::optimizer;
  const double layers = c.costs.frozen ? std::max(1.0, gathered_layers(c.job) - 1) : gathered_layers(c.job);
  std::string text;
  if (c.layout.zero >= 3 && !alone) {
    text = (c.costs.frozen ? "embedding and head + " : "2 B x (embedding and head + ") + shortest(layers) +
           (layers == 1 ? " layer" : " layers") + (c.costs.frozen ? " as they are held, gathered" : "), gathered");
  }
  if (c.data.secondary.ranks > 1) {
    text += ", and a second copy of the weights over " + group_text(c.data.secondary);
  }
  if (m.moment == 2) {
    text += std::string(text.empty() ? "" : "; ") + "gradient of the embedding at the end of the backward pass";
  }
  return text.empty() ? "nothing is gathered" : text;
}
std::string communication_memory(const ExplainedRank& c, const MemoryEstimate&) {
  return c.layout.pp == 1 ? "pp 1: none" : "4 stage boundaries of " + format(c.costs.boundary) + ", and stage buffers";
}
std::string workspace_memory(const ExplainedRank& c, const MemoryEstimate&) {
  if (c.costs.frozen) {
    return c.costs.dequantised.raw() > 0
               ? "16-bit copies of the largest 4-bit matrix while it multiplies, " + format(c.costs.dequantised) +
                     ", library workspaces and the profile's constants"
               : "library workspaces and the profile's constants";
  }
  return "library workspaces, shared weight-gradient buffers and the profile's constants";
}
std::string slack_memory(const ExplainedRank&, const MemoryEstimate& m) {
  return "(reserved factor - 1) x allocated " + format(m.allocated()) + ", and pools that cannot be shared";
}
std::string context_memory(const ExplainedRank& c, const MemoryEstimate&) {
  return std::string("driver context and libraries") + (c.layout.pp > 1 ? ", point-to-point communicators" : "");
}

struct MemoryRow {
  std::string_view key;
  std::string (*formula)(const ExplainedRank&, const MemoryEstimate&);
  std::vector<Behind> constants;
};

std::vector<MemoryRow> memory_rows(const Job& job, const Layout& layout) {
  const bool fsdp = layout.zero >= 3;
  std::vector<MemoryRow> rows{
      {"weights", weights_memory, {{From::profile, "weight_bytes"}}},
      {"gradients", gradients_memory,
       fsdp && layout.grad_reduce == GradReduce::by_framework
           ? std::vector<Behind>{{From::profile, "unsynced_gradients"}}
       : fsdp ? std::vector<Behind>{{From::profile, "fsdp_gradient_bytes"}}
              : std::vector<Behind>{{From::profile, "gradient_bytes"},
                                    {From::profile, "sharded_gradient_bytes"},
                                    {From::profile, "bucket_bytes"}}},
      {"optimizer", optimizer_memory, {{From::profile, "optimizer_state_bytes"}}},
      {"activations", activations_memory, {{From::profile, "activation_factor"}}},
      {"loss", loss_memory, {{From::profile, "loss_allocated_per_logit"}, {From::profile, "head_input_bytes"}}},
      {"gathered", gathered_memory,
       job.training.prefetch < 0 ? std::vector<Behind>{{From::profile, "fsdp_prefetch_layers"}}
                                 : std::vector<Behind>{}},
      {"communication", communication_memory, {{From::profile, "stage_buffer_bytes"}}},
      {"workspace",
       workspace_memory,
       {{From::profile, "workspace_gib"}, {From::profile, "constant_gib"}, {From::profile, "constant_tp_gib"}}},
      {"allocator_slack", slack_memory, {{From::profile, "reserved_factor"}, {From::profile, "reserved_loss_factor"}}},
      {"context", context_memory, {{From::profile, "context_gib"}, {From::profile, "context_p2p_gib"}}},
  };
  for (auto& row : rows) {
    if (const auto keys = frozen_constants(row.key); job.adapters != 0 && !keys.empty()) {
      row.constants.clear();
      for (const auto key : keys) {
        row.constants.push_back({From::profile, key});
      }
    }
  }
  return rows;
}

}  // namespace

std::vector<ExplainedTerm> explained_memory(const Job& job, const Plan& plan) {
  const Layout& layout = plan.layout;
  const MemoryEstimate& memory = plan.estimate.memory;
  const PipelineShape shape = pipeline_shape(job, layout);
  const auto fullest = std::find_if(shape.groups.begin(), shape.groups.end(),
                                    [&](const StageGroup& group) { return group.first_rank == memory.stage; });
  const StageGroup& group = fullest == shape.groups.end() ? shape.groups.front() : *fullest;
  const Job& on = job.part(group.part);
  const ExplainedRank context = explained_rank(job, layout, group);
  const std::vector<MemoryRow> rows = memory_rows(job, layout);
  std::vector<ExplainedTerm> terms;
  for (const MemoryTermRow& term : kMemoryTerms) {
    for (const MemoryRow& row : rows) {
      if (row.key == term.key) {
        ExplainedTerm explained{term.key, term.meaning, (memory.*term.field).raw(), row.formula(context, memory), {}};
        if (explained.value > 0) {
          for (const Behind& behind : row.constants) {
            add_constant(on, behind, explained.constants);
          }
        }
        terms.push_back(std::move(explained));
      }
    }
  }
  return terms;
}

}  // namespace tpplan
