#include "planner/report_option_rows.h"

#include <algorithm>
#include <limits>

#include "planner/capacity/build_report.h"
#include "planner/option_values.h"

namespace tpplan {
namespace {

using Options = PlannerOptions;
using Text = std::string;
using Capacity = CapacityOptions;

constexpr double kAnyAmount = 1e30;

template <std::optional<double> Capacity::*field>
Text amount(Options& options, const Text& text) {
  return read_amount(text, 0, kAnyAmount, options.capacity.*field);
}

template <std::optional<double> Capacity::*field>
Text amount_above_nothing(Options& options, const Text& text) {
  const Text problem = amount<field>(options, text);
  return !problem.empty() || *(options.capacity.*field) > 0 ? problem : "must be more than nothing";
}

template <std::optional<Seconds> Capacity::*field>
Text duration(Options& options, const Text& text) {
  UnitError error;
  const auto seconds = parse_quantity(text, Dimension::seconds, error);
  if (!seconds) {
    return error.message + (error.hint.empty() ? "" : "; " + error.hint);
  }
  options.capacity.*field = Seconds(*seconds);
  return *seconds > 0 ? "" : "must be more than nothing";
}

template <std::optional<BytesPerSecond> Capacity::*field>
Text rate(Options& options, const Text& text) {
  UnitError error;
  const auto value = parse_quantity(text, Dimension::bytes_per_second, error);
  if (!value) {
    return error.message + (error.hint.empty() ? "" : "; " + error.hint);
  }
  options.capacity.*field = BytesPerSecond(*value);
  return *value > 0 ? "" : "must be more than nothing";
}

std::vector<Text> section_names() {
  std::vector<Text> names;
  for (const SectionRow& row : section_rows()) {
    names.emplace_back(row.id);
  }
  return names;
}

Text read_sections(Options& options, const Text& text) {
  const std::vector<Text> known = section_names();
  options.capacity.sections = split(text, ',');
  for (const Text& word : options.capacity.sections) {
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return unknown_choice(word, known);
    }
  }
  return "";
}

/// "90%" or "0.9", up to 1.
Text read_goodput(Options& options, const Text& text) {
  double value = 1;
  const Text problem = text == "1" || text == "100%" ? Text() : read_share(text, value);
  options.capacity.goodput = value;
  return !problem.empty() || value > 0 ? problem : "must be more than nothing";
}

}  // namespace

std::vector<OptionRow> report_rows() {
  std::vector<OptionRow> rows;
  const auto row = [&rows](std::string_view name, std::string_view argument, std::string_view meaning,
                           std::string_view fallback, Text (*set)(Options&, const Text&)) -> OptionRow& {
    rows.push_back({.name = name,
                    .argument = argument,
                    .group = OptionGroup::command,
                    .commands = "report",
                    .meaning = meaning,
                    .fallback = fallback,
                    .set = set});
    return rows.back();
  };
  row("tokens", "N", "tokens of the whole run, such as 1T or 300G", "20 per parameter",
      amount_above_nothing<&Capacity::tokens>);
  row("deadline", "TIME", "find the size that trains in that time (30d)", "", duration<&Capacity::deadline>);
  row("budget", "MONEY", "what may be spent (2M): most tokens, or a check", "", amount<&Capacity::budget>);
  row("price", "FILE", "prices per hour and to buy, electricity, PUE", "listed prices",
      [](Options& o, const Text& text) {
        o.capacity.prices = text;
        return Text(text.empty() ? "a value is missing" : "");
      })
      .completes = Completes::files;
  OptionRow& sections =
      row("sections", "LIST", "parts of the report to show", "all that have an answer", read_sections);
  sections.completes = Completes::choices;
  sections.choices = section_names;
  row("compare", "GPUS", "GPUs of the hardware comparison", "ten usual ones", [](Options& o, const Text& text) {
    o.capacity.compare = split(text, ',');
    return Text(text.empty() ? "a value is missing" : "");
  });
  row("flops", "N", "compute to allocate, in FLOP (1e24)", "", amount_above_nothing<&Capacity::flops>);
  row("gpu-hours", "N", "compute to allocate, in GPU-hours (500k)", "", amount_above_nothing<&Capacity::gpu_hours>);
  row("tokens-per-parameter", "N", "tokens for each parameter", "20", [](Options& o, const Text& text) {
    std::optional<double> value;
    Text problem = read_amount(text, 0.1, 1e6, value);
    o.capacity.tokens_per_parameter = value.value_or(o.capacity.tokens_per_parameter);
    return problem;
  });
  row("framework-date", "DATE", "framework release to plan for (2024-06)", "the newest known",
      [](Options& o, const Text& text) { return read_date(text, o.capacity.framework_date); });
  row("goodput", "P", "share of the time that is training", "of the failure model", read_goodput);
  row("gpu-mtbf", "TIME", "time between interruptions of one GPU (50000 h)", "of Llama 3, 50,677 h",
      duration<&Capacity::gpu_mtbf>);
  row("node-mtbf", "TIME", "the same of one node, in place of its GPUs", "", duration<&Capacity::node_mtbf>);
  row("restart-time", "TIME", "from an interruption to training again", "15 min", duration<&Capacity::restart>);
  row("repair-time", "TIME", "until a broken node is back", "24 h", duration<&Capacity::repair>);
  row("spare-nodes", "N", "nodes kept ready and paid for", "0", [](Options& o, const Text& text) {
    int value = 0;
    Text problem = read_count(text, 0, std::numeric_limits<int>::max(), value);
    o.capacity.spares = value;
    return problem;
  });
  row("checkpoint-every", "TIME", "training time between checkpoints", "what wastes least",
      duration<&Capacity::checkpoint_every>);
  row("checkpoint-write", "RATE", "bandwidth of all writers together (20 GB/s)", "the cluster's, else 0.98 GB/s a node",
      rate<&Capacity::checkpoint_write>);
  row("checkpoint-stall", "P", "share of the writing that training waits for", "100%",
      [](Options& o, const Text& text) {
        return text == "100%" || text == "1" ? Text() : read_share(text, o.capacity.checkpoint_stall);
      });
  row("storage-read", "RATE", "bandwidth of all readers together (40 GB/s)", "the cluster's",
      rate<&Capacity::storage_read>);
  row("evaluation", "P", "share of the time that evaluation stops training", "0%",
      [](Options& o, const Text& text) { return read_share(text, o.capacity.evaluation); });
  row("pue", "X", "power of the site over that of its machines", "price file's, else 1.2",
      [](Options& o, const Text& text) { return read_amount(text, 1, 10, o.capacity.pue); });
  row("node-power", "KW", "draw of one node at work, in kW", "from the GPUs' rated power", amount<&Capacity::node_kw>);
  row("electricity-price", "MONEY", "price of a kWh", "price file's", amount<&Capacity::electricity>);
  row("grid-factor", "KG", "kg of CO2 equivalent per kWh", "price file's", amount<&Capacity::grid>);
  return rows;
}

}  // namespace tpplan
