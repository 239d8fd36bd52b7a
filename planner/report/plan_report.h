#pragma once

#include <string>
#include <vector>

#include "planner/inputs.h"
#include "planner/report/json_writer.h"
#include "planner/report/terminal.h"
#include "planner/report/text_table.h"

namespace tpplan {

/// What `plan` found, for every output format.
struct PlanReport {
  const Job& job;
  const SearchResult& result;
  Objective objective = Objective::step_time;
  std::vector<Assumption> assumed = {};
  std::vector<std::string> warnings = {};
  std::vector<std::string> remedies = {};  ///< when nothing fits: changes after which a layout does
  std::string inputs_text = {};            ///< the options that name the job again: "--model 7b --cluster 8xA100"
  std::string command_text = {};           ///< repeats the search: "plan --model 7b --cluster 8xA100 --top 3"
  bool timing = false;
  Seconds load_seconds = {};
};

/// A rejected share of the space: a rule and how many layouts broke it first.
struct RejectionCount {
  std::string_view rule;
  std::int64_t layouts = 0;
};
/// Rules with rejections, most first (ties in the order of the rules).
std::vector<RejectionCount> rejections(const SearchStats& stats);

/// "evaluated 1,284 layouts: 611 illegal (heads-divide-tp 300, ...), 402 out of memory, 271 ranked".
std::string searched_line(const SearchStats& stats);

/// "Llama 2 7B (6.74 B parameters), 8 x A100-SXM4-80GB, bf16, 1,024 sequences of 4,096 tokens, megatron".
std::string job_line(const Job& job);

/// The ranking with every column that differs between the plans; what all plans share goes to `common` as text.
TextTable ranking_table(const PlanReport& report, std::string& common);
/// One sentence on each mark and unit of the ranking table that needs one.
std::vector<std::string> ranking_notes(const PlanReport& report);

/// The best plan in five lines: name and text of each.
struct AnswerLine {
  std::string name, text;
  Style style = Style::plain;
};
std::vector<AnswerLine> answer_lines(const PlanReport& report, const Terminal& terminal);

/// Why no plan was found: the closest layout and by how much it misses, or the rules that forbid every layout; then
/// what would help.
std::vector<std::string> miss_lines(const PlanReport& report);

/// Commands worth running next.
std::vector<std::string> next_commands(const PlanReport& report);

/// Layout, times, memory and verdict of one plan (contract of `plans[]`) as members of the open object.
void write_plan_members(JsonWriter& json, const Job& job, const Plan& plan);
/// The members of one layout (contract of `plans[].layout`) as a JSON object.
void write_layout(JsonWriter& json, const Job& job, const Plan& plan);
/// `breakdown_s` and `memory_bytes` as JSON objects.
void write_breakdown(JsonWriter& json, const StepEstimate& step);
void write_memory(JsonWriter& json, const MemoryEstimate& memory);
/// `inputs`: the resolved model, cluster and training.
void write_inputs(JsonWriter& json, const Job& job);
void write_assumed(JsonWriter& json, const std::vector<Assumption>& assumed);
void write_search(JsonWriter& json, const SearchStats& stats, bool timing, Seconds load_seconds);

std::string table_report(const PlanReport& report, const Terminal& terminal, std::string& notes);
std::string json_report(const PlanReport& report, const Terminal& terminal, std::string& notes);
std::string json_lines_report(const PlanReport& report, const Terminal& terminal, std::string& notes);
std::string csv_report(const PlanReport& report, const Terminal& terminal, std::string& notes);
std::string markdown_report(const PlanReport& report, const Terminal& terminal, std::string& notes);
std::string html_report(const PlanReport& report, const Terminal& terminal, std::string& notes);

/// A field of a comma-separated file, quoted when RFC 4180 asks for it.
std::string csv_field(std::string_view text);

}  // namespace tpplan
