#pragma once

#include "cost-model/layer_sizes.h"

namespace tpplan {

/// Name of the router's product, which stays out of the narrow ones.
inline constexpr const char* kRouter = "router";

/// Adds what a MoE layer has in place of the dense FFN, per GPU and micro-batch: router, routed and shared experts,
/// permutation, the exchange of tokens over ep and the collectives over etp.
void add_moe(const Job& job, const LayerKey& key, const LayerSizes& s, Precision precision, OperationList& list);

/// Distinct ranks, of `ranks`, on which the top_k experts of a token lie when the routing is even:
/// ranks (1 - (1 - 1/ranks)^top_k).
double distinct_ranks(double ranks, double top_k);

}  // namespace tpplan
