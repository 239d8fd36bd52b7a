#include "planner/report/gantt.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tpplan {
namespace {

constexpr std::string_view kLetters = "FBWgrod";
constexpr std::size_t kLoading = 6;  ///< in kLetters
constexpr char kNothing = '.';
constexpr int kNarrowest = 20;

std::size_t letter_of(const SimulatedOperation& operation) {
  switch (operation.kind) {
    case SimulatedKind::pass:
      return operation.pass.kind == PassKind::forward ? 0 : operation.pass.kind == PassKind::weight ? 2 : 1;
    case SimulatedKind::gather:
      return 3;
    case SimulatedKind::reduce:
      return 4;
    case SimulatedKind::load:
      return kLoading;
    default:
      return 5;
  }
}

bool drawn(const SimulatedOperation& operation) {
  return operation.kind == SimulatedKind::pass || operation.kind == SimulatedKind::gather ||
         operation.kind == SimulatedKind::reduce || operation.kind == SimulatedKind::optimizer ||
         operation.kind == SimulatedKind::load;
}

}  // namespace

double end_of(const SimulatedStep& step) {
  double end = 0;
  for (const auto& rank : step.ranks) {
    end = std::max(end, rank.end);
  }
  return end;
}

TimeWindow within(const SimulatedStep& step, TimeWindow window) {
  const double end = end_of(step);
  window.from = std::clamp(window.from, 0.0, end);
  window.to = window.to > window.from ? std::min(window.to, end) : end;
  return window.to > window.from ? window : TimeWindow{0, end > 0 ? end : 1};
}

std::string text_gantt(const SimulatedStep& step, int width, TimeWindow window) {
  const std::string first = "stage ";
  const std::size_t digits = std::to_string(step.ranks.size() - 1).size();
  const auto columns =
      static_cast<std::size_t>(std::max(kNarrowest, width - static_cast<int>(first.size() + digits + 4)));
  const TimeWindow shown = within(step, window);
  const double bin = (shown.to - shown.from) / static_cast<double>(columns);
  using Times = std::array<double, kLetters.size()>;
  std::vector<std::vector<Times>> spent(step.ranks.size(), std::vector<Times>(columns, Times{}));
  for (const auto& operation : step.operations) {
    if (!drawn(operation) || operation.end <= shown.from || operation.start >= shown.to) {
      continue;
    }
    auto& row = spent[static_cast<std::size_t>(operation.rank)];
    const auto from =
        std::min(columns - 1, static_cast<std::size_t>(std::max(0.0, operation.start - shown.from) / bin));
    const auto to = std::min(columns - 1, static_cast<std::size_t>((operation.end - shown.from) / bin));
    for (std::size_t column = from; column <= to; ++column) {
      const double left = shown.from + static_cast<double>(column) * bin;
      const double inside = std::min(operation.end, left + bin) - std::max(operation.start, left);
      // Communication shows where nothing computes.
      const bool compute = operation.stream == StreamKind::compute;
      row[column][letter_of(operation)] += std::max(0.0, inside) * (compute ? 1 : 0.5);
    }
  }
  std::string text;
  bool loads = false;
  for (std::size_t r = 0; r < spent.size(); ++r) {
    const std::string number = std::to_string(r);
    text += first + std::string(digits - number.size(), ' ') + number + "  ";
    for (const Times& times : spent[r]) {
      const auto most = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
      // At least a quarter of the slice: half of a computing slice, all of a communicating one.
      double busy = 0;
      for (const double time : times) {
        busy += time;
      }
      const bool told = busy >= bin / 2 || times[most] >= bin / 4;
      text += told ? kLetters[most] : kNothing;
      loads = loads || (told && most == kLoading);
    }
    text += "\n";
  }
  const std::string left = shown.from > 0 ? format(Seconds(shown.from)) : "0";
  const std::string right = format(Seconds(shown.to));
  const std::size_t used = left.size() + right.size();
  text += std::string(first.size() + digits + 2, ' ') + left + std::string(columns > used ? columns - used : 1, ' ') +
          right + "\n";
  text += "F forward, B backward, W weight gradient, g gather, r reduce, o optimizer, ";
  text += loads ? "d data loading, . idle\n" : ". idle\n";
  return text;
}

}  // namespace tpplan
