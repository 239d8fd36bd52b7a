#include "planner/report/progress.h"

#include <unistd.h>

#include <cmath>
#include <ostream>

namespace tpplan {

ProgressLine::ProgressLine(std::ostream& err) : err_(err), on_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (!shown_.empty()) {
    err_ << "\r\033[K" << std::flush;
  }
}

double ProgressLine::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ProgressLine::update(const std::string& text) {
  if (on_terminal_ && text != shown_ && seconds() > 1) {
    shown_ = text;
    err_ << "\r\033[K" << text << std::flush;
  }
}

void ProgressLine::update_share(const std::string& doing, double share) {
  update(doing + ": " + std::to_string(static_cast<int>(share * 100)) + " %");
}

void ProgressLine::update_count(const std::string& doing, const std::string& things, std::size_t done, std::size_t all,
                                std::size_t before) {
  std::string text = doing + ": " + std::to_string(done) + " of " + std::to_string(all) + " " + things;
  if (done > before && done < all) {
    const double pace = seconds() / static_cast<double>(done - before);
    text += ", about " + rough_time(pace * static_cast<double>(all - done)) + " left";
  }
  update(text);
}

std::string rough_time(double seconds) {
  constexpr long long kMinute = 60, kHour = 3600;
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 2 * kMinute) {
    return std::to_string(whole) + " s";
  }
  const long long minutes = (whole + kMinute / 2) / kMinute;
  if (whole < 2 * kHour) {
    return std::to_string(minutes) + " min";
  }
  return std::to_string(minutes / kMinute) + " h " + std::to_string(minutes % kMinute) + " min";
}

}  // namespace tpplan
