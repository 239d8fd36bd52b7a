#include "planner/capacity/buy_or_rent.h"

#include <limits>

namespace tpplan {

OwnershipYear ownership_year(const Ownership& owned, Hours at_work) {
  OwnershipYear year;
  year.depreciation = owned.purchase * ((1 - owned.resale) / owned.years);
  year.financing = owned.purchase * ((1 + owned.resale) / 2 * owned.financing);
  year.hosting = owned.hosting;
  year.electricity = owned.electricity * (owned.power * at_work).raw();
  return year;
}

Hours break_even_fixed(const Ownership& owned, Money rent, Hours electricity_hours) {
  if (rent.raw() <= 0) {
    return Hours(std::numeric_limits<double>::infinity());
  }
  return Hours(ownership_year(owned, electricity_hours).total() / rent);
}

Hours break_even_hourly(const Ownership& owned, Money rent) {
  const Money saved = rent - owned.electricity * (owned.power * Hours(1)).raw();
  if (saved.raw() <= 0) {
    return Hours(std::numeric_limits<double>::infinity());
  }
  return Hours(ownership_year(owned, Hours(0)).total() / saved);
}

double break_even_months(const Ownership& owned, Money rent, double utilisation) {
  const Hours at_work = kYear * utilisation;
  const OwnershipYear year = ownership_year(owned, at_work);
  const Money running = year.financing + year.hosting + year.electricity;
  const Money saved = rent * at_work.raw() - running;
  const double years = saved.raw() > 0 ? owned.purchase * (1 - owned.resale) / saved : -1;
  return years >= 0 && years <= owned.years ? 12 * years : std::numeric_limits<double>::infinity();
}

}  // namespace tpplan
