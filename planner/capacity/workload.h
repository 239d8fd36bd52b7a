#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/inputs.h"

namespace tpplan {

/// A cluster as the user named it, in any number of its nodes.
class Hardware {
 public:
  /// `text`: a cluster's name or file, or NODESxGPUSxGPU. Throws SpecError.
  Hardware(std::string text, const GpuCatalogue& catalogue, std::string* warnings);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const ClusterSpec& cluster() const { return cluster_; }
  /// With that many nodes; nothing when its servers cannot be that many.
  [[nodiscard]] std::optional<ClusterSpec> sized(int nodes) const;

 private:
  std::string text_;
  const GpuCatalogue* catalogue_;
  ClusterSpec cluster_;
};

/// The best layout of a model on a cluster, and the runners-up that were asked for.
struct PricedPlan {
  Job job;
  Plan plan;
  std::vector<Plan> others;  ///< best first, `plan` not among them
  SearchStats stats;
  [[nodiscard]] double tokens_per_second() const { return tpplan::tokens_per_second(job, plan.estimate.step); }
};

/// Finds best plans of one command line for many models, clusters and changes of either.
class Planner {
 public:
  /// `tick` is called before every search, for a line of progress.
  Planner(PlannerOptions options, std::function<void()> tick);

  /// Best plan of the options' space, one that fits with the headroom before any tight one; nothing when no layout fits
  /// or the job makes no sense (a precision the GPU lacks). `why` receives the reason then.
  [[nodiscard]] std::optional<PricedPlan> best(const ModelSpec& model, const ClusterSpec& cluster,
                                               std::size_t runners_up = 0, std::string* why = nullptr) const;
  /// The same with options changed (another sequence length, another space).
  [[nodiscard]] std::optional<PricedPlan> best(const PlannerOptions& options, const ModelSpec& model,
                                               const ClusterSpec& cluster, std::size_t runners_up = 0,
                                               std::string* why = nullptr) const;
  /// The job alone, with the options' batch. Throws SpecError.
  [[nodiscard]] Job job(const PlannerOptions& options, const ModelSpec& model, const ClusterSpec& cluster,
                        std::vector<Assumption>* assumed = nullptr) const;
  [[nodiscard]] const PlannerOptions& options() const { return options_; }
  [[nodiscard]] int searches() const { return searches_; }

 private:
  PlannerOptions options_;
  std::function<void()> tick_;
  ProfileSet profiles_;
  mutable int searches_ = 0;
};

/// Sequences per step on so many GPUs when the user gave none: `usual` rounded to a multiple of the GPUs, so that sizes
/// of data parallelism stay open; `usual` itself when the GPUs are more.
int batch_for(int usual, int gpus);

}  // namespace tpplan
