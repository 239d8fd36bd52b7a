#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "planner/report/gantt_svg.h"

using namespace tpplan;

namespace {

/// Two stages: F0 0-1, BW0 3-5 on stage 0, F0 1-2, BW0 2-3 on stage 1, a transfer between them and an optimizer step.
SimulatedStep two_stages() {
  SimulatedStep step;
  step.schedule.micro_batches = 1;
  step.passes_end = 5;
  step.ranks.resize(2);
  const auto add = [&step](SimulatedKind kind, StreamKind stream, int rank, PassKind pass, double start, double end) {
    SimulatedOperation operation;
    operation.kind = kind;
    operation.stream = stream;
    operation.rank = rank;
    operation.pass.kind = pass;
    operation.start = start;
    operation.end = end;
    step.operations.push_back(operation);
    auto& owner = step.ranks[static_cast<std::size_t>(rank)];
    owner.end = end > owner.end ? end : owner.end;
  };
  add(SimulatedKind::pass, StreamKind::compute, 0, PassKind::forward, 0, 1);
  add(SimulatedKind::pass, StreamKind::compute, 0, PassKind::whole_backward, 3, 5);
  add(SimulatedKind::optimizer, StreamKind::compute, 0, PassKind::forward, 5, 6);
  add(SimulatedKind::transfer, StreamKind::send_next, 0, PassKind::forward, 1, 1.25);
  add(SimulatedKind::pass, StreamKind::compute, 1, PassKind::forward, 1, 2);
  add(SimulatedKind::pass, StreamKind::compute, 1, PassKind::whole_backward, 2, 3);
  return step;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Every element that is opened is closed, in order.
bool nested(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        return false;
      }
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("the drawing of a step is a whole SVG with title and description and a legend of what occurs") {
  const auto svg = gantt_svg(two_stages(), "tp=1 pp=2 <test>");
  CHECK(nested(svg));
  CHECK(count(svg, "<title id=\"gantt-title\">tp=1 pp=2 &lt;test&gt;</title>") == 1);
  CHECK(svg.find("<desc id=\"gantt-description\">2 pipeline stages and 1 micro-batches") != std::string::npos);
  CHECK(count(svg, ">stage 0<") == 2);  // its name beside the row and its title
  CHECK(count(svg, ">forward</text>") == 1);
  CHECK(count(svg, ">both gradients</text>") == 1);
  CHECK(count(svg, ">transfer to another stage</text>") == 1);
  CHECK(count(svg, ">gradient of the weights</text>") == 0);
  CHECK(count(svg, "class=\"number\"") == 4);  // micro-batch 0 in each of four passes
  CHECK(svg.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(svg.find("http://www.w3.org/2000/svg") != std::string::npos);
  CHECK(count(svg, "href") == 0);  // nothing is fetched
  // 6 s over 1,108 pixels from 76 on: BW0 of stage 0 reaches from 3 s, 630 px, to 5 s, 999.3 px.
  CHECK(svg.find("M630 64H999.3v20H630z") != std::string::npos);
}

TEST_CASE("a window cuts the drawings of a step in both forms") {
  const auto step = two_stages();
  const auto svg = gantt_svg(step, "window", {2.5, 5});
  CHECK(nested(svg));
  CHECK(svg.find("Shown: 2.5 s to 5 s") != std::string::npos);
  CHECK(count(svg, ">forward</text>") == 0);
  const auto text = text_gantt(step, 60, {2, 3});
  CHECK(text.find('F') == text.find("F forward"));
  CHECK(text.find("stage 0  ....") != std::string::npos);
  CHECK(text.find("stage 1  BBBB") != std::string::npos);
  CHECK(text.find("2 s") != std::string::npos);
  CHECK(within(step, {7, 9}).to == doctest::Approx(6));
}

TEST_CASE("a long step is drawn by what fills each pixel") {
  SimulatedStep step;
  step.ranks.resize(64);
  step.schedule.micro_batches = 4000;
  for (int r = 0; r < 64; ++r) {
    for (int i = 0; i < 8000; ++i) {
      SimulatedOperation operation;
      operation.rank = r;
      operation.pass.kind = i % 2 == 0 ? PassKind::forward : PassKind::whole_backward;
      operation.start = i;
      operation.end = i + (i % 2 == 0 ? 0.3 : 1);
      step.operations.push_back(operation);
    }
    step.ranks[static_cast<std::size_t>(r)].end = 8000;
  }
  const auto svg = gantt_svg(step, "long");
  CHECK(nested(svg));
  CHECK(svg.size() < 100000);
  CHECK(count(svg, "class=\"number\"") == 0);
}
