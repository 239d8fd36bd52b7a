#include <algorithm>
#include <cmath>

#include "planner/report/text_table.h"
#include "planner/rules.h"

namespace tpplan {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }
constexpr int kHeadMultiple = 8;
constexpr int kVocabularyMultiple = 64;
constexpr double kHostShare = 0.1;
constexpr double kBubbleShare = 0.25;

bool eight_bit_or_less(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::mxfp8 || precision == Precision::nvfp4;
}

/// Products of unfused attention fall off the matrix units; the price is the step with and without the penalty.
void head_size(const Job& job, const Layout& layout, std::vector<std::string>& found) {
  const int size = job.model.head_dim;
  if (job.training.flash_attention || size % kHeadMultiple == 0) {
    return;
  }
  Job aligned = job;
  aligned.profile.misaligned_head_factor = 1;
  const Seconds now = estimate(job, layout).step.total();
  const Seconds then = estimate(aligned, layout).step.total();
  found.push_back("head size " + number(size) + " is no multiple of 8 and attention is not fused: it costs " +
                  format(now - then) + " of the step's " + format(now) + "; use flash attention, or " +
                  number(size / kHeadMultiple * kHeadMultiple) + " or " +
                  number((size / kHeadMultiple + 1) * kHeadMultiple) + " per head");
}

void dimensions(const Job& job, const Layout& layout, std::vector<std::string>& found) {
  const bool narrow = eight_bit_or_less(job.training.precision);
  const bool wide = job.training.precision == Precision::fp32 || job.training.precision == Precision::tf32;
  const int multiple = wide ? 4 : narrow ? 16 : 8;
  struct Dimension {
    const char* what;
    std::int64_t size;
  };
  const ModelSpec& model = job.model;
  const std::int64_t kv = std::max<std::int64_t>(1, model.kv_heads / layout.tp);
  const std::array<Dimension, 6> dimensions{{
      {"hidden size", model.hidden},
      {"FFN width / tp", model.ffn_hidden / layout.tp},
      {"query width / tp", std::int64_t{model.heads} * model.head_dim / layout.tp},
      {"key width / tp", kv * model.head_dim},
      {"expert width / etp", model.moe ? model.moe->expert_ffn / std::max(1, layout.etp) : 0},
      {"tokens of a micro-batch / cp",
       static_cast<std::int64_t>(job.training.seq) * layout.micro_batch / std::max(1, layout.cp)},
  }};
  for (const Dimension& dimension : dimensions) {
    if (dimension.size % multiple != 0) {
      found.push_back(std::string(dimension.what) + " = " + number(dimension.size) + " is no multiple of " +
                      number(multiple) + ": the matrix units pad it in " +
                      std::string(name_of(job.training.precision)));
    }
  }
}

void vocabulary(const Job& job, const Layout& layout, std::vector<std::string>& found) {
  const int padded = padded_vocab(job, layout.tp);
  const int multiple = eight_bit_or_less(job.training.precision) ? 16 : 8;
  if (padded % (multiple * layout.tp) != 0) {
    const int unit = kVocabularyMultiple * layout.tp;
    const int better = (padded + unit - 1) / unit * unit;
    found.push_back("vocabulary " + number(job.model.vocab) + " is not padded: " + number(better) + " = " +
                    number(unit) + " x " + number(better / unit) + " makes the head's products faster");
  } else if (padded > job.model.vocab + job.model.vocab / 50) {
    found.push_back("vocabulary " + number(job.model.vocab) + " is padded to " + number(padded) + " (" +
                    number(padded / (128 * layout.tp)) + " x 128 x tp " + number(layout.tp) + "), " +
                    percent(static_cast<double>(padded) / job.model.vocab - 1) + " more rows");
  }
}

void fast_domain(const Job& job, const Layout& layout, std::vector<std::string>& found) {
  const auto& tiers = job.cluster.tiers;
  if (layout.tp <= 1 || tiers.size() < 2 || layout.tp <= tiers.front().span) {
    return;
  }
  const GroupPlacement group = place_group(job.cluster, layout.tp, 1);
  const NetworkTier& outer = tiers[std::min(group.tier, tiers.size() - 1)];
  found.push_back("tp " + number(layout.tp) + " reaches beyond the " + number(tiers.front().span) + " GPUs joined by " +
                  tiers.front().name + " (" + format(tiers.front().bandwidth) + "): its collectives run over " +
                  outer.name + " (" + format(outer.bandwidth) + ")");
}

void peaks(const Job& job, std::vector<std::string>& found) {
  const std::string suspicion = sparse_peak_suspicion(job.cluster.gpu);
  if (!suspicion.empty()) {
    found.push_back(suspicion);
  }
}

void waiting(const Job& job, const Layout& layout, std::vector<std::string>& found) {
  const StepEstimate step = estimate(job, layout).step;
  const double host = step.host / step.total();
  if (host > kHostShare) {
    found.push_back("the GPU waits " + percent(host) +
                    " of the step for kernel launches: a larger micro-batch, a smaller tp" +
                    (job.training.cuda_graphs ? "" : ", CUDA graphs") +
                    (job.training.compiled ? "" : " or compilation") + " shortens it");
  }
  const double bubble = step.bubble / step.total();
  if (layout.pp > 1 && bubble > kBubbleShare) {
    found.push_back("the pipeline idles " + percent(bubble) + " of the step: " + number(micro_batches(job, layout)) +
                    " micro-batches on " + number(layout.pp) +
                    " stages; more micro-batches, fewer stages or virtual stages shorten it");
  }
}

void sharding(const Layout& layout, std::vector<std::string>& found) {
  if (layout.zero > 0 && layout.dp * layout.cp == 1) {
    found.push_back("zero " + number(layout.zero) +
                    " saves nothing: one data-parallel rank has no one to share its states with");
  }
}

}  // namespace

std::vector<std::string> warnings(const Job& job, const Layout& layout) {
  std::vector<std::string> found;
  head_size(job, layout, found);
  dimensions(job, layout, found);
  vocabulary(job, layout, found);
  fast_domain(job, layout, found);
  peaks(job, found);
  sharding(layout, found);
  waiting(job, layout, found);
  return found;
}

}  // namespace tpplan
