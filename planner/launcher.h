#pragma once

#include <optional>

namespace tpplan {

/// This process among those that mpirun, mpiexec or srun started together.
struct Launched {
  int rank = 0;
  int size = 1;
};

/// What the launcher's variables say (Open MPI, PMI, PMIx under Slurm); nothing when the process was started alone. A
/// batch job that merely runs inside an allocation is alone.
std::optional<Launched> launched();

}  // namespace tpplan
