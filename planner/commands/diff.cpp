#include "planner/commands/diff.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <ostream>

#include "planner/diff.h"
#include "planner/report/diff_report.h"
#include "planner/report/output.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

enum class Kind : std::uint8_t { plan, cluster, model, calibration };
constexpr std::array<std::string_view, 4> kKindNames{"a plan", "a cluster", "a model", "a calibration"};

/// One of the two things: what it is, where it lies.
struct Side {
  std::string name;  ///< as given
  std::string path;  ///< of a file, empty for a cluster by name
  int rank = 1;      ///< of a plan: FILE#RANK
  Kind kind = Kind::model;
};

/// What a JSON file holds, by the keys that only such a file has.
Kind kind_of_file(const std::string& path) {
  SpecDocument document = SpecDocument::load(path);
  ObjectReader root = document.root();
  const std::vector<std::string> keys = root.keys();
  root.ignore_rest();
  document.finish();
  const auto has = [&keys](std::string_view key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  if (has("plans") && has("inputs")) {
    return Kind::plan;
  }
  if (has("curves")) {
    return Kind::calibration;
  }
  return has("gpus_per_node") ? Kind::cluster : Kind::model;
}

/// Takes "#2" off the end of a name.
int take_rank(std::string& path) {
  const std::size_t hash = path.rfind('#');
  const bool digits = hash != std::string::npos && hash + 1 < path.size() && path.size() - hash < 8 &&
                      std::all_of(path.begin() + static_cast<std::ptrdiff_t>(hash) + 1, path.end(),
                                  [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  if (!digits) {
    return 1;
  }
  const int rank = std::stoi(path.substr(hash + 1));
  path.resize(hash);
  return rank;
}

std::string is_no(const std::string& name) {
  return "\"" + name +
         "\" is no file, no shipped model or cluster (tpplan models and tpplan clusters list them), and no "
         "NODESxGPUSxGPU";
}

/// Finds out what a name means; what is wrong with it goes to `problems`.
Side side_of(const std::string& name, std::vector<std::string>& problems) {
  Side side{name, name, 1, Kind::model};
  std::error_code ignored;
  if (!std::filesystem::exists(side.path, ignored)) {
    side.rank = take_rank(side.path);
  }
  if (side.rank < 1) {
    problems.push_back("\"" + name + "\": plans are counted from 1");
  } else if (std::filesystem::is_regular_file(side.path, ignored)) {
    side.kind = kind_of_file(side.path);
  } else if (const auto model = try_find_spec("model", name); model && *model != "-") {
    side.path = *model;
  } else if (const auto cluster = try_find_spec("cluster", name)) {
    side.path = *cluster;
    side.kind = Kind::cluster;
  } else {
    side.path.clear();
    side.kind = Kind::cluster;
    if (!cluster_from_name(name, shipped_gpus())) {
      problems.push_back(is_no(name));
    }
  }
  return side;
}

Difference compare(const Side& a, const Side& b, std::string& warnings) {
  switch (a.kind) {
    case Kind::plan:
      return diff_plans(load_plan_file(a.path, a.rank), load_plan_file(b.path, b.rank));
    case Kind::cluster:
      return diff_clusters(resolve_cluster(a.name, &warnings), resolve_cluster(b.name, &warnings));
    case Kind::calibration:
      return diff_calibrations(load_calibration(a.path), load_calibration(b.path));
    case Kind::model:
      break;
  }
  return diff_models(load_model(a.path, &warnings), load_model(b.path, &warnings));
}

}  // namespace

int run_diff(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (options.operands.size() != 2) {
    throw UsageError(
        {"diff takes two plans, clusters, models or calibrations, got " + std::to_string(options.operands.size())},
        "diff");
  }
  std::vector<std::string> problems;
  const Side a = side_of(options.operands[0], problems);
  const Side b = side_of(options.operands[1], problems);
  if (problems.empty() && a.kind != b.kind) {
    problems.push_back("\"" + a.name + "\" is " + std::string(kKindNames[static_cast<std::size_t>(a.kind)]) +
                       " and \"" + b.name + "\" is " + std::string(kKindNames[static_cast<std::size_t>(b.kind)]) +
                       ": two of one kind can be compared");
  }
  if (!problems.empty()) {
    throw UsageError(problems, "diff");
  }
  std::string warnings;
  Difference difference = compare(a, b, warnings);
  difference.a = a.name;
  difference.b = b.name;
  err << warnings;
  const OutputFormat format = chosen_format(options);
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  write_result(options,
               format == OutputFormat::json       ? diff_json(difference)
               : format == OutputFormat::markdown ? diff_markdown(difference)
                                                  : diff_table(difference, terminal),
               out);
  return 0;
}

}  // namespace tpplan
