#include "planner/command_option_rows.h"

#include <algorithm>

#include "planner/import/job_readers.h"
#include "planner/option_values.h"

namespace tpplan {
namespace {

using Options = PlannerOptions;
using Text = std::string;

Text read_link(Options& options, const Text& text) {
  UnitError error;
  const std::optional<double> rate = parse_quantity(text, Dimension::bytes_per_second, error);
  if (!rate) {
    return error.message + (error.hint.empty() ? "" : "; " + error.hint);
  }
  options.link = BytesPerSecond(*rate);
  return "";
}

/// Kinds of files that import reads.
std::vector<Text> kind_names() {
  std::vector<Text> names;
  for (const JobKind& kind : job_kinds()) {
    names.emplace_back(name_in(kTargetNames, kind.target));
  }
  return names;
}

}  // namespace

std::vector<OptionRow> command_rows() {
  return {
      {.name = "layout",
       .argument = "L",
       .group = OptionGroup::command,
       .commands = "explain simulate export",
       .meaning = "the layout, such as \"tp=8 pp=4 micro-batch=1\"",
       .details =
           "key=value pairs separated by blanks or commas; the keys are the names of the layout options of plan, - "
           "and _ alike. dp follows from the others.",
       .set = store<&Options::layout>},
      {.name = "to",
       .argument = "TARGET",
       .group = OptionGroup::command,
       .commands = "export",
       .meaning = "the framework to write for",
       .details =
           "megatron: a launch script with every flag; megatron-bridge: a script with overrides for a recipe; "
           "deepspeed: "
           "its JSON file; torchtitan: a Python function for a recipe; torchtitan-toml: the file of earlier releases; "
           "accelerate, nanotron, llm-foundry: YAML files; colossalai: a plugin in Python.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kTargetNames); },
       .set =
           [](Options& o, const Text& text) {
             o.target = value_in(kTargetNames, text);
             return o.target ? Text() : unknown_choice(text, names_of(kTargetNames));
           }},
      {.name = "launcher",
       .argument = "L",
       .group = OptionGroup::command,
       .commands = "export",
       .meaning = "what starts the processes",
       .fallback = "torchrun",
       .details = "torchrun: torchrun, or the target's own launcher where it has one, on every node; slurm: an sbatch "
                  "script.",
       .completes = Completes::choices,
       .choices = [] { return names_of(kLauncherNames); },
       .set = [](Options& o, const Text& text) { return read_name(text, kLauncherNames, o.launcher); }},
      {.name = "kind",
       .argument = "KIND",
       .group = OptionGroup::command,
       .commands = "import",
       .meaning = "what the files configure",
       .fallback = "found out from their content",
       .details =
           "megatron: launch scripts and lists of flags; megatron-bridge: its overrides and YAML files, those of "
           "NeMo too; deepspeed: its JSON file; torchtitan: --section.option flags; torchtitan-toml, accelerate, "
           "nanotron, llm-foundry: their files.",
       .completes = Completes::choices,
       .choices = kind_names,
       .set =
           [](Options& o, const Text& text) {
             const auto kind = value_in(kTargetNames, text);
             const std::vector<Text> known = kind_names();
             if (!kind || std::find(known.begin(), known.end(), text) == known.end()) {
               return unknown_choice(text, known);
             }
             o.import_kind = kind;
             return Text();
           }},
      {.name = "save-model",
       .argument = "FILE.json",
       .group = OptionGroup::command,
       .commands = "import",
       .meaning = "write the model that the files describe",
       .completes = Completes::files,
       .set = store<&Options::save_model>},
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
       .details = "gpu=N, link=N (the network port of GPU N) or host=N (what launches its work) with the share of its "
                  "speed that "
                  "is lost as slow=P; data=T has the tokens of a micro-batch take T to load, such as 40ms; jitter=P "
                  "varies every "
                  "pass by a standard deviation of P, seed=N chooses how. Any number of them.",
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
       .commands = "calibrate",
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
  };
}

}  // namespace tpplan
