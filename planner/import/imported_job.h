#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost-model/layout.h"
#include "planner/import/job_draft.h"

namespace tpplan {

/// One thing that a job's files say or leave to be derived.
struct ImportedRow {
  std::string key, what;
  std::string value;
  std::vector<std::string> from;  ///< "run.sh:12 --seq-length"; empty: derived, or a habit of the framework
};

/// A training job read back from its files.
struct ImportedJob {
  std::string program;
  Framework framework = Framework::megatron;
  Layout layout;
  std::vector<int> layers_per_stage;
  std::string layout_text;  ///< as --layout takes it; without dp when the number of GPUs is not known
  std::int64_t world = 0;   ///< GPUs, 0: not known
  std::optional<std::int64_t> nodes, gpus_per_node;
  std::vector<std::pair<std::string, std::string>> options;  ///< further options of explain: name, value
  std::string model_text;                                    ///< model file in our format; empty: not described
  std::string model_name;                                    ///< what the files call the model
  std::vector<ImportedRow> rows;
  std::vector<std::pair<std::string, std::string>> assumed;  ///< what, value
  std::vector<std::string> open, unread, remarks;
  int passed_over = 0;
};

/// What the user says beside the files.
struct ImportHelp {
  std::optional<std::int64_t> world, gpus_per_node;  ///< of --cluster
  std::optional<std::int64_t> layers;                ///< of --model
  std::optional<std::int64_t> seq, global_batch;
};

/// Reads the files of one job: each by its kind (`kind` for all of them when given). Throws SpecError: files that are
/// no configuration, values that are none, sizes that contradict each other, each at its place.
ImportedJob import_job(std::vector<ConfigFile>& files, std::optional<Target> kind, const ImportHelp& help);

/// Derives what the files leave out and checks the sizes against each other.
ImportedJob finish_job(JobDraft& draft, const ImportHelp& help);

/// The model that a draft describes, as a file in our format.
std::string model_file_of(const JobDraft& draft, const std::string& name, const std::string& source);

}  // namespace tpplan
