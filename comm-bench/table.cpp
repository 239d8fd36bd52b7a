#include "comm-bench/table.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <tuple>

namespace tpplan::bench {

namespace {

constexpr std::size_t kUnmeasuredNamed = 5;

[[gnu::format(printf, 1, 2)]] std::string printed(const char* form, ...) {
  char text[512];
  va_list values;
  va_start(values, form);
  std::vsnprintf(text, sizeof text, form, values);
  va_end(values);
  return text;
}

/// As nccl-tests: the digits that fit a field of 7.
std::string microseconds(Seconds time) {
  const double us = time.raw() * 1e6;
  return printed(us < 100 ? "%7.2f" : us < 10000 ? "%7.1f" : "%7.0f", us);
}

/// The four columns of one place; N/A where the collective has none.
std::string place(const SampleRow* row) {
  if (row == nullptr) return printed("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
  return printed("  %7s  %6.2f  %6.2f  %5s", microseconds(row->summary.median).c_str(),
                 row->algorithm_bandwidth().raw() * 1e-9, row->bus_bandwidth().raw() * 1e-9,
                 std::string(kCheckNames[static_cast<std::size_t>(row->check)]).c_str());
}

std::string block_heading(const SampleRow& row) {
  const Placement& where = row.set.placement;
  std::string text = printed("#\n# %s, group %s: %d ranks on %d node%s, %d per node, stride %d",
                             std::string(row_of(row.cell.operation.collective).name).c_str(), row.set.name.c_str(),
                             row.ranks(), where.nodes, where.nodes == 1 ? "" : "s", where.gpus_per_node, where.stride);
  if (row.set.concurrent > 1) text += printed(", %d groups at once", row.set.concurrent);
  text += ", " + std::string(kModeNames[static_cast<std::size_t>(row.mode)]) + "\n";
  text += printed("# %34s %32s\n", "out-of-place", "in-place");
  text += printed("# %10s %12s %8s", "size", "count", "type");
  for (int i = 0; i < 2; ++i) text += printed("  %7s  %6s  %6s  %5s", "time", "algbw", "busbw", "check");
  text += printed("\n# %10s %12s %8s", "(B)", "(elements)", "");
  for (int i = 0; i < 2; ++i) text += printed("  %7s  %6s  %6s  %5s", "(us)", "(GB/s)", "(GB/s)", "");
  return text + "\n";
}

auto block_of(const SampleRow& row) {
  const Operation& operation = row.cell.operation;
  return std::make_tuple(row.cell.set, operation.collective, operation.dtype);
}

auto order_of(const SampleRow& row) {
  return std::tuple_cat(block_of(row), std::make_tuple(row.cell.operation.bytes, row.cell.operation.in_place));
}

}  // namespace

std::string heading(const SampleHeader& header) {
  const Topology& topology = header.topology;
  std::string text =
      printed("# comm-bench: %d ranks on %d node%s, backend %s (%s)\n", topology.ranks(), topology.nodes(),
              topology.nodes() == 1 ? "" : "s", header.backend.c_str(), header.backend_reason.c_str());
  text += "# times: " + header.timing + "\n";
  text += "#\n# Using devices\n";
  const std::vector<int> local = topology.local_ranks();
  for (std::size_t rank = 0; rank < topology.node_of.size(); ++rank) {
    const auto node = static_cast<std::size_t>(topology.node_of[rank]);
    const bool known = rank < header.facts.size() && header.facts[rank].gpu;
    const std::string device = !known || header.backend != "nccl"
                                   ? "host memory"
                                   : header.facts[rank].gpu->name + " [" + header.facts[rank].gpu->pci + "]";
    text += printed("#  Rank %2zu on %10s device %2d %s\n", rank, topology.node_names[node].c_str(), local[rank],
                    device.c_str());
  }
  return text;
}

std::string collective_tables(std::vector<SampleRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const SampleRow& a, const SampleRow& b) { return order_of(a) < order_of(b); });
  std::string text;
  for (std::size_t i = 0; i < rows.size();) {
    const SampleRow& row = rows[i];
    const Operation& operation = row.cell.operation;
    if (i == 0 || block_of(rows[i - 1]) != block_of(row)) text += block_heading(row);
    const SampleRow* out_of_place = nullptr;
    const SampleRow* in_place = nullptr;
    for (; i < rows.size() && block_of(rows[i]) == block_of(row) && rows[i].cell.operation.bytes == operation.bytes;
         ++i) {
      (rows[i].cell.operation.in_place ? in_place : out_of_place) = &rows[i];
    }
    text += printed("  %10zu %12zu %8s", operation.bytes, extent_of(operation, row.ranks()).count,
                    std::string(row_of(operation.dtype).table_name).c_str());
    text += place(out_of_place) + place(in_place) + "\n";
  }
  return text;
}

std::string compute_table(const std::vector<ComputeRow>& rows) {
  if (rows.empty()) return {};
  std::string text = "#\n# " + rows.front().device + "\n";
  text += printed("# %-52s %10s %10s %10s  %5s\n", "measured", "time (us)", "TFLOP/s", "GB/s", "check");
  for (const ComputeRow& row : rows) {
    const double seconds = row.summary.median.raw();
    const double flops = row.item.flops().raw();
    const double bytes = row.item.bytes.raw();
    const std::string rate =
        flops > 0 && seconds > 0 ? printed("%10.2f", flops / seconds * 1e-12) : printed("%10s", "-");
    const std::string speed =
        bytes > 0 && seconds > 0 ? printed("%10.1f", bytes / seconds * 1e-9) : printed("%10s", "-");
    text += printed("  %-52s %10s %s %s  %5s\n", row.item.described().c_str(), printed("%.3f", seconds * 1e6).c_str(),
                    rate.c_str(), speed.c_str(), std::string(kCheckNames[static_cast<std::size_t>(row.check)]).c_str());
  }
  return text;
}

std::vector<std::string> remarks(const SampleEnd& end) {
  std::vector<std::string> lines = end.sweep.notes;
  lines.insert(lines.end(), end.compute.notes.begin(), end.compute.notes.end());
  const std::size_t wrong = end.sweep.wrong_rows + end.compute.wrong_rows;
  if (wrong > 0) lines.push_back(std::to_string(wrong) + " rows have wrong results (check: wrong); no fit uses them");
  if (!end.sweep.unmeasured.empty()) {
    std::string line = "the budget ended before " + std::to_string(end.sweep.unmeasured.size()) + " cells: ";
    for (std::size_t i = 0; i < std::min(kUnmeasuredNamed, end.sweep.unmeasured.size()); ++i) {
      line += (i > 0 ? "; " : "") + end.sweep.unmeasured[i];
    }
    if (end.sweep.unmeasured.size() > kUnmeasuredNamed) line += "; ...";
    lines.push_back(line + " (raise --budget or lower --max-bytes)");
  }
  if (end.compute.unmeasured > 0) {
    lines.push_back("the budget ended before " + std::to_string(end.compute.unmeasured) +
                    " measurements of --compute (raise --budget)");
  }
  if (end.sweep.drift.significant) {
    lines.push_back(printed("the machine drifted: %s takes %+.1f %% at the end of the run", end.sweep.rechecked.c_str(),
                            end.sweep.drift.change * 100));
  }
  return lines;
}

}  // namespace tpplan::bench
