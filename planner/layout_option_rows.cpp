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

/// Words of one of the tables of names, into the field of the search space that they restrict.
template <const auto& table, auto field>
Text read_words(Options& options, const Text& text) {
  return read_names(text, table, options.space.*field);
}

template <const auto& table>
std::vector<Text> words_of() {
  return names_of(table);
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

using Set = Text (*)(Options&, const Text&);

OptionRow axis(std::string_view name, std::string_view meaning, Set set) {
  return {.name = name,
          .argument = "LIST",
          .group = OptionGroup::layout,
          .commands = "plan report",
          .meaning = meaning,
          .fallback = "auto",
          .set = set};
}

/// An axis whose values are words.
OptionRow choice(std::string_view name, std::string_view meaning, std::vector<Text> (*choices)(), Set set) {
  OptionRow row = axis(name, meaning, set);
  row.completes = Completes::choices;
  row.choices = choices;
  return row;
}

/// What differs from other axes: the value when the option is not given, the commands that take it, more to say.
OptionRow with(OptionRow row, std::string_view fallback, std::string_view commands, std::string_view details) {
  row.fallback = fallback;
  row.commands = commands;
  row.details = details;
  return row;
}

OptionRow with(OptionRow row, std::string_view details) { return with(row, row.fallback, row.commands, details); }

}  // namespace

std::vector<OptionRow> layout_rows() {
  OptionRow sequence_parallel = choice(
      "sequence-parallel", "split norms and dropout over the tp group too",
      [] {
        return std::vector<Text>{"on", "off", "auto"};
      },
      read_sequence_parallel);
  sequence_parallel.argument = "on,off";
  return {
      axis("dp", "data-parallel replicas", read_axis<axis_index("dp")>),
      axis("tp", "tensor parallel: GPUs that share each matrix", read_axis<axis_index("tp")>),
      axis("pp", "pipeline stages", read_axis<axis_index("pp")>),
      axis("cp", "context parallel: GPUs that share each sequence", read_axis<axis_index("cp")>),
      axis("ep", "expert parallel: GPUs that share the experts", read_axis<axis_index("ep")>),
      axis("etp", "tensor parallel size inside an expert", read_axis<axis_index("etp")>),
      axis("vpp", "virtual stages per pipeline rank", read_axis<axis_index("vpp")>),
      with(axis("vpp-group", "micro-batches in a group of the interleaved schedule",
                [](Options& o, const Text& text) { return read_counts(text, 0, kMostGroup, o.space.vpp_group); }),
           "0", "plan report",
           "So many micro-batches go through a virtual stage before the next one of the rank begins; 0: as many as "
           "there are pipeline stages. Larger groups keep more activations and leave transfers more time "
           "(Megatron-Core's --microbatch-group-size-per-virtual-pipeline-stage)."),
      axis("micro-batch", "sequences per micro-batch", read_axis<axis_index("micro-batch")>),
      with(axis("zero", "ZeRO stage, 0 to 3",
                [](Options& o, const Text& text) { return read_counts(text, 0, 3, o.space.zero); }),
           "0 shares nothing, 1 optimizer states, 2 gradients too, 3 also weights. In PyTorch 3 is FSDP that frees "
           "gathered weights after each layer's forward pass, 2 the same keeping them for the backward pass "
           "(reshard_after_forward off)."),
      axis("shard-group", "GPUs that share ZeRO or FSDP states",
           [](Options& o, const Text& text) { return read_counts(text, 1, kMostGpus, o.space.shard_group); }),
      with(choice("grad-reduce", "when gradients are reduced", words_of<kGradReduceNames>,
                  read_words<kGradReduceNames, &SearchSpace::grad_reduces>),
           "each: after the backward pass of every micro-batch; last: once, after that of the last, which keeps "
           "gradients of full size meanwhile (no_sync in PyTorch); auto: as the framework does."),
      choice("cp-type", "how context parallelism moves keys and values", words_of<kCpTypeNames>,
             read_words<kCpTypeNames, &SearchSpace::cp_types>),
      with(choice("ranks-order", "which ranks are neighbours, nearest first", words_of<kRanksOrderNames>,
                  read_words<kRanksOrderNames, &SearchSpace::ranks_orders>),
           "tp-cp-dp-pp", "plan",
           "tp-cp-dp-pp puts the stages of a pipeline farthest apart (Megatron's order); tp-cp-pp-dp keeps them close, "
           "inside a node when they fit, and spreads data parallelism."),
      with(choice(
               "recompute", "activations computed again",
               [] {
                 return std::vector<Text>{"none", "selective", "full"};
               },
               [](Options& o, const Text& text) { return read_recompute(text, o.space.recompute); }),
           "auto", "plan report fit",
           "selective takes modules, as in selective:core_attn+mlp+norm+moe_act+mla_up_proj, or op (per operation, "
           "TorchTitan); full takes the layers per stage, as in full:4."),
      with(choice("schedule", "order of the pipeline's work", words_of<kScheduleNames>,
                  [](Options& o, const Text& text) { return read_schedule(text, o); }),
           "auto", "plan simulate report",
           "simulate takes one name, or a file with the passes of every rank: a line \"0: F0 F1 BW0 BW1\" per pipeline "
           "rank with F (forward), B (gradient of the input), W (gradient of the weights) or BW (both) and the "
           "micro-batch, .1 for the second chunk of a rank, + for a pass that runs beside the next; first a line "
           "\"placement v\" or \"placement both-ends\" unless the chunks lie round and round."),
      sequence_parallel,
      with(choice("offload", "what moves to host memory", words_of<kOffloadNames>,
                  read_words<kOffloadNames, &SearchSpace::offloads>),
           "none", "plan report", ""),
      with(choice("optimizer", "optimizer, which decides the states kept", words_of<kOptimizerNames>,
                  read_words<kOptimizerNames, &SearchSpace::optimizers>),
           "adam", "plan report fit", ""),
  };
}

}  // namespace tpplan
