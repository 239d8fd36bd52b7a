#pragma once

#include <string>

#include "cost-model/job.h"

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

}  // namespace tpplan::tests
