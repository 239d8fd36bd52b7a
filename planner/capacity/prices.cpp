#include "planner/capacity/prices.h"

#include <algorithm>

#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr double kMostMoney = 1e12;

/// A number, or [low, high] with its middle as the value.
std::optional<Between<Money>> read_range(ObjectReader& row, std::string_view key, double share) {
  if (!row.has(key)) {
    row.expect(key);
    return std::nullopt;
  }
  if (row.is_array(key)) {
    auto range = row.array(key);
    if (range.size() != 2) {
      row.error(key, std::string(key) + " is one price or [low, high]");
      return std::nullopt;
    }
    const double low = range.number(0, 0, kMostMoney) * share;
    const double high = range.number(1, 0, kMostMoney) * share;
    if (low > high) {
      row.error(key, "the low price is above the high one");
    }
    return Between<Money>{Money((low + high) / 2), Money(low), Money(high)};
  }
  const Money price(row.number(key, 0, kMostMoney) * share);
  return Between<Money>{price, price, price};
}

std::optional<double> read_optional(ObjectReader& object, std::string_view key, double low, double high) {
  if (!object.has(key)) {
    object.expect(key);
    return std::nullopt;
  }
  return object.number(key, low, high);
}

/// A shipped cluster's or instance's name in its own spelling, or a GPU's id.
std::string known_subject(ObjectReader& row, const GpuCatalogue& catalogue, int& gpus_per_node) {
  std::string text = row.text("for");
  if (!row.good("for")) {
    return text;
  }
  try {
    if (try_find_spec("cluster", text)) {
      const ClusterSpec cluster = resolve_cluster(text, catalogue);
      gpus_per_node = cluster.gpus_per_node;
      return cluster.name;
    }
    return catalogue.find(text).id;
  } catch (const SpecError& problem) {
    row.error("for", "neither a cluster nor a GPU: " + text, problem.what());
  }
  return text;
}

Price read_price(ObjectReader row, const GpuCatalogue& catalogue) {
  Price price;
  int gpus_per_node = 0;
  price.subject = known_subject(row, catalogue, gpus_per_node);
  price.hour = read_range(row, "per_gpu_hour", 1);
  price.purchase = read_range(row, "purchase_per_gpu", 1);
  for (const std::string_view key : {"per_node_hour", "purchase_per_node"}) {
    if (row.has(key) && gpus_per_node == 0 && row.good("for")) {
      row.error(key, "a GPU alone has no price per node", "write the price per GPU");
    }
  }
  const double share = gpus_per_node > 0 ? 1.0 / gpus_per_node : 1;
  if (auto node = read_range(row, "per_node_hour", share)) {
    price.hour = node;
  }
  if (auto node = read_range(row, "purchase_per_node", share)) {
    price.purchase = node;
  }
  if (!price.hour && !price.purchase) {
    row.error("", "a row without a price", "per_gpu_hour, per_node_hour, purchase_per_gpu or purchase_per_node");
  }
  price.kind = row.text("kind", "");
  price.date = row.text("date", "");
  price.source = row.text("source", "");
  row.ignore("note");
  row.close();
  return price;
}

PriceList read_prices(SpecDocument& document, const GpuCatalogue& catalogue) {
  ObjectReader root = document.root();
  PriceList list;
  list.currency = root.text("currency");
  list.date = root.text("date", "");
  list.source = root.text("source", document.name());
  if (auto rows = root.optional_array("prices")) {
    for (std::size_t i = 0; i < rows->size(); ++i) {
      list.prices.push_back(read_price(rows->object(i), catalogue));
    }
  }
  if (const auto price = read_optional(root, "electricity_per_kwh", 0, kMostMoney)) {
    list.electricity = Money(*price);
  }
  if (const auto factor = read_optional(root, "grid_kg_per_kwh", 0, 10)) {
    list.grid = Kilograms(*factor);
  }
  list.pue = read_optional(root, "pue", 1, 10);
  if (const auto power = read_optional(root, "node_kw", 0.01, 1000)) {
    list.node_power = Kilowatts(*power);
  }
  list.years = read_optional(root, "depreciation_years", 0.1, 50);
  list.resale = read_optional(root, "resale_share", 0, 1);
  list.financing = read_optional(root, "interest_per_year", 0, 1);
  if (const auto hosting = read_optional(root, "hosting_per_gpu_year", 0, kMostMoney)) {
    list.hosting = Money(*hosting);
  }
  root.ignore("note");
  root.close();
  document.finish();
  return list;
}

const Price* newest(const std::vector<Price>& prices, const std::string& subject,
                    std::optional<Between<Money>> Price::*kind) {
  const Price* found = nullptr;
  for (const Price& price : prices) {
    // Rows of one subject stand from old to new.
    if (price.subject == subject && price.*kind) {
      found = &price;
    }
  }
  return found;
}

const Price* price_of(const std::vector<Price>& prices, const ClusterSpec& cluster,
                      std::optional<Between<Money>> Price::*kind) {
  const Price* price = newest(prices, cluster.name, kind);
  return price != nullptr ? price : newest(prices, cluster.gpu.id, kind);
}

}  // namespace

const Price* PriceList::hourly(const ClusterSpec& cluster) const { return price_of(prices, cluster, &Price::hour); }
const Price* PriceList::purchase(const ClusterSpec& cluster) const {
  return price_of(prices, cluster, &Price::purchase);
}

PriceList load_prices(const std::string& path, const GpuCatalogue& catalogue) {
  SpecDocument document = SpecDocument::load(path);
  return read_prices(document, catalogue);
}

PriceList parse_prices(std::string name, std::string source, const GpuCatalogue& catalogue) {
  SpecDocument document = SpecDocument::parse(std::move(name), std::move(source));
  return read_prices(document, catalogue);
}

std::string origin_text(const Price& price, const PriceList& list) {
  std::string text = price.kind;
  for (const std::string& part :
       {price.date.empty() ? list.date : price.date, price.source.empty() ? list.source : price.source}) {
    text += (text.empty() || part.empty() ? "" : ", ") + part;
  }
  return text;
}

PriceList shipped_prices(const GpuCatalogue& catalogue) {
  PriceList list = load_prices(data_folder("clusters/prices") + "/listed.json", catalogue);
  list.shipped = true;
  return list;
}

}  // namespace tpplan
