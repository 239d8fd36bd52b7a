#include "planner/inputs.h"

#include <algorithm>
#include <cmath>

#include "planner/calibration_use.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr int kUsualSeq = 4096;
constexpr double kUsualTokensPerStep = 4.0 * 1024 * 1024;

/// "what: value (KEY sets it)", as the readers of specs word their defaults.
Assumption parse_assumption(const std::string& text) {
  constexpr std::string_view kEnd = " sets it)";
  Assumption assumption{text, "", "the file"};
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) {
    return assumption;
  }
  assumption.what = text.substr(0, colon);
  assumption.value = text.substr(colon + 2);
  const std::size_t open = assumption.value.rfind(" (");
  if (open != std::string::npos && assumption.value.ends_with(kEnd)) {
    assumption.set_by = assumption.value.substr(open + 2, assumption.value.size() - open - 2 - kEnd.size());
    assumption.value.erase(open);
  }
  return assumption;
}

/// What was assumed and every problem met, while the parts of a job are loaded.
class Loader {
 public:
  explicit Loader(const PlannerOptions& options) : options_(options) {}

  /// The result of `load`, or an empty value after noting what it threw.
  template <class Load>
  auto attempt(Load load) -> decltype(load()) {
    try {
      return load();
    } catch (const SpecError& error) {
      problems_ += (problems_.empty() ? "" : "\n") + error_text(error);
      return {};
    }
  }
  void assume(std::string what, std::string value, std::string set_by) {
    assumed_.push_back({std::move(what), std::move(value), std::move(set_by)});
  }
  void assume_all(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      assumed_.push_back(parse_assumption(text));
    }
  }
  void throw_problems() const {
    if (!problems_.empty()) {
      throw SpecError(problems_);
    }
  }
  [[nodiscard]] std::vector<Assumption> take_assumed() { return std::move(assumed_); }

  TrainingSpec training(const ModelSpec& model, const ClusterSpec& cluster);
  Calibration calibration(const ClusterSpec& cluster);

 private:
  [[nodiscard]] bool given(std::string_view option) const {
    return std::any_of(options_.given.begin(), options_.given.end(),
                       [option](const auto& entry) { return entry.first == option; });
  }
  int sequence_length(const ModelSpec& model);
  int global_batch(const ModelSpec& model, const ClusterSpec& cluster, int seq);
  Precision precision(const GpuSpec& gpu);

  const PlannerOptions& options_;
  std::vector<Assumption> assumed_;
  std::string problems_;
};

int Loader::sequence_length(const ModelSpec& model) {
  if (options_.seq) {
    return *options_.seq;
  }
  int seq = model.default_seq > 0 ? model.default_seq : kUsualSeq;
  if (model.learned_positions > 0) {
    seq = std::min(seq, model.learned_positions);
  }
  assume("sequence length", std::to_string(seq) + " tokens", "--seq");
  return seq;
}

int Loader::global_batch(const ModelSpec& model, const ClusterSpec& cluster, int seq) {
  if (options_.global_batch) {
    return *options_.global_batch;
  }
  int batch = model.default_global_batch;
  if (batch <= 0) {
    const int gpus = std::max(1, cluster.gpus());
    batch = std::max(1, static_cast<int>(std::lround(kUsualTokensPerStep / seq / gpus))) * gpus;
  }
  assume("global batch", std::to_string(batch) + " sequences", "--global-batch");
  return batch;
}

Precision Loader::precision(const GpuSpec& gpu) {
  if (options_.precision) {
    return *options_.precision;
  }
  Precision precision = Precision::fp32;
  for (const Precision candidate : {Precision::bf16, Precision::fp16}) {
    if (gpu.peak_of(candidate).raw() > 0) {
      precision = candidate;
      break;
    }
  }
  assume("precision", std::string(name_of(precision)), "--precision");
  return precision;
}

