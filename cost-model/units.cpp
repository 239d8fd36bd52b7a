#include "cost-model/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace tpplan {
namespace {

struct Unit {
  std::string_view name;
  Dimension dimension;
  double factor;
};

constexpr std::array kUnits = {
    Unit{"B", Dimension::bytes, 1},
    Unit{"KiB", Dimension::bytes, 1024},
    Unit{"MiB", Dimension::bytes, 1048576},
    Unit{"GiB", Dimension::bytes, 1073741824},
    Unit{"TiB", Dimension::bytes, 1099511627776},
    Unit{"PiB", Dimension::bytes, 1125899906842624},
    Unit{"kB", Dimension::bytes, 1e3},
    Unit{"MB", Dimension::bytes, 1e6},
    Unit{"GB", Dimension::bytes, 1e9},
    Unit{"TB", Dimension::bytes, 1e12},
    Unit{"PB", Dimension::bytes, 1e15},
    Unit{"FLOP", Dimension::flops, 1},
    Unit{"MFLOP", Dimension::flops, 1e6},
    Unit{"GFLOP", Dimension::flops, 1e9},
    Unit{"TFLOP", Dimension::flops, 1e12},
    Unit{"PFLOP", Dimension::flops, 1e15},
    Unit{"EFLOP", Dimension::flops, 1e18},
    Unit{"ZFLOP", Dimension::flops, 1e21},
    Unit{"s", Dimension::seconds, 1},
    Unit{"ms", Dimension::seconds, 1e-3},
    Unit{"us", Dimension::seconds, 1e-6},
    Unit{"\xC2\xB5s", Dimension::seconds, 1e-6},  // micro sign
    Unit{"\xCE\xBCs", Dimension::seconds, 1e-6},  // Greek mu
    Unit{"ns", Dimension::seconds, 1e-9},
    Unit{"min", Dimension::seconds, 60},
    Unit{"h", Dimension::seconds, 3600},
    Unit{"d", Dimension::seconds, 86400},
    Unit{"B/s", Dimension::bytes_per_second, 1},
    Unit{"kB/s", Dimension::bytes_per_second, 1e3},
    Unit{"MB/s", Dimension::bytes_per_second, 1e6},
    Unit{"GB/s", Dimension::bytes_per_second, 1e9},
    Unit{"TB/s", Dimension::bytes_per_second, 1e12},
    Unit{"KiB/s", Dimension::bytes_per_second, 1024},
    Unit{"MiB/s", Dimension::bytes_per_second, 1048576},
    Unit{"GiB/s", Dimension::bytes_per_second, 1073741824},
    Unit{"TiB/s", Dimension::bytes_per_second, 1099511627776},
    Unit{"bit/s", Dimension::bytes_per_second, 1.0 / 8},
    Unit{"kbit/s", Dimension::bytes_per_second, 1e3 / 8},
    Unit{"Mbit/s", Dimension::bytes_per_second, 1e6 / 8},
    Unit{"Gbit/s", Dimension::bytes_per_second, 1e9 / 8},
    Unit{"Tbit/s", Dimension::bytes_per_second, 1e12 / 8},
    Unit{"FLOP/s", Dimension::flops_per_second, 1},
    Unit{"GFLOP/s", Dimension::flops_per_second, 1e9},
    Unit{"TFLOP/s", Dimension::flops_per_second, 1e12},
    Unit{"PFLOP/s", Dimension::flops_per_second, 1e15},
    Unit{"EFLOP/s", Dimension::flops_per_second, 1e18},
};

struct DimensionNames {
  Dimension dimension;
  std::string_view noun;     ///< "unknown size unit"
  std::string_view article;  ///< "a size needs a unit"
  std::string_view usual;    ///< the unit shown in hints
};

constexpr std::array kDimensions = {
    DimensionNames{Dimension::bytes, "size", "a", "GiB"},
    DimensionNames{Dimension::flops, "work", "an amount of", "TFLOP"},
    DimensionNames{Dimension::seconds, "time", "a", "us"},
    DimensionNames{Dimension::bytes_per_second, "bandwidth", "a", "GB/s"},
    DimensionNames{Dimension::flops_per_second, "compute rate", "a", "TFLOP/s"},
};

/// Spellings that people write and what they most likely mean; an empty `meant` stands for "bits or bytes?".
struct LookAlike {
  std::string_view written;
  std::string_view meant;
};

constexpr std::array kLookAlikes = {
    LookAlike{"KB", "KiB"},         LookAlike{"K", "KiB"},          LookAlike{"M", "MiB"},
    LookAlike{"G", "GiB"},          LookAlike{"T", "TiB"},          LookAlike{"kb", "kB"},
    LookAlike{"Kb", "KiB"},         LookAlike{"mb", "MB"},          LookAlike{"Mb", "MB"},
    LookAlike{"gb", "GB"},          LookAlike{"Gb", "GB"},          LookAlike{"tb", "TB"},
    LookAlike{"Tb", "TB"},          LookAlike{"bytes", "B"},        LookAlike{"sec", "s"},
    LookAlike{"seconds", "s"},      LookAlike{"usec", "us"},        LookAlike{"msec", "ms"},
    LookAlike{"minutes", "min"},    LookAlike{"hours", "h"},        LookAlike{"days", "d"},
    LookAlike{"GBps", "GB/s"},      LookAlike{"MBps", "MB/s"},      LookAlike{"TBps", "TB/s"},
    LookAlike{"Gbits/s", "Gbit/s"}, LookAlike{"GBytes/s", "GB/s"},  LookAlike{"KB/s", "kB/s"},
    LookAlike{"TFLOPS", "TFLOP/s"}, LookAlike{"TFLOPs", "TFLOP/s"}, LookAlike{"TFLOPS/s", "TFLOP/s"},
    LookAlike{"Tflops", "TFLOP/s"}, LookAlike{"tflops", "TFLOP/s"}, LookAlike{"GFLOPS", "GFLOP/s"},
    LookAlike{"PFLOPS", "PFLOP/s"}, LookAlike{"TOPS", "TFLOP/s"},   LookAlike{"FLOPS", "FLOP/s"},
};

/// Rates where nobody can tell bits from bytes.
constexpr std::array<std::string_view, 10> kBitsOrBytes = {"Gbps", "Gb/s", "gbps", "gb/s", "Mbps",
                                                           "Mb/s", "mbps", "Tbps", "Tb/s", "kbps"};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](char x, char y) { return lower(x) == lower(y); });
}

