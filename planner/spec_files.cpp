#include "planner/spec_files.h"

#include <algorithm>
#include <filesystem>

#include "cost-model/cluster_tiers.h"
#include "cost-model/words.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

std::string folder_of(std::string_view kind) { return std::string(kind) + "s"; }

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) || fs::is_character_file(path, ignored) || fs::is_fifo(path, ignored);
}

bool is_spec(std::string_view kind, const fs::path& path) {
  if (is_file(path)) return true;
  return kind == "model" && is_file(path / "config.json");
}

/// Shipped files of one folder that are of the kind, as (name without ".json", path).
std::vector<std::pair<std::string, std::string>> files_in(const std::string& folder, std::string_view kind) {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (!name.ends_with(".json") || !is_file(entry->path())) continue;
    name.resize(name.size() - 5);
    if (kind == "cluster" && (name == "gpus" || name.ends_with(".calibration"))) continue;
    found.emplace_back(std::move(name), entry->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string without_suffix(std::string_view name) {
  return std::string(name.ends_with(".json") ? name.substr(0, name.size() - 5) : name);
}

/// What a name may mean among shipped files: a bare name, or one behind the folder's own name ("models/7b.json"). Empty
/// for any other path, so that a mistyped path never turns into a shipped file.
std::string shipped_name(std::string_view kind, std::string_view name) {
  const fs::path path(without_suffix(name));
  if (path.has_parent_path() && path.parent_path() != folder_of(kind)) return "";
  return lower(path.filename().string());
}

std::vector<std::string> near_names(std::string_view kind, std::string_view name) {
  const std::vector<std::string> known = shipped(kind);
  const std::string wanted = lower(fs::path(without_suffix(name)).filename().string());
  std::vector<std::string> near;
  if (wanted.empty()) return near;
  if (const auto nearest = nearest_name(wanted, known)) near.push_back(*nearest);
  for (const std::string& candidate : known) {
    // Part of a name when long, else a whole word of it: the 8b of llama3-8b.
    const std::string words = "-" + lower(candidate) + "-";
    const bool related = words.find(wanted.size() > 2 ? wanted : "-" + wanted + "-") != std::string::npos;
    if (related && near.size() < 6 && std::find(near.begin(), near.end(), candidate) == near.end()) {
      near.push_back(candidate);
    }
  }
  return near;
}

[[noreturn]] void report_miss(std::string_view kind, std::string_view name, std::string reason = "") {
  std::error_code ignored;
  if (fs::is_directory(fs::path(name), ignored)) {
    reason = std::string(name) + " is a folder" + (kind == "model" ? " without config.json" : "");
  }
  std::string message =
      (reason.empty() ? "" : reason + "\n") + "no " + std::string(kind) + " \"" + std::string(name) + "\"; looked at:";
  const std::string path(name);
  message += "\n  " + path;
  if (!name.ends_with(".json")) message += "\n  " + path + ".json";
  const bool elsewhere = shipped_name(kind, name).empty();
  for (const std::string& folder : data_folders(folder_of(kind))) {
    if (elsewhere) break;
    message += "\n  " + (fs::path(folder) / fs::path(without_suffix(name) + ".json").filename()).string();
  }
  const auto near = near_names(kind, name);
  for (std::size_t i = 0; i < near.size(); ++i) message += (i == 0 ? "\ndid you mean " : ", ") + near[i];
  if (!near.empty()) message += "?";
  message += "\n'tpplan " + folder_of(kind) + "' lists what is shipped";
  if (kind == "cluster") message += "; NODESxGPUSxGPU names any other, such as 16x8xh100-80gb-sxm";
  throw SpecError(message);
}

}  // namespace

std::vector<std::string> data_folders(std::string_view folder) {
  std::vector<fs::path> roots;
#ifdef TPPLAN_SOURCE_DIR
  roots.emplace_back(TPPLAN_SOURCE_DIR);
#endif
#ifdef TPPLAN_DATA_DIR
  roots.emplace_back(TPPLAN_DATA_DIR);
#endif
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) roots.push_back(program.parent_path().parent_path() / "share" / "tpplan");
  std::vector<std::string> folders;
  for (const fs::path& root : roots) {
    std::string path = (root / folder).lexically_normal().string();
    if (std::find(folders.begin(), folders.end(), path) == folders.end()) folders.push_back(std::move(path));
  }
  return folders;
}

std::string data_folder(std::string_view folder) {
  std::string message = "the folder " + std::string(folder) + " that comes with tpplan is missing; looked at:";
  for (std::string& path : data_folders(folder)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return std::move(path);
    message += "\n  " + path;
  }
  throw SpecError(message);
}

std::vector<std::string> shipped(std::string_view kind) {
  std::vector<std::string> names;
  for (const std::string& folder : data_folders(folder_of(kind))) {
    for (auto& [name, path] : files_in(folder, kind)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<std::string> try_find_spec(std::string_view kind, std::string_view name) {
  const std::string path(name);
  if (path.empty()) return std::nullopt;
  if (path == "-") return path;
  if (is_spec(kind, path)) return path;
  if (!name.ends_with(".json") && is_file(path + ".json")) return path + ".json";
  const std::string wanted = shipped_name(kind, name);
  if (wanted.empty()) return std::nullopt;
  for (const std::string& folder : data_folders(folder_of(kind))) {
    for (const auto& [candidate, file] : files_in(folder, kind)) {
      if (lower(candidate) == wanted) return file;
    }
  }
  return std::nullopt;
}

std::string find_spec(std::string_view kind, std::string_view name) {
  if (auto found = try_find_spec(kind, name)) return *std::move(found);
  report_miss(kind, name);
}

GpuCatalogue shipped_gpus() { return GpuCatalogue::load(data_folder("clusters") + "/gpus.json"); }

ClusterSpec resolve_cluster(const std::string& text, const GpuCatalogue& catalogue, std::string* warnings) {
  if (const auto path = try_find_spec("cluster", text)) return load_cluster(*path, catalogue, warnings);
  std::string reason;
  try {
    if (auto cluster = cluster_from_name(text, catalogue)) return *std::move(cluster);
  } catch (const SpecError& problem) {
    reason = problem.what();
  }
  report_miss("cluster", text, reason);
}

ClusterSpec resolve_cluster(const std::string& text, const GpuCatalogue& catalogue, int nodes, std::string* warnings) {
  if (const auto path = try_find_spec("cluster", text)) return load_resized_cluster(*path, catalogue, nodes, warnings);
  const ClusterSpec named = resolve_cluster(text, catalogue, warnings);
  if (!named.parts.empty()) throw SpecError("the mixed cluster \"" + text + "\" has no other size");
  return usual_cluster(named.gpu, nodes, named.gpus_per_node);
}

ClusterSpec resolve_cluster(const std::string& text, std::string* warnings) {
  return resolve_cluster(text, shipped_gpus(), warnings);
}

ModelSpec resolve_model(const std::string& text, std::string* warnings) {
  return load_model(find_spec("model", text), warnings);
}

}  // namespace tpplan
