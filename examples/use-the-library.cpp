// Plans a training run from C++: loads a model and a cluster, searches the layouts, prints the best three.
#include <cstdio>

#include "planner/search.h"
#include "planner/spec_files.h"

int main() {
  try {
    tpplan::TrainingSpec training;
    training.seq = 4096;
    training.global_batch = 1024;

    const tpplan::Job job = tpplan::make_job(tpplan::resolve_model("7b"), tpplan::resolve_cluster("8xA100"), training,
                                             tpplan::ProfileSet::load(tpplan::data_folder("clusters/profiles")));
    const tpplan::SearchResult result = tpplan::search(job, {}, tpplan::Objective::step_time, 3);

    for (const tpplan::Plan& plan : result.plans) {
      const tpplan::Estimate& estimate = plan.estimate;
      std::printf("%s: %s per step, %s per GPU\n", to_text(plan.layout).c_str(), format(estimate.step.total()).c_str(),
                  format(estimate.memory.total()).c_str());
    }
    return result.plans.empty() ? 1 : 0;
  } catch (const tpplan::SpecError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
