#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "cost-model/simulate.h"
#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

constexpr std::string_view kBlanks = " ,\t\r\n";

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// "20%" or "0.2", at least 0 and less than 1.
std::optional<double> share(std::string_view text) {
  double value = 0;
  const bool percent = !text.empty() && text.back() == '%';
  const auto digits = text.substr(0, text.size() - (percent ? 1 : 0));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value = percent ? value / 100 : value;
  return error == std::errc() && end == digits.data() + digits.size() && value >= 0 && value < 1 ? std::optional(value)
                                                                                                 : std::nullopt;
}

/// "40ms", "0.04s" or "800us", not negative.
std::optional<Seconds> duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr std::array<Unit, 3> kUnits{{{"ms", 1e-3}, {"us", 1e-6}, {"s", 1}}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& row : kUnits) {
    if (error == std::errc() && value >= 0 && unit == row.name) {
      return Seconds(value * row.seconds);
    }
  }
  return std::nullopt;
}

class WhatIfReader {
 public:
  WhatIfReader(std::string_view text, int world) : text_(text), world_(world) {}

  Perturbation read() {
    for (std::size_t at = text_.find_first_not_of(kBlanks); at != std::string_view::npos;) {
      const std::size_t end = std::min(text_.find_first_of(kBlanks, at), text_.size());
      read_word(text_.substr(at, end - at), at);
      at = text_.find_first_not_of(kBlanks, end);
    }
    check_open();
    if (!problems_.empty()) {
      throw SpecError("--what-if", text_, std::move(problems_));
    }
    return std::move(out_);
  }

 private:
  void report(std::size_t at, std::string message, std::string hint) {
    Diagnostic problem;
    problem.message = std::move(message);
    problem.hint = std::move(hint);
    problem.offset = at;
    problems_.push_back(std::move(problem));
  }

  void check_open() {
    if (open_) {
      report(open_at_, "how slow is not said", "write slow=20% after it");
    }
    open_ = false;
  }

  void read_word(std::string_view word, std::size_t at) {
    const std::size_t equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    const std::size_t value_at = at + std::min(word.size(), equals == std::string_view::npos ? equals : equals + 1);
    if (const auto kind = value_in(kSlowKindNames, key)) {
      check_open();
      const auto gpu = whole(value);
      if (!gpu || *gpu >= static_cast<std::uint64_t>(world_)) {
        report(value_at, std::string(key) + ": \"" + std::string(value) + "\" is not a GPU of the cluster",
               "a number from 0 to " + std::to_string(world_ - 1));
        return;
      }
      out_.slow.push_back({*kind, static_cast<int>(*gpu), 0});
      open_ = true;
      open_at_ = at;
    } else if (key == "slow") {
      const auto lost = share(value);
      if (!lost) {
        report(value_at, "slow: \"" + std::string(value) + "\" is not a share of the speed", "such as 20%, below 100%");
      } else if (out_.slow.empty()) {
        if (problems_.empty()) {
          report(at, "what is slow is not said", "write gpu=3, link=3 or host=3 before it");
        }
      } else {
        out_.slow.back().slow = *lost;
      }
      open_ = false;
    } else if (key == "jitter") {
      const auto deviation = share(value);
      if (!deviation) {
        report(value_at, "jitter: \"" + std::string(value) + "\" is not a share", "such as 3%, below 100%");
      }
      out_.jitter = deviation.value_or(0);
    } else if (key == "data") {
      out_.load = duration(value);
      if (!out_.load) {
        report(value_at, "data: \"" + std::string(value) + "\" is not a time",
               "that a micro-batch takes, such as 40ms");
      }
    } else if (key == "seed") {
      const auto seed = whole(value);
      if (!seed) {
        report(value_at, "seed: \"" + std::string(value) + "\" is not a whole number", "such as 7");
      }
      out_.seed = seed.value_or(1);
    } else {
      const auto near = nearest_name(key, {"gpu", "link", "host", "slow", "jitter", "seed", "data"});
      report(at, "unknown key \"" + std::string(key) + "\"",
             near ? "did you mean \"" + *near + "\"?" : "keys are gpu, link, host, slow, jitter, seed and data");
    }
  }

  std::string_view text_;
  int world_;
  Perturbation out_;
  std::vector<Diagnostic> problems_;
  bool open_ = false;  ///< a gpu, link or host waits for its slow
  std::size_t open_at_ = 0;
};

}  // namespace

Perturbation parse_what_if(std::string_view text, int world) { return WhatIfReader(text, world).read(); }

}  // namespace tpplan
