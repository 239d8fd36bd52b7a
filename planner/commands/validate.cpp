#include "planner/commands/validate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>
#include <set>

#include "cost-model/file_text.h"
#include "planner/calibration_use.h"
#include "planner/report/format.h"
#include "planner/report/output.h"
#include "planner/report/scatter_svg.h"
#include "planner/report/validate_ratchet.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

/// Half width of an interval without residuals of its own: that of related profiles, widened by this factor.
constexpr double kWidened = 1.5;

struct LeaveOutWord {
  std::string_view word;
  LeaveOut part;
  std::string_view meaning;
};
constexpr std::array<LeaveOutWord, 2> kLeaveOutWords{{
    {"model", LeaveOut::model, "each model of a group predicted by constants fitted without its runs"},
    {"group", LeaveOut::group, "each group predicted by constants fitted without its runs"},
}};

const LeaveOutWord* leave_out_word(const std::string& text) {
  for (const auto& row : kLeaveOutWords) {
    if (row.word == text) {
      return &row;
    }
  }
  return nullptr;
}

/// Adds "unknown WHAT "WORD"; did you mean ..." unless the word is known.
void check_known(std::vector<std::string>& problems, const std::string& what, const std::string& word,
                 const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) {
    return;
  }
  std::string problem = "unknown " + what + " \"" + word + "\"";
  if (const auto near = nearest_name(word, known)) {
    problem += "; did you mean \"" + *near + "\"?";
  } else {
    problem += "; known:";
    for (const auto& name : known) {
      problem += " " + name;
    }
  }
  problems.push_back(problem);
}

std::vector<std::string> profile_names(const ProfileSet& profiles) {
  std::vector<std::string> names;
  for (const auto& profile : profiles.frameworks) {
    names.push_back(profile.name);
  }
  return names;
}

std::vector<std::string> group_names(const std::vector<RunRecord>& records) {
  std::set<std::string> names;
  for (const auto& record : records) {
    names.insert(record.group);
  }
  return {names.begin(), names.end()};
}

struct Inputs {
  ProfileSet profiles;
  std::vector<RunRecord> records;
  Calibration calibration;
  bool every_file_usable = true;
};

Inputs load_inputs(const PlannerOptions& options, std::ostream& err) {
  std::vector<std::string> problems;
  if (options.operands.empty()) {
    problems.push_back("which run records? give one or more RUNS.jsonl");
  }
  for (const auto& key : options.group_by) {
    check_known(problems, "key of --group-by", key, group_keys());
  }
  Inputs inputs;
  inputs.profiles = ProfileSet::load(data_folder("clusters/profiles"));
  if (!options.fit_profile.empty()) {
    check_known(problems, "profile", options.fit_profile, profile_names(inputs.profiles));
  }
  if (!problems.empty()) {
    throw UsageError(problems, "validate");
  }
  if (!options.calibration.empty() && options.calibration != "none") {
    inputs.calibration = load_calibration(options.calibration);
    for (const std::string& doubt : calibration_doubts(inputs.calibration, nccl_environment(), nullptr)) {
      err << "warning: " << doubt << "\n";
    }
  }
  const auto catalogue = shipped_gpus();
  for (const auto& file : options.operands) {
    std::string warnings;
    require_readable(file);
    auto records = read_runs(file, catalogue, warnings);
    err << warnings;
    if (std::all_of(records.begin(), records.end(), [](const auto& record) { return !record.skipped.empty(); })) {
      err << "tpplan: error: " << file << " has no usable record"
          << (records.empty() ? "" : ": " + records.front().skipped) << "\n";
      inputs.every_file_usable = false;
    }
    std::move(records.begin(), records.end(), std::back_inserter(inputs.records));
  }
  if (!options.leave_out.empty() && leave_out_word(options.leave_out) == nullptr) {
    auto known = group_names(inputs.records);
    known.insert(known.end(), {"model", "group"});
    check_known(problems, "group of --leave-out", options.leave_out, known);
    if (!problems.empty()) {
      throw UsageError(problems, "validate");
    }
  }
  return inputs;
}

/// Errors of the runs that the options ask to leave out; empty without --leave-out.
std::vector<LeftOutError> errors_without(const PlannerOptions& options, const ProfileSet& profiles,
                                         std::vector<RunPrediction>& runs) {
  if (options.leave_out.empty()) {
    return {};
  }
  const auto* word = leave_out_word(options.leave_out);
  const auto part = word == nullptr ? LeaveOut::group : word->part;
  auto errors = options.fit_profile.empty() ? left_out_errors(runs, part, profiles)
                                            : left_out_errors(options.fit_profile, runs, part, profiles);
  if (word == nullptr) {
    errors.erase(std::remove_if(errors.begin(), errors.end(),
                                [&](const auto& error) { return error.run->record->group != options.leave_out; }),
                 errors.end());
  }
  return errors;
}

