#include "planner/import/topology_links.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

namespace tpplan {
namespace {

bool is_fast(const PathCell& cell) { return cell.path == Path::nvlink || cell.path == Path::xgmi; }

/// Fills pairs that a cut text left open with the cell of all other pairs, when those agree.
bool fill_unknown(TopologyMatrix& matrix) {
  const PathCell* common = nullptr;
  bool unknown = false, agree = true;
  for (std::size_t i = 0; i < matrix.gpus.size(); ++i) {
    for (std::size_t j = 0; j < matrix.gpus.size(); ++j) {
      const PathCell& cell = matrix.between[i][j];
      if (i == j) continue;
      if (cell.path == Path::unknown) {
        unknown = true;
      } else if (common == nullptr) {
        common = &cell;
      } else {
        agree = agree && cell == *common;
      }
    }
  }
  if (!unknown || !agree || common == nullptr) return false;
  const PathCell fill = *common;
  for (std::size_t i = 0; i < matrix.gpus.size(); ++i) {
    for (std::size_t j = 0; j < matrix.gpus.size(); ++j) {
      if (i != j && matrix.between[i][j].path == Path::unknown) matrix.between[i][j] = fill;
    }
  }
  return true;
}

/// GPUs connected by fast links, directly or through others.
std::vector<std::vector<std::size_t>> groups_of(const TopologyMatrix& matrix) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> taken(matrix.gpus.size(), false);
  for (std::size_t first = 0; first < matrix.gpus.size(); ++first) {
    if (taken[first]) continue;
    std::vector<std::size_t> group{first};
    taken[first] = true;
    for (std::size_t k = 0; k < group.size(); ++k) {
      for (std::size_t j = 0; j < matrix.gpus.size(); ++j) {
        if (!taken[j] && is_fast(matrix.between[group[k]][j])) {
          taken[j] = true;
          group.push_back(j);
        }
      }
    }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

struct LinkCounts {
  int fewest_of_pair = 1 << 20, most_of_pair = 0;
  int fewest_of_gpu = 1 << 20;
  bool all_pairs = true;
};

LinkCounts count_links(const TopologyMatrix& matrix, const std::vector<std::vector<std::size_t>>& groups) {
  LinkCounts counts;
  for (const auto& group : groups) {
    for (const std::size_t i : group) {
      int sum = 0;
      for (const std::size_t j : group) {
        if (i == j) continue;
        const PathCell& cell = matrix.between[i][j];
        if (!is_fast(cell)) {
          counts.all_pairs = false;
          continue;
        }
        const int links = std::max(cell.links, 1);
        counts.fewest_of_pair = std::min(counts.fewest_of_pair, links);
        counts.most_of_pair = std::max(counts.most_of_pair, links);
        sum += links;
      }
      counts.fewest_of_gpu = std::min(counts.fewest_of_gpu, sum);
    }
  }
  return counts;
}

void rate_domain(MatrixDomain& domain, const LinkCounts& counts, const GpuSpec& gpu, bool xgmi) {
  const BytesPerSecond rate = xgmi && gpu.per_peer > BytesPerSecond{} ? gpu.per_peer : nvlink_rate(gpu);
  const int neighbours = domain.gpus - 1;
  const BytesPerSecond pair = rate * counts.fewest_of_pair;
  if (neighbours == 1) {
    domain.topology = gpu.topology == Topology::bridged_pairs ? Topology::bridged_pairs : Topology::switched;
    domain.bandwidth = pair;
  } else if (counts.fewest_of_pair == counts.most_of_pair && counts.all_pairs) {
    const bool shared_links = !xgmi && pair * neighbours > gpu.link * 1.05;
    domain.topology = shared_links ? Topology::switched : Topology::mesh;
    domain.bandwidth = shared_links ? pair : pair * neighbours;
  } else {
    domain.topology = Topology::mesh;
    domain.bandwidth = max(rate * counts.fewest_of_gpu, pair * neighbours);
    domain.guesses.emplace_back("fast domain: pairs have " +
                                std::to_string(counts.all_pairs ? counts.fewest_of_pair : 0) + " to " +
                                std::to_string(counts.most_of_pair) +
                                " links; planned as a mesh with the fewest (the matrix shows uneven pairs)");
  }
  if (domain.topology == Topology::mesh) domain.per_peer = pair;
}

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : name + "-") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    // "8xH200" names eight of them.
    std::size_t digits = 0;
    while (digits < word.size() && std::isdigit(static_cast<unsigned char>(word[digits])) != 0) ++digits;
    if (digits > 0 && digits + 1 < word.size() && word[digits] == 'x') word.erase(0, digits + 1);
    if (!word.empty()) words.push_back(word);
    word.clear();
  }
  return words;
}

bool names_a_kind(const std::string& word) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  const auto digits = std::count_if(word.begin(), word.end(), digit);
  const bool unit = word.ends_with("gb") || word.ends_with("GB");
  return !unit && (digits == 4 || (digits > 0 && std::any_of(word.begin(), word.end(), letter)));
}

