#include "planner/capacity/storage.h"

#include <cmath>

namespace tpplan {

double token_bytes(int vocab) {
  constexpr int kSixteenBits = 65536;
  return vocab <= kSixteenBits ? 2 : 4;
}

Bytes checkpoint_bytes(double params, double optimizer_state_bytes) {
  constexpr double kWeightBytes = 2;
  return Bytes(params * (kWeightBytes + optimizer_state_bytes));
}

BytesPerSecond write_bandwidth_for(Bytes checkpoint, Seconds mtbf, double share) {
  return checkpoint / (mtbf * (2 * share * share));
}

StorageNeeds storage_needs(double tokens, double tokens_per_second, double bytes_per_token, Bytes checkpoint,
                           Seconds training, const FailureModel& failures, Seconds interval) {
  constexpr double kCheckpointShare = 0.01;
  StorageNeeds needs;
  needs.read = BytesPerSecond(tokens_per_second * bytes_per_token);
  needs.write = write_bandwidth_for(checkpoint, failures.mtbf, kCheckpointShare);
  needs.dataset = Bytes(tokens * bytes_per_token);
  needs.checkpoint = checkpoint;
  needs.checkpoints = std::ceil(training / interval);
  needs.written = checkpoint * needs.checkpoints;
  return needs;
}

}  // namespace tpplan
