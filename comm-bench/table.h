#pragma once

#include <string>
#include <vector>

#include "comm-bench/compute.h"
#include "comm-bench/samples.h"
#include "comm-bench/sweep.h"

namespace tpplan::bench {

/// Tables in the habit of nccl-tests: remarks start with #, one row a size, out-of-place and in-place side by side;
/// times in us, bandwidths in GB/s (10^9). `check` is ok, wrong or off.
std::string heading(const SampleHeader& header);
std::string collective_tables(std::vector<SampleRow> rows);
std::string compute_table(const std::vector<ComputeRow>& rows);

/// What is left to say after the rows: wrong results, cells without time, drift.
std::vector<std::string> remarks(const SampleEnd& end);

}  // namespace tpplan::bench