const DimensionNames& names_of(Dimension dimension) {
  return *std::find_if(kDimensions.begin(), kDimensions.end(),
                       [&](const DimensionNames& row) { return row.dimension == dimension; });
}

const Unit* find_unit(std::string_view name, Dimension dimension) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name && unit.dimension == dimension) {
      return &unit;
    }
  }
  return nullptr;
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

void describe_unknown_unit(std::string_view name, Dimension dimension, UnitError& error) {
  const DimensionNames& wanted = names_of(dimension);
  if (dimension == Dimension::bytes_per_second &&
      std::find(kBitsOrBytes.begin(), kBitsOrBytes.end(), name) != kBitsOrBytes.end()) {
    const std::string prefix(1, name[0] == 'k' ? 'k' : static_cast<char>(name[0] & ~0x20));
    error.message = "ambiguous bandwidth unit " + quoted(name);
    error.hint = "write " + quoted(prefix + "bit/s") + " for bits or " + quoted(prefix + "B/s") + " for bytes";
    return;
  }
  for (const Unit& unit : kUnits) {
    if (unit.name == name) {
      error.message = quoted(name) + " is a " + std::string(names_of(unit.dimension).noun) + " unit, not a " +
                      std::string(wanted.noun) + " unit";
      error.hint = "write it like \"1 " + std::string(wanted.usual) + "\"";
      return;
    }
  }
  error.message = "unknown " + std::string(wanted.noun) + " unit " + quoted(name);
  for (const LookAlike& row : kLookAlikes) {
    if (row.written == name && find_unit(row.meant, dimension) != nullptr) {
      error.hint = "did you mean " + quoted(row.meant) + "?";
      return;
    }
  }
  for (const Unit& unit : kUnits) {
    if (unit.dimension == dimension && equal_ignoring_case(unit.name, name)) {
      error.hint = "did you mean " + quoted(unit.name) + "?";
      return;
    }
  }
  error.hint = "units of " + std::string(wanted.noun) + ":";
  for (const Unit& unit : kUnits) {
    if (unit.dimension == dimension && (static_cast<unsigned char>(unit.name[0]) & 0x80U) == 0) {
      error.hint += (error.hint.back() == ':' ? " " : ", ") + std::string(unit.name);
    }
  }
}

