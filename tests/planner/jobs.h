#pragma once

#include <string>
#include <vector>

#include "planner/search.h"

namespace tpplan::tests {

/// GPT-3 175B (arXiv 2005.14165, table 2.1).
inline ModelSpec gpt3_175b() {
  ModelSpec model;
  model.name = "gpt3-175b";
  model.architecture = "tpplan";
  model.layers = 96;
  model.hidden = 12288;
  model.heads = 96;
  model.kv_heads = 96;
  model.head_dim = 128;
  model.ffn_hidden = 4 * 12288;
  model.vocab = 50257;
  model.gated_mlp = false;
  model.tied_embeddings = true;
  model.attention_bias = AttentionBias::all;
  model.output_bias = true;
  model.mlp_bias = true;
  model.norm = NormKind::layer;
  model.learned_positions = 2048;
  return model;
}

/// Llama 2 7B.
inline ModelSpec llama_7b() {
  ModelSpec model;
  model.name = "7b";
  model.architecture = "llama";
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 32;
  model.head_dim = 128;
  model.ffn_hidden = 11008;
  model.vocab = 32000;
  return model;
}

/// Mixtral 8x7B.
inline ModelSpec mixtral_8x7b() {
  ModelSpec model = llama_7b();
  model.name = "mixtral-8x7b";
  model.architecture = "mixtral";
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  MoeSpec moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.expert_ffn = 14336;
  model.moe = moe;
  model.moe_layers.assign(static_cast<std::size_t>(model.layers), 1);
  return model;
}

/// A job whose costs are not asked for: model, number of GPUs, batch and framework only.
inline Job bare_job(ModelSpec model, int gpus, Framework framework = Framework::megatron) {
  Job job;
  job.moe_before.assign(model.moe ? static_cast<std::size_t>(model.layers) + 1 : 0, 0);
  job.model = std::move(model);
  job.cluster.gpus_per_node = gpus;
  job.training.seq = 2048;
  job.training.global_batch = 1536;
  job.training.framework = framework;
  return job;
}

/// A complete job on usual servers of a shipped GPU, with the shipped profiles.
inline Job priced_job(ModelSpec model, const std::string& gpu, int nodes, int gpus_per_node, int seq, int global_batch,
                      Framework framework = Framework::megatron) {
  const std::string root = TPPLAN_SOURCE_DIR;
  static const ProfileSet kProfiles = ProfileSet::load(root + "/clusters/profiles");
  static const GpuCatalogue kGpus = GpuCatalogue::load(root + "/clusters/gpus.json");
  TrainingSpec training;
  training.seq = seq;
  training.global_batch = global_batch;
  training.framework = framework;
  return make_job(std::move(model), usual_cluster(kGpus.find(gpu), nodes, gpus_per_node), training, kProfiles);
}

/// The space that the search is measured on: every divisor for tp, pp, cp and dp, micro-batches 1 to 64 in powers of
/// two, every legal number of virtual stages, three kinds of recomputation, sequence parallelism and ZeRO-1 on and off.
inline SearchSpace measured_space() {
  SearchSpace space;
  space.axes.back().values = {1, 2, 4, 8, 16, 32, 64};
  space.recompute = {"none", "selective", "full"};
  space.sequence_parallel = {false, true};
  space.zero = {0, 1};
  return space;
}

struct NamedJob {
  std::string name;
  Job job;
};

/// Jobs whose counts are kept in tests/data/signature.txt.
inline std::vector<NamedJob> signature_jobs() {
  return {
      {"7b-on-8xA100", priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024)},
      {"7b-on-8xRTX4090", priced_job(llama_7b(), "rtx-4090", 1, 8, 4096, 256)},
      {"mixtral-on-8x8xH100", priced_job(mixtral_8x7b(), "h100-80gb-sxm", 8, 8, 4096, 1024)},
      {"gpt3-175b-on-64x8xA100", priced_job(gpt3_175b(), "a100-80gb-sxm", 64, 8, 2048, 1536)},
  };
}

/// One line of the signature: what the search of the measured space counts.
inline std::string signature_line(const NamedJob& named) {
  const SearchStats stats = search(named.job, measured_space(), Objective::step_time, 1).stats;
  std::string text = named.name + " enumerated " + std::to_string(stats.enumerated);
  for (std::size_t i = 0; i < stats.rejected.size(); ++i) {
    if (stats.rejected[i] > 0) {
      text += " " + std::string(rules()[i].name) + " " + std::to_string(stats.rejected[i]);
    }
  }
  return text + " out-of-memory " + std::to_string(stats.out_of_memory) + " ranked " + std::to_string(stats.ranked);
}

}  // namespace tpplan::tests
