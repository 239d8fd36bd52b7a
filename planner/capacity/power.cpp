#include "planner/capacity/power.h"

namespace tpplan {

Between<Kilowatts> node_power(const PowerModel& model, const ClusterSpec& cluster) {
  if (model.node.raw() > 0) {
    return {model.node, model.node, model.node};
  }
  const Kilowatts gpus(cluster.gpu.tdp_watts * cluster.gpus_per_node / 1000);
  return {gpus * (model.gpu_share + model.host_share), gpus * (model.gpu_share + model.host_share_low),
          gpus * (model.gpu_share + model.host_share_high)};
}

Between<Kilowatts> site_power(const PowerModel& model, const ClusterSpec& cluster) {
  if (!cluster.parts.empty() && model.node.raw() <= 0) {
    Between<Kilowatts> sum;
    for (const ClusterSpec& part : cluster.parts) {
      const Between<Kilowatts> power = site_power(model, part);
      sum = {sum.value + power.value, sum.low + power.low, sum.high + power.high};
    }
    return sum;
  }
  const Between<Kilowatts> node = node_power(model, cluster);
  return {node.value * (model.pue * cluster.nodes), node.low * (model.pue_low * cluster.nodes),
          node.high * (model.pue_high * cluster.nodes)};
}

}  // namespace tpplan
