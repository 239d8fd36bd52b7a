#include "cost-model/simulate_host.h"

#include <algorithm>
#include <array>

#include "cost-model/simulate_work.h"

namespace tpplan {
namespace {

struct DrainRow {
  Framework framework;
  bool with_pipeline, alone;
};
constexpr std::array<DrainRow, kFrameworkTable.size()> kDrains{{{Framework::megatron, true, false},
                                                                {Framework::megatron_deepspeed, true, true},
                                                                {Framework::deepspeed, true, false},
                                                                {Framework::fsdp, false, false},
                                                                {Framework::torchtitan, false, false},
                                                                {Framework::nanotron, true, false},
                                                                {Framework::internevo, true, false},
                                                                {Framework::plain, false, false}}};

/// Launches that a CUDA stream holds before the next one blocks the host: 1,024, as measured by users and told in the
/// NVIDIA developer forums; undocumented.
constexpr double kQueuedLaunches = 1024;

}  // namespace

bool drains_every_pass(Framework framework, int pp) {
  const DrainRow& row = kDrains[static_cast<std::size_t>(framework)];
  return pp > 1 ? row.with_pipeline : row.alone;
}

/// Else no launch ever shows, and none is simulated.
bool Simulator::Work::host_may_fall_behind() const {
  const bool slow = std::any_of(perturbation_->slow.begin(), perturbation_->slow.end(),
                                [](const SlowPart& part) { return part.kind == SlowKind::host && part.slow > 0; });
  return slow || std::any_of(costs_.begin(), costs_.end(), [](const LayerCosts& costs) {
           return (costs.dense.starved_forward + costs.dense.starved_backward + costs.moe.starved_forward +
                   costs.moe.starved_backward) > Seconds(0);
         });
}

/// Profiles count the launches of layers alone. Embedding and head are taken as launched while they run, so that the
/// host neither gains on the GPU there nor falls behind.
double Simulator::Work::launch_time(int r, const Stage& stage, int piece, PassKind pass) const {
  const PieceKind kind = piece_kind(stage, piece);
  if (kind == PieceKind::embedding || kind == PieceKind::head) {
    return gpu_time_of(stage, piece, pass);
  }
  return piece_launch_time(costs_[stage.part], kind, pass) * ranks_[static_cast<std::size_t>(r)].host_slowdown;
}

double Simulator::Work::gpu_time_of(const Stage& stage, int piece, PassKind pass) const {
  const LayerCosts& costs = costs_[stage.part];
  const PieceKind kind = piece_kind(stage, piece);
  return piece_time(costs, kind, pass) - (launches_ ? piece_starved_time(costs, kind, pass) : 0);
}

double Simulator::Work::gpu_time_of(int r, const Pass& pass) const {
  if (!launches_) {
    return time_of(r, pass);
  }
  const auto& sums = stage_of(r, pass).costs.sums;
  const std::array<Seconds, kPassKinds.size()> starved{sums.starved_forward, sums.starved_backward, Seconds(0),
                                                       sums.starved_backward};
  return time_of(r, pass) - starved[static_cast<std::size_t>(pass.kind)].raw();
}

/// The launches of one layer, or of a whole pass. They begin when those before are done, the queue has room, and, where
/// the host waits for the GPU at the end of a pass, that pass and the transfer that the new one waits for have ended.
void Simulator::Work::add_launch(int r, std::size_t i, double seconds) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& profile = job_of(rank.part).profile;
  const double kernels = std::max({1.0, profile.kernels_forward, profile.kernels_backward});
  const auto queued = static_cast<std::size_t>(std::max(1.0, kQueuedLaunches / kernels));
  After after;
  if (drains_ && engine_.size(rank.launches) == rank.launch_begins[i]) {
    after = {rank.passes, rank.begins[i]};
  } else if (rank.launched_ends.size() >= queued) {
    after = {rank.passes, rank.launched_ends[rank.launched_ends.size() - queued]};
  }
  const Mark mark{SimulatedKind::launch, StreamKind::host, static_cast<std::int32_t>(i), 0, 0, seconds > 0};
  add(rank.launches, seconds, mark, after);
}

/// Work ends no earlier than its last launch.
void Simulator::Work::add_launched_end(int r, std::size_t i) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  Mark mark;
  mark.kind = SimulatedKind::pass;
  mark.pass = static_cast<std::int32_t>(i);
  add(rank.passes, 0, mark, {rank.launches, engine_.size(rank.launches)});
  rank.launched_ends.push_back(engine_.size(rank.passes));
}

/// Time of loading the tokens of a micro-batch; 0 when that is not followed: makespans alone do not need to know of
/// tokens that come faster than they are taken.
void Simulator::Work::prepare_loads() {
  loading_ = data_loading(*job_, *layout_);
  loading_.per_micro_batch = perturbation_->load.value_or(loading_.per_micro_batch);
  const auto faster = [this](const Stage& stage) { return loading_.per_micro_batch <= stage.costs.forward; };
  if (detail_ == Detail::times && perturbation_->jitter <= 0 && loading_.ahead > 0 && faster(stages_.front()) &&
      faster(stages_.back())) {
    loading_.per_micro_batch = Seconds(0);
  }
}

/// The tokens that a forward pass of the first or the last stage takes. What is loaded ahead was begun when an earlier
/// micro-batch was taken, for the first ones in the step before; instead of those this step loads the first ones of the
/// next. A rank with both stages loads once.
void Simulator::Work::add_load(int r, const Pass& pass) {
  const int stage = step_.schedule.stage_of(r, pass.chunk);
  const int last = step_.schedule.depth() - 1;
  if (loading_.per_micro_batch.raw() <= 0 || pass.kind != PassKind::forward || (stage != 0 && stage != last) ||
      (stage == last && step_.schedule.place_of(0, pass.micro_batch).rank == r && last > 0)) {
    return;
  }
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const Index taken = engine_.size(rank.loads);
  const auto ahead = static_cast<Index>(loading_.ahead);
  Mark mark{SimulatedKind::load, StreamKind::data, 0, 0, 0, true};
  mark.pass = (pass.micro_batch + loading_.ahead) % micro_batches_;
  add(rank.loads, loading_.per_micro_batch.raw(), mark, {rank.passes, engine_.size(rank.passes)});
  if (taken >= ahead) {
    add(rank.passes, 0, Mark{}, {rank.loads, taken + 1 - ahead});
  }
}

}  // namespace tpplan
