// Runs the program itself: exit codes, streams and files, which only main decides.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/rules.h"

namespace {

namespace fs = std::filesystem;

const std::string kProgram = TPPLAN_BINARY_DIR "/bin/tpplan";

struct Run {
  int code = -1;
  std::string out, err;
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder that is gone after the test.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "tpplan-cli-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

/// Runs a shell line in which $TPPLAN is the program.
Run shell(const std::string& line) {
  const Scratch scratch;
  const std::string err_file = scratch.file("stderr");
  const std::string command =
      "export TPPLAN='" + kProgram + "'; export COLUMNS=200; { " + line + "; } 2>'" + err_file + "' </dev/null";
  Run run;
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    run.out.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.err = content(err_file);
  return run;
}

Run program(const std::string& arguments) { return shell("\"$TPPLAN\" " + arguments); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string kJob = "--model 7b --cluster 8xA100";

}  // namespace

TEST_CASE("a plan is found with exit code 0 and nothing on standard error") {
  const Run run = program(kJob);
  CHECK(run.code == 0);
  CHECK(contains(run.out, "step time"));
  CHECK(contains(run.out, "next\n"));
  CHECK(run.err.empty());
}

TEST_CASE("nothing fits ends with 1 and still answers on standard output") {
  const Run run = program("--model 70b --cluster 1x1xa100-80gb-sxm");
  CHECK(run.code == 1);
  CHECK(contains(run.out, "no layout fits"));
  CHECK(contains(run.out, "closest: "));
  CHECK(contains(run.out, "would fit: --cluster "));
}

TEST_CASE("bad input ends with 2 and leaves standard output empty") {
  for (const std::string arguments :
       {"plam", "--modle 7b", "--model 7b", "--model no-such-model --cluster 8xA100",
        "--model 7b --cluster 8xA100 --precision bf17", "gpus --format csv", "completion tcsh", "help nothing"}) {
    const Run run = program(arguments);
    CAPTURE(arguments);
    CHECK(run.code == 2);
    CHECK(run.out.empty());
    CHECK(contains(run.err, "error: "));
  }
}

TEST_CASE("problems of the model and of the cluster are told together") {
  const Run run = program("--model no-such-model --cluster no-such-cluster");
  CHECK(run.code == 2);
  CHECK(contains(run.err, "no-such-model"));
  CHECK(contains(run.err, "no-such-cluster"));
}

TEST_CASE("a folder or a missing file instead of a file is named as what it is") {
  const Scratch scratch;
  const std::string folder = scratch.file("");
  const std::string job = "--model 7b --cluster 8xA100";
  for (const std::string& command :
       {std::string("validate "), std::string("calibrate -o " + scratch.file("o.json") + " "), std::string("sweep "),
        std::string("clusters --from "), "simulate " + job + " --layout pp=2 --schedule ",
        "report " + job + " --tokens 1T --price ", "plan " + job + " --calibration "}) {
    CAPTURE(command);
    const Run run = program(command + folder);
    CHECK(run.code == 2);
    CHECK(contains(run.err, "tpplan: error: " + folder + ": is a folder, not a file\n"));
    const Run missing = program(command + "/no/such/file");
    CHECK(missing.code == 2);
    CHECK(contains(missing.err, "tpplan: error: cannot open /no/such/file: No such file or directory\n"));
  }
}

TEST_CASE("every problem of a job starts with the program's name") {
  const Run run = program("--model opt-1.3b --cluster 8xA100 --precision nvfp4 --seq 100000");
  CHECK(run.code == 2);
  CHECK(contains(run.err, "tpplan: error: A100-SXM4-80GB has no nvfp4 matrix units"));
  CHECK(contains(run.err, "\ntpplan: error: --seq 100000 is longer"));
}

TEST_CASE("a full disk ends with 3") {
  if (!fs::exists("/dev/full")) {
    return;
  }
  const Run full = program(kJob + " > /dev/full");
  CHECK(full.code == 3);
  CHECK(contains(full.err, "tpplan: error: cannot write standard output\n"));
  CHECK(program(kJob + " -o /dev/full").code == 3);
}

TEST_CASE("a place that cannot be written ends with 2") {
  const Run run = program(kJob + " -o /no/such/folder/plan.json");
  CHECK(run.code == 2);
  CHECK(contains(run.err, "cannot write /no/such/folder/plan.json"));
}

TEST_CASE("the version is one line with version and build type") {
  const Run run = program("--version");
  CHECK(run.code == 0);
  CHECK(run.out.substr(0, 7 + std::string(TPPLAN_VERSION).size()) == "tpplan " TPPLAN_VERSION);
  CHECK(run.out.find('\n') == run.out.size() - 1);
}

TEST_CASE("help is reached by every usual way") {
  const std::string full = program("help plan").out;
  CHECK(contains(full, "--global-batch N"));
  CHECK(program("plan --help").out == full);
  CHECK(program("--help").out == full);
  CHECK(program("").out == full);
  CHECK(program("help gpus").out == program("gpus --help").out);
  CHECK(program("-h").out != full);
  CHECK(program("--help").err.empty());
}

TEST_CASE("the suffix of -o decides the format and nothing else is left behind") {
  const Scratch scratch;
  const Run run = program(kJob + " -o '" + scratch.file("plan.json") + "'");
  CHECK(run.code == 0);
  CHECK(run.out.empty());
  CHECK(scratch.files() == 1);
  const auto document = nlohmann::json::parse(content(scratch.file("plan.json")));
  CHECK(document["plans"].size() >= 3);
  CHECK(content(scratch.file("plan.json")) == program(kJob + " --format json").out);
}

TEST_CASE("every format gives the same bytes again and with more threads") {
  for (const std::string format : {"table", "json", "jsonl", "csv", "md", "html"}) {
    CAPTURE(format);
    const Run first = program(kJob + " --format " + format);
    CHECK(first.code == 0);
    CHECK_FALSE(first.out.empty());
    CHECK(program(kJob + " --jobs 4 --format " + format).out == first.out);
  }
}

TEST_CASE("parts of the JSON add up") {
  const auto document = nlohmann::json::parse(program(kJob + " --format json").out);
  for (const auto& plan : document["plans"]) {
    double seconds = 0;
    for (const auto& [key, value] : plan["breakdown_s"].items()) {
      seconds += value.get<double>();
    }
    // Every number is rounded to nine digits.
    CHECK(seconds == doctest::Approx(plan["step_time_s"].get<double>()).epsilon(1e-7));
    const auto& memory = plan["memory_bytes"];
    double bytes = 0;
    for (const char* key :
         {"weights", "gradients", "optimizer", "activations", "loss", "gathered", "communication", "workspace"}) {
      bytes += memory[key].get<double>();
    }
    CHECK(bytes == doctest::Approx(memory["allocated"].get<double>()).epsilon(1e-7));
    bytes += memory["allocator_slack"].get<double>();
    CHECK(bytes == doctest::Approx(memory["reserved"].get<double>()).epsilon(1e-7));
    bytes += memory["context"].get<double>();
    CHECK(bytes == doctest::Approx(memory["total"].get<double>()).epsilon(1e-7));
  }
  const auto& search = document["search"];
  long long rejected = 0;
  for (const auto& [rule, count] : search["rejected"].items()) {
    rejected += count.get<long long>();
  }
  CHECK(search["enumerated"] ==
        rejected + search["out_of_memory"].get<long long>() + search["ranked"].get<long long>());
}

TEST_CASE("a reader that stops early is no failure to report") {
  const Run run = shell("\"$TPPLAN\" " + kJob + " --format json | head -n 1");
  CHECK(run.out == "{\n");
  CHECK(run.err.empty());
}

TEST_CASE("timing is told on standard error only when asked for") {
  const Run run = program(kJob + " --timing --format json");
  CHECK(contains(run.err, "loaded in "));
  CHECK(nlohmann::json::parse(run.out)["search"].contains("seconds"));
}

TEST_CASE("a restriction is obeyed and a layout is repeated by the next command") {
  const auto document = nlohmann::json::parse(program(kJob + " --tp 4 --pp 1..2 --format json").out);
  for (const auto& plan : document["plans"]) {
    CHECK(plan["layout"]["tp"] == 4);
    CHECK(plan["layout"]["pp"] <= 2);
  }
  CHECK(document["plans"].size() >= 3);
  CHECK(nlohmann::json::parse(program(kJob + " --top 2 --format json").out)["plans"].size() == 2);
}

TEST_CASE("bash accepts the completion script and completes with it") {
  const Run run = shell(
      "PATH=\"$(dirname \"$TPPLAN\"):$PATH\" bash -c '. <(tpplan completion bash); "
      "COMP_WORDS=(tpplan --precision bf); COMP_CWORD=2; _tpplan; echo \"${COMPREPLY[*]}\"; "
      "COMP_WORDS=(tpplan plan --mod); COMP_CWORD=2; _tpplan; echo \"${COMPREPLY[*]}\"; "
      "COMP_WORDS=(tpplan --cluster 8xA100-P); COMP_CWORD=2; _tpplan; echo \"${COMPREPLY[*]}\"; "
      "COMP_WORDS=(tpplan comp); COMP_CWORD=1; _tpplan; echo \"${COMPREPLY[*]}\"'");
  CHECK(run.err.empty());
  CHECK(run.out == "bf16\n--model\n8xA100-PCIe\ncompletion\n");
}

TEST_CASE("the example of explain breaks every rule that a command line can break") {
  const std::string script = content(TPPLAN_SOURCE_DIR "/examples/explain-rules/run.sh");
  for (const tpplan::Rule& rule : tpplan::rules()) {
    // A size below one is refused before any rule is asked.
    if (rule.name != "axes-positive") {
      CAPTURE(std::string(rule.name));
      CHECK(contains(script, "\nbreaks " + std::string(rule.name) + " "));
    }
  }
}
