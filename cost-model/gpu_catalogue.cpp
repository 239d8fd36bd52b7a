#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "cost-model/cluster_spec.h"
#include "cost-model/gpu_fields.h"
#include "cost-model/words.h"

namespace tpplan {
namespace {

using Words = std::vector<std::string>;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Spellings of one thing: "sxm4" is "sxm", "80g" and "80gib" are "80gb".
std::string canonical_word(std::string word) {
  if (word.size() == 4 && word.starts_with("sxm")) return "sxm";
  for (const std::string_view unit : {"gib", "g"}) {
    if (word.ends_with(unit) && all_digits(std::string_view(word).substr(0, word.size() - unit.size()))) {
      return word.substr(0, word.size() - unit.size()) + "gb";
    }
  }
  return word;
}

/// Lower-case words without those that name only the maker or the kind of thing.
Words words_of(std::string_view text) {
  constexpr std::array<std::string_view, 9> kSilent{"nvidia", "amd",     "intel",    "huawei", "google",
                                                    "tesla",  "geforce", "instinct", "gpu"};
  Words words;
  std::string word;
  for (const char c : lower(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      if (std::find(kSilent.begin(), kSilent.end(), word) == kSilent.end()) words.push_back(canonical_word(word));
      word.clear();
    }
  }
  return words;
}

std::string glued(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += word;
  return out;
}

std::set<std::string> as_set(const Words& words) { return {words.begin(), words.end()}; }

std::vector<std::string> names_of(const GpuSpec& gpu) {
  std::vector<std::string> names{gpu.id, gpu.name};
  names.insert(names.end(), gpu.aliases.begin(), gpu.aliases.end());
  return names;
}

/// Chips for inference in devices, which people ask for beside data-centre parts.
bool is_edge_chip(const Words& words) {
  constexpr std::array<std::string_view, 20> kPrefixes{
      "rk3",   "rk1",      "rv1",    "stm32", "esp32",   "jetson", "orin",       "xavier", "raspberry", "rpi",
      "bcm27", "movidius", "myriad", "hailo", "edgetpu", "coral",  "snapdragon", "k210",   "cortex",    "a311d"};
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [&](std::string_view prefix) { return word.starts_with(prefix); });
  });
}

std::string listed(const std::vector<std::string>& names, std::size_t most = 8) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) out += " and " + std::to_string(names.size() - most) + " more";
  return out;
}

/// Ids near to a text that matches nothing: by the whole text, else by the words most like one of its words.
std::vector<std::string> near_ids(std::string_view text, const std::vector<GpuSpec>& rows) {
  std::vector<std::string> ids, known_words;
  for (const GpuSpec& row : rows) {
    ids.push_back(row.id);
    for (const std::string& word : words_of(row.id)) {
      if (std::find(known_words.begin(), known_words.end(), word) == known_words.end()) known_words.push_back(word);
    }
  }
  const bool several_words = words_of(text).size() > 1;
  const auto nearest_id = nearest_name(lower(text), ids);
  if (several_words && nearest_id) return {*nearest_id};
  for (const std::string& word : words_of(text)) {
    const auto near = nearest_name(word, known_words);
    if (word.size() < 2 || !near || *near == "gb" || *near == "sxm" || *near == "pcie") continue;
    std::vector<std::string> found;
    for (const GpuSpec& row : rows) {
      if (as_set(words_of(row.id)).contains(*near)) found.push_back(row.id);
    }
    if (!found.empty()) return found;
  }
  return nearest_id ? std::vector<std::string>{*nearest_id} : std::vector<std::string>{};
}

