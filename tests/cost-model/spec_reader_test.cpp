#include "cost-model/spec_reader.h"

#include <doctest/doctest.h>

#include <string>

using namespace tpplan;

namespace {

std::string syntax_error(const std::string& source) {
  try {
    SpecDocument::parse("f.json", source);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "accepted";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The report on a document after `read` has asked its root for keys.
template <typename Read>
std::string report(const std::string& source, Read read) {
  SpecDocument document = SpecDocument::parse("f.json", source);
  ObjectReader root = document.root();
  read(root);
  try {
    document.finish();
  } catch (const SpecError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("problems are shown like a compiler does and sorted by place") {
  const std::string source =
      "{\n"
      "  \"name\": \"x\",\n"
      "  \"gpus_per_nodes\": 8,\n"
      "  \"nodes\": 1,\n"
      "  \"gpu\": {\n"
      "    \"kind\": \"a\",\n"
      "    \"memory\": \"80 Gib\"\n"
      "  }\n"
      "}\n";
  const std::string text = report(source, [](ObjectReader& root) {
    root.text("name");
    ObjectReader gpu = root.object("gpu");
    gpu.bytes("memory");
    gpu.text("kind");
    root.count("gpus_per_node", 1, 72);
    root.count("nodes", 1, 1000);
  });
  // The missing key "gpus_per_node" is reported once, at its misspelt twin.
  CHECK(text ==
        "f.json:3:3: error: unknown key \"gpus_per_nodes\"\n"
        "    3 |   \"gpus_per_nodes\": 8,\n"
        "      |   ^ did you mean \"gpus_per_node\"?\n"
        "f.json:7:15: error: gpu.memory: unknown size unit \"Gib\"\n"
        "    7 |     \"memory\": \"80 Gib\"\n"
        "      |               ^ did you mean \"GiB\"?\n"
        "2 errors in f.json");
}

TEST_CASE("values are read with their type and bounds") {
  const std::string source =
      R"({"a": 14336.0, "b": 2.5, "c": true, "d": "t", "e": ["x", "y"], "f": [1, 2], "g": "200 Gbit/s", "h": null,
          "i": "3 us", "j": "2 TFLOP/s", "k": 1e3})";
  SpecDocument document = SpecDocument::parse("f.json", source);
  ObjectReader root = document.root();
  CHECK(root.count("a", 1, 1 << 20) == 14336);
  CHECK(root.number("b", 0, 3) == 2.5);
  CHECK(root.flag("c"));
  CHECK(root.choice("d", {"s", "t"}) == "t");
  CHECK(root.texts("e") == std::vector<std::string>{"x", "y"});
  CHECK(root.counts("f", 1, 2) == std::vector<std::int64_t>{1, 2});
  CHECK(root.bandwidth("g") == 25_GBps);
  CHECK_FALSE(root.has("h"));
  CHECK(root.has_null("h"));
  CHECK(root.count("h", 1, 9, 7) == 7);
  CHECK(root.seconds("i") == Seconds(3e-6));
  CHECK(root.flops_per_second("j") == FlopsPerSecond(2e12));
  CHECK(root.count("k", 0, 1000) == 1000);
  CHECK(root.text("absent", "fallback") == "fallback");
  CHECK(root.bytes("absent", 4_GiB) == 4_GiB);
  CHECK_FALSE(root.optional_object("absent").has_value());
  CHECK_NOTHROW(document.finish());
  CHECK(document.ok());
  CHECK(document.warnings().empty());
}

TEST_CASE("wrong types and bounds are reported with what stands there") {
  const auto one = [](const std::string& value) {
    return first_line(report("{\"n\": " + value + "}", [](ObjectReader& root) { root.count("n", 1, 100); }));
  };
  CHECK(one("\"x\"") == "f.json:1:7: error: n: expected a whole number, got the text \"x\"");
  CHECK(one("1.5") == "f.json:1:7: error: n: expected a whole number, got 1.5");
  CHECK(one("true") == "f.json:1:7: error: n: expected a whole number, got true");
  CHECK(one("[1]") == "f.json:1:7: error: n: expected a whole number, got a list");
  CHECK(one("null") == "f.json:1:7: error: n: must not be null");
  CHECK(one("-4") == "f.json:1:7: error: n: must be positive, got -4");
  CHECK(one("1e9") == "f.json:1:7: error: n: must be at most 100, got 1000000000");
  CHECK(one("NaN") == "f.json:1:7: error: n: expected a whole number, got NaN");
  CHECK(one("-Infinity") == "f.json:1:7: error: n: expected a whole number, got -Infinity");
  CHECK(one("1e999") == "f.json:1:7: error: n: expected a whole number, got 1e999");
}

TEST_CASE("a number without unit is answered with the way to write it") {
  CHECK(report(R"({"memory": 80})", [](ObjectReader& root) { root.bytes("memory"); }) ==
        "f.json:1:12: error: memory: a size needs a unit\n"
        "    1 | {\"memory\": 80}\n"
        "      |            ^ write \"80 GiB\"\n"
        "1 error in f.json");
}

TEST_CASE("bare NaN and Infinity are accepted where nobody reads them") {
  CHECK(report(R"({"eps": NaN, "limits": [0, -Infinity, Infinity]})", [](ObjectReader& root) {
          root.ignore("eps");
          root.ignore("limits");
        }) == "accepted");
}

TEST_CASE("keys are unknown only when no accessor asked for them") {
  CHECK(first_line(report(R"({"a": 1, "zzzz": 2})", [](ObjectReader& root) { root.count("a", 0, 9); })) ==
        "f.json:1:10: error: unknown key \"zzzz\"");
  CHECK(report(R"({"a": 1, "zzzz": 2})", [](ObjectReader& root) { root.ignore_rest(); }) == "accepted");
}

TEST_CASE("files of other tools are refused only for near misses of known keys") {
  const auto read = [](ObjectReader& root) {
    root.count("num_attention_heads", 1, 1000);
    root.count("head_dim", 1, 1000, 64);
    root.close_near_misses();
  };
  CHECK(report(R"({"num_attention_heads": 8, "use_cache": true, "torch_dtype": "x"})", read) == "accepted");
  CHECK(report(R"({"num_atention_heads": 8})", read) ==
        "f.json:1:2: error: unknown key \"num_atention_heads\"\n"
        "    1 | {\"num_atention_heads\": 8}\n"
        "      |  ^ did you mean \"num_attention_heads\"?\n"
        "1 error in f.json");
  CHECK(first_line(report(R"({"use_cache": true})", read)) == "f.json:1:1: error: missing key \"num_attention_heads\"");
}

TEST_CASE("elements of lists are named by their index") {
  CHECK(first_line(report(R"({"tiers": [{"span": 8}, {"span": 0}]})", [](ObjectReader& root) {
          ArrayReader tiers = root.array("tiers");
          for (std::size_t i = 0; i < tiers.size(); ++i) {
            tiers.object(i).count("span", 1, 100);
          }
        })) == "f.json:1:34: error: tiers[1].span: must be positive, got 0");
}

TEST_CASE("numbers written as text are read with a warning only when the reader allows it") {
  SpecDocument document = SpecDocument::parse("f.json", R"({"hidden_size": "4096"})");
  document.accept_text_numbers();
  CHECK(document.root().count("hidden_size", 1, 1 << 20) == 4096);
  CHECK_NOTHROW(document.finish());
  CHECK(document.warnings() ==
        "f.json:1:17: warning: hidden_size: number written as text\n"
        "    1 | {\"hidden_size\": \"4096\"}\n"
        "      |                 ^ read as 4096");
  CHECK(first_line(report(R"({"n": "4096"})", [](ObjectReader& root) { root.count("n", 1, 1 << 20); })) ==
        "f.json:1:7: error: n: expected a whole number, got the text \"4096\"");
}

TEST_CASE("bad syntax is reported with line and column") {
  CHECK(first_line(syntax_error("{\n  \"a\": 1,\n}\n")) == "f.json:2:9: error: trailing comma before \"}\"");
  CHECK(first_line(syntax_error("{\"a\": 1")) == "f.json:1:8: error: unexpected end of input");
  CHECK(first_line(syntax_error("{\"a\": 1 \"b\": 2}")) == "f.json:1:8: error: missing comma");
  CHECK(first_line(syntax_error("{\"a\" 1}")) == "f.json:1:6: error: expected \":\" after the key \"a\", got \"1\"");
  CHECK(first_line(syntax_error("{a: 1}")) == "f.json:1:2: error: expected a key in double quotes, got \"a\"");
  CHECK(first_line(syntax_error("{\"a\": 'x'}")) == "f.json:1:7: error: text in single quotes");
  CHECK(first_line(syntax_error("{\"a\": True}")) == "f.json:1:7: error: unexpected \"True\"");
  CHECK(first_line(syntax_error("{\"a\": 007}")) == "f.json:1:7: error: \"007\" is not a JSON number");
  CHECK(first_line(syntax_error("{\"a\": 80GiB}")) == "f.json:1:7: error: \"80GiB\" is not a JSON number");
  CHECK(first_line(syntax_error("{\"a\": +1}")) == "f.json:1:7: error: \"+1\" is not a JSON number");
  CHECK(first_line(syntax_error("{\"a\": .5}")) == "f.json:1:7: error: \".5\" is not a JSON number");
  CHECK(first_line(syntax_error("{\"a\": 1} {")) ==
        "f.json:1:10: error: unexpected \"{\" after the end of the JSON value");
  CHECK(first_line(syntax_error("{ // why\n}")) == "f.json:1:3: error: JSON has no comments");
  CHECK(first_line(syntax_error("{\"a\": \"x\ny\"}")) == "f.json:1:7: error: the text is not closed on its line");
  CHECK(first_line(syntax_error("{\"a\": \"\\q\"}")) == "f.json:1:8: error: unknown escape \"\\q\"");
  CHECK(first_line(syntax_error("{\"a\": \"\\ud800\"}")) == "f.json:1:8: error: half of a surrogate pair");
  CHECK(first_line(syntax_error("{\"a\": \"\xFF\"}")) == "f.json:1:8: error: the text is not valid UTF-8");
  CHECK(first_line(syntax_error("{\"a\": 1, \"a\": 2, \"b\": 3}")) == "accepted");
}

TEST_CASE("repeated keys are errors that name the first place") {
  CHECK(report("{\"a\": 1,\n \"a\": 2}", [](ObjectReader& root) { root.count("a", 0, 9); }) ==
        "f.json:2:2: error: duplicate key \"a\"\n"
        "    2 |  \"a\": 2}\n"
        "      |  ^ already given on line 1\n"
        "1 error in f.json");
}

TEST_CASE("files that are no JSON are told apart") {
  CHECK(first_line(syntax_error("")) == "f.json:1:1: error: the file is empty");
  CHECK(first_line(syntax_error(" \n\n")) == "f.json:1:1: error: the file is empty");
  CHECK(first_line(syntax_error("<!doctype html><html></html>")) ==
        "f.json:1:1: error: this is an HTML page, not JSON");
  CHECK(first_line(syntax_error("{\"metadata\": {}, \"weight_map\": {}}")) ==
        "f.json:1:18: error: this is a safetensors index, not a configuration");
  CHECK(first_line(syntax_error("version https://git-lfs.github.com/spec/v1\n")) ==
        "f.json:1:1: error: this is a Git LFS pointer, not the file it stands for");
  CHECK(first_line(syntax_error(std::string("\xFF\xFE{\0", 4))) == "f.json:1:1: error: the file is UTF-16");
}

TEST_CASE("a byte-order mark is skipped and does not shift columns") {
  CHECK(report("\xEF\xBB\xBF{\"a\": -1}", [](ObjectReader& root) { root.count("a", 0, 9); }) ==
        "f.json:1:7: error: a: must be at least 0, got -1\n"
        "    1 | {\"a\": -1}\n"
        "      |       ^\n"
        "1 error in f.json");
}

TEST_CASE("depth is limited to 64 levels") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(syntax_error(nested(64)) == "accepted");
  CHECK(first_line(syntax_error(nested(65))) == "f.json:1:65: error: nested deeper than 64 levels");
  CHECK(first_line(syntax_error(std::string(1000000, '['))) == "f.json:1:65: error: nested deeper than 64 levels");
}

TEST_CASE("a text over 64 MiB is refused") {
  CHECK(first_line(syntax_error(std::string((64 << 20) + 1, ' '))) ==
        "f.json:1:1: error: the file is larger than 64 MiB");
}

TEST_CASE("the caret stands under its column behind tabs and wide characters and in long lines") {
  CHECK(report("{\t\"\xC3\xA9\": 1,\t\"n\": 0}",
               [](ObjectReader& root) {
                 root.ignore("\xC3\xA9");
                 root.count("n", 1, 9);
               }) ==
        "f.json:1:16: error: n: must be positive, got 0\n"
        "    1 | {\t\"\xC3\xA9\": 1,\t\"n\": 0}\n"
        "      |  \t       \t     ^\n"
        "1 error in f.json");
  const std::string text =
      report("{\"pad\": \"" + std::string(300, 'x') + "\", \"n\": 0, \"end\": \"" + std::string(300, 'y') + "\"}",
             [](ObjectReader& root) {
               root.ignore("pad");
               root.ignore("end");
               root.count("n", 1, 9);
             });
  const std::string shown = text.substr(text.find('\n') + 1);
  CHECK(shown.substr(0, 12) == "    1 | ...x");
  const std::string source_line = shown.substr(0, shown.find('\n'));
  const std::string caret_line = shown.substr(shown.find('\n') + 1);
  CHECK(source_line.size() == 8 + 3 + 120 + 3);
  CHECK(source_line[caret_line.find('^')] == '0');
}

TEST_CASE("escapes decode to the characters they stand for") {
  SpecDocument document = SpecDocument::parse("f.json", R"({"a": "\u00e9\ud83d\ude00\n\/\"\\"})");
  CHECK(document.root().text("a") == "\xC3\xA9\xF0\x9F\x98\x80\n/\"\\");
}

TEST_CASE("at most twenty problems are printed and all are counted") {
  std::string source = "[";
  for (int i = 0; i < 30; ++i) {
    source += i == 0 ? "true" : ", true";
  }
  SpecDocument document = SpecDocument::parse("f.json", source + "]");
  ArrayReader list = document.root_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    list.number(i, 0, 1);
  }
  try {
    document.finish();
    FAIL("accepted");
  } catch (const SpecError& error) {
    const std::string text = error.what();
    CHECK(text.substr(text.rfind('\n') + 1) == "30 errors in f.json, the first 20 shown");
    CHECK(error.diagnostics().size() == 30);
  }
}

TEST_CASE("a missing file and a folder are named") {
  CHECK_THROWS_WITH_AS(SpecDocument::load("/nonexistent/x.json"),
                       "cannot open /nonexistent/x.json: No such file or directory", SpecError);
  CHECK_THROWS_WITH_AS(SpecDocument::load(TPPLAN_SOURCE_DIR), TPPLAN_SOURCE_DIR ": is a folder, not a file", SpecError);
}

TEST_CASE("the nearest name is found within a small distance") {
  const std::vector<std::string> names = {"hidden", "heads", "kv_heads", "head_dim", "h100-80gb-sxm"};
  CHECK(nearest_name("hiden", names) == "hidden");
  CHECK(nearest_name("hiddne", names) == "hidden");
  CHECK(nearest_name("Heads", names) == "heads");
  CHECK(nearest_name("h100", names) == "h100-80gb-sxm");
  CHECK_FALSE(nearest_name("vocabulary", names).has_value());
  CHECK_FALSE(nearest_name("x", {"y"}).has_value());
}