TrainingSpec Loader::training(const ModelSpec& model, const ClusterSpec& cluster) {
  TrainingSpec training;
  training.seq = sequence_length(model);
  training.global_batch = global_batch(model, cluster, training.seq);
  training.precision = precision(cluster.gpu);
  training.fp8_recipe = options_.fp8_recipe;
  if (training.precision == Precision::fp16) {
    assume("steps skipped for an infinity", "none, the loss scale has settled", "no option");
  }
  // Of the programs only those around Hugging Face models hold weights in 4 bits.
  const bool packed = options_.peft == PeftMethod::qlora;
  training.framework = options_.framework.value_or(packed ? Framework::fsdp : Framework::megatron);
  if (!options_.framework) {
    assume("framework", std::string(name_of(training.framework)), "--framework");
  }
  training.date = options_.date;
  training.peft = options_.peft.value_or(PeftMethod::none);
  training.peft_rank = options_.peft_rank;
  training.peft_targets = options_.peft_targets;
  training.expert_imbalance = options_.expert_imbalance;
  training.expert_capacity = options_.expert_capacity;
  training.dispatcher = options_.dispatcher;
  training.gradient_bytes = options_.gradient_bytes;
  training.prefetch = options_.prefetch;
  for (const OverlapChoice& overlap : options_.overlaps) {
    training.*overlap.field = overlap.value;
  }
  training.balance = options_.balance;
  if (model.moe && !given("expert-imbalance")) {
    assume("load of the experts", "even, as forced balance makes it", "--expert-imbalance");
  }
  if (training.peft != PeftMethod::none && training.framework == Framework::fsdp) {
    training.program = "huggingface";
    assume("fine-tuning program", "Hugging Face transformers, peft and bitsandbytes", "--framework");
  }
  training.memory_headroom = options_.memory_headroom;
  if (!given("memory-headroom")) {
    assume("memory kept free", shortest(100 * training.memory_headroom) + " %", "--memory-headroom");
  }
  if (options_.command == "plan" && !given("optimizer")) {
    assume("optimizer", "adam", "--optimizer");
  }
  return training;
}

Calibration Loader::calibration(const ClusterSpec& cluster) {
  if (!options_.calibration.empty() && options_.calibration != "none") {
    return attempt([&] { return load_calibration(options_.calibration); });
  }
  if (options_.calibration.empty() && !cluster.calibration.empty()) {
    assume("calibration", cluster.calibration, "--calibration");
    return attempt([&] { return load_calibration(cluster.calibration); });
  }
  if (options_.calibration.empty()) {
    assume("collectives", "rated link speeds, no measured curves", "--calibration");
  }
  return {};
}

}  // namespace

Job job_from(const PlannerOptions& options, std::vector<Assumption>* assumed, std::string* warnings) {
  Loader loader(options);
  ModelSpec model = loader.attempt([&] { return resolve_model(options.model, warnings); });
  ClusterSpec cluster = loader.attempt([&] { return resolve_cluster(options.cluster, warnings); });
  const ProfileSet profiles = loader.attempt([] { return ProfileSet::load(data_folder("clusters/profiles")); });
  loader.throw_problems();
  Job job = job_from(options, std::move(model), std::move(cluster), profiles, assumed);
  if (warnings != nullptr) {
    for (const std::string& doubt : calibration_doubts(job.calibration, nccl_environment(), &job.cluster.gpu)) {
      *warnings += "warning: " + doubt + "\n";
    }
  }
  return job;
}

Job job_from(const PlannerOptions& options, ModelSpec model, ClusterSpec cluster, const ProfileSet& profiles,
             std::vector<Assumption>* assumed) {
  Loader loader(options);
  TrainingSpec training = loader.training(model, cluster);
  Calibration calibration = loader.calibration(cluster);
  loader.throw_problems();
  loader.assume_all(model.assumed);
  loader.assume_all(cluster.assumed);
  Job job = make_job(std::move(model), std::move(cluster), std::move(training), profiles, std::move(calibration));
  loader.assume("efficiency", "profile " + job.profile.name + ", GPU constants of " + job.constants.id,
                "--framework, --date");
  loader.assume_all(job.training.assumed);
  if (assumed != nullptr) {
    *assumed = loader.take_assumed();
  }
  return job;
}

SearchSpace space_from(const PlannerOptions& options, const Job&) {
  SearchSpace space = options.space;
  if (space.optimizers.empty()) {
    space.optimizers.push_back(Optimizer::adam);
  }
  if (space.offloads.empty()) {
    space.offloads.push_back(Offload::none);
  }
  return space;
}

}  // namespace tpplan
