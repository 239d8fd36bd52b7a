#include "planner/report/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "planner/report/gantt.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using nlohmann::json;

namespace {

SimulatedStep step_of(Schedule schedule, int pp, int vpp, int global_batch) {
  const Job job = tests::priced_job(tests::llama_7b(), "a100-80gb-sxm", 2, 8, 4096, global_batch);
  Layout layout;
  layout.tp = 2;
  layout.pp = pp;
  layout.dp = 16 / (2 * pp);
  layout.vpp = vpp;
  layout.etp = 2;
  layout.zero = 1;
  layout.sequence_parallel = true;
  layout.schedule = schedule;
  return simulate(job, layout);
}

json trace_of(const SimulatedStep& step, std::string* note = nullptr, std::size_t most = kMostTraceEvents) {
  std::string said;
  json trace = json::parse(chrome_trace(step, said, most));
  if (note != nullptr) {
    *note = said;
  }
  return trace;
}

/// Start and end in nanoseconds, which the text states exactly.
std::pair<long long, long long> span_of(const json& event) {
  const auto ns = [](const json& value) { return std::llround(value.get<double>() * 1000); };
  return {ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])};
}

using Thread = std::pair<int, int>;

std::map<Thread, std::vector<std::pair<long long, long long>>> slices_of(const json& trace) {
  std::map<Thread, std::vector<std::pair<long long, long long>>> slices;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      slices[{event["pid"].get<int>(), event["tid"].get<int>()}].push_back(span_of(event));
    }
  }
  return slices;
}

}  // namespace

namespace {

/// Every slice lies within those of its thread that are open when it starts.
void check_nesting(const json& trace) {
  for (auto& entry : slices_of(trace)) {
    const auto& thread = entry.first;
    auto spans = entry.second;
    CAPTURE(thread.first);
    CAPTURE(thread.second);
    // Of slices that start together the longer one stands first.
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<long long> open;
    for (const auto& span : spans) {
      while (!open.empty() && open.back() <= span.first) {
        open.pop_back();
      }
      REQUIRE((open.empty() || span.second <= open.back()));
      open.push_back(span.second);
    }
  }
}

}  // namespace

TEST_CASE("slices of one thread nest or do not overlap") {
  for (const auto& [schedule, vpp] :
       {std::pair{Schedule::f1b1, 1}, std::pair{Schedule::interleaved, 2}, std::pair{Schedule::zb_v, 2},
        std::pair{Schedule::dualpipe, 1}, std::pair{Schedule::zb_2p, 1}}) {
    for (const int pp : {2, 4, 8}) {
      const json trace = trace_of(step_of(schedule, pp, vpp, 64));
      CHECK(slices_of(trace).size() > static_cast<std::size_t>(pp));
      check_nesting(trace);
    }
  }
}

TEST_CASE("launches and loads have threads of their own and nest") {
  Job job = tests::priced_job(tests::llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 16, Framework::plain);
  REQUIRE(job.profile.kernel_gap_s > 0);
  job.profile.launch_s = 100e-6;  // slower than the layers
  Layout layout;
  layout.pp = 4;
  layout.dp = 2;
  const json trace = trace_of(simulate(job, layout, parse_what_if("data=3ms", 8)));
  check_nesting(trace);
  const auto slices = slices_of(trace);
  const int loading = static_cast<int>(StreamKind::data) + 1;
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(slices.count({stage, static_cast<int>(StreamKind::host) + 1}) == 1);
    CHECK(slices.count({stage, loading}) == (stage == 0 || stage == 3 ? 1 : 0));
  }
  CHECK(slices.at({0, loading}).size() == 8);
}

TEST_CASE("streams of experts and context and FSDP show in a trace and nest") {
  const Job job = tests::priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 2, 8, 4096, 16);
  Layout layout;
  layout.tp = 2;
  layout.cp = 2;
  layout.dp = 4;
  layout.ep = 4;
  layout.zero = 3;
  layout.sequence_parallel = true;
  const auto step = simulate(job, layout);
  auto slices = slices_of(trace_of(step));
  for (const StreamKind kind : {StreamKind::tensor_parallel, StreamKind::context_parallel, StreamKind::expert_parallel,
                                StreamKind::parameter_gather, StreamKind::data_parallel}) {
    auto& spans = slices[{0, static_cast<int>(kind) + 1}];
    CAPTURE(static_cast<int>(kind));
    REQUIRE(!spans.empty());
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      REQUIRE(spans[i - 1].second <= spans[i].first);
    }
  }
}

TEST_CASE("every process and thread of a trace is named and sorted") {
  const json trace = trace_of(step_of(Schedule::f1b1, 4, 1, 16));
  CHECK(trace["displayTimeUnit"] == "ms");
  std::set<int> named, sorted_processes;
  std::set<Thread> threads, sorted_threads, used;
  for (const auto& event : trace["traceEvents"]) {
    REQUIRE(event["pid"].is_number_integer());
    REQUIRE(event["tid"].is_number_integer());
    const int process = event["pid"].get<int>();
    const Thread thread{process, event["tid"].get<int>()};
    if (event["ph"] == "M") {
      const std::string name = event["name"].get<std::string>();
      if (name == "process_name") {
        named.insert(process);
        CHECK(event["args"]["name"] == "stage " + std::to_string(process));
      } else if (name == "process_sort_index") {
        sorted_processes.insert(process);
      } else {
        (name == "thread_name" ? threads : sorted_threads).insert(thread);
      }
    } else if (event["ph"] == "X") {
      used.insert(thread);
    }
  }
  CHECK(named == std::set<int>{0, 1, 2, 3});
  CHECK(sorted_processes == named);
  CHECK(threads == sorted_threads);
  CHECK(std::includes(threads.begin(), threads.end(), used.begin(), used.end()));
}

