#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

/// A physical quantity in base units (bytes, floating-point operations, seconds) with its dimension
/// in the type: `Bytes / BytesPerSecond` is `Seconds`, `Bytes + Seconds` does not compile.
/// Integers are exact to 2^53, that is 9 PB.
template <int ByteExponent, int FlopExponent, int SecondExponent>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double base_units) : value_(base_units) {}

  /// The value in base units: bytes, FLOP, seconds and their quotients.
  [[nodiscard]] constexpr double raw() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value_ *= factor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr Quantity operator*(Quantity a, double b) { return Quantity(a.value_ * b); }
  friend constexpr Quantity operator*(double a, Quantity b) { return Quantity(a * b.value_); }
  friend constexpr Quantity operator/(Quantity a, double b) { return Quantity(a.value_ / b); }
  friend constexpr auto operator<=>(Quantity a, Quantity b) = default;

 private:
  double value_ = 0;
};

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator*(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 + B2 == 0 && F1 + F2 == 0 && S1 + S2 == 0) {
    return a.raw() * b.raw();
  } else {
    return Quantity<B1 + B2, F1 + F2, S1 + S2>(a.raw() * b.raw());
  }
}

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator/(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 == B2 && F1 == F2 && S1 == S2) {
    return a.raw() / b.raw();
  } else {
    return Quantity<B1 - B2, F1 - F2, S1 - S2>(a.raw() / b.raw());
  }
}

using Bytes = Quantity<1, 0, 0>;
using Flops = Quantity<0, 1, 0>;
using Seconds = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<1, 0, -1>;
using FlopsPerSecond = Quantity<0, 1, -1>;

template <int B, int F, int S>
constexpr Quantity<B, F, S> max(Quantity<B, F, S> a, Quantity<B, F, S> b) {
  return a < b ? b : a;
}
template <int B, int F, int S>
constexpr Quantity<B, F, S> min(Quantity<B, F, S> a, Quantity<B, F, S> b) {
  return b < a ? b : a;
}

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<double>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(static_cast<double>(v) * 1024); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(static_cast<double>(v) * 1048576); }
constexpr Bytes operator""_GiB(unsigned long long v) { return Bytes(static_cast<double>(v) * 1073741824); }
constexpr Bytes operator""_GiB(long double v) { return Bytes(static_cast<double>(v) * 1073741824); }
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_us(unsigned long long v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr BytesPerSecond operator""_GBps(unsigned long long v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr BytesPerSecond operator""_GBps(long double v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
}  // namespace literals

/// The dimensions that appear in data files and on the command line.
enum class Dimension { bytes, flops, seconds, bytes_per_second, flops_per_second };

/// Why a text is not a quantity: `message` says what is wrong, `hint` how to write it,
/// `unit_offset` where in the text the trouble starts.
struct UnitError {
  std::string message;
  std::string hint;
  std::size_t unit_offset = 0;
};

/// Reads "80 GiB", "312 TFLOP/s", "200 Gbit/s", "5 us" into base units.
/// The unit is required; "Gbps", "Gb/s", "GB" against "Gb" look-alikes are refused with the fix.
/// On failure returns nothing and fills `error`.
std::optional<double> parse_quantity(std::string_view text, Dimension dimension, UnitError& error);

/// Prints with 3-4 significant digits in the unit a reader expects:
/// memory in GiB/MiB/KiB/B, rates in GB/s (decimal), time in s/ms/us, FLOP/s in TFLOP/s.
std::string format(Bytes value);
std::string format(Flops value);
std::string format(Seconds value);
std::string format(BytesPerSecond value);
std::string format(FlopsPerSecond value);

/// Shortest decimal form of at most 9 significant digits that machine output uses; never NaN or infinity (0 instead).
std::string shortest(double value);

/// A count with thousands separators: 6,738,415,616.
std::string with_separators(long long value);

}  // namespace tpplan
