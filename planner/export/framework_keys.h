#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost-model/layout.h"

namespace tpplan {

/// Programs whose configuration is written and read.
enum class Target : std::uint8_t {
  megatron,
  megatron_bridge,
  deepspeed,
  torchtitan,
  torchtitan_toml,
  accelerate,
  nanotron,
  llm_foundry,
  colossalai
};

inline constexpr std::array<NameRow<Target>, 9> kTargetNames{{{"megatron", Target::megatron},
                                                              {"megatron-bridge", Target::megatron_bridge},
                                                              {"deepspeed", Target::deepspeed},
                                                              {"torchtitan", Target::torchtitan},
                                                              {"torchtitan-toml", Target::torchtitan_toml},
                                                              {"accelerate", Target::accelerate},
                                                              {"nanotron", Target::nanotron},
                                                              {"llm-foundry", Target::llm_foundry},
                                                              {"colossalai", Target::colossalai}}};

/// What starts the processes: the target's own launcher, run on every node (torchrun where it has none of its own), or
/// Slurm.
enum class Launcher : std::uint8_t { torchrun, slurm };
inline constexpr std::array<NameRow<Launcher>, 2> kLauncherNames{
    {{"torchrun", Launcher::torchrun}, {"slurm", Launcher::slurm}}};

/// What a key of a configuration says of a job. The facts of a model lie between `layers` and `mtp_layers`.
enum class JobFact : std::uint8_t {
  // layout
  world,  ///< GPUs
  dp,
  dp_replicas,  ///< groups of ranks that each hold all states: dp x cp / shard group, dp without ZeRO
  dp_shards,    ///< data-parallel ranks that share ZeRO states: dp / dp_replicas
  shard_group,  ///< ranks that share ZeRO states, context parallel ones counted
  tp,
  pp,
  cp,
  ep,
  etp,
  vpp,
  vpp_group,
  sequence_parallel,  ///< on or off
  zero,
  recompute,         ///< word
  recompute_layers,  ///< layers per (virtual) stage under full recomputation
  schedule,          ///< word
  cp_type,           ///< word
  // training
  seq,
  micro_batch,
  global_batch,
  micro_batches,  ///< per step and pipeline: gradient accumulation
  precision,      ///< word
  // model
  layers,
  hidden,
  ffn,
  heads,
  kv_heads,
  head_dim,
  vocab,
  tied_embeddings,  ///< on or off
  window,           ///< tokens of sliding-window attention
  experts,
  top_k,
  expert_ffn,
  shared_ffn,
  routing_groups,
  routing_group_limit,
  q_lora,
  kv_lora,
  qk_nope,
  qk_rope,
  v_head,
  mtp_layers
};
constexpr bool describes_model(JobFact fact) { return fact >= JobFact::layers; }

/// How a key counts what it says.
enum class KeyUnit : std::uint8_t {
  number,          ///< as we count it: GPUs, layers, sequences, micro-batches
  tokens,          ///< sequences x tokens per sequence
  on_off,          ///< true or false; of a flag without value: there or not
  sharded_or_not,  ///< ZeRO as true (any sharded stage) or false
  inverse,         ///< on_off the other way round
  word             ///< by kFrameworkWords
};

/// A key that says one thing of a job and nothing else.
struct FrameworkKey {
  Target target;
  std::string_view key;  ///< as its file or command line has it, levels joined by dots: "--hidden-size", "tokens.seq"
  JobFact fact;
  KeyUnit unit = KeyUnit::number;
};

/// Every such key, in the order in which a file of the target has them; where two of a target say the same, the first
/// is written and both are read.
const std::vector<FrameworkKey>& framework_keys();

/// A value and what a target calls it: a word, or the flags that stand for it (none where it is the target's habit). A
/// target with rows for a fact has no other values of it. Precisions carry their recipe: "fp8:tensorwise".
struct FrameworkWord {
  Target target;
  JobFact fact;
  std::string_view ours;  ///< as in --layout or --precision
  std::string_view theirs;
};
const std::vector<FrameworkWord>& framework_words();

/// The key that a target has for a fact; nothing when it has none of its own.
const FrameworkKey* key_of(Target target, JobFact fact);
/// The row of a key as read; nothing for an unknown one.
const FrameworkKey* key_named(Target target, std::string_view key);
/// Words between the two vocabularies; nothing when the target has no such value.
std::optional<std::string_view> their_word(Target target, JobFact fact, std::string_view ours);
std::optional<std::string_view> our_word(Target target, JobFact fact, std::string_view theirs);

}  // namespace tpplan
