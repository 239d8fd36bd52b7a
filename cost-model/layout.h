#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tpplan {

enum class RecomputeKind : std::uint8_t { none, selective, selective_op, full };
enum class Schedule : std::uint8_t { gpipe, f1b1, interleaved, zb_h1, zb_h2, zb_1p, zb_2p, zb_v, dualpipe };
enum class CpType : std::uint8_t { ring, all_gather, ulysses };
enum class Offload : std::uint8_t { none, optimizer, activations };
enum class Optimizer : std::uint8_t { adam, adamw, adam_8bit, adam_bf16, sgd, muon, adafactor, lion };
enum class RanksOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp };
/// How few weights are trained beside frozen ones: low-rank products (Hu et al. 2021), the same beside 4-bit weights
/// (Dettmers et al. 2023), prompts in front of keys and values with a gate per head (LLaMA-Adapter, arXiv:2303.16199),
/// and those with a bias and a scale per output of every product and the norms (LLaMA-Adapter V2, arXiv:2304.15010).
enum class PeftMethod : std::uint8_t { none, lora, qlora, adapter, adapter_v2 };
/// When gradients are reduced over data-parallel ranks: as the framework does, after the backward pass of every
/// micro-batch, or after the last one only.
enum class GradReduce : std::uint8_t { by_framework, each, last };

/// Modules that selective recomputation drops and computes again in the backward pass (bit mask).
enum RecomputeModule : std::uint16_t {
  kCoreAttention = 1,
  kMlp = 2,
  kNorm = 4,
  kMoeActivation = 8,
  kMlaUpProjection = 16,
  kMoe = 32,
  kSharedExperts = 64
};

/// How one training step is spread over the GPUs. dp is world / (tp * cp * pp). A value: trivially copyable, compared
/// member by member, which is also the tie-break of the ranking.
struct Layout {
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t cp = 1;
  std::int32_t ep = 1;
  std::int32_t etp = 1;
  std::int32_t vpp = 1;               ///< virtual stages per pipeline rank
  std::int32_t vpp_group = 0;         ///< micro-batches through a chunk in turn when interleaved; 0: as many as stages
  std::int32_t micro_batch = 1;       ///< sequences
  std::int32_t shard_group = 0;       ///< ranks that share ZeRO/FSDP states; 0: all data-parallel ranks
  std::int32_t recompute_layers = 0;  ///< full recompute of so many layers per stage; 0: all of them
  std::uint16_t recompute_modules = kCoreAttention;
  std::uint8_t zero = 0;
  bool sequence_parallel = false;
  RecomputeKind recompute = RecomputeKind::none;
  Schedule schedule = Schedule::f1b1;
  CpType cp_type = CpType::ring;
  Offload offload = Offload::none;
  Optimizer optimizer = Optimizer::adam;
  RanksOrder ranks_order = RanksOrder::tp_cp_dp_pp;
  GradReduce grad_reduce = GradReduce::by_framework;

  [[nodiscard]] std::int64_t world() const { return std::int64_t{tp} * pp * dp * cp; }
  friend auto operator<=>(const Layout&, const Layout&) = default;
};
static_assert(std::is_trivially_copyable_v<Layout>);

template <class Enum>
struct NameRow {
  std::string_view name;
  Enum value;
};
inline constexpr std::array<NameRow<RecomputeKind>, 4> kRecomputeNames{{{"none", RecomputeKind::none},
                                                                        {"selective", RecomputeKind::selective},
                                                                        {"selective:op", RecomputeKind::selective_op},
                                                                        {"full", RecomputeKind::full}}};
inline constexpr std::array<NameRow<Schedule>, 9> kScheduleNames{{{"gpipe", Schedule::gpipe},
                                                                  {"1f1b", Schedule::f1b1},
                                                                  {"interleaved", Schedule::interleaved},
                                                                  {"zb-h1", Schedule::zb_h1},
                                                                  {"zb-h2", Schedule::zb_h2},
                                                                  {"zb-1p", Schedule::zb_1p},
                                                                  {"zb-2p", Schedule::zb_2p},
                                                                  {"zb-v", Schedule::zb_v},
                                                                  {"dualpipe", Schedule::dualpipe}}};
inline constexpr std::array<NameRow<CpType>, 3> kCpTypeNames{
    {{"ring", CpType::ring}, {"all-gather", CpType::all_gather}, {"ulysses", CpType::ulysses}}};
inline constexpr std::array<NameRow<Offload>, 3> kOffloadNames{
    {{"none", Offload::none}, {"optimizer", Offload::optimizer}, {"activations", Offload::activations}}};
inline constexpr std::array<NameRow<Optimizer>, 8> kOptimizerNames{{{"adam", Optimizer::adam},
                                                                    {"adamw", Optimizer::adamw},
                                                                    {"adam-8bit", Optimizer::adam_8bit},
                                                                    {"adam-bf16", Optimizer::adam_bf16},
                                                                    {"sgd", Optimizer::sgd},
                                                                    {"muon", Optimizer::muon},
                                                                    {"adafactor", Optimizer::adafactor},
                                                                    {"lion", Optimizer::lion}}};
