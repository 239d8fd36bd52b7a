#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/inputs.h"

namespace tpplan {

/// One key of a grid: the texts its values have on the command line.
struct GridAxis {
  std::string key;     ///< "models", "clusters", "nodes", "gpus", or an option of plan such as "global_batch"
  std::string option;  ///< name of that option, empty for the four keys above
  std::vector<std::string> values;
};

/// One cluster in one size; `refusal` says why its servers cannot be that many.
struct SizedCluster {
  ClusterSpec cluster;
  std::string refusal;
};

/// One combination of a grid's values, ready to be planned.
struct SweepCell {
  std::size_t index = 0;
  std::string model_name, cluster_name;  ///< as the grid writes them
  std::string size;                      ///< "nodes 4", empty when the cluster keeps its own
  const ModelSpec* model = nullptr;
  const SizedCluster* cluster = nullptr;
  PlannerOptions options;                                       ///< of the command plan
  std::vector<std::pair<std::string, std::string>> other_axes;  ///< key and text of every option that is varied
};

/// A grid of plans, read from a JSON object: `models` and `clusters` (texts as --model and --cluster take them),
/// `nodes` or `gpus` (each cluster in each of these sizes), and any option of plan that describes the job, the layouts
/// or the search, with '_' for '-'. A value that is no list is a list of one. There is a cell for every combination;
/// the first key of the file varies slowest.
class SweepGrid {
 public:
  /// Throws SpecError with every problem of the grid, and with those of the model and cluster files it names.
  /// `warnings` receives rendered warnings about files.
  static SweepGrid load(const std::string& path, std::string* warnings = nullptr);
  static SweepGrid parse(std::string name, const std::string& source, std::string* warnings = nullptr);

  [[nodiscard]] std::size_t cells() const { return cells_; }
  [[nodiscard]] SweepCell cell(std::size_t index) const;
  [[nodiscard]] const ProfileSet& profiles() const { return profiles_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Hash (FNV-1a, 64 bits) of the grid and of every file its rows depend on: equal where equal rows can be expected of
  /// the same version of the program.
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  std::string name_;
  std::string identity_;
  std::vector<GridAxis> axes_;
  std::vector<ModelSpec> models_;
  std::vector<SizedCluster> clusters_;  ///< cluster by cluster, each in every size
  std::size_t sizes_ = 1;
  std::size_t cells_ = 0;
  ProfileSet profiles_;
  friend class GridLoader;
};

}  // namespace tpplan
