#include "planner/export/launch.h"

namespace tpplan {

std::string torchrun(std::string_view program) {
  return "torchrun --nnodes=\"$NODES\" --nproc-per-node=\"$GPUS_PER_NODE\" --rdzv-id=tpplan --rdzv-backend=c10d "
         "--rdzv-endpoint=\"$HEAD:29500\" \\\n  " +
         std::string(program);
}

std::string script_start(const ExportRequest& request) {
  std::string text = "#!/bin/bash\n";
  if (request.launcher == Launcher::slurm) {
    const ClusterSpec& cluster = request.job.cluster;
    text += "#SBATCH --nodes=" + std::to_string(cluster.nodes) +
            "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=" + std::to_string(cluster.gpus_per_node) +
            "\n#SBATCH --exclusive\n";
  }
  return text;
}

std::string launch_variables(const ExportRequest& request, const LaunchLine& line) {
  const ClusterSpec& cluster = request.job.cluster;
  std::string text =
      "NODES=" + std::to_string(cluster.nodes) + "\nGPUS_PER_NODE=" + std::to_string(cluster.gpus_per_node) + "\n";
  if (request.launcher == Launcher::slurm) {
    text += "HEAD=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";
    return line.needs_node_rank ? text + "export NODES GPUS_PER_NODE HEAD\n" : text;
  }
  if (line.first_node_only) {
    return cluster.nodes == 1 ? text
                              : text + ": \"${HOSTS:?names of the " + std::to_string(cluster.nodes) +
                                    " nodes, separated by blanks}\"\n";
  }
  if (cluster.nodes == 1) {
    return text + "HEAD=localhost\n" + (line.needs_node_rank ? "NODE_RANK=0\n" : "");
  }
  text += ": \"${HEAD:?name or address of the first node}\"\n";
  return line.needs_node_rank ? text + ": \"${NODE_RANK:?number of this node, from 0}\"\n" : text;
}

std::string launch_line(const ExportRequest& request, const LaunchLine& line) {
  if (request.launcher == Launcher::slurm) {
    return line.before + (line.needs_node_rank
                              ? "srun bash -c 'NODE_RANK=$SLURM_NODEID; " + line.command + "' launch \"$@\"\n"
                              : "srun " + line.command + "\n");
  }
  const bool everywhere = request.job.cluster.nodes > 1 && !line.first_node_only;
  return line.before + (everywhere ? "# Run this script on every node.\n" : "") + line.command + "\n";
}

std::string environment(const ExportRequest& request, int max_connections, std::string_view reason) {
  std::string text = "# Environment worth a thought:\n";
  if (max_connections > 0) {
    text = "export CUDA_DEVICE_MAX_CONNECTIONS=" + std::to_string(max_connections) + "  # " + std::string(reason) +
           "\n" + text;
  }
  text +=
      "#   PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF) against "
      "fragmented memory\n"
      "#   TORCH_NCCL_AVOID_RECORD_STREAMS=1 frees communication buffers sooner\n"
      "#   NCCL_NVLS_ENABLE=0 gives back the memory of NVLink SHARP buffers\n";
  if (request.job.cluster.nodes > 1) {
    text += "#   NCCL_SOCKET_IFNAME, NCCL_IB_HCA where nodes have several networks\n";
  }
  return text;
}

}  // namespace tpplan
