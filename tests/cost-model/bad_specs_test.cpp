// Bad input files and the exact message each must lead to: data/bad-specs/NAME.json beside NAME.txt.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cost-model/cluster_spec.h"
#include "cost-model/model_spec.h"

using namespace tpplan;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

void parse_as_model(const std::string& name, const std::string& source) { parse_model(name, source); }

void parse_as_cluster(const std::string& name, const std::string& source) {
  parse_cluster(name, source, GpuCatalogue::load(TPPLAN_SOURCE_DIR "/clusters/gpus.json"));
}

/// Which reader a file is meant for, by how its name begins.
struct Kind {
  const char* prefix;
  void (*parse)(const std::string& name, const std::string& source);
  int at_least;  ///< files of the kind
};

const Kind kKinds[] = {
    {"json-", parse_as_model, 16}, {"model-", parse_as_model, 20}, {"cluster-", parse_as_cluster, 1}};

std::string message_of(const Kind& kind, const std::string& name, const std::string& source) {
  try {
    kind.parse(name, source);
  } catch (const SpecError& error) {
    return std::string(error.what()) + "\n";
  }
  return "accepted\n";
}

}  // namespace

TEST_CASE("bad files lead to the exact message recorded beside them") {
  for (const Kind& kind : kKinds) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(TPPLAN_SOURCE_DIR "/tests/data/bad-specs")) {
      const std::filesystem::path& path = entry.path();
      const std::string name = path.filename().string();
      if (path.extension() != ".json" || name.rfind(kind.prefix, 0) != 0) {
        continue;
      }
      ++files;
      SUBCASE(name.c_str()) {
        CHECK(message_of(kind, name, text_of(path)) == text_of(std::filesystem::path(path).replace_extension(".txt")));
      }
    }
    INFO(kind.prefix);
    CHECK(files >= kind.at_least);
  }
}
