#include <algorithm>

#include "planner/capacity/inverse.h"
#include "planner/capacity/model_shapes.h"
#include "planner/capacity/sections.h"

namespace tpplan {
namespace {

constexpr double kGiB = 1073741824;

bool one(int value) { return value == 1; }

/// Memory that grows with the sequence.
struct GrowingTerm {
  std::string_view name;
  Bytes MemoryEstimate::*field;
};
constexpr std::array<GrowingTerm, 3> kGrowing{{{"saved activations", &MemoryEstimate::activations},
                                               {"logits and loss", &MemoryEstimate::loss},
                                               {"communication buffers", &MemoryEstimate::communication}}};

/// A way to make room for longer sequences, as what it lets the search use.
struct Way {
  std::string name;
  std::function<void(PlannerOptions&)> change;
};

std::vector<Way> ways_to_make_room(int world) {
  const auto plain = [world](PlannerOptions& o) {
    restrict_axis(o, "cp", world, one);
    o.space.recompute = {"none", "selective"};
    o.space.offloads = {Offload::none};
  };
  return {
      {"none of these", plain},
      {"data parallel alone",
       [plain, world](PlannerOptions& o) {
         plain(o);
         restrict_axis(o, "tp", world, one);
         restrict_axis(o, "pp", world, one);
       }},
      {"context parallel (cp)",
       [](PlannerOptions& o) {
         o.space.recompute = {"none", "selective"};
         o.space.offloads = {Offload::none};
       }},
      {"full recompute",
       [plain](PlannerOptions& o) {
         plain(o);
         o.space.recompute = {"full"};
       }},
      {"offloaded activations",
       [plain](PlannerOptions& o) {
         plain(o);
         o.space.offloads = {Offload::activations};
       }},
      {"offloaded optimizer",
       [plain](PlannerOptions& o) {
         plain(o);
         o.space.offloads = {Offload::optimizer};
         o.space.zero = {1, 2, 3};
       }},
      {"full recompute and cp", [](PlannerOptions& o) { o.space.recompute = {"full"}; }},
  };
}

/// "saved activations, 58.3 of 79.2 GiB": the largest part of the memory that grows with the sequence.
std::string growing_part(const MemoryEstimate& memory) {
  const GrowingTerm* largest = &kGrowing.front();
  for (const GrowingTerm& term : kGrowing) {
    largest = memory.*term.field > memory.*largest->field ? &term : largest;
  }
  return std::string(largest->name) + ", " + brief_number((memory.*largest->field).raw() / kGiB) + " of " +
         brief_number(memory.capacity.raw() / kGiB) + " GiB";
}

/// The largest model that fits, in a sentence; empty when none does or every one.
std::string largest_model_text(const Subject& subject) {
  const double own = static_cast<double>(parameter_counts(subject.model).total);
  const auto fits = [&](double params) {
    return subject.planner.best(scaled_model(subject.model, params), subject.plan.job.cluster).has_value();
  };
  const auto too_large = smallest_where(own / 64, own * 256, 0.02, [&](double params) { return !fits(params); });
  if (!too_large || *too_large <= own / 64) {
    return "";
  }
  const ModelSpec largest = scaled_model(subject.model, *too_large / 1.02);
  return "The largest model in the proportions of " + subject.model.name + " that fits has about " +
         brief_number(static_cast<double>(parameter_counts(largest).total) * 1e-9) +
         " B parameters: " + std::to_string(largest.layers) + " layers of " + with_separators(largest.hidden) +
         " with " + std::to_string(largest.heads) + " heads (to 2 %).";
}

}  // namespace

ReportSection limits_section(const Subject& subject) {
  ReportSection section{.id = "limits", .title = "The largest model, the longest sequence"};
  section.table.columns = {{"what", "with", FigureStyle::text, 9},
                           {"longest_seq", "tokens", FigureStyle::count, 9},
                           {"layout", "layout there", FigureStyle::text, 5},
                           {"step_time_s", "step s", FigureStyle::number, 4},
                           {"limited_by", "stopped by", FigureStyle::text, 8}};
  const ClusterSpec& cluster = subject.plan.job.cluster;
  const double step_tokens =
      static_cast<double>(subject.plan.job.training.seq) * subject.plan.job.training.global_batch;
  const int world = cluster.gpus();
  const auto at = [&](const Way& way, int seq) {
    PlannerOptions options = subject.planner.options();
    way.change(options);
    options.seq = seq;
    options.global_batch = batch_for(std::max(1, static_cast<int>(step_tokens / seq)), world);
    return subject.planner.best(options, subject.model, cluster);
  };
  constexpr int kSeqStep = 1024;
  constexpr double kPrecision = 0.05;
  constexpr int kLongest = 4 << 20;
  const int most = subject.model.learned_positions > 0 ? subject.model.learned_positions : kLongest;
  for (const Way& way : ways_to_make_room(world)) {
    const int longest = largest_multiple(kSeqStep, most, kPrecision, [&](int seq) { return at(way, seq).has_value(); });
    if (longest == 0) {
      section.table.rows.push_back({way.name, Figure{0}, {}, {}, "nothing fits"});
      continue;
    }
    const auto plan = at(way, longest);
    const std::string limit = longest + kSeqStep > most && most < kLongest
                                  ? "the model's " + with_separators(most) + " positions"
                                  : growing_part(plan->plan.estimate.memory);
    section.table.rows.push_back({way.name, Figure{static_cast<double>(longest)}, to_text(plan->plan.layout),
                                  Figure{plan->plan.estimate.step.total().raw()}, limit});
  }
  if (std::string largest = largest_model_text(subject); !largest.empty()) {
    section.summary.push_back(std::move(largest));
  }
  section.notes = {"sequences in steps of 1,024 tokens, to 5 %; tokens per step held at " +
                   with_separators(static_cast<long long>(step_tokens)) +
                   "; the term named is the largest that grows with the sequence"};
  return section;
}

}  // namespace tpplan
