#pragma once

#include <compare>

namespace tpplan {

/// An amount in one unit that is no combination of bytes, operations and seconds; the tag names the unit. Amounts of
/// one unit add and compare, and divide to a plain number.
template <class Unit>
class Amount {
 public:
  constexpr Amount() = default;
  constexpr explicit Amount(double value) : value_(value) {}
  [[nodiscard]] constexpr double raw() const { return value_; }
  constexpr Amount& operator+=(Amount other) {
    value_ += other.value_;
    return *this;
  }
  friend constexpr Amount operator+(Amount a, Amount b) { return Amount(a.value_ + b.value_); }
  friend constexpr Amount operator-(Amount a, Amount b) { return Amount(a.value_ - b.value_); }
  friend constexpr Amount operator*(Amount a, double factor) { return Amount(a.value_ * factor); }
  friend constexpr Amount operator*(double factor, Amount a) { return Amount(a.value_ * factor); }
  friend constexpr Amount operator/(Amount a, double divisor) { return Amount(a.value_ / divisor); }
  friend constexpr double operator/(Amount a, Amount b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Amount a, Amount b) = default;

 private:
  double value_ = 0;
};

using Money = Amount<struct MoneyUnit>;  ///< in the currency of the price list
using Kilowatts = Amount<struct PowerUnit>;
using KilowattHours = Amount<struct EnergyUnit>;
using Kilograms = Amount<struct MassUnit>;  ///< of CO2 equivalent
using Hours = Amount<struct HourUnit>;      ///< of the wall clock, or of one GPU where a name says so

constexpr KilowattHours operator*(Kilowatts power, Hours time) { return KilowattHours(power.raw() * time.raw()); }

}  // namespace tpplan
