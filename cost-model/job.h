#pragma once

#include <array>
#include <string>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/cluster_spec.h"
#include "cost-model/kernel_tables.h"
#include "cost-model/layout.h"
#include "cost-model/model_spec.h"
#include "cost-model/profile.h"

namespace tpplan {

enum class AttentionKernel : std::uint8_t { unfused, fused_softmax, flash1, flash, triton };
enum class Loss : std::uint8_t { by_profile, plain, fused, chunked };
/// How routed tokens reach their experts: one copy per expert (all-to-all, the habit of every framework here), or a
/// library that sends one per rank and node; proxied: through processes of the host, where NICs take no orders from
/// GPUs.
enum class Dispatcher : std::uint8_t { by_profile, all_to_all, deepep, deepep_fp8, deepep_proxied, hybridep };
inline constexpr std::array<NameRow<Dispatcher>, 5> kDispatcherNames{{{"all-to-all", Dispatcher::all_to_all},
                                                                      {"deepep", Dispatcher::deepep},
                                                                      {"deepep-fp8", Dispatcher::deepep_fp8},
                                                                      {"deepep-proxied", Dispatcher::deepep_proxied},
                                                                      {"hybridep", Dispatcher::hybridep}}};
/// What the user says of an overlap: the profile's habit, off, or on.
enum class Switch : std::uint8_t { by_profile, off, on };
/// How layers are dealt out to pipeline stages: as the framework does, or so that the slowest stage is as fast, or the
/// fullest as empty, as whole layers can make it.
enum class StageBalance : std::uint8_t { framework, time, memory };
inline constexpr std::array<NameRow<StageBalance>, 3> kStageBalanceNames{
    {{"framework", StageBalance::framework}, {"time", StageBalance::time}, {"memory", StageBalance::memory}}};

/// How the model is trained: what the layout does not say.
struct TrainingSpec {
  int seq = 4096;           ///< tokens per sequence
  int global_batch = 1024;  ///< sequences per step
  Precision precision = Precision::bf16;
  std::string fp8_recipe;
  Framework framework = Framework::megatron;
  std::string date;  ///< "" = newest era
  bool flash_attention = true;
  AttentionKernel kernel = AttentionKernel::flash;
  bool fused_norm = true;
  bool compiled = false;
  bool cuda_graphs = false;
  Loss loss = Loss::by_profile;
  Dispatcher dispatcher = Dispatcher::by_profile;
  double expert_imbalance = 1;  ///< busiest expert over the mean
  double expert_capacity = 0;   ///< most tokens of an expert over the mean, the rest dropped; 0: dropless
  double gradient_bytes = 0;    ///< per gradient kept and reduced; 0: the framework's habit
  int prefetch = -1;            ///< FSDP: layers gathered ahead of the one in work; -1: the framework's habit
  Switch overlap_dp_grad = Switch::by_profile;
  Switch overlap_dp_param = Switch::by_profile;
  Switch overlap_tp = Switch::by_profile;
  Switch overlap_pp = Switch::by_profile;
  Switch overlap_ep = Switch::by_profile;
  PeftMethod peft = PeftMethod::none;
  int peft_rank = 16;
  std::vector<std::string> peft_targets;  ///< words of adapter_targets(); empty: every matrix of the layers
  bool nf4_weights = false;               ///< frozen matrices in 4 bits beside other adapters too; qlora: always
  bool double_quantisation = true;        ///< 4-bit weights: the block constants are quantised too
  std::string program;                    ///< fine-tuning program whose profile applies; "": the framework's
  std::vector<int> layers_per_stage;      ///< given by the user; empty: by `balance`
  StageBalance balance = StageBalance::framework;
  double memory_headroom = 0.03;
  std::vector<std::string> assumed;
  [[nodiscard]] bool holds_nf4() const {
    return peft == PeftMethod::qlora || (peft != PeftMethod::none && nf4_weights);
  }
};

/// Everything a layout is priced against: one immutable value, passed everywhere.
struct Job {
  ModelSpec model;
  ClusterSpec cluster;
  TrainingSpec training;
  FrameworkProfile profile;
  GpuConstants constants;
  std::vector<LinkConstants> links;  ///< one per tier of the cluster
  Calibration calibration;

  std::vector<Job> parts;  ///< one per part of a mixed cluster, whose GPUs are the part's; else empty
  /// What prices the ranks on a part, -1 being the whole.
  [[nodiscard]] const Job& part(int i) const { return i < 0 ? *this : parts[static_cast<std::size_t>(i)]; }

  // Derived once.
  KernelTables tables;  ///< measured kernels of the calibration
  LayerParameters dense_layer, moe_layer;
  std::uint16_t adapters = 0;   ///< parts that have adapters (AdapterTarget bits); 0: every weight is trained
  std::vector<int> moe_before;  ///< MoE layers before layer i, layers + 1 entries
  double mean_attended = 0;     ///< mean over layers of the attended share of the causal triangle (1 without windows)
  [[nodiscard]] int moe_in(int begin, int end) const {
    return moe_before.empty() ? 0
                              : moe_before[static_cast<std::size_t>(end)] - moe_before[static_cast<std::size_t>(begin)];
  }
  [[nodiscard]] bool moe() const { return !moe_before.empty(); }
  /// Tokens of the busiest expert over the mean: the imbalance, less what a capacity drops.
  [[nodiscard]] double routed_factor() const {
    return training.expert_capacity > 0 && training.expert_capacity < training.expert_imbalance
               ? training.expert_capacity
               : training.expert_imbalance;
  }
};

/// Puts a job together and checks its parts against each other: every problem at once as SpecError (precision the GPU
/// lacks, a GPU that cannot be planned for, a vocabulary or batch out of range).
Job make_job(ModelSpec model, ClusterSpec cluster, TrainingSpec training, const ProfileSet& profiles,
             Calibration calibration = {});

/// The same without the checks, for a profile chosen by the caller.
Job assemble_job(ModelSpec model, ClusterSpec cluster, TrainingSpec training, FrameworkProfile profile,
                 const ProfileSet& profiles, Calibration calibration = {});

/// The profile that prices a job: of the fine-tuning program it names, else by framework, GPU, date, compilation and
/// dispatcher.
const FrameworkProfile& profile_of(const ProfileSet& profiles, const TrainingSpec& training, const GpuSpec& gpu);

/// Rows of the vocabulary a framework stores at this tensor-parallel size.
int padded_vocab(const Job& job, int tp);

}  // namespace tpplan
