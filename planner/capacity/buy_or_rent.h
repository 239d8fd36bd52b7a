#pragma once

#include <vector>

#include "planner/capacity/amounts.h"

namespace tpplan {

/// What one GPU (or node) costs to own.
struct Ownership {
  Money purchase;
  double years = 3;      ///< of use
  double resale = 0;     ///< share of the purchase price got back at the end
  double financing = 0;  ///< interest per year on the purchase price
  Money hosting;         ///< per year: space, staff, network
  Kilowatts power;       ///< at work, everything in the machine room included
  Money electricity;     ///< per kWh
};

/// Cost of one year with so many hours at work.
struct OwnershipYear {
  Money depreciation, financing, hosting, electricity;
  [[nodiscard]] Money total() const { return depreciation + financing + hosting + electricity; }
};
/// Straight-line depreciation to the resale value; interest on the mean of purchase price and resale value, which is
/// what is bound in the machine on average; electricity by the hour.
OwnershipYear ownership_year(const Ownership& owned, Hours at_work);

/// Hours of work per year beyond which owning is cheaper than renting at `rent` per hour, with the electricity of
/// owning fixed at that of `electricity_hours`. Not finite when never.
Hours break_even_fixed(const Ownership& owned, Money rent, Hours electricity_hours);
/// The same with electricity charged by the hour, at work only.
Hours break_even_hourly(const Ownership& owned, Money rent);

/// At a share of the year's hours, the months after which owning has cost less than renting: purchase price less
/// resale and what it costs to run on one side, rent on the other. Not finite when it never does within the years of
/// use.
double break_even_months(const Ownership& owned, Money rent, double utilisation);

inline constexpr Hours kYear{8760};

}  // namespace tpplan