std::string meaning_of(const std::string& leave_out) {
  const auto* word = leave_out_word(leave_out);
  return word != nullptr ? std::string(word->meaning)
                         : "group " + leave_out + " predicted by constants fitted without its runs";
}

/// Programs whose errors resemble one another; the others are FSDP and its relatives.
constexpr std::string_view kMegatronLike = "megatron megatron-deepspeed deepspeed nanotron internevo";

bool kin(Framework a, Framework b) {
  const auto megatron_like = [](Framework framework) {
    return kMegatronLike.find(name_of(framework)) != std::string_view::npos;
  };
  return megatron_like(a) == megatron_like(b);
}

/// A profile of V100 alone says little of later GPUs, and the other way round.
bool volta_only(const FrameworkProfile& profile) { return profile.architectures == std::vector<std::string>{"volta"}; }

/// Made for GPUs of which none is common.
bool other_gpus(const FrameworkProfile& a, const FrameworkProfile& b) {
  const auto in_b = [&](const std::string& name) {
    return std::find(b.architectures.begin(), b.architectures.end(), name) != b.architectures.end();
  };
  return !a.architectures.empty() && !b.architectures.empty() &&
         std::none_of(a.architectures.begin(), a.architectures.end(), in_b);
}

/// The widths that may stand in for one without residuals: those of the same framework, else of its kin, else of any;
/// of those the ones not of other GPUs, if there are any.
std::vector<double> related_widths(const FrameworkProfile& profile, const ProfileSet& profiles,
                                   double FrameworkProfile::*known, double FrameworkProfile::*width) {
  std::map<std::pair<int, bool>, std::vector<double>> by_distance;
  for (const auto& row : profiles.frameworks) {
    if (row.name != profile.name && row.*known > 0) {
      const int relation = row.framework == profile.framework ? 0 : kin(row.framework, profile.framework) ? 1 : 2;
      by_distance[{relation, volta_only(row) != volta_only(profile) || other_gpus(row, profile)}].push_back(row.*width);
    }
  }
  return by_distance.empty() ? std::vector<double>{} : by_distance.begin()->second;
}

/// Sets the half widths of the 80 % intervals from left-out residuals; where there are too few, the median of related
/// profiles' widths, widened.
void set_intervals(FrameworkProfile& profile, const std::vector<LeftOutError>& errors, const ProfileSet& profiles) {
  const auto widths = interval_widths(errors);
  std::string note;
  const auto set = [&](std::string_view what, const std::optional<double>& found, double FrameworkProfile::*known,
                       double FrameworkProfile::*width) {
    const auto related = related_widths(profile, profiles, known, width);
    profile.*known = found ? 1 : 0;
    note += (note.empty() ? "" : "; ") + std::string(what);
    if (found) {
      profile.*width = *found;
      note += ": four fifths of its runs, each model left out of the fit in turn, lie inside";
    } else if (!related.empty()) {
      profile.*width = kWidened * median_of(related);
      note += ": too few runs, the median of " + std::to_string(related.size()) + " related profiles widened by half";
    }
  };
  set("step time", widths.step, &FrameworkProfile::step_error_known, &FrameworkProfile::step_error);
  set("memory", widths.memory, &FrameworkProfile::memory_error_known, &FrameworkProfile::memory_error);
  profile.interval_note = note;
}

std::string fitted_on_text(const std::string& profile, const std::vector<RunPrediction>& runs,
                           const std::string& leave_out) {
  std::map<std::string, int> groups;
  for (const auto& run : runs) {
    if (run.counted() && run.job.profile.name == profile && run.record->group != leave_out &&
        (run.step_error || run.memory_counted())) {
      ++groups[run.record->group];
    }
  }
  std::string text;
  for (const auto& [name, count] : groups) {
    text += (text.empty() ? "" : ", ") + name + " (" + std::to_string(count) + ")";
  }
  return text;
}