GpuSpec read_row(ObjectReader& reader) {
  GpuSpec gpu;
  gpu.id = reader.text("id");
  gpu.vendor = reader.text("vendor");
  gpu.architecture = reader.text("architecture");
  read_gpu_fields(reader, gpu, true);
  gpu.fast_domain = static_cast<int>(reader.count("fast_domain", 1, 100000, 0));
  gpu.gpus_per_host = static_cast<int>(reader.count("gpus_per_host", 1, 1024, 8));
  gpu.launch = reader.text("launch", "");
  gpu.confidence = reader.choice("confidence", {"high", "medium", "low"});
  gpu.source = reader.text("source");
  gpu.note = reader.text("note", "");
  gpu.unplannable = reader.text("unplannable", "");
  if (reader.has("aliases")) gpu.aliases = reader.texts("aliases");
  if (gpu.unplannable.empty() && gpu.topology == Topology::mesh && !(gpu.per_peer > BytesPerSecond{})) {
    reader.error("topology", "a mesh needs per_peer, the bandwidth to one neighbour");
  }
  if (const std::string doubt = sparse_peak_suspicion(gpu, &gpu); !doubt.empty()) reader.warning("peak", doubt);
  reader.close();
  return gpu;
}

}  // namespace

GpuCatalogue GpuCatalogue::load(const std::string& path) {
  SpecDocument document = SpecDocument::load(path);
  ObjectReader root = document.root();
  root.ignore("note");
  ArrayReader rows = root.array("gpus");
  root.close();
  GpuCatalogue catalogue;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ObjectReader row = rows.object(i);
    catalogue.rows_.push_back(read_row(row));
    if (!seen.insert(lower(catalogue.rows_.back().id)).second) row.error("id", "a second row of this id");
  }
  document.finish();
  return catalogue;
}

std::vector<const GpuSpec*> GpuCatalogue::matches(std::string_view text) const {
  const Words words = words_of(text);
  std::vector<const GpuSpec*> found;
  if (words.empty()) return found;
  const std::string wanted_id = lower(text), wanted_glued = glued(words);
  const std::set<std::string> wanted = as_set(words);
  const auto collect = [&](auto&& fits) {
    for (const GpuSpec& row : rows_) {
      if (fits(row)) found.push_back(&row);
    }
    return !found.empty();
  };
  const auto any_name = [](const GpuSpec& row, auto&& fits) {
    const auto names = names_of(row);
    return std::any_of(names.begin(), names.end(), fits);
  };
  if (collect([&](const GpuSpec& row) { return lower(row.id) == wanted_id; })) return found;
  if (collect([&](const GpuSpec& row) {
        return any_name(row, [&](const std::string& name) { return as_set(words_of(name)) == wanted; });
      })) {
    return found;
  }
  if (collect([&](const GpuSpec& row) {
        return any_name(row, [&](const std::string& name) { return glued(words_of(name)) == wanted_glued; });
      })) {
    return found;
  }
  collect([&](const GpuSpec& row) {
    std::set<std::string> known;
    for (const std::string& name : names_of(row)) known.merge(as_set(words_of(name)));
    return std::includes(known.begin(), known.end(), wanted.begin(), wanted.end());
  });
  return found;
}

const GpuSpec* GpuCatalogue::try_find(std::string_view id) const {
  const auto found = matches(id);
  return found.size() == 1 ? found.front() : nullptr;
}

const GpuSpec& GpuCatalogue::find(std::string_view id) const {
  const auto found = matches(id);
  if (found.size() == 1) return *found.front();
  const std::string quoted = "\"" + std::string(id) + "\"";
  if (found.size() > 1) {
    std::vector<std::string> ids;
    for (const GpuSpec* row : found) ids.push_back(row->id);
    throw SpecError(quoted + " fits more than one GPU: " + listed(ids, 12) + "; name one of them");
  }
  if (is_edge_chip(words_of(id))) {
    throw SpecError(quoted +
                    " is not a training device: edge chips are not in the catalogue (tpplan gpus lists what is)");
  }
  const auto near = near_ids(id, rows_);
  throw SpecError("unknown GPU " + quoted +
                  (near.empty() ? "; tpplan gpus lists the known ones" : "; did you mean " + listed(near) + "?"));
}

}  // namespace tpplan
