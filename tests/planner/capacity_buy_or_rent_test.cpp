#include <doctest/doctest.h>

#include <cmath>

#include "planner/capacity/buy_or_rent.h"

using namespace tpplan;

namespace {

/// The worked example: an RTX 4090 at 13,000 yuan, 350 W, 0.8 yuan per kWh, three years.
Ownership rtx_4090() {
  Ownership owned;
  owned.purchase = Money(13000);
  owned.years = 3;
  owned.power = Kilowatts(0.35);
  owned.electricity = Money(0.8);
  return owned;
}

}  // namespace

TEST_CASE("a year of the worked example costs 4333 of depreciation and 672 of electricity") {
  // 13,000 / 3 = 4,333.33; 0.35 kW x 300 d x 8 h x 0.8 = 672.
  const OwnershipYear year = ownership_year(rtx_4090(), Hours(300 * 8));
  CHECK(year.depreciation.raw() == doctest::Approx(4333.333).epsilon(1e-6));
  CHECK(year.electricity.raw() == doctest::Approx(672).epsilon(1e-12));
  CHECK(std::lround(year.total().raw()) == 5005);
}

TEST_CASE("with electricity fixed at 2400 hours the example breaks even at 2503 and 3337 hours") {
  CHECK(std::lround(break_even_fixed(rtx_4090(), Money(2), Hours(2400)).raw()) == 2503);
  CHECK(std::lround(break_even_fixed(rtx_4090(), Money(1.5), Hours(2400)).raw()) == 3337);
}

TEST_CASE("with electricity charged by the hour the example breaks even at 2519 and 3552 hours") {
  // 4,333.33 / (2 - 0.28) and 4,333.33 / (1.5 - 0.28).
  CHECK(std::lround(break_even_hourly(rtx_4090(), Money(2)).raw()) == 2519);
  CHECK(std::lround(break_even_hourly(rtx_4090(), Money(1.5)).raw()) == 3552);
}

TEST_CASE("at the break-even hours owning and renting cost the same") {
  Ownership owned = rtx_4090();
  owned.resale = 0.2;
  owned.financing = 0.06;
  owned.hosting = Money(300);
  const Hours even = break_even_hourly(owned, Money(2));
  CHECK(ownership_year(owned, even).total().raw() == doctest::Approx(2 * even.raw()).epsilon(1e-9));
  // Interest on the mean of 13,000 and 2,600: 7,800 x 0.06 = 468.
  CHECK(ownership_year(owned, Hours(0)).financing.raw() == doctest::Approx(468).epsilon(1e-9));
  CHECK(ownership_year(owned, Hours(0)).depreciation.raw() == doctest::Approx(13000 * 0.8 / 3).epsilon(1e-9));
}

TEST_CASE("a rent below the electricity is never beaten") {
  CHECK(!std::isfinite(break_even_hourly(rtx_4090(), Money(0.27)).raw()));
  CHECK(!std::isfinite(break_even_fixed(rtx_4090(), Money(0), Hours(0)).raw()));
}

TEST_CASE("months to pay back are those after which the rent saved is the price") {
  // At 3,552 of 8,760 hours a year and 1.5 an hour the saving of three years is the price.
  const double months = break_even_months(rtx_4090(), Money(1.5), 3552.0 / 8760);
  CHECK(months == doctest::Approx(36).epsilon(1e-3));
  CHECK(!std::isfinite(break_even_months(rtx_4090(), Money(1.5), 3500.0 / 8760)));
  // At full use and 2 an hour: 13,000 / ((2 - 0.28) x 8,760) = 0.8628 years.
  CHECK(break_even_months(rtx_4090(), Money(2), 1) == doctest::Approx(10.353).epsilon(1e-3));
}
