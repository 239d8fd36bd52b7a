#include "planner/report/sweep_row.h"

#include "cost-model/words.h"
#include "planner/option_values.h"
#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

template <class T, class Write>
void optional_field(JsonWriter& json, std::string_view name, const std::optional<T>& value, Write write) {
  json.key(name);
  if (value) {
    json.value(write(*value));
  } else {
    json.null();
  }
}

/// Problems on one line, without the word "error" that starts those of a whole job.
std::string one_line(const std::string& text) {
  constexpr std::string_view kMark = "error: ";
  std::string line;
  for (const std::string& problem : split(text, '\n')) {
    line += (line.empty() ? "" : "; ") + problem.substr(problem.rfind(kMark, 0) == 0 ? kMark.size() : 0);
  }
  return line;
}

/// What was asked for: of a refused cell as far as the grid says it, else as resolved.
void write_cell_inputs(JsonWriter& json, const SweepCell& cell, const Job* job) {
  const auto same = [](auto value) { return value; };
  const auto named = [](auto value) { return std::string(name_of(value)); };
  const ClusterSpec& cluster = cell.cluster->cluster;
  json.field("model", cell.model_name).field("cluster", cell.cluster_name).field("gpu", cluster.gpu.id);
  if (job == nullptr && !cell.size.empty()) {
    json.field("size", cell.size);
  } else {
    json.field("nodes", cluster.nodes).field("gpus", cluster.gpus());
  }
  const PlannerOptions& options = cell.options;
  optional_field(json, "seq", job != nullptr ? std::optional(job->training.seq) : options.seq, same);
  optional_field(json, "global_batch",
                 job != nullptr ? std::optional(job->training.global_batch) : options.global_batch, same);
  optional_field(json, "precision", job != nullptr ? std::optional(job->training.precision) : options.precision, named);
  optional_field(json, "framework", job != nullptr ? std::optional(job->training.framework) : options.framework, named);
  json.key("options").begin_object();
  for (const auto& [key, text] : cell.other_axes) {
    if (key != "seq" && key != "global_batch" && key != "precision" && key != "framework") {
      json.field(key, text);
    }
  }
  json.end_object();
}

std::string refused(const SweepCell& cell, const std::string& reason) {
  JsonWriter json(JsonWriter::Form::one_line);
  json.begin_object().field("cell", static_cast<std::int64_t>(cell.index));
  write_cell_inputs(json, cell, nullptr);
  json.field("status", "refused").field("reason", one_line(reason)).end_object();
  return json.text();
}

std::string planned(const SweepCell& cell, const Job& job, int threads) {
  const SearchResult result = search(job, space_from(cell.options, job), cell.options.objective, 1, threads);
  JsonWriter json(JsonWriter::Form::one_line);
  json.begin_object().field("cell", static_cast<std::int64_t>(cell.index));
  write_cell_inputs(json, cell, &job);
  if (result.plans.empty()) {
    const PlanReport report{.job = job, .result = result};
    json.field("status", "nothing-fits").field("reason", joined(miss_lines(report), "; "));
  } else {
    const Plan& best = result.plans.front();
    json.field("status", name_of(best.fits)).field("layout_text", to_text(best.layout));
    write_plan_members(json, job, best);
  }
  json.key("search");
  write_search(json, result.stats, false, {});
  json.end_object();
  return json.text();
}

}  // namespace

std::string sweep_row(const SweepGrid& grid, std::size_t index, int threads) {
  const SweepCell cell = grid.cell(index);
  std::string row;
  if (!cell.cluster->refusal.empty()) {
    row = refused(cell, cell.cluster->refusal);
  } else {
    std::optional<Job> job;
    try {
      job = job_from(cell.options, *cell.model, cell.cluster->cluster, grid.profiles());
    } catch (const SpecError& error) {
      row = refused(cell, error.what());
    }
    if (job) {
      row = planned(cell, *job, threads);
    }
  }
  row.pop_back();  // the line feed
  return row;
}

SweepRowHead sweep_row_head(const std::string& name, std::size_t line, const std::string& row) {
  SpecDocument document = SpecDocument::parse(name + " (line " + std::to_string(line) + ")", row);
  ObjectReader root = document.root();
  SweepRowHead head;
  head.cell = static_cast<std::size_t>(root.count("cell", 0, 1'000'000'000));
  head.status = root.text("status");
  root.ignore_rest();
  document.finish();
  return head;
}

}  // namespace tpplan
