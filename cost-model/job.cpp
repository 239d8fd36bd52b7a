#include "cost-model/job.h"

#include <algorithm>
#include <cmath>

#include "cost-model/peft.h"
#include "cost-model/rank_law.h"

namespace tpplan {
namespace {

/// Share of the causal triangle that a layer with this window attends to: (s*w - w^2/2) / (s^2/2).
double attended_share(int seq, int window) {
  if (window <= 0 || window >= seq) {
    return 1;
  }
  const double w = static_cast<double>(window) / seq;
  return 2 * w - w * w;
}

double mean_attended_share(const ModelSpec& model, int seq) {
  if (model.attention_window <= 0) {
    return 1;
  }
  double sum = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const bool full = model.full_attention_every > 0 && (layer + 1) % model.full_attention_every == 0;
    sum += full ? 1 : attended_share(seq, model.attention_window);
  }
  return sum / model.layers;
}

/// Cross-checks of model, cluster and training; each entry is one sentence with the fix.
std::vector<std::string> contradictions(const ModelSpec& model, const ClusterSpec& cluster,
                                        const TrainingSpec& training) {
  std::vector<std::string> problems;
  const auto& gpu = cluster.gpu;
  if (!gpu.unplannable.empty()) {
    problems.push_back(gpu.name + " cannot be planned for: " + gpu.unplannable);
  } else if (gpu.peak_of(training.precision).raw() <= 0) {
    std::string offers;
    for (const auto& row : kPrecisionTable) {
      if (gpu.peak_of(row.precision).raw() > 0) {
        offers += (offers.empty() ? "" : ", ") + std::string(row.name);
      }
    }
    problems.push_back(gpu.name + " has no " + std::string(name_of(training.precision)) + " matrix units; it offers " +
                       offers + " (--precision)");
  }
  if (training.seq < 1) {
    problems.push_back("a sequence needs at least one token (--seq)");
  }
  if (training.global_batch < 1) {
    problems.push_back("a step needs at least one sequence (--global-batch)");
  }
  if (model.learned_positions > 0 && training.seq > model.learned_positions) {
    problems.push_back("--seq " + std::to_string(training.seq) + " is longer than the " +
                       std::to_string(model.learned_positions) + " learned positions of " + model.name);
  }
  if (training.peft != PeftMethod::none) {
    const auto targets = adapter_targets(training.peft_targets);
    problems.insert(problems.end(), targets.problems.begin(), targets.problems.end());
    if (training.holds_nf4() && gpu.peak_of(Precision::bf16).raw() <= 0 && gpu.peak_of(Precision::fp16).raw() <= 0) {
      problems.push_back("training beside 4-bit weights computes in 16 bits, which " + gpu.name + " does not offer");
    }
  }
  if (!training.layers_per_stage.empty()) {
    int sum = 0;
    for (const int layers : training.layers_per_stage) {
      sum += layers;
    }
    if (sum != model.layers) {
      problems.push_back("the given layers per stage add up to " + std::to_string(sum) + ", the model has " +
                         std::to_string(model.layers));
    }
  }
  return problems;
}

}  // namespace

Job assemble_job(ModelSpec model, ClusterSpec cluster, TrainingSpec training, FrameworkProfile profile,
                 const ProfileSet& profiles, Calibration calibration) {
  Job job;
  job.constants = measured_constants(profiles.constants_of(cluster.gpu), cluster.gpu, calibration);
  job.tables = KernelTables(calibration);
  for (const auto& tier : cluster.tiers) {
    job.links.push_back(profiles.link_of(tier, cluster.gpu));
  }
  job.dense_layer = layer_parameters(model, false);
  if (model.moe) {
    job.moe_layer = layer_parameters(model, true);
    job.moe_before.assign(static_cast<std::size_t>(model.layers) + 1, 0);
    for (int layer = 0; layer < model.layers; ++layer) {
      job.moe_before[static_cast<std::size_t>(layer) + 1] =
          job.moe_before[static_cast<std::size_t>(layer)] + (model.is_moe_layer(layer) ? 1 : 0);
    }
  }
  job.adapters = adapted_parts(training);
  job.mean_attended = mean_attended_share(model, training.seq);
  job.model = std::move(model);
  job.cluster = std::move(cluster);
  job.training = std::move(training);
  job.profile = std::move(profile);
  job.calibration = std::move(calibration);
  sort_for_rank_laws(job.calibration.curves);
  return job;
}

Job make_job(ModelSpec model, ClusterSpec cluster, TrainingSpec training, const ProfileSet& profiles,
             Calibration calibration) {
  const auto problems = contradictions(model, cluster, training);
  if (!problems.empty()) {
    std::string text;
    for (const auto& problem : problems) {
      text += (text.empty() ? "error: " : "\nerror: ") + problem;
    }
    throw SpecError(text);
  }
  std::vector<Job> parts;
  for (const auto& part : cluster.parts) {
    parts.push_back(make_job(model, part, training, profiles, calibration));
  }
  auto profile = profile_of(profiles, training, cluster.gpu);
  auto job = assemble_job(std::move(model), std::move(cluster), std::move(training), std::move(profile), profiles,
                          std::move(calibration));
  job.parts = std::move(parts);
  return job;
}

const FrameworkProfile& profile_of(const ProfileSet& profiles, const TrainingSpec& training, const GpuSpec& gpu) {
  if (!training.program.empty()) {
    return profiles.find_program(training.program, training.date);
  }
  return profiles.find(training.framework, gpu, training.date, training.compiled,
                       name_in(kDispatcherNames, training.dispatcher));
}

int padded_vocab(const Job& job, int tp) {
  const bool by_128 = kFrameworkTable[static_cast<std::size_t>(job.training.framework)].pads_vocab_128;
  const int multiple = by_128 ? 128 * tp : tp;
  return (job.model.vocab + multiple - 1) / multiple * multiple;
}

}  // namespace tpplan
