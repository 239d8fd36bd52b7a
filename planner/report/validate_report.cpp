#include "planner/report/validate_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cost-model/units.h"
#include "planner/report/plan_report.h"

namespace tpplan {

std::string percent_text(double share, bool known, int decimals) {
  if (!known) {
    return "-";
  }
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, 100 * share);
  return buffer.data();
}

std::map<std::string, LeftOutStats> left_out_stats(const std::vector<LeftOutError>& errors,
                                                   const std::vector<std::string>& group_by) {
  struct Lists {
    std::vector<double> step, memory;
    int step_inside = 0, memory_inside = 0;
  };
  const auto inside = [](double error, double width) { return std::abs(std::log1p(error)) <= std::log1p(width); };
  std::map<std::string, Lists> lists;
  for (const auto& error : errors) {
    const auto& profile = error.run->job.profile;
    for (const auto& name : {group_name(*error.run, group_by), std::string("all runs")}) {
      auto& list = lists[name];
      if (error.step_error) {
        list.step.push_back(*error.step_error);
        list.step_inside += inside(*error.step_error, profile.step_error) ? 1 : 0;
      }
      if (error.memory_error) {
        list.memory.push_back(*error.memory_error);
        list.memory_inside += inside(*error.memory_error, profile.memory_error) ? 1 : 0;
      }
    }
  }
  std::map<std::string, LeftOutStats> stats;
  for (const auto& [name, list] : lists) {
    auto& row = stats[name];
    row.step = error_stats(list.step);
    row.memory = error_stats(list.memory);
    if (row.step.n > 0) {
      row.coverage_step = static_cast<double>(list.step_inside) / row.step.n;
    }
    if (row.memory.n > 0) {
      row.coverage_memory = static_cast<double>(list.memory_inside) / row.memory.n;
    }
  }
  return stats;
}

namespace {

std::string two_decimals(double value, bool known) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f", value);
  return known ? buffer.data() : "-";
}

std::string count_text(int count) { return count == 0 ? "-" : with_separators(count); }

/// Share of a verdict count, in percent: what every reader of a table expects.
std::string share_text(int part, int whole, int decimals = 1) {
  return percent_text(whole == 0 ? 0 : static_cast<double>(part) / whole, whole > 0, decimals);
}

struct GroupColumn {
  Column column;
  std::string (*text)(const GroupReport& group, const LeftOutStats& left_out, int decimals);
};

