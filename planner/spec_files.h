#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/cluster_spec.h"
#include "cost-model/model_spec.h"

namespace tpplan {

/// Folders that may hold shipped data, in order: of the source tree the program was built from, of the installation,
/// and share/tpplan beside the folder of the running program. `folder` is "models", "clusters" or "clusters/profiles".
std::vector<std::string> data_folders(std::string_view folder);

/// The first of them that exists. Throws SpecError naming all of them.
std::string data_folder(std::string_view folder);

/// Names of what is shipped of a kind ("model" or "cluster"), without ".json", sorted; catalogues and calibrations are
/// no clusters.
std::vector<std::string> shipped(std::string_view kind);

/// The file meant by a name of that kind: a path as given (for a model also a folder that holds config.json, and "-"),
/// else a shipped file in any case, each with and without ".json". Nothing when there is none.
std::optional<std::string> try_find_spec(std::string_view kind, std::string_view name);

/// The same; a miss throws SpecError with every place looked at and near names.
std::string find_spec(std::string_view kind, std::string_view name);

/// The shipped catalogue of GPUs.
GpuCatalogue shipped_gpus();

/// A cluster by file, shipped name, or NODESxGPUSxGPU. Throws SpecError. `warnings` receives rendered warnings.
ClusterSpec resolve_cluster(const std::string& text, std::string* warnings = nullptr);
ClusterSpec resolve_cluster(const std::string& text, const GpuCatalogue& catalogue, std::string* warnings = nullptr);

/// The same cluster with another number of nodes. Throws SpecError, also when its servers cannot be that many.
ClusterSpec resolve_cluster(const std::string& text, const GpuCatalogue& catalogue, int nodes,
                            std::string* warnings = nullptr);

/// A model by file, folder, "-", or shipped name. Throws SpecError.
ModelSpec resolve_model(const std::string& text, std::string* warnings = nullptr);

}  // namespace tpplan
