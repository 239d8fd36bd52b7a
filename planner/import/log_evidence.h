#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/import/benchmark_run.h"
#include "planner/import/samples.h"

namespace tpplan {

/// Rows of one table that measure the same thing: one type, reduction and root.
struct RowGroup {
  std::string type, redop;
  std::optional<int> root;
  std::vector<const BenchmarkRow*> rows;
};
std::vector<RowGroup> row_groups(const BenchmarkRun& run);

/// Which collective a group of rows measured. `operation` is in nccl-tests' spelling, empty when nothing tells.
struct OperationEvidence {
  std::string operation;
  std::string warning;  ///< of a name that the rows contradict, or a guess
};
OperationEvidence operation_of(const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group,
                               const ImportOptions& options);

/// Ranks of one group and where they sit.
struct PlacementEvidence {
  Placement placement;
  int concurrent_groups = 1;
  std::string warning;
  std::string refusal;
};
PlacementEvidence placement_of(const BenchmarkLog& log, const BenchmarkRun& run, const RowGroup& group,
                               const std::string& operation, const ImportOptions& options);

/// What a comment says about the machine: "16x V100 32GB (2x p3dn.24xlarge)", "8x H100 SXM, one node", "2 nodes x 8
/// GPUs".
struct RemarkedMachine {
  std::size_t line = 0;
  std::optional<int> ranks, nodes;
};
RemarkedMachine machine_in_remarks(const std::vector<ImportNote>& remarks);

/// Bytes of one element of a type; 0 for an unknown one.
int bytes_of_type(const std::string& type);

/// busbw = factor * algbw: 2(n-1)/n for all_reduce, (n-1)/n or 1 for the others (nccl-tests doc/PERFORMANCE.md).
double bus_factor(const std::string& operation, int ranks);

/// Ranks from the ratio of bus to algorithm bandwidth, or of total to own size; nothing where neither tells. Where the
/// printed digits allow several numbers a multiple of 8, else of 2, is taken.
std::optional<int> ranks_from_rows(const std::string& operation, const RowGroup& group);

}  // namespace tpplan
