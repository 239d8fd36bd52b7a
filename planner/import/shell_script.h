#pragma once

#include "planner/import/config_file.h"

namespace tpplan {

/// Fills in the entries of a file that is a shell script, or a list of flags without a command. The script is followed
/// as far as its text decides: variables, arrays, arithmetic, tests, case, the first round of for loops; functions are
/// read where they stand. Of the commands that start a program the one with most flags counts. Its flags become entries
/// ("--seq-length", "-" for "_"; "training.seq_len" of "--training.seq_len" and "model.hidden_size" of
/// "model.hidden_size=8"), with options of what starts it as "launcher --nnodes" and those of Slurm as "sbatch
/// --nodes". Throws SpecError at a quote or bracket that is not closed.
void read_shell_script(ConfigFile& file);

}  // namespace tpplan