/// Columns of the table of groups. A verdict says something only where some runs ran out of memory; the shares of
/// groups without such runs would all be near 100 %, so they are counted but the false verdicts tell.
const std::vector<GroupColumn>& group_columns() {
  static const std::vector<GroupColumn> columns{
      {{"group", false, 100}, [](const GroupReport& g, const LeftOutStats&, int) { return g.group; }},
      {{"runs", true, 40}, [](const GroupReport& g, const LeftOutStats&, int) { return with_separators(g.rows); }},
      {{"step n", true, 90}, [](const GroupReport& g, const LeftOutStats&, int) { return count_text(g.step.n); }},
      {{"median %", true, 99},
       [](const GroupReport& g, const LeftOutStats&, int d) { return percent_text(g.step.median, g.step.n > 0, d); }},
      {{"MAPE %", true, 95},
       [](const GroupReport& g, const LeftOutStats&, int d) { return percent_text(g.step.mape, g.step.n > 0, d); }},
      {{"p90 %", true, 94},
       [](const GroupReport& g, const LeftOutStats&, int d) { return percent_text(g.step.p90, g.step.n > 0, d); }},
      {{"bias %", true, 80},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return (g.step.bias > 0 ? "+" : "") + percent_text(g.step.bias, g.step.n > 0, d);
       }},
      {{"left out %", true, 93},
       [](const GroupReport&, const LeftOutStats& l, int d) { return percent_text(l.step.median, l.step.n > 0, d); }},
      {{"in 80 % band", true, 50},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.coverage_step.value_or(0), g.coverage_step.has_value(), d);
       }},
      {{"memory n", true, 85}, [](const GroupReport& g, const LeftOutStats&, int) { return count_text(g.memory.n); }},
      {{"memory %", true, 96},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.memory.median, g.memory.n > 0, d);
       }},
      {{"memory mean %", true, 47},
       [](const GroupReport& g, const LeftOutStats&, int d) { return percent_text(g.memory.mape, g.memory.n > 0, d); }},
      {{"memory left out %", true, 48},
       [](const GroupReport&, const LeftOutStats& l, int d) {
         return percent_text(l.memory.median, l.memory.n > 0, d);
       }},
      {{"reserved %", true, 45},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.reserved.median, g.reserved.n > 0, d);
       }},
      {{"device %", true, 44},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.device.median, g.device.n > 0, d);
       }},
      {{"verdicts right %", true, 70},
       [](const GroupReport& g, const LeftOutStats&, int d) { return share_text(g.fits.right, g.fits.n, d); }},
      {{"false fits %", true, 60},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return share_text(g.fits.false_fits, g.fits.called_fits, d);
       }},
      {{"tight", true, 30}, [](const GroupReport& g, const LeftOutStats&, int) { return count_text(g.fits.tight); }},
      {{"sweeps", true, 55},
       [](const GroupReport& g, const LeftOutStats&, int) { return count_text(g.ranking.sweeps); }},
      {{"tau", true, 65},
       [](const GroupReport& g, const LeftOutStats&, int) {
         return two_decimals(g.ranking.kendall_tau_median, g.ranking.sweeps > 0);
       }},
      {{"top-1 %", true, 64},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.ranking.top1_regret_mean, g.ranking.sweeps > 0, d);
       }},
      {{"best-3 %", true, 63},
       [](const GroupReport& g, const LeftOutStats&, int d) {
         return percent_text(g.ranking.best3_regret_mean, g.ranking.sweeps > 0, d);
       }},
  };
  return columns;
}

std::string reason_lines(std::string_view heading, const std::map<std::string, int>& reasons,
                         const Terminal& terminal) {
  std::vector<std::pair<int, std::string>> ordered;
  for (const auto& [reason, count] : reasons) {
    ordered.emplace_back(-count, reason);
  }
  std::sort(ordered.begin(), ordered.end());
  std::string text = reasons.empty() ? "" : "\n" + terminal.paint(Style::bold, heading) + "\n";
  for (const auto& [count, reason] : ordered) {
    text += "  " + wrap(std::to_string(-count) + " x " + reason, terminal.width - 2, 6) + "\n";
  }
  return text;
}

/// Median error with the suspect runs, group by group: the other way of reporting.
std::string suspect_lines(const ValidateReport& report, const Terminal& terminal) {
  std::string text;
  for (const auto& group : report.groups) {
    if (group.suspect == 0 || group.group == "all runs") {
      continue;
    }
    std::string line = group.group + ": " + std::to_string(group.suspect) + " suspect";
    if (group.step_with_suspect.n > group.step.n) {
      line += "; with them the step median is " + percent_text(group.step_with_suspect.median) + " %";
    }
    if (group.memory_with_suspect.n > group.memory.n) {
      line += ", the memory median " + percent_text(group.memory_with_suspect.median) + " %";
    }
    if (group.fits_with_suspect.n > group.fits.n) {
      line += ", right verdicts " + share_text(group.fits_with_suspect.right, group.fits_with_suspect.n) + " %";
    }
    text += "  " + wrap(line, terminal.width - 2, 4) + "\n";
  }
  return text.empty() ? "" : "\n" + terminal.paint(Style::bold, "suspect runs (counted apart)") + "\n" + text;
}

std::string repeat_lines(const ValidateReport& report, const Terminal& terminal) {
  std::string text;
  for (const auto& group : report.groups) {
    if (group.repeated > 0 && group.group != "all runs") {
      text += (text.empty() ? "" : ", ") + group.group + " " + percent_text(group.repeat_spread) + " % (" +
              std::to_string(group.repeated) + ")";
    }
  }
  return text.empty() ? ""
                      : "\n" + terminal.paint(Style::bold, "spread of runs with equal inputs (sets)") + "\n  " +
                            wrap(text, terminal.width - 2, 4) + "\n";
}

