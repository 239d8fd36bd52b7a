#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/capacity/capacity_options.h"
#include "planner/errors.h"
#include "planner/export/framework_keys.h"
#include "planner/search.h"

namespace tpplan {

enum class ColorMode : std::uint8_t { automatic, always, never };
enum class OutputFormat : std::uint8_t { table, json, jsonl, csv, markdown, html };
enum class HelpPage : std::uint8_t { none, brief, full };

/// A switch of the training that the user sets.
struct OverlapChoice {
  Switch TrainingSpec::*field = nullptr;
  Switch value = Switch::on;
};

/// Part of a step, each end in seconds or as a share of the step.
struct TimeRange {
  double from = 0, to = 1;
  bool from_share = true, to_share = true;
};

/// What the user typed, checked word by word but not yet loaded: names of files are still names. Members left empty
/// were not given.
struct PlannerOptions {
  std::string command = "plan";
  HelpPage help = HelpPage::none;
  bool version = false;
  std::vector<std::string> operands;                       ///< words that belong to no option: files, names
  std::vector<std::pair<std::string, std::string>> given;  ///< every option and its text, in the order given

  // Inputs
  std::string model, cluster;
  std::optional<int> seq;           ///< tokens per sequence
  std::optional<int> global_batch;  ///< sequences per step
  std::optional<Precision> precision;
  std::string fp8_recipe;
  std::optional<Framework> framework;
  std::string date;         ///< "2024-06": release of the framework; empty: the newest known
  std::string calibration;  ///< a path, "none", or empty: NAME.calibration.json beside the cluster

  double expert_imbalance = 1;
  double expert_capacity = 0;  ///< 0: dropless
  Dispatcher dispatcher = Dispatcher::by_profile;
  double gradient_bytes = 0;  ///< 0: the framework's
  int prefetch = -1;          ///< layers that FSDP gathers ahead; -1: the framework's habit
  std::vector<OverlapChoice> overlaps;
  StageBalance balance = StageBalance::framework;

  // Layout
  SearchSpace space;
  std::optional<PeftMethod> peft;
  int peft_rank = 16;
  std::vector<std::string> peft_targets;
  std::string layout;  ///< text of --layout

  // Search
  double memory_headroom = 0.03;  ///< share of the capacity that stays free
  Objective objective = Objective::step_time;
  std::size_t top = 10;
  int jobs = 1;
  bool timing = false;
  bool pareto = false;  ///< plan: the front of step time, memory and GPUs instead of a ranking

  // Output
  std::optional<OutputFormat> format;
  std::string output;  ///< file of -o; empty: standard output
  ColorMode color = ColorMode::automatic;

  // Single commands
  std::optional<Seconds> measured_step;  ///< explain
  std::string plot;                      ///< calibrate
  std::string gpu;                       ///< calibrate: catalogue id
  std::string collective;                ///< calibrate: of tables that do not name it
  std::optional<int> ranks, nodes;       ///< calibrate: of tables that do not tell
  std::optional<BytesPerSecond> link;    ///< calibrate: rated speed per GPU and direction
  bool rows = false;                     ///< calibrate: print the rows as read
  std::vector<std::string> group_by;     ///< validate
  std::size_t worst = 0;
  std::string fit_profile;
  std::string leave_out;
  bool from = false;  ///< clusters --from
  bool detect = false;
  bool man = false;                 ///< help --man
  std::string names;                ///< completion --names
  std::string trace;                ///< simulate: file for the trace
  std::string what_if;              ///< simulate
  std::string schedule_file;        ///< simulate: order of passes, instead of a name of --schedule
  std::string replay;               ///< simulate: profiler trace to compare with
  std::optional<TimeRange> window;  ///< simulate: the part that is drawn
  bool resume = false;              ///< sweep
  std::optional<Target> target;     ///< export
  Launcher launcher = Launcher::torchrun;
  std::optional<Target> import_kind;  ///< import: what the files are; empty: found out from their content
  std::string save_model;             ///< import: file for the model that the job's files describe

  CapacityOptions capacity;  ///< report
};

/// Reads the arguments after the program's name. Throws UsageError with every problem at once.
PlannerOptions parse_options(const std::vector<std::string>& arguments);

/// The options of `options.given` that `command` knows too, as a shell would read them, those named in `except` left
/// out.
std::string options_text(const PlannerOptions& options, std::string_view command,
                         const std::vector<std::string_view>& except = {});

/// The format to write: --format, else the suffix of -o, else table.
OutputFormat chosen_format(const PlannerOptions& options);

}  // namespace tpplan
