#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

namespace tpplan {

/// One line on a terminal's standard error once something takes more than a second, wiped at the end; nothing
/// elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::ostream& err);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// Shows the text when it has changed.
  void update(const std::string& text);

  /// "searching: 40 %".
  void update_share(const std::string& doing, double share);
  /// "sweep: 12 of 96 cells, about 3 min left"; `before` of the `done` were there at the start and tell nothing of the
  /// pace.
  void update_count(const std::string& doing, const std::string& things, std::size_t done, std::size_t all,
                    std::size_t before);

 private:
  [[nodiscard]] double seconds() const;

  std::ostream& err_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string shown_;
};

/// "40 s", "3 min", "2 h 10 min": a time nobody needs to know better.
std::string rough_time(double seconds);

}  // namespace tpplan
