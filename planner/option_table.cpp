#include "planner/option_table.h"

#include <algorithm>
#include <charconv>

#include "planner/command_option_rows.h"
#include "planner/layout_option_rows.h"
#include "planner/option_values.h"
#include "planner/report/format.h"
#include "planner/report_option_rows.h"

namespace tpplan {
namespace {

constexpr std::string_view kPlanned = "plan explain simulate report export";
constexpr std::string_view kPlannedOrImport = "plan explain simulate report export import";
constexpr std::string_view kPlannedOrFit = "plan explain simulate report export fit";
constexpr std::string_view kPlannedFitOrImport = "plan explain simulate report export fit import";

constexpr std::array<NameRow<Objective>, 3> kObjectiveNames{
    {{"step-time", Objective::step_time}, {"memory", Objective::memory}, {"cost", Objective::cost}}};
constexpr std::array<NameRow<ColorMode>, 3> kColorNames{
    {{"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}}};
constexpr std::array<std::string_view, 5> kFp8Recipes{"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"};

using Options = PlannerOptions;
using Text = std::string;

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

/// A factor of at least 1.
Text read_factor(const Text& text, double& target) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 1 && value <= 1000)) {
    return "\"" + text + "\" is no factor from 1 to 1000, such as 1.2";
  }
  target = value;
  return "";
}

struct GradientRow {
  std::string_view name;
  double bytes;
};
constexpr std::array<GradientRow, 2> kGradientTypes{{{"fp32", 4}, {"bf16", 2}}};

Text read_gradient_type(Options& options, const Text& text) {
  for (const GradientRow& row : kGradientTypes) {
    if (row.name == text) {
      options.gradient_bytes = row.bytes;
      return "";
    }
  }
  return unknown_choice(text, names_of(kGradientTypes));
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

std::vector<OptionRow> make_rows() {
  std::vector<OptionRow> rows{
      {.name = "model",
       .argument = "M",
       .commands = kPlannedFitOrImport,
       .meaning = "shipped name (7b), file, config.json or its folder",
       .details = "A name is looked for as a path, then in models/ of the source tree and of the installation; - reads "
                  "standard input.",
       .completes = Completes::models,
       .set = store<&Options::model>},
      {.name = "cluster",
       .argument = "C",
       .commands = kPlannedOrImport,
       .meaning = "shipped name (8xA100), file, or NODESxGPUSxGPU",
       .details =
           "A name is looked for as a path, then in clusters/. 16x8xh100-80gb-sxm is 16 usual servers of 8; tpplan "
           "gpus lists the GPUs.",
       .completes = Completes::clusters,
       .set = store<&Options::cluster>},
      {.name = "seq",
       .argument = "N",
       .commands = kPlannedFitOrImport,
       .meaning = "tokens per sequence",
       .fallback = "model file's, else 4096",
       .set = read_optional_count<&Options::seq>},
      {.name = "global-batch",
       .argument = "N",
       .commands = kPlannedOrImport,
       .meaning = "sequences per step",
       .fallback = "model file's, else 4 Mi tokens",
       .details = "The default has at least one sequence per GPU and is a multiple of the GPUs.",
       .set = read_optional_count<&Options::global_batch>},
      {.name = "precision",
       .argument = "P",
       .commands = kPlannedOrImport,
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
       .fallback = "megatron; of export the target's",
       .completes = Completes::choices,
       .choices = [] { return names_of(kFrameworkTable); },
       .set = read_framework},
      {.name = "date",
       .argument = "DATE",
       .commands = kPlannedOrImport,
       .meaning = "framework release, as in 2024-06",
       .fallback = "the newest known",
       .details = "Of report: the date printed on it, else that of SOURCE_DATE_EPOCH, else none.",
       .set = [](Options& o, const Text& text) { return read_date(text, o.date); }},
      {.name = "calibration",
       .argument = "FILE",
       .commands = "plan explain simulate validate report export import",
       .meaning = "curves measured by comm-bench, or none",
       .fallback = "NAME.calibration.json beside the cluster",
       .completes = Completes::files,
       .set = store<&Options::calibration>},
      {.name = "peft",
       .argument = "METHOD",
       .commands = kPlannedOrFit,
       .meaning = "fine-tune: lora[:rank=16:targets=all], qlora, adapter",
       .fallback = "none",
       .details =
           "lora and qlora take a rank and targets, joined by +: q, k, v, o, gate, up, down, head, the groups qkv, "
           "attention, mlp and all, or names such as q_proj. qlora holds the frozen matrices in 4 bits (NF4, doubly "
           "quantised). adapter: 10 prompts in the attention of all but the first 2 layers (LLaMA-Adapter); "
           "adapter-v2: those, a bias and a scale per output and the norms.",
       .completes = Completes::choices,
       .choices =
           [] {
             return std::vector<Text>{"none", "lora", "qlora", "adapter", "adapter-v2"};
           },
       .set = [](Options& o, const Text& text) { return read_peft(text, o); }},

      {.name = "expert-imbalance",
       .argument = "X",
       .commands = kPlanned,
       .meaning = "tokens of the busiest expert over the mean",
       .fallback = "1",
       .details = "Routing that is not forced to balance costs 8 to 20 % of a step.",
       .set = [](Options& o, const Text& text) { return read_factor(text, o.expert_imbalance); }},
      {.name = "expert-capacity",
       .argument = "X",
       .commands = kPlanned,
       .meaning = "tokens an expert takes over the mean; the rest drop",
       .fallback = "dropless",
       .set = [](Options& o, const Text& text) { return read_factor(text, o.expert_capacity); }},
      {.name = "dispatcher",
       .argument = "D",
       .commands = kPlanned,
       .meaning = "how routed tokens travel",
       .fallback = "all-to-all",
       .details = "all-to-all sends a copy per expert; deepep and hybridep one per rank, across the network one per "
                  "node. deepep-fp8 dispatches in 8 bits where products take 8-bit inputs; deepep-proxied goes through "
                  "processes of the host, as on EFA.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kDispatcherNames); },
       .set = [](Options& o, const Text& text) { return read_name(text, kDispatcherNames, o.dispatcher); }},
      {.name = "gradient-dtype",
       .argument = "T",
       .commands = kPlanned,
       .meaning = "number format in which gradients are kept and reduced",
       .fallback = "the framework's",
       .completes = Completes::choices,
       .choices = [] { return names_of(kGradientTypes); },
       .set = read_gradient_type},
      {.name = "prefetch",
       .argument = "N",
       .commands = kPlanned,
       .meaning = "layers whose weights FSDP gathers ahead",
       .fallback = "the framework's",
       .details =
           "0 gathers a layer when it is needed: nothing hides the gathers, and the weights of one layer alone are "
           "whole at a time.",
       .set = [](Options& o, const Text& text) { return read_count(text, 0, 1000, o.prefetch); }},
      {.name = "overlap",
       .argument = "LIST",
       .commands = kPlanned,
       .meaning = "communication that runs beside compute",
       .fallback = "the framework's",
       .details =
           "dp-grad and dp-param (reduction of gradients, gathers of weights), tp (beside the products around it, "
           "with sequence parallelism), pp (interleaved schedules), ep (expert exchanges beside another "
           "micro-batch); each alone or as in tp=on,dp-grad=off.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kOverlaps); },
       .set = [](Options& o, const Text& text) { return read_overlaps(text, o.overlaps); }},
      {.name = "stage-balance",
       .argument = "B",
       .commands = kPlanned,
       .meaning = "how layers are dealt out to pipeline stages",
       .fallback = "framework",
       .details = "framework: as it does by itself; time: the slowest stage as fast, memory: the fullest as empty as "
                  "whole layers can make it.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kStageBalanceNames); },
       .set = [](Options& o, const Text& text) { return read_name(text, kStageBalanceNames, o.balance); }},

      {.name = "memory-headroom",
       .argument = "P",
       .group = OptionGroup::search,
       .commands = kPlannedFitOrImport,
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
       .commands = "plan report sweep import",
       .meaning = "threads; the result is the same for any number",
       .fallback = "1; of sweep every processor",
       .set = [](Options& o, const Text& text) { return read_count(text, 1, 1024, o.jobs); }},
      {.name = "timing",
       .group = OptionGroup::search,
       .commands = "plan",
       .meaning = "report how long loading and searching took",
       .set = raise<&Options::timing>},

      {.name = "format",
       .argument = "F",
       .group = OptionGroup::output,
       .commands = "plan explain simulate validate report diff gpus models clusters fit import",
       .meaning = "how to write the result",
       .fallback = "suffix of -o, else table",
       .completes = Completes::choices,
       .choices = format_names,
       .set = read_format},
      {.name = "output",
       .letter = 'o',
       .argument = "FILE",
       .group = OptionGroup::output,
       .commands = "plan explain simulate calibrate validate report export sweep diff gpus models clusters fit import",
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
  const auto insert_before = [&rows](OptionGroup group, const std::vector<OptionRow>& others) {
    const auto first =
        std::find_if(rows.begin(), rows.end(), [group](const OptionRow& row) { return row.group == group; });
    rows.insert(first, others.begin(), others.end());
  };
  insert_before(OptionGroup::search, layout_rows());
  insert_before(OptionGroup::output, command_rows());
  insert_before(OptionGroup::output, report_rows());
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
