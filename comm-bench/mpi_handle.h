#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "comm-bench/mpi_session.h"

namespace tpplan::bench {

/// What a Communicator owns; only mpi_*.cpp see it.
struct Communicator::Handle {
  Handle(MPI_Comm communicator, bool is_owned, std::shared_ptr<std::function<void()>> poll);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  MPI_Comm comm;
  bool owned;
  int rank = 0;
  int size = 1;
  std::string host;
  std::shared_ptr<std::function<void()>> waiting;
};

/// Throws CommError unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call, const Communicator::Handle& where);

/// eager: tests all the time, for whatever is timed or lines up ranks before a timing. relaxed: sleeps between tests
/// once it takes longer, which leaves the processor to ranks that measure.
enum class Patience { eager, relaxed };

/// Waits for a request by testing it, calling the communicator's waiting function in between.
void wait(MPI_Request& request, const char* call, const Communicator::Handle& where, Patience patience);

}  // namespace tpplan::bench
