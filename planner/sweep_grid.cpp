#include "planner/sweep_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "cost-model/file_text.h"
#include "planner/option_table.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr std::size_t kMostCells = 1'000'000;
constexpr std::size_t kMostValues = 10'000;
constexpr int kMostCount = 10'000'000;

/// Options of plan that say how to run or write, not what is planned.
constexpr std::array<std::string_view, 5> kNotVaried{"model", "cluster", "top", "jobs", "timing"};

bool varies(const OptionRow& row) {
  const bool of_job =
      row.group == OptionGroup::inputs || row.group == OptionGroup::layout || row.group == OptionGroup::search;
  return of_job && !row.hidden && belongs_to(row, "plan") &&
         std::find(kNotVaried.begin(), kNotVaried.end(), row.name) == kNotVaried.end();
}

std::string key_of(std::string_view option) {
  std::string key(option);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

const OptionRow* option_of_key(std::string_view key) {
  for (const OptionRow& row : option_rows()) {
    if (varies(row) && key_of(row.name) == key) {
      return &row;
    }
  }
  return nullptr;
}

/// A number as an option takes it: counts without an exponent.
std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? std::to_string(static_cast<long long>(value))
                                                              : shortest(value);
}

class Fnv1a {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      add_byte(static_cast<unsigned char>(c));
    }
    add_byte(0);
  }
  [[nodiscard]] std::string text() const {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash_));
    return digits.data();
  }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 1099511628211ULL; }
  std::uint64_t hash_ = 14695981039346656037ULL;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> json_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Message {
  std::string text, hint;
};

/// The first line of an error, and its "did you mean" as a hint.
Message brief(const std::string& error) {
  Message message{error.substr(0, error.find('\n')), ""};
  if (const std::size_t semicolon = message.text.find("; looked at:"); semicolon != std::string::npos) {
    message.text.resize(semicolon);
  }
  if (const std::size_t hint = error.find("\ndid you mean "); hint != std::string::npos) {
    message.hint = error.substr(hint + 1, error.find('\n', hint + 1) - hint - 1);
  }
  return message;
}

}  // namespace

/// Reads one grid; keeps what only reading needs.
class GridLoader {
 public:
  GridLoader(std::string name, const std::string& source, std::string* warnings)
      : document_(SpecDocument::parse(name, source)), warnings_(warnings) {
    grid_.name_ = std::move(name);
    hash_.add(source);
  }

  SweepGrid load() {
    ObjectReader root = document_.root();
    read_axes(root);
    load_models(root);
    load_clusters(root);
    check_options(root);
    count_cells(root);
    root.ignore("note");
    root.close();
    try {
      document_.finish();
    } catch (const SpecError& error) {
      file_problems_ = error.what() + (file_problems_.empty() ? "" : "\n" + file_problems_);
    }
    if (!file_problems_.empty()) {
      throw SpecError(file_problems_);
    }
    const std::string profiles = data_folder("clusters/profiles");
    grid_.profiles_ = ProfileSet::load(profiles);
    for (const std::string& path : json_files(profiles)) {
      hash_.add(content_of(path));
    }
    hash_.add(content_of(data_folder("clusters") + "/gpus.json"));
    grid_.identity_ = hash_.text();
    return std::move(grid_);
  }

 private:
  static bool special(std::string_view key) {
    return key == "models" || key == "clusters" || key == "nodes" || key == "gpus";
  }

  [[nodiscard]] const GridAxis* axis(std::string_view key) const {
    const auto at = std::find_if(grid_.axes_.begin(), grid_.axes_.end(), [&](const auto& a) { return a.key == key; });
    return at == grid_.axes_.end() ? nullptr : &*at;
  }

  void read_axes(ObjectReader& root) {
    for (const std::string_view key : {"nodes", "gpus"}) {
      root.expect(key);
    }
    for (const OptionRow& row : option_rows()) {
      if (varies(row)) {
        root.expect(key_of(row.name));
      }
    }
    for (const std::string_view key : {"models", "clusters"}) {
      if (!root.has(key)) {
        root.text(key);  // notes that it is missing
      }
    }
    for (const std::string& key : root.keys()) {
      const OptionRow* row = option_of_key(key);
      if ((row != nullptr || special(key)) && root.has(key)) {
        grid_.axes_.push_back({key, row == nullptr ? "" : std::string(row->name), values(root, key)});
      }
    }
    if (root.has("nodes") && root.has("gpus")) {
      root.error_at_key("gpus", "nodes and gpus both given", "keep one: each sets the size of every cluster");
    }
  }

