#pragma once

#include "comm-bench/mpi_session.h"
#include "comm-bench/options.h"

namespace tpplan::bench {

/// Preflight, --compute and the sweep of collectives, on every rank; returns the exit code. A failure of one rank ends
/// the whole job with code 3 and does not return.
int run_program(const Options& options, MpiSession& session);

}  // namespace tpplan::bench
