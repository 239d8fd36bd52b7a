#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm-bench/mpi_session.h"
#include "cost-model/units.h"

namespace tpplan::bench {

/// Notices a rank that died or hangs, and names it with its host and the operation, within the timeout.
///
/// Every wait of this program polls. While a rank polls it answers pings of the others with its pulse (how many
/// operations it began, how long ago, which one). When rank 0 has waited for three quarters of the timeout it asks all
/// ranks; the other ranks ask rank 0. Who does not answer, or is behind, is named by a CommError; a rank that advanced
/// lately resets the clock. Processes of the same host are also looked up by process id, and a request to end by the
/// launcher (SIGTERM, sent when a rank has crashed) is used to say who is gone.
class Watchdog {
 public:
  Watchdog(Communicator& world, Seconds timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names the operation that this rank begins; counts as advancing.
  void begin(std::string doing);
  /// This rank finished a part of the operation.
  void advance();
  /// Answers pings and looks for trouble; cheap enough for every loop that waits. Throws CommError.
  void poll();
  /// Tells the other ranks that this one leaves with an error of its own, so that they do not report its death.
  void say_goodbye();

 private:
  struct State;
  std::unique_ptr<State> state_;
  Communicator& world_;
};

}  // namespace tpplan::bench
