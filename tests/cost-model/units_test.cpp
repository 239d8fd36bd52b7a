#include "cost-model/units.h"

#include <doctest/doctest.h>

#include <limits>

using namespace tpplan;

namespace {

double parsed(std::string_view text, Dimension dimension) {
  UnitError error;
  const std::optional<double> value = parse_quantity(text, dimension, error);
  INFO(std::string(text), ": ", error.message);
  REQUIRE(value.has_value());
  return *value;
}

UnitError refused(std::string_view text, Dimension dimension) {
  UnitError error;
  CHECK_FALSE(parse_quantity(text, dimension, error).has_value());
  return error;
}

}  // namespace

TEST_CASE("quotients and products of quantities carry their dimension") {
  const Seconds time = 100_GiB / 50_GBps;
  CHECK(time.raw() == doctest::Approx(107374182400.0 / 50e9));
  CHECK((50_GBps * time) == 100_GiB);
  CHECK(100_GiB / 50_GiB == 2.0);
  static_assert(std::is_same_v<decltype(Flops(1) / Seconds(1)), FlopsPerSecond>);
}

TEST_CASE("quantities are read in binary and decimal units") {
  CHECK(parsed("80 GiB", Dimension::bytes) == 85899345920.0);
  CHECK(parsed("80GB", Dimension::bytes) == 80e9);
  CHECK(parsed("1.5 MiB", Dimension::bytes) == 1572864.0);
  CHECK(parsed(" 4 B ", Dimension::bytes) == 4.0);
  CHECK(parsed("200 Gbit/s", Dimension::bytes_per_second) == 25e9);
  CHECK(parsed("3.35 TB/s", Dimension::bytes_per_second) == 3.35e12);
  CHECK(parsed("312 TFLOP/s", Dimension::flops_per_second) == 312e12);
  CHECK(parsed("5 us", Dimension::seconds) == doctest::Approx(5e-6));
  CHECK(parsed("5 \xC2\xB5s", Dimension::seconds) == doctest::Approx(5e-6));
  CHECK(parsed("30 d", Dimension::seconds) == 2592000.0);
  CHECK(parsed("2e3 EFLOP", Dimension::flops) == 2e21);
}

TEST_CASE("rates that could be bits or bytes are refused with both spellings") {
  for (const char* text : {"200 Gbps", "200 Gb/s", "200 gbps"}) {
    const UnitError error = refused(text, Dimension::bytes_per_second);
    CHECK(error.message.substr(0, 24) == "ambiguous bandwidth unit");
    CHECK(error.hint == "write \"Gbit/s\" for bits or \"GB/s\" for bytes");
    CHECK(error.unit_offset == 4);
  }
}

TEST_CASE("a misspelt unit is answered with the one that was meant") {
  CHECK(refused("80 Gib", Dimension::bytes).message == "unknown size unit \"Gib\"");
  CHECK(refused("80 Gib", Dimension::bytes).hint == "did you mean \"GiB\"?");
  CHECK(refused("80 Gb", Dimension::bytes).hint == "did you mean \"GB\"?");
  CHECK(refused("80 G", Dimension::bytes).hint == "did you mean \"GiB\"?");
  CHECK(refused("312 TFLOPS", Dimension::flops_per_second).hint == "did you mean \"TFLOP/s\"?");
  CHECK(refused("900 GBps", Dimension::bytes_per_second).hint == "did you mean \"GB/s\"?");
  CHECK(refused("5 parsec", Dimension::seconds).hint == "units of time: s, ms, us, ns, min, h, d");
}

TEST_CASE("a unit of another dimension is named") {
  const UnitError error = refused("80 GB/s", Dimension::bytes);
  CHECK(error.message == "\"GB/s\" is a bandwidth unit, not a size unit");
  CHECK(error.hint == "write it like \"1 GiB\"");
}

TEST_CASE("a text that is no quantity is refused with the way to write it") {
  CHECK(refused("80", Dimension::bytes).message == "a size needs a unit");
  CHECK(refused("80", Dimension::bytes).hint == "write \"80 GiB\"");
  CHECK(refused("", Dimension::seconds).message == "expected a time, got \"\"");
  CHECK(refused("inf GiB", Dimension::bytes).message == "expected a size, got \"inf GiB\"");
  CHECK(refused("1e999 GiB", Dimension::bytes).message == "expected a size, got \"1e999 GiB\"");
  CHECK(refused("-4 GiB", Dimension::bytes).message == "a size cannot be negative");
}

TEST_CASE("quantities print with three or four digits in the unit a reader expects") {
  CHECK(format(80_GiB) == "80 GiB");
  CHECK(format(Bytes(79.15 * 1073741824)) == "79.2 GiB");
  CHECK(format(1536_KiB) == "1.5 MiB");
  CHECK(format(12_B) == "12 B");
  CHECK(format(Bytes(0)) == "0 GiB");
  CHECK(format(Bytes(-2147483648.0)) == "-2 GiB");
  CHECK(format(25_GBps) == "25 GB/s");
  CHECK(format(BytesPerSecond(3.35e12)) == "3350 GB/s");
  CHECK(format(FlopsPerSecond(989.4e12)) == "989.4 TFLOP/s");
  CHECK(format(1.234_s) == "1.23 s");
  CHECK(format(Seconds(0.0123456)) == "12.3 ms");
  CHECK(format(5_us) == "5 us");
  CHECK(format(Seconds(std::numeric_limits<double>::infinity())) == "n/a");
}

TEST_CASE("a value just below a unit step is not printed as a thousand of the smaller unit") {
  CHECK(format(Seconds(0.99999)) == "1 s");
  CHECK(format(Seconds(0.00099999)) == "1 ms");
}

TEST_CASE("machine output is the shortest form of nine digits and never NaN") {
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(1.0 / 3) == "0.333333333");
  CHECK(shortest(123456789) == "123456789");
  CHECK(shortest(-0.0) == "0");
  CHECK(shortest(std::numeric_limits<double>::quiet_NaN()) == "0");
  CHECK(shortest(std::numeric_limits<double>::infinity()) == "0");
}

TEST_CASE("counts are grouped by thousands") {
  CHECK(with_separators(6738415616) == "6,738,415,616");
  CHECK(with_separators(999) == "999");
  CHECK(with_separators(1000) == "1,000");
  CHECK(with_separators(-123456) == "-123,456");
}
