#include <algorithm>
#include <cmath>

#include "planner/report/explain_report.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr int kKeyWidth = 16;
constexpr int kValueWidth = 11;
constexpr int kShareWidth = 6;
constexpr int kIndent = 2 + kKeyWidth + kValueWidth + kShareWidth + 2;

std::string padded(std::string_view text, int width) {
  return std::string(text) +
         std::string(static_cast<std::size_t>(std::max(1, width - static_cast<int>(text.size()))), ' ');
}
std::string right(std::string_view text, int width) {
  return std::string(static_cast<std::size_t>(std::max(0, width - static_cast<int>(text.size()))), ' ') +
         std::string(text);
}
std::string signed_percent(double share) {
  const long value = std::lround(share * 100);
  return (value >= 0 ? "+" : "") + std::to_string(value) + " %";
}
std::string signed_seconds(Seconds value) {
  return value < Seconds(0) ? "-" + format(Seconds(0) - value) : "+" + format(value);
}

std::string heading(std::string_view text, const Terminal& terminal) {
  return "\n" + terminal.paint(Style::bold, text) + "\n";
}

std::string bullet(const std::string& text, const Terminal& terminal) {
  return "  " + wrap(text, terminal.width, 4, 2) + "\n";
}

/// Every constant once, with the terms it stands behind.
std::string constants_text(const Explanation& explanation, const Terminal& terminal,
                           std::vector<std::string>& dropped) {
  struct Row {
    ConstantUse use;
    std::string terms;
  };
  std::vector<Row> rows;
  for (const auto* terms : {&explanation.time, &explanation.memory}) {
    for (const ExplainedTerm& term : *terms) {
      for (const ConstantUse& use : term.constants) {
        auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.use.name == use.name; });
        if (row == rows.end()) {
          row = rows.insert(rows.end(), {use, ""});
        }
        row->terms += (row->terms.empty() ? "" : " ") + std::string(term.key);
      }
    }
  }
  TextTable table;
  table.columns = {{"constant", false, 9}, {"value", true, 8}, {"source", false, 7}, {"behind", false, 6}};
  for (const Row& row : rows) {
    table.rows.push_back({row.use.name, brief_number(row.use.value), row.use.source, row.terms});
  }
  return rows.empty() ? "" : heading("constants", terminal) + table.render(terminal, 2, &dropped);
}

/// One row per term that is not zero: value, share, formula.
std::string terms_text(const std::vector<ExplainedTerm>& terms, bool seconds, const Terminal& terminal) {
  double total = 0;
  for (const ExplainedTerm& term : terms) {
    total += term.value;
  }
  std::string text, zero;
  for (const ExplainedTerm& term : terms) {
    if (term.value <= 0) {
      zero += (zero.empty() ? "" : ", ") + std::string(term.key);
      continue;
    }
    const std::string value = seconds ? format(Seconds(term.value)) : format(Bytes(term.value));
    text += "  " + padded(term.key, kKeyWidth) + right(value, kValueWidth) +
            right(percent(term.value / total), kShareWidth) + "  " +
            wrap(term.formula, terminal.width, kIndent, kIndent) + "\n";
  }
  text += "  " + padded("total", kKeyWidth) +
          right(seconds ? format(Seconds(total)) : format(Bytes(total)), kValueWidth) + "\n";
  if (!zero.empty()) {
    text += terminal.paint(Style::dim, "  " + wrap("zero: " + zero, terminal.width - 2, 4)) + "\n";
  }
  return text;
}

std::string shape_of(const Operation& operation) {
  if (operation.k <= 0) {
    return "";
  }
  const auto count = [](double value) { return std::to_string(std::llround(value)); };
  return count(operation.m) + " x " + count(operation.n) + " x " + count(operation.k);
}

std::string part_text(const ExplainedPart& part, const Terminal& terminal, std::vector<std::string>& dropped) {
  TextTable table;
  table.columns = {{"operation", false, 10}, {"m x n x k", false, 7}, {"GFLOP", true, 3},
                   {"MiB", true, 2},         {"fwd us", true, 9},     {"bwd us", true, 8}};
  constexpr double kMib = 1024.0 * 1024;
  for (const Operation& operation : part.operations) {
    const Seconds backward = operation.input_gradient + operation.weight_gradient;
    table.rows.push_back({operation.name, shape_of(operation),
                          operation.flops_forward.raw() > 0 ? brief_number(operation.flops_forward.raw() / 1e9) : "",
                          operation.bytes_forward.raw() > 0 ? brief_number(operation.bytes_forward.raw() / kMib) : "",
                          brief_number(operation.forward.raw() * 1e6), brief_number(backward.raw() * 1e6)});
  }
  std::string title = part.name;
  if (part.count > 1) {
    title += " (the model has " + std::to_string(part.count) + ")";
  }
  return "  " + title + "\n" + table.render(terminal, 2, &dropped);
}

