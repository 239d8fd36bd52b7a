#include "cost-model/simulate_parts.h"

#include <algorithm>
#include <array>

namespace tpplan {
namespace {

const PassCosts& costs_of(const LayerCosts& costs, PieceKind piece) {
  const std::array<const PassCosts*, 4> all{&costs.embedding, &costs.dense, &costs.moe, &costs.head};
  return *all[static_cast<std::size_t>(piece)];
}

StreamKind stream_of(OperationKind kind) {
  // In the order of the enumeration.
  constexpr std::array<StreamKind, 7> kStreams{
      StreamKind::compute,          StreamKind::compute,         StreamKind::compute, StreamKind::tensor_parallel,
      StreamKind::context_parallel, StreamKind::expert_parallel, StreamKind::compute};
  return kStreams[static_cast<std::size_t>(kind)];
}

/// One stream's share of a pass.
struct StreamSum {
  StreamKind stream;
  Seconds total;
};
using StreamSums = std::array<StreamSum, 4>;

StreamSums forward_sums(const PassCosts& c) {
  return {{{StreamKind::compute, c.forward},
           {StreamKind::tensor_parallel, c.tp_forward},
           {StreamKind::context_parallel, c.cp_forward},
           {StreamKind::expert_parallel, c.ep_forward}}};
}

StreamSums backward_sums(const PassCosts& c, Seconds compute) {
  return {{{StreamKind::compute, compute},
           {StreamKind::tensor_parallel, c.tp_backward},
           {StreamKind::context_parallel, c.cp_backward},
           {StreamKind::expert_parallel, c.ep_backward}}};
}

std::uint16_t index_of(std::string_view name, std::vector<std::string>& names) {
  const auto known = std::find(names.begin(), names.end(), name);
  const auto index = static_cast<std::uint16_t>(known - names.begin());
  if (known == names.end()) {
    names.emplace_back(name);
  }
  return index;
}

void append(std::vector<PiecePart>& parts, const PiecePart& part, double& longest) {
  if (part.seconds <= 0) {
    return;
  }
  if (parts.empty() || parts.back().stream != part.stream) {
    parts.push_back(part);
    longest = part.seconds;
    return;
  }
  // Joined parts are called by the longest of them.
  if (part.seconds > longest) {
    parts.back().name = part.name;
    longest = part.seconds;
  }
  parts.back().seconds += part.seconds;
}

/// Gives each stream the sum it must have; a stream that no operation shows gets one part.
void scale(std::vector<PiecePart>& parts, const StreamSums& sums, std::vector<std::string>& names) {
  for (const StreamSum& sum : sums) {
    double shown = 0;
    for (const PiecePart& part : parts) {
      shown += part.stream == sum.stream ? part.seconds : 0;
    }
    if (shown <= 0) {
      if (sum.total.raw() > 0) {
        const auto stream = kStreamKinds[static_cast<std::size_t>(sum.stream)].name;
        parts.push_back({sum.stream, index_of(stream, names), sum.total.raw()});
      }
      continue;
    }
    for (PiecePart& part : parts) {
      part.seconds *= part.stream == sum.stream ? sum.total.raw() / shown : 1;
    }
  }
  parts.erase(std::remove_if(parts.begin(), parts.end(), [](const PiecePart& part) { return part.seconds <= 0; }),
              parts.end());
}

/// Host time that a pass waits for. What is left of it when launches are operations of their own, gaps between kernels
/// and waits for token counts, belongs to the work.
void add_host(std::vector<PiecePart>& parts, Seconds time, Seconds starved, bool launched,
              std::vector<std::string>& names) {
  const Seconds shown = launched ? time - starved : time;
  if (shown > Seconds(0)) {
    const auto name = index_of(launched ? "gaps between kernels" : "launch", names);
    parts.push_back({launched ? StreamKind::compute : StreamKind::host, name, shown.raw()});
  }
}

OperationList operations_of(const Job& job, const LayerKey& key, PieceKind piece) {
  switch (piece) {
    case PieceKind::embedding:
      return embedding_operations(job, key);
    case PieceKind::head:
      return head_operations(job, key);
    default:
      return layer_operations(job, key, piece == PieceKind::moe);
  }
}

}  // namespace

double piece_time(const LayerCosts& costs, PieceKind piece, PassKind pass) {
  const PassCosts& c = costs_of(costs, piece);
  const std::array<Seconds, kPassKinds.size()> times{c.forward_total(), c.backward_total() - c.weight_gradient,
                                                     c.weight_gradient, c.backward_total()};
  return times[static_cast<std::size_t>(pass)].raw();
}

double piece_launch_time(const LayerCosts& costs, PieceKind piece, PassKind pass) {
  const PassCosts& c = costs_of(costs, piece);
  const std::array<Seconds, kPassKinds.size()> times{c.forward_launch, c.backward_launch, Seconds(0),
                                                     c.backward_launch};
  return times[static_cast<std::size_t>(pass)].raw();
}

double piece_starved_time(const LayerCosts& costs, PieceKind piece, PassKind pass) {
  const PassCosts& c = costs_of(costs, piece);
  const std::array<Seconds, kPassKinds.size()> times{c.starved_forward, c.starved_backward, Seconds(0),
                                                     c.starved_backward};
  return times[static_cast<std::size_t>(pass)].raw();
}

void PieceParts::build(const Job& job, const LayerKey& key, const LayerCosts& costs, bool launched,
                       std::vector<std::string>& names) {
  for (const PieceKind piece : {PieceKind::embedding, PieceKind::dense, PieceKind::moe, PieceKind::head}) {
    auto& passes = parts_[static_cast<std::size_t>(piece)];
    for (auto& parts : passes) {
      parts.clear();
    }
    if (piece == PieceKind::moe && !job.moe()) {
      continue;
    }
    const PassCosts& c = costs_of(costs, piece);
    const OperationList list = operations_of(job, key, piece);
    double longest = 0;
    auto& forward = passes[static_cast<std::size_t>(PassKind::forward)];
    for (const Operation& operation : list) {
      append(forward, {stream_of(operation.kind), index_of(operation.name, names), operation.forward.raw()}, longest);
    }
    scale(forward, forward_sums(c), names);
    add_host(forward, c.host_forward, c.starved_forward, launched, names);
    for (const PassKind kind : {PassKind::backward, PassKind::whole_backward}) {
      auto& backward = passes[static_cast<std::size_t>(kind)];
      const bool whole = kind == PassKind::whole_backward;
      for (std::size_t i = list.size; i-- > 0;) {
        const Operation& operation = list.items[i];
        const Seconds time = operation.input_gradient + (whole ? operation.weight_gradient : Seconds(0));
        append(backward, {stream_of(operation.kind), index_of(operation.name, names), time.raw()}, longest);
      }
      scale(backward, backward_sums(c, c.backward - (whole ? Seconds(0) : c.weight_gradient)), names);
      if (c.recompute.raw() > 0) {
        backward.insert(backward.begin(), {StreamKind::compute, index_of("recompute", names), c.recompute.raw()});
      }
      add_host(backward, c.host_backward, c.starved_backward, launched, names);
    }
    if (c.weight_gradient.raw() > 0) {
      passes[static_cast<std::size_t>(PassKind::weight)].push_back(
          {StreamKind::compute, index_of("weight gradients", names), c.weight_gradient.raw()});
    }
  }
}

}  // namespace tpplan
