#include "planner/commands/import.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>

#include "cost-model/words.h"
#include "planner/inputs.h"
#include "planner/report/import_report.h"
#include "planner/report/output.h"
#include "planner/report/progress.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

/// The job's options with those of the user in their place, and those that only the user can give.
Given explain_options(const ImportedJob& job, const PlannerOptions& options) {
  constexpr std::array<std::string_view, 6> kOfUser{"seq",  "global-batch", "precision",
                                                    "date", "calibration",  "memory-headroom"};
  Given given = job.options;
  for (const auto& option : options.given) {
    if (std::find(kOfUser.begin(), kOfUser.end(), option.first) == kOfUser.end()) {
      continue;
    }
    const auto known =
        std::find_if(given.begin(), given.end(), [&option](const auto& entry) { return entry.first == option.first; });
    if (known == given.end()) {
      given.push_back(option);
    } else {
      known->second = option.second;
    }
  }
  return given;
}

/// The words of an explain command, which the parser of options then checks like any other.
std::vector<std::string> explain_words(const Given& given, const std::string& model, const std::string& cluster,
                                       const std::string& layout) {
  std::vector<std::string> words{"explain", "--model", model, "--cluster", cluster};
  for (const auto& [name, value] : given) {
    words.push_back("--" + name);
    words.push_back(value);
  }
  words.insert(words.end(), {"--layout", layout});
  return words;
}

ImportComparison compare(const PlannerOptions& planned, ModelSpec model, ClusterSpec cluster, int threads,
                         std::ostream& err) {
  ImportComparison comparison;
  const ProfileSet profiles = ProfileSet::load(data_folder("clusters/profiles"));
  comparison.job = job_from(planned, std::move(model), std::move(cluster), profiles, &comparison.assumed);
  Job& job = comparison.job;
  Job present_job = job;  // stages that are given are those of the present layout alone
  const Layout layout =
      parse_layout(planned.layout, job.cluster.gpus(), usual_layout(job), &present_job.training.layers_per_stage);
  comparison.present = explain(present_job, layout);
  SearchSpace space = space_from(planned, job);
  space.optimizers = {layout.optimizer};
  ProgressLine progress(err);
  constexpr int kLookedAt = 100;  // the first of them that fits with room to spare, else the first
  SearchResult result = search(job, space, Objective::step_time, kLookedAt, threads,
                               [&progress](double share) { progress.update_share("searching", share); });
  const auto roomy =
      std::find_if(result.plans.begin(), result.plans.end(), [](const Plan& plan) { return plan.fits == Fits::fits; });
  if (!result.plans.empty()) {
    comparison.best = roomy != result.plans.end() ? *roomy : result.plans.front();
  }
  return comparison;
}

/// What to run next, with words in capitals for what the files leave open.
std::string next_command(const ImportedJob& job, const PlannerOptions& options, const Given& given,
                         const std::string& model) {
  std::string cluster = options.cluster;
  if (cluster.empty()) {
    cluster = job.nodes ? std::to_string(*job.nodes) + "x" + std::to_string(*job.gpus_per_node) + "xGPU" : "CLUSTER";
  }
  std::string text;
  std::string model_name = model.empty() ? "MODEL" : model;
  if (model.empty() && !job.model_text.empty()) {
    text = "tpplan import";
    for (const std::string& file : options.operands) {
      text += " " + file;
    }
    model_name = std::filesystem::path(options.operands.front()).stem().string() + ".model.json";
    text += " --save-model " + model_name + " && ";
  }
  text += "tpplan explain --model " + model_name + " --cluster " + cluster;
  for (const auto& [name, value] : given) {
    text += " --" + name + " " + value;
  }
  return text + " --layout \"" + job.layout_text + "\"";
}

}  // namespace

int run_import(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  if (options.operands.empty()) {
    throw UsageError({"import needs the files of a job: a launch script, a configuration, or both"}, "import");
  }
  std::string warnings;
  std::vector<ConfigFile> files;
  for (const std::string& name : options.operands) {
    files.push_back(load_config(name));
  }
  std::optional<ClusterSpec> cluster;
  std::optional<ModelSpec> model;
  ImportHelp help;
  if (!options.cluster.empty()) {
    cluster = resolve_cluster(options.cluster, &warnings);
    help.world = cluster->gpus();
    help.gpus_per_node = cluster->gpus_per_node;
  }
  std::string model_word = options.model;
  help.seq = options.seq;
  help.global_batch = options.global_batch;
  if (!model_word.empty()) {
    model = resolve_model(model_word, &warnings);
    help.layers = model->layers;
  }
  ImportedJob job = import_job(files, options.import_kind, help);
  if (!model && !job.model_text.empty()) {
    model = parse_model("the model of " + options.operands.front(), job.model_text, &warnings);
    model_word = options.save_model;
  } else if (!model && !job.model_name.empty() && try_find_spec("model", lower(job.model_name))) {
    model_word = lower(job.model_name);
    model = resolve_model(model_word, &warnings);
    help.layers = model->layers;
    job = import_job(files, options.import_kind, help);
    job.assumed.emplace_back("model", model_word + ", by its name in the files");
  }
  if (!options.save_model.empty()) {
    if (job.model_text.empty()) {
      throw UsageError({"--save-model: the files do not describe a model"}, "import");
    }
    write_file(options.save_model, job.model_text);
  }
  err << warnings;

  const Given given = explain_options(job, options);
  ImportReport report{.job = job, .files = options.operands, .next = next_command(job, options, given, model_word)};
  std::optional<ImportComparison> comparison;
  if (cluster && model) {
    const std::string name = model_word.empty() ? "MODEL" : model_word;
    comparison = compare(parse_options(explain_words(given, name, options.cluster, job.layout_text)), *model, *cluster,
                         options.jobs, err);
    report.comparison = &*comparison;
  }
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  write_result(options,
               chosen_format(options) == OutputFormat::json ? import_json(report) : import_table(report, terminal),
               out);
  return comparison && (!comparison->present.broken.empty() || comparison->present.plan.fits == Fits::no) ? 1 : 0;
}

}  // namespace tpplan