std::string formulas_text(const std::vector<ExplainedPart>& parts, const Terminal& terminal) {
  std::vector<std::string> seen;
  std::string text;
  for (const ExplainedPart& part : parts) {
    for (const Operation& operation : part.operations) {
      const std::string name =
          operation.k > 0 && operation.kind == OperationKind::gemm ? "matrix products" : operation.name;
      if (operation.formula[0] == '\0' || std::find(seen.begin(), seen.end(), name) != seen.end()) {
        continue;
      }
      const bool elementwise = operation.kind == OperationKind::memory &&
                               std::find(seen.begin(), seen.end(), std::string(operation.formula)) != seen.end();
      if (!elementwise) {
        text += terminal.paint(Style::dim, bullet(name + ": " + operation.formula, terminal));
      }
      seen.push_back(name);
      seen.emplace_back(operation.formula);
    }
  }
  return text;
}

std::string illegal_text(const ExplainReport& report, const Terminal& terminal) {
  const auto& broken = report.explanation.broken;
  std::string text =
      terminal.paint(Style::bad,
                     "illegal: breaks " +
                         std::string(broken.size() == 1 ? "a rule" : std::to_string(broken.size()) + " rules") +
                         " of " + std::string(name_of(report.job.training.framework))) +
      "\n";
  for (const BrokenRule& rule : broken) {
    text += "\n  " + terminal.paint(Style::bold, rule.name) + "\n";
    text += "    " + wrap(std::string(rule.statement), terminal.width, 4, 4) + "\n";
    text += "    " + wrap(rule.arithmetic, terminal.width, 4, 4) + "\n";
  }
  return text;
}

std::string line(std::string_view name, const std::string& text, const Terminal& terminal, Style style = Style::plain) {
  constexpr int kNameWidth = 12;
  return "  " + padded(name, kNameWidth) +
         terminal.paint(style, wrap(text, terminal.width, 2 + kNameWidth, 2 + kNameWidth)) + "\n";
}

std::string verdict_text(const ExplainReport& report, const Terminal& terminal) {
  const Explanation& explanation = report.explanation;
  const StepEstimate& step = explanation.plan.estimate.step;
  const MemoryEstimate& memory = explanation.plan.estimate.memory;
  const double tokens = tokens_per_second(report.job, step);
  std::string text =
      line("step time",
           format(step.total()) + " (80 % interval " + format(interval80(step.total(), step.step_error).low) + " to " +
               format(interval80(step.total(), step.step_error).high) + ")",
           terminal);
  text += line("throughput",
               brief_number(tokens / report.job.cluster.gpus()) + " tokens/s/GPU, " + brief_number(tokens) +
                   " tokens/s, MFU " + brief_number(100 * mfu(report.job, explanation.plan.layout, step)) + " %",
               terminal);
  const std::string used = format(memory.total()) + " of " + format(memory.capacity) + " per GPU (" +
                           percent(memory.total() / memory.capacity) + ")";
  const std::string kept = percent(report.job.training.memory_headroom);
  switch (explanation.plan.fits) {
    case Fits::fits:
      text += line("memory", used + ", fits with " + kept + " kept free", terminal, Style::good);
      break;
    case Fits::tight:
      text += line("memory", used + ", tight: fits only while the allocator wastes nothing", terminal, Style::caution);
      break;
    case Fits::no:
      text += line("memory",
                   used + ", does not fit: " + format(explanation.missing) + " more than " + kept + " kept free allow",
                   terminal, Style::bad);
      break;
  }
  return text + line("bound by", std::string(bound_by(step)), terminal);
}

