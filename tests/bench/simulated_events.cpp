// Speed of the simulator on one core, in processor seconds: events per second with and without the streams inside the
// passes, the hundred best plans of GPT-3 175B on 1,024 GPUs, and one step of Llama 3.1 405B on 16,384 GPUs with all
// streams (layout of arXiv 2407.21783, table 4).
#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <string_view>
#include <vector>

#include "cost-model/simulate.h"
#include "tests/planner/jobs.h"

namespace {

using tpplan::Detail;

constexpr int kRepeats = 7;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

tpplan::ModelSpec llama_405b() {
  tpplan::ModelSpec model = tpplan::tests::llama_7b();
  model.name = "405b";
  model.layers = 126;
  model.hidden = 16384;
  model.heads = 128;
  model.kv_heads = 8;
  model.ffn_hidden = 53248;
  model.vocab = 128256;
  return model;
}

/// Median processor seconds of one call, which runs often enough for the clock to see it.
template <class Run>
double median_seconds(const Run& run, int calls) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = processor_seconds();
    for (int call = 0; call < calls; ++call) {
      run();
    }
    seconds.push_back((processor_seconds() - start) / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void measure_step(std::string_view name, const tpplan::Job& job, const tpplan::Layout& layout, int calls) {
  constexpr std::array<std::string_view, 3> kDetails{"makespan alone", "operations and memory", "all streams"};
  tpplan::Simulator simulator;
  for (const Detail detail : {Detail::times, Detail::operations, Detail::parts}) {
    std::uint64_t events = 0;
    double makespan = 0;
    const auto run = [&] {
      const auto& step = simulator.run(job, layout, detail);
      events = step.events;
      makespan = step.makespan;
    };
    run();
    const double seconds = median_seconds(run, calls);
    std::cout << name << ", " << kDetails[static_cast<std::size_t>(detail)] << ": step of " << makespan << " s, "
              << events << " events in " << seconds * 1e3 << " ms, " << static_cast<double>(events) / seconds / 1e6
              << " million events/s\n";
  }
}

}  // namespace

int main() {
  const auto gpt3 = tpplan::tests::priced_job(tpplan::tests::gpt3_175b(), "a100-80gb-sxm", 128, 8, 2048, 1536);
  tpplan::SearchSpace space = tpplan::tests::measured_space();
  const auto plans = tpplan::search(gpt3, space, tpplan::Objective::step_time, 100).plans;
  tpplan::Simulator simulator;
  std::uint64_t events = 0;
  const double all = median_seconds(
      [&] {
        events = 0;
        for (const auto& plan : plans) {
          events += simulator.run(gpt3, plan.layout, Detail::times).events;
        }
      },
      1);
  std::cout << plans.size() << " top plans of GPT-3 175B on 1,024 GPUs: " << all << " s, "
            << static_cast<double>(plans.size()) / all << " plans/s, " << static_cast<double>(events) / all / 1e6
            << " million events/s\n";

  tpplan::Layout layout;
  layout.tp = 8;
  layout.etp = 8;
  layout.pp = 8;
  layout.dp = 2;
  layout.micro_batch = 1;
  layout.zero = 1;
  layout.sequence_parallel = true;
  const auto long_step = tpplan::tests::priced_job(tpplan::tests::gpt3_175b(), "a100-80gb-sxm", 16, 8, 2048, 1536);
  measure_step("GPT-3 175B on 128 GPUs, 768 micro-batches", long_step, layout, 3);

  layout.pp = 16;
  layout.dp = 128;
  measure_step("405B on 16,384 GPUs", tpplan::tests::priced_job(llama_405b(), "h100-80gb-sxm", 2048, 8, 8192, 2048),
               layout, 20);
  return 0;
}
