#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/report/format.h"
#include "planner/report/output.h"

namespace {

using namespace tpplan;
using nlohmann::json;

Job example_job() {
  Job job;
  job.model.name = "tiny";
  job.model.layers = 4;
  job.model.hidden = 64;
  job.model.heads = 4;
  job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn_hidden = 256;
  job.model.vocab = 1000;
  job.cluster.name = "two nodes";
  job.cluster.gpu.id = "a100-80gb-sxm";
  job.cluster.gpu.name = "A100-SXM4-80GB";
  job.cluster.gpu.usable = 79_GiB;
  job.cluster.gpu.peak[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond(312e12);
  job.cluster.nodes = 2;
  job.cluster.gpus_per_node = 4;
  job.training.seq = 1024;
  job.training.global_batch = 64;
  job.profile.name = "megatron-2024";
  return job;
}

Plan example_plan(int tp, double seconds) {
  Plan plan;
  plan.layout.tp = tp;
  plan.layout.dp = 8 / tp;
  plan.layout.sequence_parallel = tp > 1;
  plan.layers_per_stage = {4};
  StepEstimate& step = plan.estimate.step;
  step.compute = Seconds(seconds * 0.75);
  step.tp_comm = Seconds(seconds * 0.25);
  step.model_flops = Flops(156e12 * seconds);
  step.step_error = 0.1;
  MemoryEstimate& memory = plan.estimate.memory;
  memory.weights = 20_GiB;
  memory.activations = 10_GiB;
  memory.allocator_slack = 2_GiB;
  memory.context = 1_GiB;
  memory.capacity = 79_GiB;
  return plan;
}

struct Example {
  Job job = example_job();
  SearchResult result;
  PlanReport report{job, result};

  Example() {
    result.plans = {example_plan(1, 2.0), example_plan(2, 2.1), example_plan(4, 3.0)};
    result.plans[1].tied_with_previous = true;
    result.plans[2].fits = Fits::tight;
    std::swap(result.plans[2].estimate.step.compute, result.plans[2].estimate.step.tp_comm);
    result.stats.rejected.assign(rules().size(), 0);
    result.stats.rejected[0] = 1200;
    result.stats.rejected[1] = 34;
    result.stats.enumerated = 1284;
    result.stats.out_of_memory = 40;
    result.stats.ranked = 10;
    report.assumed = {{"global batch", "64 sequences", "--global-batch"}};
    report.warnings = {"head size 12 is no multiple of 8"};
    report.inputs_text = "--model tiny --cluster mine.json";
  }
};

std::string written(const PlanReport& report, std::string_view format, const Terminal& terminal = {}) {
  std::string notes;
  for (const FormatRow& row : formats()) {
    if (row.name == format) {
      return row.write(report, terminal, notes);
    }
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Sets an environment variable for one test and puts the old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    had_value_ = old != nullptr;
    old_ = had_value_ ? old : "";
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (had_value_) {
      setenv(name_, old_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool had_value_ = false;
  std::string old_;
};

}  // namespace

TEST_CASE("the table answers on its first screen and fits 80 columns") {
  const Example example;
  const std::string text = written(example.report, "table");
  for (const std::string& line : lines_of(text)) {
    CAPTURE(line);
    // A command is never broken: it is there to be pasted.
    CHECK((display_width(line) <= 80 || contains(line, "tpplan explain") || contains(line, "tpplan export")));
    CHECK(std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  }
  // 64 sequences of 1,024 tokens in 2 s are 32,768 tokens/s, 4,096 per GPU; 156 of 312 TFLOP/s are half the peak.
  CHECK(contains(text, "throughput  4,096 tokens/s/GPU, 32,768 tokens/s, MFU 50.0 %"));
  CHECK(contains(text, "step time   2 s (80 % interval 1.82 s to 2.2 s)"));
  // 20 + 10 + 2 + 1 = 33 GiB of 79.
  CHECK(contains(text, "memory      33 GiB of 79 GiB per GPU (42 %), fits with 3 % kept free"));
  CHECK(contains(text, "bound by    compute (compute 75 %, tp_comm 25 %)"));
  CHECK(contains(text, "evaluated 1,284 layouts: 1,234 illegal (" + std::string(rules()[0].name) + " 1,200, "));
  CHECK(contains(text, "40 out of memory, 10 ranked"));
  CHECK(contains(text, "head size 12 is no multiple of 8"));
  CHECK(contains(text, "global batch: 64 sequences (--global-batch)"));
  CHECK(contains(text, "tpplan explain --model tiny --cluster mine.json --layout \"" +
                           to_text(example.result.plans[0].layout) + "\""));
}

TEST_CASE("the table marks ties and tight plans and says what the marks mean") {
  const Example example;
  const std::string text = written(example.report, "table");
  CHECK(contains(text, "2= "));
  CHECK(contains(text, "3 !"));
  CHECK(contains(text, "= tied with the plan above"));
  CHECK(contains(text, "! tight:"));
  Example plain;
  plain.result.plans.resize(1);
  CHECK_FALSE(contains(written(plain.report, "table"), "= tied"));
}

TEST_CASE("what all plans share is said once") {
  const Example example;
  const std::string text = written(example.report, "table");
  CHECK(contains(text, "all plans: zero=0 "));
  CHECK_FALSE(contains(lines_of(text)[9], " cp "));
}

TEST_CASE("a narrow terminal loses the least important columns and is told so") {
  const Example example;
  Terminal terminal;
  terminal.width = 50;
  std::string notes;
  const std::string text = table_report(example.report, terminal, notes);
  CHECK(contains(notes, "left out to fit 50 columns:"));
  CHECK(contains(notes, "bound by"));
  CHECK(contains(text, "step s"));
  std::string wide_notes;
  terminal.width = 200;
  CHECK(contains(table_report(example.report, terminal, wide_notes), "bound by\n"));
  CHECK(wide_notes.empty());
}

TEST_CASE("a text table drops columns by importance and aligns numbers right") {
  const TextTable table{{{"name", false, 2}, {"count", true, 1}, {"note", false, 0}},
                        {{"a", "1", "x"}, {"bb", "20", "y"}}};
  Terminal terminal;
  CHECK(table.render(terminal) == "name  count  note\na         1  x\nbb       20  y\n");
  terminal.width = 12;
  std::vector<std::string> dropped;
  CHECK(table.render(terminal, 0, &dropped) == "name  count\na         1\nbb       20\n");
  CHECK(dropped == std::vector<std::string>{"note"});
}

TEST_CASE("a text column is wrapped before a column of numbers is left out") {
  // 41 letters of the layout and two numbers need 54 columns.
  const TextTable table{{{"layout", false, 1}, {"step s", true, 0}, {"GiB", true, 0}},
                        {{"tp=1 pp=2 dp=4 vpp=8 micro-batch=2 zero=1", "113", "68"}, {"tp=8", "115", "7"}}};
  Terminal terminal;
  terminal.width = 50;
  std::vector<std::string> dropped;
  CHECK(table.render(terminal, 0, &dropped) ==
        "layout                                 step s  GiB\n"
        "tp=1 pp=2 dp=4 vpp=8 micro-batch=2        113   68\n"
        "  zero=1\n"
        "tp=8                                      115    7\n");
  CHECK(dropped.empty());
  // A path is broken behind a slash and any other word where the line is full.
  const TextTable path{{{"model", false, 1}, {"count", true, 0}},
                       {{"/data/of/hub/" + std::string(40, 'a'), "1"}, {std::string(50, 'b'), "2"}}};
  terminal.width = 42;
  CHECK(path.render(terminal) ==
        "model                                count\n"
        "/data/of/hub/                            1\n"
        "  " +
            std::string(33, 'a') + "\n  aaaaaaa\n" + std::string(35, 'b') + "      2\n  " + std::string(15, 'b') +
            "\n");
}

TEST_CASE("a wrapped column takes half of the width before others are left out") {
  const TextTable table{{{"text", false, 1}, {"count", true, 0}}, {{"twenty letters, a bit", "123456789012"}}};
  Terminal terminal;
  std::vector<std::string> dropped;
  terminal.width = 30;  // the text has what the number leaves, 16 of 21 letters
  CHECK(table.render(terminal, 0, &dropped) ==
        "text                     count\n"
        "twenty letters,   123456789012\n"
        "  a bit\n");
  CHECK(dropped.empty());
  terminal.width = 26;  // half of the width and the number are 27
  CHECK(table.render(terminal, 0, &dropped) == "text\ntwenty letters, a bit\n");
  CHECK(dropped == std::vector<std::string>{"count"});
}

TEST_CASE("numbers of tables have three or four significant digits") {
  CHECK(brief_number(3.2149) == "3.21");
  CHECK(brief_number(0.012345) == "0.0123");
  CHECK(brief_number(12.34) == "12.3");
  CHECK(brief_number(999.4) == "999");
  CHECK(brief_number(4012.3) == "4,012");
  CHECK(brief_number(0) == "0");
  CHECK(brief_number(-999999999999999.0) == "-999,999,999,999,999");
  CHECK(brief_number(1.234e30) == "1.23e+30");
  CHECK(brief_number(std::numeric_limits<double>::infinity()) == "-");
  CHECK(brief_number(std::numeric_limits<double>::quiet_NaN()) == "-");
}

TEST_CASE("text wraps between words and counts code points") {
  CHECK(wrap("one two three four", 24, 2) == "one two three four");
  CHECK(wrap("aaaaaaaaaaaaaaaaaaaa bbbb cccc", 26, 2) == "aaaaaaaaaaaaaaaaaaaa bbbb\n  cccc");
  // Started at column 4 the second word would end at column 29.
  CHECK(wrap("aaaaaaaaaaaaaaaaaaaa bbbb cccc", 26, 4, 4) == "aaaaaaaaaaaaaaaaaaaa\n    bbbb cccc");
  CHECK(display_width("\u00b1\u2013x") == 3);
}

TEST_CASE("colour follows the option before NO_COLOR before CLICOLOR_FORCE") {
  const Variable no_color("NO_COLOR", nullptr);
  const Variable clicolor("CLICOLOR", nullptr);
  const Variable forced("CLICOLOR_FORCE", nullptr);
  const Variable force_color("FORCE_COLOR", nullptr);
  constexpr int kNoTerminal = -1;
  CHECK_FALSE(Terminal::of(kNoTerminal, ColorMode::automatic).color);
  CHECK(Terminal::of(kNoTerminal, ColorMode::always).color);
  {
    const Variable on("CLICOLOR_FORCE", "1");
    CHECK(Terminal::of(kNoTerminal, ColorMode::automatic).color);
    CHECK_FALSE(Terminal::of(kNoTerminal, ColorMode::never).color);
    const Variable off("NO_COLOR", "1");
    CHECK_FALSE(Terminal::of(kNoTerminal, ColorMode::automatic).color);
    CHECK(Terminal::of(kNoTerminal, ColorMode::always).color);
  }
  const Variable zero("CLICOLOR_FORCE", "0");
  CHECK_FALSE(Terminal::of(kNoTerminal, ColorMode::automatic).color);
}

TEST_CASE("the width is COLUMNS or else 80 without a terminal") {
  constexpr int kNoTerminal = -1;
  {
    const Variable columns("COLUMNS", "132");
    CHECK(Terminal::of(kNoTerminal, ColorMode::automatic).width == 132);
  }
  const Variable columns("COLUMNS", nullptr);
  CHECK(Terminal::of(kNoTerminal, ColorMode::automatic).width == 80);
}

TEST_CASE("colour never changes the letters") {
  const Example example;
  Terminal terminal;
  terminal.color = true;
  std::string text = written(example.report, "table", terminal);
  CHECK(contains(text, "\033["));
  for (std::size_t at = text.find("\033["); at != std::string::npos; at = text.find("\033[")) {
    text.erase(at, text.find('m', at) - at + 1);
  }
  CHECK(text == written(example.report, "table"));
}

TEST_CASE("plan JSON has the members of its schema in order") {
  const Example example;
  const std::string text = written(example.report, "json");
  const auto document = nlohmann::ordered_json::parse(text);
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) {
      names.push_back(key);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(document["schema_version"] == 1);
  CHECK(keys(document) == Names{"schema_version", "inputs", "assumed", "warnings", "search", "plans"});
  CHECK(keys(document["search"]) ==
        Names{"enumerated", "rejected", "out_of_memory", "ranked", "simulated", "simulation_certain"});
  CHECK(keys(document["assumed"][0]) == Names{"what", "value", "set_by"});
  const auto& plan = document["plans"][0];
  CHECK(keys(plan) == Names{"rank", "layout", "step_time_s", "step_time_low_s", "step_time_high_s",
                            "simulated_step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "breakdown_s",
                            "memory_bytes", "fits", "bound_by", "tied_with_previous"});
  CHECK(keys(plan["layout"]) == Names{"dp",
                                      "tp",
                                      "pp",
                                      "cp",
                                      "ep",
                                      "etp",
                                      "vpp",
                                      "micro_batch",
                                      "micro_batches",
                                      "zero",
                                      "shard_group",
                                      "sequence_parallel",
                                      "recompute",
                                      "recompute_layers",
                                      "schedule",
                                      "layers_per_stage",
                                      "cp_type",
                                      "offload",
                                      "optimizer",
                                      "ranks_order",
                                      "grad_reduce"});
  CHECK(keys(plan["breakdown_s"]) == Names{"compute", "recompute", "tp_comm", "cp_comm", "ep_comm", "pp_comm",
                                           "dp_comm", "bubble", "optimizer", "host", "offload", "data"});
  CHECK(keys(plan["memory_bytes"]) == Names{"weights", "gradients", "optimizer", "activations", "loss", "gathered",
                                            "communication", "workspace", "allocator_slack", "context", "total",
                                            "allocated", "reserved", "low", "high", "capacity", "host_bytes", "stage",
                                            "moment"});
  CHECK(plan["layout"]["dp"] == 8);
  // 64 sequences over 8 replicas of one sequence each.
  CHECK(plan["layout"]["micro_batches"] == 8);
  CHECK(plan["step_time_s"] == 2.0);
  CHECK(plan["step_time_low_s"] == 1.81818182);
  CHECK(plan["mfu"] == 0.5);
  // 33 GiB are 35,433,480,192 bytes: nine digits of it.
  CHECK(plan["memory_bytes"]["total"] == 35433480200.0);
  CHECK(document["search"]["rejected"][std::string(rules()[0].name)] == 1200);
  CHECK(document["search"]["rejected"].size() == 2);
}

TEST_CASE("the time of the search is in the JSON only when asked for") {
  Example example;
  example.result.stats.seconds = 0.5;
  CHECK_FALSE(contains(written(example.report, "json"), "\"seconds\""));
  example.report.timing = true;
  const json document = json::parse(written(example.report, "json"));
  CHECK(document["search"]["seconds"] == 0.5);
  CHECK(document["search"].contains("load_seconds"));
}

TEST_CASE("JSON numbers have nine digits at most and are never NaN") {
  JsonWriter writer;
  writer.begin_line_array();
  writer.value(1.0 / 3).value(2.0).value(std::nan("")).value(1e300 * 1e300).value(std::int64_t{1} << 60);
  writer.end_array();
  CHECK(writer.text() == "[0.333333333, 2, 0, 0, 1152921504606846976]\n");
}

TEST_CASE("JSON text is escaped") {
  CHECK(json_quoted("a\"b\\c\n\t\x01") == "\"a\\\"b\\\\c\\n\\t\\u0001\"");
  CHECK(json::parse(json_quoted("tab\t \u00b5s \"x\"")) == "tab\t \u00b5s \"x\"");
}

TEST_CASE("JSON lines hold one plan each") {
  const Example example;
  const std::vector<std::string> lines = lines_of(written(example.report, "jsonl"));
  REQUIRE(lines.size() == 3);
  const json document = json::parse(written(example.report, "json"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(json::parse(lines[i]) == document["plans"][i]);
  }
}

TEST_CASE("CSV has one header and a line per plan in base units") {
  const Example example;
  const std::vector<std::string> lines = lines_of(written(example.report, "csv"));
  REQUIRE(lines.size() == 4);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> parts;
    std::istringstream stream(line);
    for (std::string part; std::getline(stream, part, ',');) {
      parts.push_back(part);
    }
    return parts;
  };
  const std::vector<std::string> header = cells(lines[0]);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    CHECK(cells(lines[i]).size() == header.size());
  }
  const auto value = [&](std::size_t line, const std::string& name) {
    const auto at = std::find(header.begin(), header.end(), name);
    return cells(lines[line])[static_cast<std::size_t>(at - header.begin())];
  };
  CHECK(value(1, "step_time_s") == "2");
  CHECK(value(2, "tp") == "2");
  CHECK(value(1, "total_bytes") == "3.54334802e+10");
  CHECK(value(3, "fits") == "tight");
}

TEST_CASE("groups of micro-batches are named where a plan has them") {
  Example example;
  CHECK_FALSE(contains(written(example.report, "json"), "vpp_group"));
  CHECK_FALSE(contains(written(example.report, "csv"), "vpp_group"));
  CHECK_FALSE(contains(written(example.report, "table"), "vpp-group"));
  example.result.plans[1].layout.vpp_group = 8;
  const json document = json::parse(written(example.report, "json"));
  CHECK_FALSE(document["plans"][0]["layout"].contains("vpp_group"));
  CHECK(document["plans"][1]["layout"]["vpp_group"] == 8);
  const auto lines = lines_of(written(example.report, "csv"));
  CHECK(contains(lines[0], ",micro_batch,vpp_group,micro_batches,"));
  CHECK(contains(lines[1], ",1,1,1,1,1,1,0,8,"));
  CHECK(contains(lines[2], ",1,1,1,1,1,1,8,16,"));
  CHECK(contains(written(example.report, "table"), "vpp-group"));
}

TEST_CASE("a CSV field is quoted when it holds a separator") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
}

TEST_CASE("Markdown tables have equal cells in each row") {
  const Example example;
  const std::string text = written(example.report, "md");
  std::ptrdiff_t bars = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.empty() || line.front() != '|') {
      bars = 0;
      continue;
    }
    const std::ptrdiff_t count = std::count(line.begin(), line.end(), '|');
    CAPTURE(line);
    CHECK((bars == 0 || bars == count));
    bars = count;
  }
  CHECK(contains(text, "| step time | 2 s"));
}

TEST_CASE("the HTML page asks for nothing outside itself") {
  const Example example;
  const std::string text = written(example.report, "html");
  CHECK(contains(text, "</html>"));
  for (std::size_t at = text.find("http"); at != std::string::npos; at = text.find("http", at + 1)) {
    // The name of SVG's vocabulary is no address that a browser follows.
    const bool name =
        text.compare(at, 26, "http://www.w3.org/2000/svg") == 0 || text.compare(at, 11, "http-equiv=") == 0;
    CHECK_MESSAGE(name, text.substr(at, 60));
  }
  CHECK_FALSE(contains(text, "src="));
}

TEST_CASE("when nothing fits the closest layout and what it lacks are told") {
  Example example;
  example.result.plans.clear();
  example.result.closest = example_plan(8, 4.0);
  // 87 GiB with slack and context against 79 GiB less 3 %, that is 76.63 GiB: 10.37 GiB too much.
  example.result.closest->estimate.memory.activations = 64_GiB;
  example.report.remedies = {"--cluster 4x4xa100-80gb-sxm (1.00 s per step)"};
  const std::string text = written(example.report, "table");
  CHECK(contains(text, "no layout fits"));
  CHECK(contains(text, "closest: " + to_text(example.result.closest->layout)));
  CHECK(contains(text, "needs 87 GiB per GPU, 10.4 GiB more than the 76.6 GiB"));
  CHECK(contains(text, "largest parts: activations 64 GiB, weights 20 GiB"));
  CHECK(contains(text, "would fit: --cluster 4x4xa100-80gb-sxm"));
  const json document = json::parse(written(example.report, "json"));
  CHECK(document["plans"].empty());
  CHECK(document["closest"]["missing_bytes"].get<double>() ==
        doctest::Approx(10.37 * 1024 * 1024 * 1024).epsilon(1e-6));
  CHECK(document["would_fit"].size() == 1);
}

TEST_CASE("when every layout is illegal the rules that forbid them are told") {
  Example example;
  example.result.plans.clear();
  const std::string text = written(example.report, "table");
  CHECK(contains(text, "1,200 break " + std::string(rules()[0].name)));
  CHECK(json::parse(written(example.report, "json"))["closest"].is_null());
}

TEST_CASE("a file is written whole and replaced whole") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "tpplan-report-test";
  fs::create_directories(folder);
  const std::string path = (folder / "plan.json").string();
  const auto content = [&] {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  write_file(path, "first");
  write_file(path, "second");
  CHECK(content() == "second");
  // Through a link the file behind it changes, and the link stays.
  const fs::path link = folder / "link.json";
  fs::remove(link);
  fs::create_symlink(path, link);
  write_file(link.string(), "third");
  CHECK(fs::is_symlink(link));
  CHECK(content() == "third");
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 2);
  CHECK_THROWS_AS(write_file((folder / "none" / "plan.json").string(), "x"), UsageError);
  fs::remove_all(folder);
}
