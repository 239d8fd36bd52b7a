#pragma once

#include "cost-model/layer_cost.h"

namespace tpplan {

constexpr double kActivationBytes = 2;  ///< 16-bit activations outside the products

/// True for precisions whose products take 8-bit or 4-bit inputs.
bool narrow(Precision precision);

/// The precision of everything that stays out of the narrow products: attention, head, router.
Precision wide_precision(const Job& job);

/// Everything about one layer key that the operation lists share.
struct LayerSizes {
  double tokens = 0;           ///< of one micro-batch on this rank: s * b / cp
  double sequence_tokens = 0;  ///< tokens / tp with sequence parallelism
  double h = 0, tp = 1, sp = 1;
  double q = 0, kv = 0;  ///< whole widths of queries and of keys (or values), copies of heads fewer than tp included
  double q_local = 0, kv_local = 0, ffn_local = 0;
  double heads_local = 0, kv_heads_local = 0;
  double width_qk = 0, width_v = 0;
  double vocab_local = 0;
  Bytes element{kActivationBytes};
  double widening = 1;  ///< of activations over 16 bits
};

LayerSizes sizes_of(const Job& job, const LayerKey& key);

/// Fraction of the GPU's memory bandwidth that a kind of kernel reaches.
double memory_fraction(const GpuConstants& gpu, MemoryKind kind);
Seconds memory_time(const Job& job, Bytes bytes, MemoryKind kind);

/// Whether a conditional row (fused attention, fused norm, tp > 1) holds for this job and key.
bool applies(const Job& job, const LayerKey& key, const TokenBytes& row);

/// Bytes per token (of the rank's tokens) of one row; `ffn_width_tokens` is FFN width summed over what the token
/// visits.
double bytes_per_token(const Job& job, const LayerSizes& s, const TokenBytes& row, double ffn_width);

/// FFN width per token of this rank: dense f / tp, or what a MoE layer computes per token.
double ffn_width_per_token(const Job& job, const LayerSizes& s, bool moe_layer);

/// Parameters of one layer on one rank: divided by tp where the framework divides them.
struct RankParameters {
  double dense = 0, expert = 0;
};
RankParameters rank_parameters(const Job& job, const LayerKey& key, bool moe_layer);

/// What the user says of an overlap, else the profile's habit.
bool switched_on(Switch choice, double habit);

/// One matrix product of a layer with both of its backward products: data gradient (m, k, n), weight gradient (n, k,
/// m).
Operation product(const Job& job, const char* name, const char* formula, double m, double n, double k,
                  Precision precision, double rate, std::uint16_t module);

}  // namespace tpplan