  /// The texts of a list, or of a value that stands for a list of one.
  static std::vector<std::string> values(ObjectReader& root, const std::string& key) {
    std::vector<std::string> texts;
    if (root.is_array(key)) {
      ArrayReader list = root.array(key);
      for (std::size_t i = 0; i < std::min(list.size(), kMostValues); ++i) {
        texts.push_back(list.is_number(i) ? number_text(list.number(i, -1e300, 1e300)) : list.text(i));
        if (std::find(texts.begin(), texts.end() - 1, texts.back()) != texts.end() - 1) {
          list.error(i, texts.back() + " is listed twice");
        }
      }
      if (list.size() == 0 || list.size() > kMostValues) {
        root.error(key, "expected 1 to 10,000 values, got " + std::to_string(list.size()));
      }
    } else if (root.is_number(key)) {
      texts.push_back(number_text(root.number(key, -1e300, 1e300)));
    } else {
      texts.push_back(root.text(key));
    }
    return texts;
  }

  /// Notes a problem at the value `index` of a key.
  static void error_at(ObjectReader& root, const std::string& key, std::size_t index, const Message& message) {
    if (root.is_array(key)) {
      root.array(key).error(index, message.text, message.hint);
    } else {
      root.error(key, message.text, message.hint);
    }
  }
  static bool readable(ObjectReader& root, const std::string& key, std::size_t index) {
    return root.is_array(key) ? root.array(key).is_text(index) || root.array(key).is_number(index)
                              : root.is_text(key) || root.is_number(key);
  }

  void load_models(ObjectReader& root) {
    const GridAxis* names = axis("models");
    for (std::size_t i = 0; names != nullptr && i < names->values.size(); ++i) {
      const std::string& name = names->values[i];
      grid_.models_.emplace_back();
      if (!readable(root, names->key, i)) {
        continue;
      }
      if (name == "-") {
        error_at(root, names->key, i, {"a grid reads no model from standard input", ""});
        continue;
      }
      try {
        const std::string path = find_spec("model", name);
        const bool folder = std::filesystem::is_directory(path);
        hash_.add(content_of(folder ? std::filesystem::path(path) / "config.json" : std::filesystem::path(path)));
      } catch (const SpecError& error) {
        error_at(root, names->key, i, brief(error.what()));
        continue;
      }
      try {
        grid_.models_.back() = resolve_model(name, warnings_);
      } catch (const SpecError& error) {
        add_file_problem(error.what());
      }
    }
  }

  /// The sizes asked for, none when every cluster keeps its own.
  std::vector<int> sizes(ObjectReader& root, std::string_view key) {
    std::vector<int> counts;
    const GridAxis* texts = axis(key);
    for (std::size_t i = 0; texts != nullptr && i < texts->values.size(); ++i) {
      char* end = nullptr;
      const double value = std::strtod(texts->values[i].c_str(), &end);
      const bool count = *end == '\0' && end != texts->values[i].c_str() && value == std::floor(value);
      if (!readable(root, texts->key, i)) {
        counts.push_back(1);
      } else if (!count || value < 1 || value > kMostCount) {
        error_at(root, texts->key, i, {"expected a count from 1 to 10,000,000", ""});
        counts.push_back(1);
      } else {
        counts.push_back(static_cast<int>(value));
      }
    }
    return counts;
  }

  void load_clusters(ObjectReader& root) {
    const std::vector<int> nodes = sizes(root, "nodes");
    const std::vector<int> gpus = sizes(root, "gpus");
    grid_.sizes_ = std::max<std::size_t>({1, nodes.size(), gpus.size()});
    const GridAxis* names = axis("clusters");
    if (names == nullptr) {
      return;
    }
    const GpuCatalogue catalogue = shipped_gpus();
    for (std::size_t i = 0; i < names->values.size(); ++i) {
      const std::string& name = names->values[i];
      std::optional<ClusterSpec> base;
      if (readable(root, names->key, i)) {
        base = load_cluster_named(root, i, name, catalogue);
      }
      for (std::size_t size = 0; size < grid_.sizes_; ++size) {
        grid_.clusters_.emplace_back();
        if (base && !nodes.empty()) {
          grid_.clusters_.back() = sized(*base, name, catalogue, nodes[size]);
        } else if (base && !gpus.empty() && gpus[size] % base->gpus_per_node != 0) {
          grid_.clusters_.back() = {*base, std::to_string(gpus[size]) + " GPUs are no whole number of nodes of " +
                                               std::to_string(base->gpus_per_node)};
        } else if (base && !gpus.empty()) {
          grid_.clusters_.back() = sized(*base, name, catalogue, gpus[size] / base->gpus_per_node);
        } else if (base) {
          grid_.clusters_.back().cluster = *base;
        }
      }
    }
  }