/// Three significant digits below 100 and four above, without trailing zeros.
std::string significant(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 999.95 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : size >= 0.01 ? 4 : 5;
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  std::string result = text;
  if (result.find('.') != std::string::npos) {
    result.erase(result.find_last_not_of('0') + 1);
    if (result.back() == '.') {
      result.pop_back();
    }
  }
  return result == "-0" ? "0" : result;
}

struct PrintStep {
  double factor;
  std::string_view name;
};

/// Prints in the first unit of `steps` (largest first) that leaves at least one whole unit, else in the last.
template <std::size_t N>
std::string print(double value, const std::array<PrintStep, N>& steps) {
  if (!std::isfinite(value)) {
    return "n/a";
  }
  const PrintStep* step = &steps.back();
  for (const PrintStep& candidate : steps) {
    if (std::abs(value) >= candidate.factor * 0.9995) {
      step = &candidate;
      break;
    }
  }
  if (value == 0) {
    step = &steps.front();
  }
  return significant(value / step->factor) + " " + std::string(step->name);
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Dimension dimension, UnitError& error) {
  const DimensionNames& wanted = names_of(dimension);
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::string_view body = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  error = UnitError{};
  error.unit_offset = first;
  const bool negative = !body.empty() && body[0] == '-';
  const char start = body.size() > (negative ? 1U : 0U) ? body[negative ? 1 : 0] : '\0';
  double value = 0;
  const char* rest = body.data();
  bool readable = (start >= '0' && start <= '9') || start == '.';
  if (readable) {
    const auto [end, code] = std::from_chars(body.data(), body.data() + body.size(), value);
    readable = code == std::errc();
    rest = end;
  }
  if (!readable || !std::isfinite(value)) {
    error.message =
        "expected " + std::string(wanted.article) + " " + std::string(wanted.noun) + ", got " + quoted(text);
    error.hint = "write a number and a unit, like \"1 " + std::string(wanted.usual) + "\"";
    return std::nullopt;
  }
  if (negative) {
    error.message = std::string(wanted.article) + " " + std::string(wanted.noun) + " cannot be negative";
    return std::nullopt;
  }
  const std::string_view number = body.substr(0, static_cast<std::size_t>(rest - body.data()));
  std::string_view name = body.substr(number.size());
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  error.unit_offset = first + body.size() - name.size();
  if (name.empty()) {
    error.message = std::string(wanted.article) + " " + std::string(wanted.noun) + " needs a unit";
    error.hint = "write " + quoted(std::string(number) + " " + std::string(wanted.usual));
    return std::nullopt;
  }
  if (const Unit* unit = find_unit(name, dimension)) {
    return value * unit->factor;
  }
  describe_unknown_unit(name, dimension, error);
  return std::nullopt;
}

std::string format(Bytes value) {
  static constexpr std::array<PrintStep, 4> kSteps = {PrintStep{1073741824, "GiB"}, PrintStep{1048576, "MiB"},
                                                      PrintStep{1024, "KiB"}, PrintStep{1, "B"}};
  return print(value.raw(), kSteps);
}

std::string format(Flops value) {
  static constexpr std::array<PrintStep, 7> kSteps = {
      PrintStep{1e21, "ZFLOP"}, PrintStep{1e18, "EFLOP"}, PrintStep{1e15, "PFLOP"}, PrintStep{1e12, "TFLOP"},
      PrintStep{1e9, "GFLOP"},  PrintStep{1e6, "MFLOP"},  PrintStep{1, "FLOP"}};
  return print(value.raw(), kSteps);
}

std::string format(Seconds value) {
  static constexpr std::array<PrintStep, 3> kSteps = {PrintStep{1, "s"}, PrintStep{1e-3, "ms"}, PrintStep{1e-6, "us"}};
  return print(value.raw(), kSteps);
}

std::string format(BytesPerSecond value) {
  static constexpr std::array<PrintStep, 4> kSteps = {PrintStep{1e9, "GB/s"}, PrintStep{1e6, "MB/s"},
                                                      PrintStep{1e3, "kB/s"}, PrintStep{1, "B/s"}};
  return print(value.raw(), kSteps);
}

std::string format(FlopsPerSecond value) {
  if (!std::isfinite(value.raw())) {
    return "n/a";
  }
  return significant(value.raw() / 1e12) + " TFLOP/s";
}

std::string shortest(double value) {
  if (!std::isfinite(value) || value == 0) {
    return "0";
  }
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 9);
  return std::string(buffer, result.ptr);
}

std::string with_separators(long long value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace tpplan