inline constexpr std::array<NameRow<PeftMethod>, 5> kPeftNames{{{"none", PeftMethod::none},
                                                                {"lora", PeftMethod::lora},
                                                                {"qlora", PeftMethod::qlora},
                                                                {"adapter", PeftMethod::adapter},
                                                                {"adapter-v2", PeftMethod::adapter_v2}}};
inline constexpr std::array<NameRow<RanksOrder>, 2> kRanksOrderNames{
    {{"tp-cp-dp-pp", RanksOrder::tp_cp_dp_pp}, {"tp-cp-pp-dp", RanksOrder::tp_cp_pp_dp}}};
inline constexpr std::array<NameRow<GradReduce>, 3> kGradReduceNames{
    {{"auto", GradReduce::by_framework}, {"each", GradReduce::each}, {"last", GradReduce::last}}};
inline constexpr std::array<NameRow<std::uint16_t>, 7> kRecomputeModuleNames{{{"core_attn", kCoreAttention},
                                                                              {"mlp", kMlp},
                                                                              {"norm", kNorm},
                                                                              {"moe_act", kMoeActivation},
                                                                              {"mla_up_proj", kMlaUpProjection},
                                                                              {"moe", kMoe},
                                                                              {"shared_experts", kSharedExperts}}};

template <class Enum, std::size_t N>
constexpr std::string_view name_in(const std::array<NameRow<Enum>, N>& table, Enum value) {
  for (const auto& row : table) {
    if (row.value == value) {
      return row.name;
    }
  }
  return "?";
}
template <class Enum, std::size_t N>
constexpr std::optional<Enum> value_in(const std::array<NameRow<Enum>, N>& table, std::string_view name) {
  for (const auto& row : table) {
    if (row.name == name) {
      return row.value;
    }
  }
  return std::nullopt;
}

/// The integer axes of a layout: one row per axis drives enumeration, options, JSON, tables and help.
struct AxisRow {
  std::string_view option;  ///< command-line name: "micro-batch"
  std::string_view key;     ///< JSON name: "micro_batch"
  std::int32_t Layout::*field;
  std::string_view meaning;
};
inline constexpr std::array<AxisRow, 8> kAxes{{
    {"dp", "dp", &Layout::dp, "data-parallel replicas"},
    {"tp", "tp", &Layout::tp, "GPUs that share each matrix (tensor parallel)"},
    {"pp", "pp", &Layout::pp, "pipeline stages"},
    {"cp", "cp", &Layout::cp, "GPUs that share each sequence (context parallel)"},
    {"ep", "ep", &Layout::ep, "GPUs that share the experts (expert parallel)"},
    {"etp", "etp", &Layout::etp, "tensor parallel size inside an expert"},
    {"vpp", "vpp", &Layout::vpp, "virtual stages per pipeline rank"},
    {"micro-batch", "micro_batch", &Layout::micro_batch, "sequences per micro-batch"},
}};

/// "none", "selective", "selective:core_attn+mlp", "selective:op", "full", "full:4".
std::string recompute_text(const Layout& layout);
/// Reads such a text into `layout`; false, and nothing changed, when it has another form.
bool set_recompute(Layout& layout, std::string_view text);

/// One line "tp=8 pp=4 dp=16 micro-batch=1 zero=1 ...": those five always, every other axis that is not what
/// parse_layout() takes when it is not named.
std::string to_text(const Layout& layout);

/// Reads "tp=8 pp=4 micro-batch=1 ..." for a cluster of `world` GPUs: key=value separated by blanks or commas, keys as
/// the options are called ('-' and '_' alike; "sp", "mbs" and "group" for short). dp is derived. What the text does not
/// name is taken from `defaults`, except: sequence parallelism is on when tp > 1, the schedule is interleaved when vpp
/// > 1, and etp equals tp where the defaults say 0. "layers-per-stage=3+3+2" goes to `layers_per_stage`, and is unknown
/// without it. A layout that breaks a rule (tp * pp * cp not dividing the world too) is not an error here. Throws
/// SpecError with every problem: unknown keys and values, repeated keys, a dp that disagrees.
Layout parse_layout(std::string_view text, int world, const Layout& defaults = {},
                    std::vector<int>* layers_per_stage = nullptr);

/// Keys of parse_layout(), as written on the command line.
std::vector<std::string> layout_keys();

/// Layers of pipeline stage `stage` when `layers` are spread over `pp` stages (virtual ones when there are several per
/// rank): layers / pp each, the remainder one by one to stages 1, 2, ..., pp - 2, then 0, then pp - 1, so that the
/// ends, which also hold embedding and head, get the fewer layers (Megatron counts the two as a layer each: 126 + 2 =
/// 128).
int stage_layers(int layers, int pp, int stage);

}  // namespace tpplan
