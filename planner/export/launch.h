#pragma once

#include <string>
#include <string_view>

#include "planner/export/export_request.h"

namespace tpplan {

/// What starts the processes of one node, in shell words. The line sees NODES, GPUS_PER_NODE, HEAD (name of the first
/// node) and NODE_RANK.
struct LaunchLine {
  std::string command;           ///< "torchrun ... pretrain_gpt.py"
  bool needs_node_rank = false;  ///< the launcher does not find out by itself which node it is on
  bool first_node_only = false;  ///< the launcher reaches the other nodes by itself
  std::string before = {};       ///< lines that come before it
};

/// torchrun with an elastic rendezvous on the first node, followed by `program`.
std::string torchrun(std::string_view program);

/// The first lines of a launch script: the shell and, for Slurm, what it is asked for.
std::string script_start(const ExportRequest& request);

/// Sets the variables that launch lines see; each that the user must give stops the script when it is unset.
std::string launch_variables(const ExportRequest& request, const LaunchLine& line);

/// The line that starts the job: as it is, or through srun once per node.
std::string launch_line(const ExportRequest& request, const LaunchLine& line);

/// Environment variables worth a thought, as comments. `max_connections`: CUDA_DEVICE_MAX_CONNECTIONS that the program
/// asks for, 0 for none; it alone is set, with the reason.
std::string environment(const ExportRequest& request, int max_connections, std::string_view reason);

}  // namespace tpplan