/// The row that suits the links best: among several, those whose topology the matrix shows, then the largest memory.
const GpuSpec* best_of(std::vector<const GpuSpec*> rows, Topology shown) {
  std::stable_sort(rows.begin(), rows.end(), [&](const GpuSpec* a, const GpuSpec* b) {
    const bool a_fits = a->topology == shown, b_fits = b->topology == shown;
    return a_fits != b_fits ? a_fits : a->memory > b->memory;
  });
  return rows.front();
}

const GpuSpec* named_in(const std::string& file_name, Topology shown, const GpuCatalogue& catalogue) {
  const auto words = words_of(std::filesystem::path(file_name).stem().string());
  for (std::size_t first = 0; first < words.size(); ++first) {
    if (!names_a_kind(words[first])) continue;
    for (std::size_t count = std::min<std::size_t>(4, words.size() - first); count > 0; --count) {
      std::string text;
      for (std::size_t i = first; i < first + count; ++i) text += words[i] + " ";
      if (auto rows = catalogue.matches(text); !rows.empty()) return best_of(std::move(rows), shown);
    }
  }
  return nullptr;
}

/// What a number of NVLinks between two GPUs is typical of.
struct TypicalLinks {
  int links;
  bool pairs;  ///< only two by two
  std::string_view id;
};
constexpr std::array<TypicalLinks, 9> kTypicalLinks{{{18, false, "h100-80gb-sxm"},
                                                     {12, false, "a100-80gb-sxm"},
                                                     {12, true, "a100-80gb-pcie"},
                                                     {8, false, "a800-80gb-sxm"},
                                                     {6, false, "v100-32gb-sxm"},
                                                     {4, true, "rtx-a6000"},
                                                     {3, true, "v100-32gb-sxm"},
                                                     {2, false, "v100-32gb-sxm"},
                                                     {1, true, "v100-32gb-sxm"}}};

}  // namespace

BytesPerSecond nvlink_rate(const GpuSpec& gpu) {
  const double bridge_of_four = 56.25e9;
  if (gpu.link.raw() == bridge_of_four) return BytesPerSecond(bridge_of_four / 4);
  return BytesPerSecond(gpu.architecture == "blackwell" ? 50e9 : 25e9);
}

MatrixDomain domain_of(const TopologyMatrix& shown, const GpuSpec& gpu) {
  TopologyMatrix matrix = shown;
  MatrixDomain domain;
  if (fill_unknown(matrix)) {
    domain.guesses.emplace_back("paths between GPUs whose rows are cut off: as between all others (the matrix is cut)");
  }
  const auto groups = groups_of(matrix);
  const std::size_t size = groups.empty() ? 1 : groups.front().size();
  const bool equal = std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return g.size() == size; });
  if (!equal) {
    domain.guesses.emplace_back("fast domain: none, since groups of different sizes share links (tiers are equal)");
    return domain;
  }
  if (size < 2) return domain;
  domain.gpus = static_cast<int>(size);
  bool in_order = true;
  for (const auto& group : groups) {
    in_order = in_order && group.front() % size == 0 && group.back() - group.front() + 1 == size;
  }
  if (!in_order) {
    std::string order;
    for (const auto& group : groups) {
      for (const std::size_t i : group) order += (order.empty() ? "" : ",") + std::to_string(i);
    }
    domain.guesses.push_back("order of GPUs: linked ones next to each other (run with CUDA_VISIBLE_DEVICES=" + order +
                             ")");
  }
  rate_domain(domain, count_links(matrix, groups), gpu, matrix.rocm);
  return domain;
}

GpuGuess guess_gpu(const TopologyMatrix& matrix, const std::string& file_name, const GpuCatalogue& catalogue) {
  TopologyMatrix filled = matrix;
  fill_unknown(filled);
  const auto groups = groups_of(filled);
  const std::size_t size = groups.empty() ? 1 : groups.front().size();
  const bool pairs = size == 2 && matrix.gpus.size() > 2;
  const Topology shown = matrix.rocm ? Topology::mesh
                         : size < 2  ? Topology::pcie
                         : pairs     ? Topology::bridged_pairs
                                     : Topology::switched;
  if (const GpuSpec* row = named_in(file_name, shown, catalogue)) return {row, "from the name of the file"};
  if (matrix.rocm) return {catalogue.try_find("mi300x"), "a full xGMI mesh is typical of it, nothing names it"};
  if (size < 2) return {catalogue.try_find("rtx-4090"), "no pair has NVLink and nothing names it: a mere example"};
  const int links = count_links(filled, groups).most_of_pair;
  const std::string reason = "NV" + std::to_string(links) + " is typical of it, nothing names it";
  const TypicalLinks* best = nullptr;
  for (const TypicalLinks& row : kTypicalLinks) {
    if (row.links <= links && (best == nullptr || (row.links == best->links && row.pairs == pairs))) best = &row;
  }
  return {best == nullptr ? nullptr : catalogue.try_find(best->id), reason};
}

}  // namespace tpplan
