// Bad input files and the exact message each must lead to: data/bad-specs/NAME.json beside NAME.txt.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cost-model/job.h"

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

/// Parts that are each fine and contradict one another: names of shipped files and what training asks of them.
void parse_as_job(const std::string& name, const std::string& source) {
  const std::string root = TPPLAN_SOURCE_DIR;
  auto document = SpecDocument::parse(name, source);
  auto in = document.root();
  auto model = load_model(root + "/models/" + in.text("model") + ".json");
  const auto catalogue = GpuCatalogue::load(root + "/clusters/gpus.json");
  const auto gpu = in.text("gpu");
  TrainingSpec training;
  training.seq = static_cast<int>(in.count("seq", 0, 1000000000, 1024));
  training.global_batch = static_cast<int>(in.count("global_batch", 0, 1000000000, 64));
  training.precision = precision_from(in.text("precision", "bf16")).value();
  if (in.has("layers_per_stage")) {
    for (const auto layers : in.counts("layers_per_stage", 0, 1000)) {
      training.layers_per_stage.push_back(static_cast<int>(layers));
    }
  }
  document.finish();
  make_job(std::move(model), usual_cluster(catalogue.find(gpu), 1, 8), training,
           ProfileSet::load(root + "/clusters/profiles"));
}

/// Which reader a file is meant for, by how its name begins.
struct Kind {
  const char* prefix;
  void (*parse)(const std::string& name, const std::string& source);
  int at_least;  ///< files of the kind
};

const Kind kKinds[] = {{"json-", parse_as_model, 16},
                       {"model-", parse_as_model, 20},
                       {"cluster-", parse_as_cluster, 20},
                       {"job-", parse_as_job, 6}};

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
