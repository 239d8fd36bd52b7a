#include "planner/options.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "planner/commands/command.h"
#include "planner/commands/completion.h"
#include "planner/commands/help.h"
#include "planner/option_table.h"
#include "planner/option_values.h"
#include "planner/report/text_table.h"

namespace {

using namespace tpplan;

const std::vector<std::string> kJob{"--model", "7b", "--cluster", "8xA100"};

PlannerOptions parsed(std::vector<std::string> more) {
  more.insert(more.end(), kJob.begin(), kJob.end());
  return parse_options(more);
}

/// What is printed about a wrong command line, without the last line that points to the help.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const UsageError& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind('\n'));
  }
  return "accepted";
}

std::string refusal_of(std::vector<std::string> more) {
  more.insert(more.end(), kJob.begin(), kJob.end());
  return refusal(more);
}

const std::vector<int>& axis(const PlannerOptions& options, std::string_view name) {
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (kAxes[i].option == name) {
      return options.space.axes[i].values;
    }
  }
  throw std::logic_error("no such axis");
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> listed_options(std::string_view command) {
  std::vector<std::string> names;
  for (const OptionRow& row : option_rows()) {
    if (!row.hidden && belongs_to(row, command)) {
      names.push_back("--" + std::string(row.name));
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every command stands in the help once") {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::binary_search(names.begin(), names.end(), "sweep"));
}

TEST_CASE("plan is the command when none is named") {
  CHECK(parsed({}).command == "plan");
  CHECK(parse_options({"plan", "--model", "7b", "--cluster", "8xA100"}).command == "plan");
  CHECK(parse_options({}).command == "help");
}

TEST_CASE("an axis takes a list or a range or auto") {
  const PlannerOptions options = parsed({"--tp", "1,2,4", "--pp=1..4", "--dp", "8,1..3", "--cp", "auto"});
  CHECK(axis(options, "tp") == std::vector<int>{1, 2, 4});
  CHECK(axis(options, "pp") == std::vector<int>{1, 2, 3, 4});
  CHECK(axis(options, "dp") == std::vector<int>{1, 2, 3, 8});
  CHECK(axis(options, "cp").empty());
}

TEST_CASE("names of layout values are checked against the tables") {
  const PlannerOptions options =
      parsed({"--schedule", "1f1b,zb-h1", "--recompute", "none,selective:core_attn+mlp,full:4", "--cp-type", "ulysses",
              "--sequence-parallel", "off", "--offload", "optimizer", "--optimizer", "adam-8bit", "--zero", "0..1"});
  CHECK(options.space.schedules == std::vector<Schedule>{Schedule::f1b1, Schedule::zb_h1});
  CHECK(options.space.recompute == std::vector<std::string>{"none", "selective:core_attn+mlp", "full:4"});
  CHECK(options.space.cp_types == std::vector<CpType>{CpType::ulysses});
  CHECK(options.space.sequence_parallel == std::vector<bool>{false});
  CHECK(options.space.offloads == std::vector<Offload>{Offload::optimizer});
  CHECK(options.space.optimizers == std::vector<Optimizer>{Optimizer::adam_8bit});
  CHECK(options.space.zero == std::vector<int>{0, 1});
}

TEST_CASE("inputs and search options reach their members") {
  const PlannerOptions options = parsed({"--seq",
                                         "2048",
                                         "--global-batch",
                                         "96",
                                         "--precision",
                                         "fp8",
                                         "--fp8-recipe",
                                         "blockwise",
                                         "--framework",
                                         "torchtitan",
                                         "--date",
                                         "2024-06",
                                         "--calibration",
                                         "none",
                                         "--peft",
                                         "lora:rank=8:targets=q+v",
                                         "--memory-headroom",
                                         "5%",
                                         "--objective",
                                         "memory",
                                         "--top",
                                         "3",
                                         "--jobs",
                                         "2",
                                         "--timing",
                                         "-o",
                                         "a.csv",
                                         "--color",
                                         "never"});
  CHECK(options.seq == 2048);
  CHECK(options.global_batch == 96);
  CHECK(options.precision == Precision::fp8);
  CHECK(options.fp8_recipe == "blockwise");
  CHECK(options.framework == Framework::torchtitan);
  CHECK(options.date == "2024-06");
  CHECK(options.calibration == "none");
  CHECK(options.peft == PeftMethod::lora);
  CHECK(options.peft_rank == 8);
  CHECK(options.peft_targets == std::vector<std::string>{"q", "v"});
  CHECK(options.memory_headroom == doctest::Approx(0.05));
  CHECK(options.objective == Objective::memory);
  CHECK(options.top == 3);
  CHECK(options.jobs == 2);
  CHECK(options.timing);
  CHECK(options.output == "a.csv");
  CHECK(options.color == ColorMode::never);
}

TEST_CASE("what runs beside compute and when gradients are reduced is read by name") {
  const PlannerOptions options =
      parsed({"--overlap", "tp,ep=on,dp-grad=off", "--grad-reduce", "each,last", "--prefetch", "0"});
  TrainingSpec training;
  for (const OverlapChoice& overlap : options.overlaps) {
    training.*overlap.field = overlap.value;
  }
  CHECK(training.overlap_tp == Switch::on);
  CHECK(training.overlap_ep == Switch::on);
  CHECK(training.overlap_dp_grad == Switch::off);
  CHECK(training.overlap_pp == Switch::by_profile);
  CHECK(options.space.grad_reduces == std::vector<GradReduce>{GradReduce::each, GradReduce::last});
  CHECK(options.prefetch == 0);
  CHECK(parsed({}).overlaps.empty());
  CHECK(parsed({}).prefetch == -1);
  CHECK(refusal_of({"--overlap", "tq"}) == "tpplan: error: --overlap: unknown value \"tq\"; did you mean \"tp\"?");
  CHECK(refusal_of({"--overlap", "tp=yes"}) ==
        "tpplan: error: --overlap: tp: unknown value \"yes\"; expected on or off");
  CHECK(refusal_of({"--grad-reduce", "first"}) ==
        "tpplan: error: --grad-reduce: unknown value \"first\"; expected auto, each or last");
}

TEST_CASE("sizes of groups of the interleaved schedule are read as a list") {
  CHECK(parsed({"--vpp-group", "0,8,16"}).space.vpp_group == std::vector<int>{0, 8, 16});
  CHECK(parsed({}).space.vpp_group.empty());
  CHECK(refusal_of({"--vpp-group", "all"}).rfind("tpplan: error: --vpp-group: ", 0) == 0);
}

TEST_CASE("the suffix of -o decides the format unless --format is given") {
  CHECK(chosen_format(parsed({})) == OutputFormat::table);
  CHECK(chosen_format(parsed({"-o", "plan.json"})) == OutputFormat::json);
  CHECK(chosen_format(parsed({"-o", "plan.jsonl"})) == OutputFormat::jsonl);
  CHECK(chosen_format(parsed({"-o", "plan.md"})) == OutputFormat::markdown);
  CHECK(chosen_format(parsed({"-o", "plan.unknown"})) == OutputFormat::table);
  CHECK(chosen_format(parsed({"-o", "plan.json", "--format", "csv"})) == OutputFormat::csv);
}

TEST_CASE("a measured time is seconds or has a unit") {
  const auto seconds = [](const std::string& text) {
    return parse_options(
               {"explain", "--model", "7b", "--cluster", "8xA100", "--layout", "tp=8", "--measured-step", text})
        .measured_step->raw();
  };
  if (find_command("explain") != nullptr) {
    CHECK(seconds("3.5") == doctest::Approx(3.5));
    CHECK(seconds("1200 ms") == doctest::Approx(1.2));
  }
  std::optional<Seconds> time;
  CHECK(read_seconds("250 us", time).empty());
  CHECK(time->raw() == doctest::Approx(250e-6));
  CHECK_FALSE(read_seconds("fast", time).empty());
  CHECK_FALSE(read_seconds("0", time).empty());
}

TEST_CASE("a wrong value is answered with what was meant") {
  CHECK(refusal_of({"--precision", "bf17"}) ==
        "tpplan: error: --precision: unknown value \"bf17\"; did you mean \"bf16\"?");
  CHECK(refusal_of({"--framework", "megatronn"}) ==
        "tpplan: error: --framework: unknown value \"megatronn\"; did you mean \"megatron\"?");
  CHECK(refusal_of({"--objective", "speed"}) ==
        "tpplan: error: --objective: unknown value \"speed\"; expected step-time, memory or cost");
  CHECK(refusal_of({"--tp", "two"}) ==
        "tpplan: error: --tp: \"two\": expected a list such as 1,2,4, a range such as 1..8, or auto");
  CHECK(refusal_of({"--tp", "8..1"}) == "tpplan: error: --tp: the range 8..1 is empty; write 1..8");
  CHECK(refusal_of({"--tp", "0"}) ==
        "tpplan: error: --tp: 0 is out of bounds; expected whole numbers from 1 to 16777216");
  CHECK(refusal_of({"--zero", "4"}) == "tpplan: error: --zero: 4 is out of bounds; expected whole numbers from 0 to 3");
  CHECK(refusal_of({"--global-batch", "1000000000000"}) ==
        "tpplan: error: --global-batch: 1000000000000 is out of bounds; expected a whole number at least 1");
  CHECK(refusal_of({"--tp", "1..99999999999"}) ==
        "tpplan: error: --tp: 1..99999999999 is out of bounds; expected whole numbers from 1 to 16777216");
  CHECK(refusal_of({"--seq", "4k"}) == "tpplan: error: --seq: \"4k\" is not a whole number");
  CHECK(refusal_of({"--memory-headroom", "3"}) ==
        "tpplan: error: --memory-headroom: 3 is ambiguous; write 3% or a fraction below 1");
  CHECK(refusal_of({"--date", "June"}) ==
        "tpplan: error: --date: \"June\" is no date; write 2024, 2024-06 or 2024-06-30");
  CHECK(refusal_of({"--peft", "lora:r=8"}) ==
        "tpplan: error: --peft: \"r=8\": expected rank=N or targets=all (modules joined by +)");
  CHECK(contains(refusal_of({"--recompute", "selective:everything"}), "modules joined by +: core_attn"));
}

TEST_CASE("an unknown command or option is answered with the nearest one") {
  CHECK(refusal({"plam", "--model", "7b"}) == "tpplan: error: unknown command \"plam\"; did you mean \"plan\"?");
  CHECK(refusal_of({"--modle", "7b"}) == "tpplan: error: unknown option --modle; did you mean --model?");
  CHECK(refusal_of({"--xyzzy", "1"}) == "tpplan: error: unknown option --xyzzy");
}

TEST_CASE("options are never guessed from their beginning") {
  CHECK(contains(refusal_of({"--global", "8"}), "unknown option --global"));
  CHECK(contains(refusal_of({"--prec", "bf16"}), "unknown option --prec"));
}

TEST_CASE("all problems of a command line are reported at once") {
  CHECK(refusal_of({"--precision", "bf17", "--modle", "x", "--tp", "none"}) ==
        "tpplan: error: --precision: unknown value \"bf17\"; did you mean \"bf16\"?\n"
        "tpplan: error: unknown option --modle; did you mean --model?\n"
        "tpplan: error: --tp: \"none\": expected a list such as 1,2,4, a range such as 1..8, or auto");
  CHECK(refusal({"plan", "--top", "0"}) ==
        "tpplan: error: --top: 0 is out of bounds; expected a whole number from 1 to 1000000\n"
        "tpplan: error: --model is missing: a shipped name (tpplan models lists them) or a file\n"
        "tpplan: error: --cluster is missing: a shipped name (tpplan clusters lists them), a file, or NODESxGPUSxGPU");
}

TEST_CASE("an option without its value does not hide other problems") {
  CHECK(refusal({"--model", "7b", "--precision", "bf17", "--cluster"}) ==
        "tpplan: error: --cluster: a value is missing\n"
        "tpplan: error: --precision: unknown value \"bf17\"; did you mean \"bf16\"?");
  CHECK(contains(refusal_of({"--tp", "--timing"}), "--tp: a value is missing before --timing"));
}

TEST_CASE("an empty value is one problem") {
  CHECK(refusal({"plan", "--model", "", "--cluster", "8xA100"}) == "tpplan: error: --model: a value is missing");
  CHECK(refusal({"explain", "--model", "7b", "--cluster", "8xA100", "--layout", ""}) ==
        "tpplan: error: --layout: a value is missing");
}

TEST_CASE("standard input holds one file") {
  CHECK(refusal({"plan", "--model", "-", "--cluster", "-"}) ==
        "tpplan: error: --model and --cluster: only one of them can come from standard input");
}

TEST_CASE("help names the formats that a command writes") {
  const auto formats = [](const std::string& command) {
    const std::string help = full_help(command, 200);
    const std::size_t start = help.find("how to write the result: ");
    return help.substr(start, help.find(" (default", start) - start);
  };
  CHECK(formats("plan") == "how to write the result: table, json, jsonl, csv, md, html");
  CHECK(formats("models") == "how to write the result: table, json");
  CHECK(formats("diff") == "how to write the result: table, json, md");
}

TEST_CASE("an option of another command says which") {
  CHECK(refusal({"gpus", "--tp", "4"}) == "tpplan: error: --tp is no option of gpus (but of plan, report)");
}

TEST_CASE("a word too many is named") {
  CHECK(contains(refusal_of({"extra"}), "unknown command \"extra\"; commands: plan "));
  CHECK(refusal({"plan", "extra", "--model", "7b", "--cluster", "8xA100"}) ==
        "tpplan: error: unexpected word \"extra\"; plan takes options only");
}

TEST_CASE("a format that a command cannot write is refused") {
  CHECK(refusal({"gpus", "--format", "csv"}) == "tpplan: error: --format csv: gpus writes table, json");
  CHECK(refusal({"models", "-o", "list.csv"}) ==
        "tpplan: error: --output list.csv: models writes no csv; name another suffix or give --format (table, json)");
  CHECK(parse_options({"models", "-o", "list.csv", "--format", "json"}).format == OutputFormat::json);
  CHECK(parse_options({"models", "-o", "list.txt"}).output == "list.txt");
  CHECK(contains(refusal_of({"--format", "yaml"}),
                 "unknown value \"yaml\"; expected table, json, jsonl, csv, md or html"));
}

TEST_CASE("given options are repeated for another command as a shell reads them") {
  const PlannerOptions options = parsed({"--seq", "2048", "--tp", "2", "--timing", "--calibration", "my curves.json"});
  CHECK(options_text(options, "plan", {"timing"}) ==
        "--seq 2048 --tp 2 --calibration 'my curves.json' --model 7b --cluster 8xA100");
}

TEST_CASE("help lists exactly the options of a command") {
  for (const Command& command : commands()) {
    const std::string name(command.name);
    CAPTURE(name);
    const std::string brief = brief_help(name);
    const std::string full = full_help(name, 80);
    for (const OptionRow& row : option_rows()) {
      const std::string option = "--" + std::string(row.name);
      const std::string followed = option + (row.argument.empty() ? "\n" : " " + std::string(row.argument) + "\n");
      CAPTURE(option);
      CHECK(contains(full, followed) == (belongs_to(row, name) && !row.hidden));
      if (belongs_to(row, name) && !row.hidden) {
        CHECK(contains(brief, option));
      }
    }
  }
}

TEST_CASE("brief help fits on a screen of 80 columns") {
  for (const Command& command : commands()) {
    std::istringstream lines(brief_help(std::string(command.name)));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CAPTURE(line);
      // An example is there to be pasted and never broken.
      CHECK((display_width(line) <= 80 || contains(line, "  tpplan ")));
    }
    CHECK(count <= 40);
  }
}

TEST_CASE("brief help of plan starts with two examples") {
  const std::string help = brief_help("plan");
  CHECK(contains(help.substr(0, 300), "\n  tpplan --model 7b --cluster 8xA100\n  tpplan --model"));
}

TEST_CASE("every example of help is a valid command line") {
  for (const Command& command : commands()) {
    for (const std::string& line : split(command.examples, '\n')) {
      std::vector<std::string> words;
      std::istringstream stream(line.substr(0, line.find(" > ")));
      for (std::string word; stream >> word;) {
        word.erase(std::remove(word.begin(), word.end(), '"'), word.end());
        words.push_back(word);
      }
      if (words.empty() || line.find('"') != std::string::npos) {
        continue;
      }
      CAPTURE(line);
      words.erase(words.begin());
      CHECK(parse_options(words).command == command.name);
    }
  }
}

TEST_CASE("the manual page tells every command and option that help tells") {
  const std::string page = manual_page();
  for (const Command& command : commands()) {
    std::string title(command.name);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    CAPTURE(title);
    CHECK(contains(page, ".SH " + title + "\n"));
    for (const std::string& option : listed_options(command.name)) {
      std::string escaped;
      for (const char c : option) {
        escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      }
      CAPTURE(option);
      CHECK(contains(page, "\\fB" + escaped + "\\fR"));
    }
  }
}

TEST_CASE("completion of each shell offers every command and option") {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell);
    for (const Command& command : commands()) {
      CAPTURE(shell);
      CHECK(contains(script, std::string(command.name)));
      for (const std::string& option : listed_options(command.name)) {
        CAPTURE(option);
        CHECK(contains(script, shell == "fish" ? "-l " + option.substr(2) : option));
      }
    }
    CHECK(contains(script, "bf16"));
    CHECK(contains(script, "tpplan completion --names"));
  }
  CHECK(completion_script("tcsh").empty());
}

TEST_CASE("completion lists names of models and clusters and GPUs") {
  const auto names = [](const std::string& kind) {
    std::ostringstream out;
    std::ostringstream err;
    CHECK(run_completion(parse_options({"completion", "--names", kind}), out, err) == 0);
    return "\n" + out.str();
  };
  CHECK(contains(names("models"), "\n7b\n"));
  CHECK(contains(names("clusters"), "\n8xA100\n"));
  CHECK(contains(names("clusters"), "\n1x8xh100-80gb-sxm\n"));
  CHECK(contains(names("gpus"), "\na100-80gb-sxm\n"));
}
