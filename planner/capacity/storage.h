#pragma once

#include "cost-model/units.h"
#include "planner/capacity/failures.h"

namespace tpplan {

/// Bytes of one token on disk: 2 where every id fits into 16 bits, else 4.
double token_bytes(int vocab);

/// A checkpoint from which training goes on: weights in 16 bits and the optimizer's states, per parameter.
Bytes checkpoint_bytes(double params, double optimizer_state_bytes);

/// Write bandwidth at which checkpoints cost `share` of the wall time at the best interval. At Young's interval
/// C / t = sqrt(C / 2M), so that C may be 2 M share^2.
BytesPerSecond write_bandwidth_for(Bytes checkpoint, Seconds mtbf, double share);

/// What a run asks of the file system.
struct StorageNeeds {
  BytesPerSecond read;     ///< tokens of the input, while training
  BytesPerSecond write;    ///< for checkpoints to cost 1 % of the time
  Bytes dataset;           ///< all tokens of the run, each once
  Bytes checkpoint;        ///< one
  double checkpoints = 0;  ///< written in the run
  Bytes written;           ///< by all of them
};
StorageNeeds storage_needs(double tokens, double tokens_per_second, double bytes_per_token, Bytes checkpoint,
                           Seconds training, const FailureModel& failures, Seconds interval);

}  // namespace tpplan
