#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cost-model/units.h"
#include "planner/report/validate_report.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;

/// One predicted term and what it would have to be, the others kept, to meet the measured total.
struct Term {
  std::string_view name;
  double predicted = 0, needed = 0;
};

std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.4g", value);
  return buffer.data();
}

std::string needed_text(const Term& term) {
  if (term.needed < 0) {
    return "0 is not enough";
  }
  return number(term.needed) + " (x " + number(term.needed / term.predicted) + ")";
}

/// The term that would have to change by the smallest factor; none when no single one can explain the difference.
const Term* easiest(const std::vector<Term>& terms) {
  const Term* best = nullptr;
  const auto change = [](const Term& term) { return std::abs(std::log(term.needed / term.predicted)); };
  for (const auto& term : terms) {
    if (term.needed > 0 && (best == nullptr || change(term) < change(*best))) {
      best = &term;
    }
  }
  return best;
}

std::string terms_text(const std::vector<Term>& terms, std::string_view unit, const Terminal& terminal) {
  TextTable table;
  table.columns = {{"term", false, 9},
                   {"predicted " + std::string(unit), true, 9},
                   {"share %", true, 5},
                   {"would have to be", true, 8}};
  double total = 0;
  for (const auto& term : terms) {
    total += term.predicted;
  }
  for (const auto& term : terms) {
    table.rows.push_back(
        {std::string(term.name), number(term.predicted), percent_text(term.predicted / total), needed_text(term)});
  }
  std::string text = table.render(terminal, 4);
  if (const auto* term = easiest(terms)) {
    text += "    smallest change that explains it: " + std::string(term->name) + " x " +
            number(term->needed / term->predicted) + "\n";
  } else {
    text += "    no single term explains it\n";
  }
  return text;
}

std::vector<Term> largest_first(std::vector<Term> terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.predicted > b.predicted; });
  return terms;
}

std::string heading(const RunPrediction& run, const Terminal& terminal) {
  const auto& record = *run.record;
  const auto title = record.id + " (" + record.group + ")";
  const auto inputs = record.model.name + " on " + std::to_string(record.cluster.gpus()) + " x " + record.gpu_id +
                      ", " + std::to_string(record.training.global_batch) + " sequences of " +
                      std::to_string(record.training.seq) + " tokens, " +
                      std::string(name_of(record.training.precision)) + "; " + to_text(record.layout) + "; profile " +
                      run.job.profile.name + (run.host_bound ? "; host-bound" : "");
  return "  " + terminal.paint(Style::bold, title) + "\n    " + wrap(inputs, terminal.width - 4, 4) + "\n";
}

std::string step_text(const RunPrediction& run, const Terminal& terminal) {
  const auto& step = run.estimate.step;
  const double measured = *run.record->measured.step_s;
  const double missing = measured - step.total().raw();
  std::vector<Term> terms;
  for (const auto& row : kStepTerms) {
    const double predicted = (step.*row.field).raw();
    if (predicted > 0) {
      terms.push_back({row.key, predicted, predicted + missing});
    }
  }
  return "    step " + number(measured) + " s measured, " + number(step.total().raw()) + " s predicted (" +
         percent_text(*run.step_error) + " %)\n" + terms_text(largest_first(terms), "s", terminal);
}

std::string memory_text(const RunPrediction& run, const Terminal& terminal) {
  const auto& memory = run.estimate.memory;
  const double measured = *run.record->measured.peak_mem_gib;
  const double missing = measured - run.predicted_peak_gib;
  // The figure compared may leave out the last terms: allocated has no slack, reserved no context.
  double sum = 0;
  std::vector<Term> terms;
  for (const auto& row : kMemoryTerms) {
    const double predicted = (memory.*row.field).raw() / kGib;
    if (predicted > 0 && sum + predicted <= run.predicted_peak_gib * (1 + 1e-9)) {
      terms.push_back({row.key, predicted, predicted + missing});
      sum += predicted;
    }
  }
  return "    memory " + number(measured) + " GiB measured (" + std::string(name_of(run.record->measured.peak_kind)) +
         "), " + number(run.predicted_peak_gib) + " GiB predicted (" + percent_text(*run.memory_error) +
         " %), on stage " + std::to_string(memory.stage) + " at " + std::string(kMoments[memory.moment]) + "\n" +
         terms_text(largest_first(terms), "GiB", terminal);
}

template <class Error>
std::vector<const RunPrediction*> worst_by(const std::vector<RunPrediction>& runs, std::size_t count, Error error) {
  std::vector<const RunPrediction*> ordered;
  for (const auto& run : runs) {
    if (run.counted() && error(run)) {
      ordered.push_back(&run);
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [&](const auto* a, const auto* b) {
    return std::abs(std::log1p(*error(*a))) > std::abs(std::log1p(*error(*b)));
  });
  ordered.resize(std::min(count, ordered.size()));
  return ordered;
}

}  // namespace

std::string worst_runs(const ValidateReport& report, const Terminal& terminal) {
  std::string text;
  const auto by_step = worst_by(report.runs, report.worst, [](const RunPrediction& run) { return run.step_error; });
  const auto by_memory = worst_by(report.runs, report.worst, [](const RunPrediction& run) {
    return run.memory_counted() ? run.memory_error : std::nullopt;
  });
  for (const auto* run : by_step) {
    text += (run == by_step.front() ? "\n" + terminal.paint(Style::bold, "largest errors of the step time") : "") +
            "\n" + heading(*run, terminal) + step_text(*run, terminal);
  }
  for (const auto* run : by_memory) {
    text += (run == by_memory.front() ? "\n" + terminal.paint(Style::bold, "largest errors of memory") : "") + "\n" +
            heading(*run, terminal) + memory_text(*run, terminal);
  }
  return text;
}

}  // namespace tpplan