TEST_CASE("every flow leads from a send to the receive of the same pass") {
  const json trace = trace_of(step_of(Schedule::interleaved, 4, 2, 32));
  std::map<int, json> starts, ends;
  std::map<std::pair<Thread, double>, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "s") {
      CHECK(starts.emplace(event["id"].get<int>(), event).second);
    } else if (event["ph"] == "f") {
      CHECK(ends.emplace(event["id"].get<int>(), event).second);
    } else if (event["ph"] == "X") {
      names[{{event["pid"].get<int>(), event["tid"].get<int>()}, event["ts"].get<double>()}] =
          event["name"].get<std::string>();
    }
  }
  // 4 ranks x 2 chunks: 7 hops each way for each of 16 micro-batches (32 sequences, dp 2).
  REQUIRE(starts.size() == 7 * 2 * 16);
  REQUIRE(ends.size() == starts.size());
  for (const auto& [id, start] : starts) {
    const json& end = ends.at(id);
    CHECK(end["bp"] == "e");
    CHECK(end["cat"] == start["cat"]);
    CHECK(end["ts"].get<double>() >= start["ts"].get<double>());
    const auto name_at = [&names](const json& event) {
      return names.at({{event["pid"].get<int>(), event["tid"].get<int>()}, event["ts"].get<double>()});
    };
    CHECK(name_at(start).substr(0, 5) == "send ");
    CHECK("receive " + name_at(start).substr(5) == name_at(end));
  }
}

TEST_CASE("alike passes have one name but for numbers and say their micro-batch") {
  std::set<std::string> words;
  const json trace = trace_of(step_of(Schedule::zb_h1, 4, 1, 16));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      std::string name = event["name"].get<std::string>();
      name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }), name.end());
      words.insert(name);
      const std::set<std::string> of_step{"gather parameters", "reduce gradients", "optimizer", "clip gradients",
                                          "fixed time of a step"};
      CHECK(event["args"].contains("micro_batch") == (of_step.count(name) == 0));
    }
  }
  for (const char* name : {"F ", "B ", "W ", "send F ", "send B ", "receive F ", "receive B ", "gather parameters",
                           "reduce gradients", "optimizer", "weight gradients", "fixed time of a step"}) {
    CAPTURE(name);
    CHECK(words.count(name) == 1);
  }
}

TEST_CASE("traffic inside a pass has threads of its own and lies within the pass") {
  const auto step = step_of(Schedule::f1b1, 4, 1, 16);
  REQUIRE(!step.parts.empty());
  std::vector<double> sums(step.operations.size(), 0);
  bool tensor_parallel = false;
  for (const auto& part : step.parts) {
    const auto& pass = step.operations[part.operation];
    CHECK(pass.kind == SimulatedKind::pass);
    CHECK(part.start >= pass.start - 1e-12);
    CHECK(part.end <= pass.end + 1e-12);
    sums[part.operation] += part.end - part.start;
    tensor_parallel = tensor_parallel || part.stream == StreamKind::tensor_parallel;
  }
  CHECK(tensor_parallel);
  for (std::size_t i = 0; i < step.operations.size(); ++i) {
    const auto& pass = step.operations[i];
    // Passes that wait for parameters between their layers take longer than their parts.
    if (pass.kind == SimulatedKind::pass && pass.pass.micro_batch > 0) {
      CHECK(sums[i] == doctest::Approx(pass.end - pass.start).epsilon(1e-6));
    }
  }
}

TEST_CASE("the memory counter of every stage rises to its peak and falls to nothing") {
  const auto step = step_of(Schedule::f1b1, 4, 1, 16);
  std::map<int, std::vector<double>> activations;
  const json trace = trace_of(step);
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "C") {
      activations[event["pid"].get<int>()].push_back(event["args"]["activations"].get<double>());
      CHECK(event["args"]["states"].get<double>() > 0);
    }
  }
  REQUIRE(activations.size() == 4);
  for (const auto& [stage, values] : activations) {
    const auto& rank = step.ranks[static_cast<std::size_t>(stage)];
    CHECK(*std::max_element(values.begin(), values.end()) == doctest::Approx(rank.most_activations.raw()));
    CHECK(values.back() == doctest::Approx(0));
  }
}

TEST_CASE("a large trace keeps its first and last micro-batches and says so") {
  const auto step = step_of(Schedule::f1b1, 4, 1, 512);
  std::string note;
  const json trace = trace_of(step, &note, 2000);
  CHECK(trace["traceEvents"].size() < 2200);
  CHECK(note.find("of 256") != std::string::npos);
  std::set<int> shown;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["args"].contains("micro_batch")) {
      shown.insert(event["args"]["micro_batch"].get<int>());
    }
  }
  CHECK(shown.count(0) == 1);
  CHECK(shown.count(255) == 1);
  CHECK(shown.count(128) == 0);
  trace_of(step, &note);
  CHECK(note.empty());
}

TEST_CASE("the drawing has a line per stage as wide as asked for") {
  const auto step = step_of(Schedule::f1b1, 4, 1, 16);
  const std::string text = text_gantt(step, 80);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  REQUIRE(lines.size() == 6);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(lines[r].size() <= 80);
    CHECK(lines[r].substr(0, 9) == "stage " + std::to_string(r) + "  ");
    // Stage r waits for r forward passes first.
    CHECK((lines[r][9] == 'F') == (r == 0));
    CHECK(lines[r].find('B') != std::string::npos);
  }
}
