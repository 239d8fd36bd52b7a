#include "planner/layout_option_rows.h"

#include "planner/option_values.h"

namespace tpplan {
namespace {

constexpr int kMostGpus = 1 << 24;
constexpr int kMostGroup = 1 << 24;  // micro-batches

using Options = PlannerOptions;
using Text = std::string;

/// Values of the axis at `index` of kAxes.
template <std::size_t index>
Text read_axis(Options& options, const Text& text) {
  return read_counts(text, 1, kMostGpus, options.space.axes[index].values);
}

constexpr std::size_t axis_index(std::string_view option) {
  std::size_t index = 0;
  while (kAxes[index].option != option) {
    ++index;
  }
  return index;
}

Text read_sequence_parallel(Options& options, const Text& text) {
  const std::vector<Text> words{"on", "off", "auto"};
  options.space.sequence_parallel.clear();
  if (text == "on" || text == "off") {
    options.space.sequence_parallel.push_back(text == "on");
    return "";
  }
  return text == "auto" ? "" : unknown_choice(text, words);
}

}  // namespace

std::vector<OptionRow> layout_rows() {
  const auto axis = [](std::string_view name, std::string_view meaning, Text (*set)(Options&, const Text&)) {
    return OptionRow{.name = name,
                     .argument = "LIST",
                     .group = OptionGroup::layout,
                     .commands = "plan report",
                     .meaning = meaning,
                     .fallback = "auto",
                     .set = set};
  };
  return {
      axis("dp", "data-parallel replicas", read_axis<axis_index("dp")>),
      axis("tp", "tensor parallel: GPUs that share each matrix", read_axis<axis_index("tp")>),
      axis("pp", "pipeline stages", read_axis<axis_index("pp")>),
      axis("cp", "context parallel: GPUs that share each sequence", read_axis<axis_index("cp")>),
      axis("ep", "expert parallel: GPUs that share the experts", read_axis<axis_index("ep")>),
      axis("etp", "tensor parallel size inside an expert", read_axis<axis_index("etp")>),
      axis("vpp", "virtual stages per pipeline rank", read_axis<axis_index("vpp")>),
      {.name = "vpp-group",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "micro-batches in a group of the interleaved schedule",
       .fallback = "0",
       .details =
           "So many micro-batches go through a virtual stage before the next one of the rank begins; 0: as many as "
           "there are pipeline stages. Larger groups keep more activations and leave transfers more time "
           "(Megatron-Core's --microbatch-group-size-per-virtual-pipeline-stage).",
       .set = [](Options& o, const Text& text) { return read_counts(text, 0, kMostGroup, o.space.vpp_group); }},
      axis("micro-batch", "sequences per micro-batch", read_axis<axis_index("micro-batch")>),
      {.name = "zero",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "ZeRO stage, 0 to 3",
       .fallback = "auto",
       .details =
           "0 shares nothing, 1 optimizer states, 2 gradients too, 3 also weights. In PyTorch 3 is FSDP that frees "
           "gathered weights after each layer's forward pass, 2 the same keeping them for the backward pass "
           "(reshard_after_forward off).",
       .set = [](Options& o, const Text& text) { return read_counts(text, 0, 3, o.space.zero); }},
      axis("shard-group", "GPUs that share ZeRO or FSDP states",
           [](Options& o, const Text& text) { return read_counts(text, 1, kMostGpus, o.space.shard_group); }),
      {.name = "grad-reduce",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "when gradients are reduced",
       .fallback = "auto",
       .details = "each: after the backward pass of every micro-batch; last: once, after that of the last, which keeps "
                  "gradients of full size meanwhile (no_sync in PyTorch); auto: as the framework does.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kGradReduceNames); },
       .set = [](Options& o, const Text& text) { return read_names(text, kGradReduceNames, o.space.grad_reduces); }},
      {.name = "cp-type",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "how context parallelism moves keys and values",
       .fallback = "auto",
       .completes = Completes::choices,
       .choices = [] { return names_of(kCpTypeNames); },
       .set = [](Options& o, const Text& text) { return read_names(text, kCpTypeNames, o.space.cp_types); }},
      {.name = "ranks-order",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan",
       .meaning = "which ranks are neighbours, nearest first",
       .fallback = "tp-cp-dp-pp",
       .details =
           "tp-cp-dp-pp puts the stages of a pipeline farthest apart (Megatron's order); tp-cp-pp-dp keeps them close, "
           "inside a node when they fit, and spreads data parallelism.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kRanksOrderNames); },
       .set = [](Options& o, const Text& text) { return read_names(text, kRanksOrderNames, o.space.ranks_orders); }},
      {.name = "recompute",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report fit",
       .meaning = "activations computed again: none, selective, full",
       .fallback = "auto",
       .details =
           "selective takes modules, as in selective:core_attn+mlp+norm+moe_act+mla_up_proj, or op (per operation, "
           "TorchTitan); full takes the layers per stage, as in full:4.",
       .completes = Completes::choices,
       .choices =
           [] {
             return std::vector<Text>{"none", "selective", "full"};
           },
       .set = [](Options& o, const Text& text) { return read_recompute(text, o.space.recompute); }},
      {.name = "schedule",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan simulate report",
       .meaning = "order of the pipeline's work",
       .fallback = "auto",
       .details =
           "simulate takes one name, or a file with the passes of every rank: a line \"0: F0 F1 BW0 BW1\" per pipeline "
           "rank with F (forward), B (gradient of the input), W (gradient of the weights) or BW (both) and the "
           "micro-batch, .1 for the second chunk of a rank, + for a pass that runs beside the next; first a line "
           "\"placement v\" or \"placement both-ends\" unless the chunks lie round and round.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kScheduleNames); },
       .set = [](Options& o, const Text& text) { return read_schedule(text, o); }},
      {.name = "sequence-parallel",
       .argument = "on,off",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "split norms and dropout over the tp group too",
       .fallback = "auto",
       .completes = Completes::choices,
       .choices =
           [] {
             return std::vector<Text>{"on", "off", "auto"};
           },
       .set = read_sequence_parallel},
      {.name = "offload",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report",
       .meaning = "what moves to host memory",
       .fallback = "none",
       .completes = Completes::choices,
       .choices = [] { return names_of(kOffloadNames); },
       .set = [](Options& o, const Text& text) { return read_names(text, kOffloadNames, o.space.offloads); }},
      {.name = "optimizer",
       .argument = "LIST",
       .group = OptionGroup::layout,
       .commands = "plan report fit",
       .meaning = "optimizer, which decides the states kept",
       .fallback = "adam",
       .completes = Completes::choices,
       .choices = [] { return names_of(kOptimizerNames); },
       .set = [](Options& o, const Text& text) { return read_names(text, kOptimizerNames, o.space.optimizers); }},
  };
}

}  // namespace tpplan
