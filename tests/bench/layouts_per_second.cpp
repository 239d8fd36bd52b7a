// Costed layouts per second of one core: search over the measured space of tests/planner/jobs.h, each layout with step
// time and memory by the estimate that decides the ranking. With --signature it prints the counts that
// tests/data/signature.txt keeps.
#include <algorithm>
#include <ctime>
#include <iostream>
#include <string_view>
#include <vector>

#include "tests/planner/jobs.h"

namespace {

constexpr int kRepeats = 7;

void print_signature() {
  std::cout
      << "# Counts of a search over the measured space (tests/planner/jobs.h). A change that moves them says why.\n"
         "# Written by bench_layouts_per_second --signature.\n";
  for (const auto& named : tpplan::tests::signature_jobs()) {
    std::cout << tpplan::tests::signature_line(named) << "\n";
  }
}

/// Processor seconds of this process: what one core needs, also on a machine that others use.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void measure(const tpplan::tests::NamedJob& named) {
  const tpplan::SearchSpace space = tpplan::tests::measured_space();
  std::vector<double> core, wall;
  tpplan::SearchStats stats;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = processor_seconds();
    stats = tpplan::search(named.job, space, tpplan::Objective::step_time, 10).stats;
    core.push_back(processor_seconds() - start);
    wall.push_back(stats.seconds);
  }
  std::sort(core.begin(), core.end());
  std::sort(wall.begin(), wall.end());
  const auto rate = [&stats](double seconds) { return static_cast<double>(stats.costed()) / seconds / 1e6; };
  const auto middle = core.size() / 2;
  std::cout << named.name << ": " << stats.enumerated << " enumerated, " << stats.costed() << " costed; " << kRepeats
            << " searches on one core, million costed layouts/s: min " << rate(core.back()) << ", median "
            << rate(core[middle]) << ", max " << rate(core.front()) << "; whole search: median " << core[middle] * 1e3
            << " ms of the core, " << wall[middle] * 1e3 << " ms by the clock\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--signature") {
    print_signature();
    return 0;
  }
  for (const auto& named : tpplan::tests::signature_jobs()) {
    measure(named);
  }
  return 0;
}
