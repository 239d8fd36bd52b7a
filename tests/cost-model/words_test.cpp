#include "cost-model/words.h"

#include <doctest/doctest.h>

using namespace tpplan;

TEST_CASE("lower case touches letters of ASCII alone") {
  CHECK(lower("H100-SXM 80GB") == "h100-sxm 80gb");
  CHECK(lower("\xC3\x84") == "\xC3\x84");
  CHECK(lower("") == "");
}

TEST_CASE("words are joined by separators between them") {
  CHECK(joined({"a", "b", "c"}, ", ") == "a, b, c");
  CHECK(joined({"a"}, ", ") == "a");
  CHECK(joined({}, ", ") == "");
}
