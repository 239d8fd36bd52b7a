#pragma once

#include "cost-model/model_spec.h"

namespace tpplan {

/// A model of about `params` parameters in the proportions of `model`: hidden width, heads and FFN grow by the cube
/// root of the ratio, rounded to what kernels and parallelism like (whole heads, in multiples of 8 from 16 on; FFN:
/// multiples of 256); an even number of layers then makes up the rest. Head size, vocabulary and number of experts
/// stay.
ModelSpec scaled_model(const ModelSpec& model, double params);

/// Model FLOPs of one token, forward and backward: 6 per active parameter outside the input embedding, plus attention
/// over half the sequence: 6 x layers x heads x head size x sequence.
double flops_per_token(const ModelSpec& model, int seq);

}  // namespace tpplan