std::string remedies_text(const Explanation& explanation, const Terminal& terminal) {
  if (explanation.plan.fits != Fits::no) {
    return "";
  }
  std::string text = heading("changes that make it fit, cheapest first", terminal);
  for (const Remedy& remedy : explanation.remedies) {
    text += bullet(remedy.text + ": " + format(remedy.plan.estimate.step.total()) + " per step (" +
                       signed_percent(remedy.slowdown) + "), " + format(remedy.plan.estimate.memory.total()) +
                       (remedy.plan.fits == Fits::tight ? ", tight" : ""),
                   terminal);
  }
  if (explanation.remedies.empty() && explanation.fallback) {
    text += bullet("none of up to three axes; the fastest layout that fits: " + to_text(explanation.fallback->layout) +
                       " (" + format(explanation.fallback->estimate.step.total()) + " per step)",
                   terminal);
  } else if (explanation.remedies.empty()) {
    text += bullet("none: no layout of this model fits this cluster", terminal);
  }
  return text;
}

std::string comparison_text(const StepComparison& comparison, const Terminal& terminal) {
  const Seconds difference = comparison.measured - comparison.predicted;
  std::string text = heading("measured against predicted", terminal);
  text +=
      bullet("measured " + format(comparison.measured) + ", predicted " + format(comparison.predicted) + ": " +
                 signed_seconds(difference) + " (" + signed_percent(comparison.measured / comparison.predicted - 1) +
                 " of the prediction) unexplained, " +
                 (comparison.inside_interval ? "within the 80 % interval" : "outside the 80 % interval"),
             terminal);
  TextTable table;
  table.columns = {{"term", false, 9}, {"predicted", true, 8}, {"would have to be", true, 7}, {"factor", true, 6}};
  for (const StepComparison::Term& term : comparison.terms) {
    if (term.predicted <= Seconds(0)) {
      continue;
    }
    const bool possible = term.needed >= Seconds(0);
    table.rows.push_back({std::string(term.key), format(term.predicted),
                          possible ? format(term.needed) : "cannot explain it",
                          possible ? brief_number(term.needed / term.predicted) : ""});
  }
  return text + "  if one term alone were wrong\n" + table.render(terminal, 2);
}

std::string list_text(std::string_view title, const std::vector<std::string>& lines, const Terminal& terminal) {
  if (lines.empty()) {
    return "";
  }
  std::string text = heading(title, terminal);
  for (const std::string& entry : lines) {
    text += bullet(entry, terminal);
  }
  return text;
}

std::vector<std::string> assumed_lines(const std::vector<Assumption>& assumed) {
  std::vector<std::string> lines;
  for (const Assumption& assumption : assumed) {
    lines.push_back(assumption.what + (assumption.value.empty() ? "" : ": " + assumption.value) + " (" +
                    assumption.set_by + ")");
  }
  return lines;
}

}  // namespace

std::string explain_table(const ExplainReport& report, const Terminal& terminal, std::string& notes) {
  const Explanation& explanation = report.explanation;
  std::string text = terminal.paint(Style::bold, wrap(job_line(report.job), terminal.width, 2)) + "\n" +
                     wrap("layout " + to_text(explanation.layout), terminal.width, 2) + "\n\n";
  if (!explanation.broken.empty()) {
    return text + illegal_text(report, terminal);
  }
  const MemoryEstimate& memory = explanation.plan.estimate.memory;
  text += verdict_text(report, terminal) + remedies_text(explanation, terminal);
  if (explanation.comparison) {
    text += comparison_text(*explanation.comparison, terminal);
  }
  text += heading("step time, of pipeline rank " + std::to_string(explanation.last_stage) + " which finishes last, " +
                      with_separators(explanation.micro_batches) + " micro-batches",
                  terminal);
  text += terms_text(explanation.time, true, terminal);
  text += heading("memory, of pipeline rank " + std::to_string(memory.stage) +
                      " at its worst moment: " + std::string(kMoments[memory.moment]),
                  terminal);
  text += terms_text(explanation.memory, false, terminal);
  text += heading("operations of one GPU and micro-batch", terminal);
  std::vector<std::string> dropped;
  for (const ExplainedPart& part : explanation.parts) {
    text += part_text(part, terminal, dropped);
  }
  text += formulas_text(explanation.parts, terminal);
  text += constants_text(explanation, terminal, dropped);
  notes += left_out_note(dropped, terminal, "json has");
  text += list_text("notes", explanation.notes, terminal);
  text += list_text("warnings: legal but slow", explanation.warnings, terminal);
  text += list_text("assumed (what sets it)", assumed_lines(report.assumed), terminal);
  return text;
}

}  // namespace tpplan