std::string legend(const ValidateReport& report) {
  std::string text =
      "Errors are predicted/measured - 1 in percent; median, MAPE and p90 of their size, bias the signed median. "
      "Verdicts: share of runs rightly said to fit or not; false fits: of those said to fit, the share that ran out of "
      "memory. tau, top-1 and best-3: order within sweeps and time lost to the best layout.";
  if (!report.left_out_meaning.empty()) {
    text += " Left out: " + report.left_out_meaning + ".";
  }
  return text;
}

}  // namespace

TextTable group_table(const ValidateReport& report, int decimals) {
  TextTable table;
  std::vector<const GroupColumn*> shown;
  const auto left_out_of = [&](const GroupReport& group) {
    const auto found = report.left_out.find(group.group);
    return found == report.left_out.end() ? LeftOutStats{} : found->second;
  };
  for (const auto& column : group_columns()) {
    // A column that would be empty is not shown.
    const bool used = std::any_of(report.groups.begin(), report.groups.end(), [&](const auto& group) {
      const auto text = column.text(group, left_out_of(group), decimals);
      return text != "-" && !text.empty();
    });
    if (used) {
      shown.push_back(&column);
      table.columns.push_back(column.column);
    }
  }
  for (const auto& group : report.groups) {
    std::vector<std::string> cells;
    for (const auto* column : shown) {
      cells.push_back(column->text(group, left_out_of(group), decimals));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string validate_table(const ValidateReport& report, const Terminal& terminal, std::string& notes) {
  std::vector<std::string> dropped;
  std::string text = group_table(report, 1).render(terminal, 0, &dropped);
  text += terminal.paint(Style::dim, wrap(legend(report), terminal.width, 2)) + "\n";
  notes += left_out_note(dropped, terminal, "md and json have");
  const auto& total = report.groups.back();
  text += suspect_lines(report, terminal);
  text += reason_lines("reasons for suspicion", total.suspect_reasons, terminal);
  text += reason_lines("skipped runs", total.skip_reasons, terminal);
  text += repeat_lines(report, terminal);
  return text + worst_runs(report, terminal);
}

std::string validate_markdown(const ValidateReport& report) {
  const auto table = group_table(report, 2);
  std::string header = "|";
  std::string rule = "|";
  for (const auto& column : table.columns) {
    header += " " + column.header + " |";
    rule += column.right ? " ---: |" : " --- |";
  }
  std::string text = header + "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const auto& cell : row) {
      text += " " + cell + " |";
    }
    text += "\n";
  }
  return text + "\n" + legend(report) + "\n";
}

std::string fit_text(const ProfileFit& fit, const Terminal& terminal) {
  TextTable table;
  table.columns = {
      {"constant", false, 9}, {"was", true, 5}, {"fitted", true, 9}, {"80 % interval", true, 8}, {"", false, 4}};
  const auto number = [](double value) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.4g", value);
    return std::string(buffer.data());
  };
  for (std::size_t i = 0; i < fit.names.size(); ++i) {
    table.rows.push_back({fit.names[i], number(fit.start[i]), number(fit.value[i]),
                          number(fit.low[i]) + " .. " + number(fit.high[i]), fit.at_bound[i] ? "at its bound" : ""});
  }
  std::string text = terminal.paint(Style::bold, "profile " + fit.profile.name) + ": " + std::to_string(fit.rows) +
                     " step times, " + std::to_string(fit.memory_rows) + " memory figures\n";
  text += fit.names.empty() ? "  no constant with bounds, or nothing to fit it to\n" : table.render(terminal, 2);
  text +=
      "  step median " + percent_text(fit.median_before) + " % before, " + percent_text(fit.median_after) + " % after";
  if (fit.memory_rows > 0) {
    text += "; memory " + percent_text(fit.memory_before) + " % before, " + percent_text(fit.memory_after) + " % after";
  }
  return text + "\n";
}

}  // namespace tpplan
