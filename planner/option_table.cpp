#include "planner/option_table.h"

#include <algorithm>
#include <limits>

#include "planner/option_values.h"
#include "planner/report/format.h"
#include "planner/report_option_rows.h"

namespace tpplan {
namespace {

constexpr int kAnyCount = std::numeric_limits<int>::max();
constexpr int kMostGpus = 1 << 24;
constexpr std::string_view kPlanned = "plan explain simulate report";
constexpr std::string_view kPlannedOrFit = "plan explain simulate report fit";

constexpr std::array<NameRow<Objective>, 3> kObjectiveNames{
    {{"step-time", Objective::step_time}, {"memory", Objective::memory}, {"cost", Objective::cost}}};
constexpr std::array<NameRow<ColorMode>, 3> kColorNames{
    {{"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}}};
constexpr std::array<std::string_view, 5> kFp8Recipes{"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"};

using Options = PlannerOptions;
using Text = std::string;

template <class Enum, std::size_t N>
Text read_name(const Text& text, const std::array<NameRow<Enum>, N>& table, Enum& target) {
  const auto value = value_in(table, text);
  if (!value) {
    return unknown_choice(text, names_of(table));
  }
  target = *value;
  return "";
}

template <Text Options::*field>
Text store(Options& options, const Text& text) {
  options.*field = text;
  return text.empty() ? "a value is missing" : "";
}

template <bool Options::*field>
Text raise(Options& options, const Text&) {
  options.*field = true;
  return "";
}

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

template <std::optional<int> Options::*field>
Text read_optional_count(Options& options, const Text& text) {
  int value = 0;
  Text problem = read_count(text, 1, kAnyCount, value);
  if (problem.empty()) {
    options.*field = value;
  }
  return problem;
}

std::vector<Text> words_of_fp8_recipe() { return {kFp8Recipes.begin(), kFp8Recipes.end()}; }

Text read_fp8_recipe(Options& options, const Text& text) {
  for (const std::string_view recipe : kFp8Recipes) {
    if (recipe == text) {
      options.fp8_recipe = text;
      return "";
    }
  }
  return unknown_choice(text, words_of_fp8_recipe());
}

Text read_precision(Options& options, const Text& text) {
  options.precision = precision_from(text);
  return options.precision ? "" : unknown_choice(text, names_of(kPrecisionTable));
}

Text read_framework(Options& options, const Text& text) {
  options.framework = framework_from(text);
  return options.framework ? "" : unknown_choice(text, names_of(kFrameworkTable));
}

Text read_format(Options& options, const Text& text) {
  options.format = format_from(text);
  return options.format ? "" : unknown_choice(text, format_names());
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

Text read_link(Options& options, const Text& text) {
  UnitError error;
  const std::optional<double> rate = parse_quantity(text, Dimension::bytes_per_second, error);
  if (!rate) {
    return error.message + (error.hint.empty() ? "" : "; " + error.hint);
  }
  options.link = BytesPerSecond(*rate);
  return "";
}

std::vector<OptionRow> make_rows() {
  const auto axis = [](std::string_view name, std::string_view meaning, Text (*set)(Options&, const Text&)) {
    return OptionRow{.name = name,
                     .argument = "LIST",
                     .group = OptionGroup::layout,
                     .commands = "plan report",
                     .meaning = meaning,
                     .fallback = "auto",
                     .set = set};
  };
  std::vector<OptionRow> rows{
      {.name = "model",
       .argument = "M",
       .commands = kPlannedOrFit,
       .meaning = "shipped name (7b), file, config.json or its folder",
       .details = "A name is looked for as a path, then in models/ of the source tree and of the installation; - reads "
                  "standard input.",
       .completes = Completes::models,
       .set = store<&Options::model>},
      {.name = "cluster",
       .argument = "C",
       .commands = kPlanned,
       .meaning = "shipped name (8xA100), file, or NODESxGPUSxGPU",
       .details =
           "A name is looked for as a path, then in clusters/. 16x8xh100-80gb-sxm is 16 usual servers of 8; tpplan "
           "gpus lists the GPUs.",
       .completes = Completes::clusters,
       .set = store<&Options::cluster>},
      {.name = "seq",
       .argument = "N",
       .commands = kPlannedOrFit,
       .meaning = "tokens per sequence",
       .fallback = "model file's, else 4096",
       .set = read_optional_count<&Options::seq>},
      {.name = "global-batch",
       .argument = "N",
       .commands = kPlanned,
       .meaning = "sequences per step",
       .fallback = "model file's, else 4 Mi tokens",
       .details = "The default has at least one sequence per GPU and is a multiple of the GPUs.",
       .set = read_optional_count<&Options::global_batch>},
      {.name = "precision",
       .argument = "P",
       .commands = kPlanned,
       .meaning = "number format of matrix products",
       .fallback = "bf16, else fp16",
       .completes = Completes::choices,
       .choices = [] { return names_of(kPrecisionTable); },
       .set = read_precision},
      {.name = "fp8-recipe",
       .argument = "R",
       .commands = kPlanned,
       .meaning = "how fp8 tensors are scaled",
       .fallback = "the framework's",
       .completes = Completes::choices,
       .choices = words_of_fp8_recipe,
       .set = read_fp8_recipe},
      {.name = "framework",
       .argument = "F",
       .commands = kPlanned,
       .meaning = "whose rules, memory and speed apply",
       .fallback = "megatron",
       .completes = Completes::choices,
       .choices = [] { return names_of(kFrameworkTable); },
       .set = read_framework},
      {.name = "date",
       .argument = "DATE",
       .commands = kPlanned,
       .meaning = "framework release, as in 2024-06",
       .fallback = "the newest known",
       .details = "Of report: the date printed on it, else that of SOURCE_DATE_EPOCH, else none.",
       .set = [](Options& o, const Text& text) { return read_date(text, o.date); }},
      {.name = "calibration",
       .argument = "FILE",
       .commands = "plan explain simulate validate report",
       .meaning = "curves measured by comm-bench, or none",
       .fallback = "NAME.calibration.json beside the cluster",
       .completes = Completes::files,
       .set = store<&Options::calibration>},
      {.name = "peft",
       .argument = "METHOD",
       .commands = kPlannedOrFit,
       .meaning = "fine-tune: lora[:rank=16:targets=all], qlora[:...]",
       .fallback = "none",
       .details = "targets are joined by +: q, k, v, o, gate, up, down, head, the groups qkv, attention, mlp and all, "
                  "or names "
                  "such as q_proj. qlora holds the frozen matrices in 4 bits (NF4, doubly quantised).",
       .completes = Completes::choices,
       .choices =
           [] {
             return std::vector<Text>{"none", "lora", "qlora"};
           },
       .set = [](Options& o, const Text& text) { return read_peft(text, o); }},

      axis("dp", "data-parallel replicas", read_axis<axis_index("dp")>),
      axis("tp", "tensor parallel: GPUs that share each matrix", read_axis<axis_index("tp")>),
      axis("pp", "pipeline stages", read_axis<axis_index("pp")>),
      axis("cp", "context parallel: GPUs that share each sequence", read_axis<axis_index("cp")>),
      axis("ep", "expert parallel: GPUs that share the experts", read_axis<axis_index("ep")>),
      axis("etp", "tensor parallel size inside an expert", read_axis<axis_index("etp")>),
      axis("vpp", "virtual stages per pipeline rank", read_axis<axis_index("vpp")>),
      axis("micro-batch", "sequences per micro-batch", read_axis<axis_index("micro-batch")>),
      axis("zero", "ZeRO stage, 0 to 3",
           [](Options& o, const Text& text) { return read_counts(text, 0, 3, o.space.zero); }),
      axis("shard-group", "GPUs that share ZeRO or FSDP states",
           [](Options& o, const Text& text) { return read_counts(text, 1, kMostGpus, o.space.shard_group); }),
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

      {.name = "memory-headroom",
       .argument = "P",
       .group = OptionGroup::search,
       .commands = kPlannedOrFit,
       .meaning = "share of the memory to keep free",
       .fallback = "3%",
       .details =
           "A layout fits when its device use stays below capacity x (1 - P); it is tight when only the allocated "
           "part and the context stay below the capacity.",
       .set = [](Options& o, const Text& text) { return read_share(text, o.memory_headroom); }},
      {.name = "objective",
       .argument = "WHAT",
       .group = OptionGroup::search,
       .commands = "plan",
       .meaning = "what to put first",
       .fallback = "step-time",
       .completes = Completes::choices,
       .choices = [] { return names_of(kObjectiveNames); },
       .set = [](Options& o, const Text& text) { return read_name(text, kObjectiveNames, o.objective); }},
      {.name = "pareto",
       .group = OptionGroup::search,
       .commands = "plan",
       .meaning = "plans unbeaten in GPUs, step time and memory",
       .details = "Plans for the whole cluster and for every share of it that divides a node or the nodes, with the "
                  "same batch; "
                  "--objective and --top have no say in it.",
       .set = raise<&Options::pareto>},
      {.name = "top",
       .argument = "K",
       .group = OptionGroup::search,
       .commands = "plan",
       .meaning = "plans to show",
       .fallback = "10",
       .set =
           [](Options& o, const Text& text) {
             int value = 0;
             Text problem = read_count(text, 1, 1000000, value);
             o.top = problem.empty() ? static_cast<std::size_t>(value) : o.top;
             return problem;
           }},
      {.name = "jobs",
       .argument = "N",
       .group = OptionGroup::search,
       .commands = "plan report sweep",
       .meaning = "threads; the result is the same for any number",
       .fallback = "1; of sweep every processor",
       .set = [](Options& o, const Text& text) { return read_count(text, 1, 1024, o.jobs); }},
      {.name = "timing",
       .group = OptionGroup::search,
       .commands = "plan",
       .meaning = "report how long loading and searching took",
       .set = raise<&Options::timing>},

      {.name = "layout",
       .argument = "L",
       .group = OptionGroup::command,
       .commands = "explain simulate",
       .meaning = "the layout, such as \"tp=8 pp=4 micro-batch=1\"",
       .details =
           "key=value pairs separated by blanks or commas; the keys are the names of the layout options of plan, - "
           "and _ alike. dp follows from the others.",
       .set = store<&Options::layout>},
      {.name = "measured-step",
       .argument = "TIME",
       .group = OptionGroup::command,
       .commands = "explain",
       .meaning = "a measured step time to compare with (3.2 s)",
       .set = [](Options& o, const Text& text) { return read_seconds(text, o.measured_step); }},
      {.name = "trace",
       .argument = "FILE.json",
       .group = OptionGroup::command,
       .commands = "simulate",
       .meaning = "write what ran when, for Perfetto or chrome://tracing",
       .details = "Of steps with more than 100,000 events the micro-batches at the start and the end are written.",
       .completes = Completes::files,
       .set = store<&Options::trace>},
      {.name = "what-if",
       .argument = "TEXT",
       .group = OptionGroup::command,
       .commands = "simulate",
       .meaning = "slow parts, such as \"gpu=3 slow=20%\"",
       .details =
           "gpu=N or link=N (the network port of GPU N) with the share of its speed that is lost as slow=P; jitter=P "
           "varies every pass by a standard deviation of P, seed=N chooses how. Any number of them.",
       .set = store<&Options::what_if>},
      {.name = "window",
       .argument = "FROM..TO",
       .group = OptionGroup::command,
       .commands = "simulate",
       .meaning = "part of the step to draw, such as 0.2s..0.5s or ..10%",
       .fallback = "all of it",
       .set = [](Options& o, const Text& text) { return read_time_range(text, o.window); }},
      {.name = "replay",
       .argument = "TRACE.json",
       .group = OptionGroup::command,
       .commands = "simulate",
       .meaning = "compare with a PyTorch profiler trace (.json[.gz])",
       .details =
           "Shows measured beside simulated time per class of operations, and whether the GPU waited for data, the "
           "network or the host. Steps are those that the profiler marked (ProfilerStep); times are means over them.",
       .completes = Completes::files,
       .set = store<&Options::replay>},
      {.name = "plot",
       .argument = "FILE.svg",
       .group = OptionGroup::command,
       .commands = "calibrate validate",
       .meaning = "draw measured against fitted or predicted",
       .completes = Completes::files,
       .set = store<&Options::plot>},
      {.name = "gpu",
       .argument = "GPU",
       .group = OptionGroup::command,
       .commands = "calibrate report fit",
       .meaning = "GPU measured, meant by --cluster, or to try (fit)",
       .set = store<&Options::gpu>},
      {.name = "collective",
       .argument = "NAME",
       .group = OptionGroup::command,
       .commands = "calibrate fit",
       .meaning = "collective of tables that do not name it",
       .set = store<&Options::collective>},
      {.name = "ranks",
       .argument = "N",
       .group = OptionGroup::command,
       .commands = "calibrate",
       .meaning = "ranks of one group, when the tables do not tell",
       .set = read_optional_count<&Options::ranks>},
      {.name = "nodes",
       .argument = "N",
       .group = OptionGroup::command,
       .commands = "calibrate",
       .meaning = "nodes of one group, when the tables do not tell",
       .set = read_optional_count<&Options::nodes>},
      {.name = "link",
       .argument = "RATE",
       .group = OptionGroup::command,
       .commands = "calibrate",
       .meaning = "rated speed per GPU and direction (400 Gbit/s)",
       .fallback = "the GPU's usual links",
       .set = read_link},
      {.name = "rows",
       .group = OptionGroup::command,
       .commands = "calibrate",
       .meaning = "print the rows of the tables as read, tab-separated",
       .set = raise<&Options::rows>},
      {.name = "resume",
       .group = OptionGroup::command,
       .commands = "sweep",
       .meaning = "go on with a sweep that was stopped (needs -o)",
       .details = "Finished rows stand in FILE.journal until the sweep ends. A journal of another grid, other files or "
                  "another version is refused; without one the sweep starts at the first cell.",
       .set = raise<&Options::resume>},
      {.name = "group-by",
       .argument = "KEYS",
       .group = OptionGroup::command,
       .commands = "validate",
       .meaning = "record keys that make a group, such as framework,gpu",
       .fallback = "group",
       .set =
           [](Options& o, const Text& text) {
             o.group_by = split(text, ',');
             return Text(text.empty() ? "a value is missing" : "");
           }},
      {.name = "worst",
       .argument = "N",
       .group = OptionGroup::command,
       .commands = "validate",
       .meaning = "explain the N runs with the largest error",
       .set =
           [](Options& o, const Text& text) {
             int value = 0;
             Text problem = read_count(text, 0, kAnyCount, value);
             o.worst = static_cast<std::size_t>(value);
             return problem;
           }},
      {.name = "fit",
       .argument = "PROFILE",
       .group = OptionGroup::command,
       .commands = "validate",
       .meaning = "fit the free constants of this profile to the runs",
       .set = store<&Options::fit_profile>},
      {.name = "leave-out",
       .argument = "GROUP",
       .group = OptionGroup::command,
       .commands = "validate",
       .meaning = "predict this group (model, group: each) unseen",
       .set = store<&Options::leave_out>},
      {.name = "from",
       .group = OptionGroup::command,
       .commands = "clusters",
       .meaning = "turn topology or GPU query files into a cluster file",
       .set = raise<&Options::from>},
      {.name = "detect",
       .group = OptionGroup::command,
       .commands = "clusters",
       .meaning = "describe this machine as a cluster file",
       .set = raise<&Options::detect>},
      {.name = "man",
       .group = OptionGroup::command,
       .commands = "help",
       .meaning = "print the manual page",
       .set = raise<&Options::man>,
       .hidden = true},
      {.name = "names",
       .argument = "KIND",
       .group = OptionGroup::command,
       .commands = "completion",
       .meaning = "list what a shell offers: models, clusters or gpus",
       .set = store<&Options::names>,
       .hidden = true},

      {.name = "format",
       .argument = "F",
       .group = OptionGroup::output,
       .commands = "plan explain simulate validate report gpus models clusters fit diff",
       .meaning = "how to write the result",
       .fallback = "suffix of -o, else table",
       .completes = Completes::choices,
       .choices = format_names,
       .set = read_format},
      {.name = "output",
       .letter = 'o',
       .argument = "FILE",
       .group = OptionGroup::output,
       .commands = "plan explain simulate calibrate validate report gpus models clusters fit sweep diff",
       .meaning = "write the result to a file",
       .completes = Completes::files,
       .set = store<&Options::output>},
      {.name = "color",
       .argument = "WHEN",
       .group = OptionGroup::output,
       .meaning = "colour",
       .fallback = "auto",
       .details =
           "auto: on a terminal, unless NO_COLOR is set or CLICOLOR is 0; CLICOLOR_FORCE and FORCE_COLOR turn it on.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kColorNames); },
       .set = [](Options& o, const Text& text) { return read_name(text, kColorNames, o.color); }},
      {.name = "help",
       .letter = 'h',
       .group = OptionGroup::general,
       .meaning = "-h: one screen; --help: everything",
       .set =
           [](Options& o, const Text& text) {
             o.help = text == "h" ? HelpPage::brief : HelpPage::full;
             return Text();
           }},
      {.name = "version",
       .group = OptionGroup::general,
       .meaning = "print version, commit and build type",
       .set = raise<&Options::version>},
  };
  const auto output =
      std::find_if(rows.begin(), rows.end(), [](const OptionRow& row) { return row.group == OptionGroup::output; });
  const std::vector<OptionRow> report = report_rows();
  rows.insert(output, report.begin(), report.end());
  return rows;
}

}  // namespace

std::string_view name_of(OptionGroup group) {
  constexpr std::array<std::string_view, 6> kNames{"Inputs", "Layout", "Search", "Command", "Output", "General"};
  return kNames[static_cast<std::size_t>(group)];
}

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = make_rows();
  return rows;
}

bool belongs_to(const OptionRow& row, std::string_view command) {
  if (row.commands.empty()) {
    return true;
  }
  for (const std::string& name : split(row.commands, ' ')) {
    if (name == command) {
      return true;
    }
  }
  return false;
}

}  // namespace tpplan
