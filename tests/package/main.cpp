// consumer DATA: estimates one layout of a shipped model on a shipped cluster with the installed data in DATA.
#include <cstdio>
#include <string>

#include "cost-model/estimate.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string data = argv[1];
  try {
    const auto gpus = tpplan::GpuCatalogue::load(data + "/clusters/gpus.json");
    const tpplan::Job job = tpplan::make_job(tpplan::load_model(data + "/models/7b.json"),
                                             tpplan::load_cluster(data + "/clusters/8xA100.json", gpus), {},
                                             tpplan::ProfileSet::load(data + "/clusters/profiles"));
    tpplan::Layout layout;
    layout.dp = 8;
    layout.zero = 1;
    const tpplan::Estimate estimate = tpplan::estimate(job, layout);
    std::printf("%.9g s, %.9g bytes\n", estimate.step.total().raw(), estimate.memory.total().raw());
    return 0;
  } catch (const tpplan::SpecError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