  std::optional<ClusterSpec> load_cluster_named(ObjectReader& root, std::size_t index, const std::string& name,
                                                const GpuCatalogue& catalogue) {
    if (name == "-") {
      error_at(root, "clusters", index, {"a grid reads no cluster from standard input", ""});
      return std::nullopt;
    }
    const auto path = try_find_spec("cluster", name);
    try {
      ClusterSpec cluster = resolve_cluster(name, catalogue, warnings_);
      hash_.add(path ? content_of(*path) : name);
      hash_.add(cluster.calibration.empty() ? "" : content_of(cluster.calibration));
      return cluster;
    } catch (const SpecError& error) {
      if (path) {
        add_file_problem(error.what());
      } else {
        error_at(root, "clusters", index, brief(error.what()));
      }
    }
    return std::nullopt;
  }

  static SizedCluster sized(const ClusterSpec& base, const std::string& name, const GpuCatalogue& catalogue,
                            int nodes) {
    if (nodes == base.nodes) {
      return {base, ""};
    }
    try {
      return {resolve_cluster(name, catalogue, nodes), ""};
    } catch (const SpecError& error) {
      return {base, error.what()};
    }
  }

  /// Sets every value of every option once, to hear what is wrong with it.
  void check_options(ObjectReader& root) {
    for (const GridAxis& axis : grid_.axes_) {
      const OptionRow* row = option_of_key(axis.key);
      for (std::size_t i = 0; row != nullptr && i < axis.values.size(); ++i) {
        PlannerOptions scratch;
        const std::string problem = readable(root, axis.key, i) ? row->set(scratch, axis.values[i]) : "";
        if (!problem.empty()) {
          error_at(root, axis.key, i, {problem, ""});
        } else if (axis.key == "calibration" && axis.values[i] != "none") {
          hash_.add(content_of(axis.values[i]));
        }
      }
    }
  }

  void count_cells(ObjectReader& root) {
    grid_.cells_ = 1;
    for (const GridAxis& axis : grid_.axes_) {
      grid_.cells_ *= std::max<std::size_t>(1, axis.values.size());
      if (grid_.cells_ > kMostCells) {
        root.error("", "more than " + with_separators(kMostCells) + " combinations",
                   "split the grid, or leave out values");
        return;
      }
    }
  }

  void add_file_problem(const std::string& text) { file_problems_ += (file_problems_.empty() ? "" : "\n") + text; }

  SpecDocument document_;
  std::string* warnings_;
  SweepGrid grid_;
  Fnv1a hash_;
  std::string file_problems_;
};

SweepGrid SweepGrid::parse(std::string name, const std::string& source, std::string* warnings) {
  return GridLoader(std::move(name), source, warnings).load();
}

SweepGrid SweepGrid::load(const std::string& path, std::string* warnings) {
  return parse(path, file_text(path), warnings);
}

SweepCell SweepGrid::cell(std::size_t index) const {
  SweepCell cell;
  cell.index = index;
  cell.options.command = "plan";
  std::size_t model = 0, cluster = 0, size = 0;
  std::size_t rest = index;
  // Digits of the index, the last axis first; kept to be applied in the order of the file.
  std::vector<std::size_t> digits(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    digits[i] = rest % axes_[i].values.size();
    rest /= axes_[i].values.size();
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const GridAxis& axis = axes_[i];
    const std::string& value = axis.values[digits[i]];
    if (axis.key == "models") {
      model = digits[i];
      cell.model_name = value;
    } else if (axis.key == "clusters") {
      cluster = digits[i];
      cell.cluster_name = value;
    } else if (axis.option.empty()) {
      size = digits[i];
      cell.size = axis.key + " " + value;
    } else {
      option_of_key(axis.key)->set(cell.options, value);
      cell.options.given.emplace_back(axis.option, value);
      cell.other_axes.emplace_back(axis.key, value);
    }
  }
  cell.model = &models_[model];
  cell.cluster = &clusters_[cluster * sizes_ + size];
  return cell;
}

}  // namespace tpplan
