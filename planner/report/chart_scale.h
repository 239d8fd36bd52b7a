#pragma once

#include <string>
#include <vector>

#include "planner/capacity/capacity_report.h"

namespace tpplan {

/// Maps values of one axis to positions of a drawing.
class ChartScale {
 public:
  /// Ends at round values around [low, high]. A logarithmic scale needs positive values.
  static ChartScale linear(double low, double high);
  static ChartScale logarithmic(double low, double high);
  /// From exactly `low` to `high`, positions in between in proportion.
  static ChartScale exact(double low, double high);

  /// Where the ends lie in the drawing.
  void place(double from, double to) {
    from_ = from;
    to_ = to;
  }
  [[nodiscard]] double at(double value) const;
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  /// Values that occur instead of round ones, where they are few.
  void set_ticks(std::vector<double> ticks) { ticks_ = std::move(ticks); }

 private:
  double low_ = 0, high_ = 1, from_ = 0, to_ = 1;
  bool logarithmic_ = false;
  std::vector<double> ticks_;
};

/// A tick as text: "1,024", "12 %", "3.2 M".
std::string tick_text(double value, FigureStyle style);

}  // namespace tpplan
