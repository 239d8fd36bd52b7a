#include <doctest/doctest.h>

#include "planner/capacity/prices.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

std::string problems_of(const std::string& text) {
  try {
    (void)parse_prices("prices.json", text, shipped_gpus());
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a price file gives rent and purchase per GPU and what the site costs") {
  const PriceList list = parse_prices("prices.json", R"({
    "currency": "EUR", "date": "2026-11", "electricity_per_kwh": 0.15, "grid_kg_per_kwh": 0.35, "pue": 1.3,
    "depreciation_years": 4, "resale_share": 0.1, "interest_per_year": 0.05, "hosting_per_gpu_year": 900,
    "prices": [
      {"for": "h100-80gb-sxm", "per_gpu_hour": [2, 3], "purchase_per_gpu": 30000},
      {"for": "aws-p5.48xlarge", "per_node_hour": 98.32},
      {"for": "aws-p5.48xlarge", "per_node_hour": 55.04, "date": "2025-06"}]})",
                                      shipped_gpus());
  CHECK(list.currency == "EUR");
  CHECK(list.grid->raw() == 0.35);
  const Price* usual = list.hourly(resolve_cluster("4x8xh100-80gb-sxm"));
  REQUIRE(usual != nullptr);
  CHECK(usual->hour->value.raw() == 2.5);
  CHECK(usual->hour->high.raw() == 3);
  // An instance's own price goes before its GPU's, and the later row before the earlier; per node means 8 GPUs.
  const Price* instance = list.hourly(resolve_cluster("aws-p5.48xlarge"));
  REQUIRE(instance != nullptr);
  CHECK(instance->hour->value.raw() == doctest::Approx(6.88));
  CHECK(list.purchase(resolve_cluster("aws-p5.48xlarge"))->purchase->value.raw() == 30000);
  CHECK(list.hourly(resolve_cluster("8xA100")) == nullptr);
}

TEST_CASE("a price file with mistakes is refused with all of them at their places") {
  const std::string text = problems_of(R"({
  "curency": "EUR",
  "prices": [
    {"for": "h1000", "per_gpu_hour": 2},
    {"for": "h100-80gb-sxm", "per_node_hour": 2},
    {"for": "h100-80gb-sxm"},
    {"for": "h200-141gb-sxm", "per_gpu_hour": [3, 2]}]
})");
  for (const std::string_view part :
       {"prices.json:2", "currency", "prices.json:4", "neither a cluster nor a GPU", "prices.json:5",
        "a GPU alone has no price per node", "a row without a price", "the low price is above the high one"}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " in ", text);
  }
}

TEST_CASE("every shipped price has a date and a source and names something that can be planned") {
  const PriceList list = shipped_prices(shipped_gpus());
  CHECK(list.shipped);
  CHECK(list.currency == "USD");
  CHECK(list.prices.size() >= 20);
  for (const Price& price : list.prices) {
    CHECK_MESSAGE(!price.date.empty(), price.subject);
    CHECK_MESSAGE(!price.source.empty(), price.subject);
    REQUIRE(price.hour);
    // Nothing rents for less than 0.3 or more than 20 USD per GPU-hour.
    CHECK(price.hour->low.raw() > 0.3);
    CHECK(price.hour->high.raw() < 20);
  }
}
