#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/cluster_spec.h"
#include "planner/capacity/amounts.h"
#include "planner/capacity/power.h"

namespace tpplan {

/// A price per hour or to buy, of one GPU, with the range it was seen in.
struct Price {
  std::string subject;                     ///< a cluster's name or a GPU's id
  std::optional<Between<Money>> hour;      ///< rent of one GPU for an hour
  std::optional<Between<Money>> purchase;  ///< of one GPU with its share of the node
  std::string kind, date, source;
};

/// A price file (docs/capacity.md): what GPUs cost, and the site's prices. A member that the file does not give is
/// empty.
struct PriceList {
  std::string currency, date, source;
  std::vector<Price> prices;
  std::optional<Money> electricity;  ///< per kWh
  std::optional<Kilograms> grid;     ///< CO2 equivalent per kWh
  std::optional<double> pue;
  std::optional<Kilowatts> node_power;
  std::optional<double> years, resale, financing;
  std::optional<Money> hosting;  ///< per GPU and year
  bool shipped = false;          ///< listed prices that come with tpplan, none of the user's

  /// The newest price of a cluster: by its name (instances), else by its GPU's id; nullptr when there is none.
  [[nodiscard]] const Price* hourly(const ClusterSpec& cluster) const;
  [[nodiscard]] const Price* purchase(const ClusterSpec& cluster) const;
};

/// Reads a price file. Throws SpecError with every problem, unknown GPUs and clusters among them.
PriceList load_prices(const std::string& path, const GpuCatalogue& catalogue);
PriceList parse_prices(std::string name, std::string source, const GpuCatalogue& catalogue);

/// Kind, date and source of a price, those of the whole list where it has none of its own.
std::string origin_text(const Price& price, const PriceList& list);

/// Prices as published by providers, each with date and source: clusters/prices/listed.json.
PriceList shipped_prices(const GpuCatalogue& catalogue);

}  // namespace tpplan