/// Refits the profile, prints its constants, and writes it to the file of -o. The runs keep the fitted constants.
std::string fit_and_write(const PlannerOptions& options, const ProfileSet& profiles, std::vector<RunPrediction>& runs,
                          const Terminal& terminal) {
  const bool one_group = !options.leave_out.empty() && leave_out_word(options.leave_out) == nullptr;
  const bool used = std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
    return run.counted() && run.job.profile.name == options.fit_profile;
  });
  if (!used && !options.output.empty()) {
    // Constants that no run can move stay; the interval is that of related profiles, widened.
    const auto row = std::find_if(profiles.frameworks.begin(), profiles.frameworks.end(),
                                  [&](const auto& profile) { return profile.name == options.fit_profile; });
    FrameworkProfile profile = *row;
    set_intervals(profile, {}, profiles);
    write_file(options.output, to_json(profile));
    return "profile " + profile.name + ": no run uses it; its interval is step +-" + percent_text(profile.step_error) +
           " %, memory +-" + percent_text(profile.memory_error) + " %\n\n";
  }
  auto fit = fit_profile(options.fit_profile, runs, one_group ? options.leave_out : "");
  std::string text = fit_text(fit, terminal);
  if (!options.output.empty()) {
    set_intervals(fit.profile, left_out_errors(options.fit_profile, runs, LeaveOut::model, profiles), profiles);
    fit.profile.fitted_on = fitted_on_text(options.fit_profile, runs, one_group ? options.leave_out : "");
    write_file(options.output, to_json(fit.profile));
    text += "  80 % interval: step +-" + percent_text(fit.profile.step_error) + " %, memory +-" +
            percent_text(fit.profile.memory_error) + " %\n";
  }
  return text + "\n";
}

/// Left-out medians recorded with the source tree, to stand beside freshly computed errors.
void add_recorded_left_out(ValidateReport& report) {
  for (const auto& folder : data_folders("tests/data")) {
    const auto path = folder + "/ratchet.json";
    if (std::filesystem::is_regular_file(path)) {
      report.left_out = left_out_of(load_ratchet(path));
      report.left_out_meaning = std::string(kLeaveOutWords.front().meaning) + " (recorded)";
      return;
    }
  }
}

struct ValidateFormat {
  OutputFormat format;
  std::string (*write)(const ValidateReport& report, const Terminal& terminal, std::string& notes);
};
constexpr std::array<ValidateFormat, 4> kFormats{{
    {OutputFormat::table, validate_table},
    {OutputFormat::json,
     [](const ValidateReport& report, const Terminal&, std::string&) { return validate_json(report); }},
    {OutputFormat::csv,
     [](const ValidateReport& report, const Terminal&, std::string&) { return validate_csv(report); }},
    {OutputFormat::markdown,
     [](const ValidateReport& report, const Terminal&, std::string&) { return validate_markdown(report); }},
}};

}  // namespace

int run_validate(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const auto inputs = load_inputs(options, err);
  auto runs = prepare(inputs.records, inputs.profiles, inputs.calibration);
  for (auto& run : runs) {
    predict(run);
  }
  const bool fitting = !options.fit_profile.empty();
  const bool to_file = !options.output.empty() && !fitting;
  const auto terminal = to_file ? Terminal{} : Terminal::of(STDOUT_FILENO, options.color);
  // With --fit, -o names the profile to write; the report goes to standard output in the format asked for.
  const auto format = fitting ? options.format.value_or(OutputFormat::table) : chosen_format(options);

  std::vector<LeftOutError> left_out;
  if (!options.leave_out.empty()) {
    left_out = errors_without(options, inputs.profiles, runs);
  }
  ValidateReport report{runs, options.group_by, {}, {}, {}, options.worst};
  if (!options.leave_out.empty()) {
    report.left_out = left_out_stats(left_out, options.group_by);
    report.left_out_meaning = meaning_of(options.leave_out);
  } else if (options.group_by.empty()) {
    add_recorded_left_out(report);
  }
  if (fitting) {
    const auto text = fit_and_write(options, inputs.profiles, runs, terminal);
    (format == OutputFormat::table ? out : err) << text;
    // Only the runs of the fitted profile are reported.
    runs.erase(std::remove_if(runs.begin(), runs.end(),
                              [&](const auto& run) { return run.job.profile.name != options.fit_profile; }),
               runs.end());
  }
  report.groups = group_reports(runs, options.group_by);
  if (!options.plot.empty()) {
    write_file(options.plot, scatter_svg(runs));
  }
  if (!report.groups.empty()) {
    std::string notes;
    const auto* row = std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& r) { return r.format == format; });
    const auto text = (row == kFormats.end() ? kFormats.front() : *row).write(report, terminal, notes);
    if (fitting) {
      out << text;
    } else {
      write_result(options, text, out);
    }
    err << notes;
  }
  return inputs.every_file_usable ? 0 : 1;
}

}  // namespace tpplan
