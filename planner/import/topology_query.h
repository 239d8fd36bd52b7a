#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/spec_reader.h"

namespace tpplan {

/// One GPU as nvidia-smi lists it.
struct QueriedGpu {
  std::string name;
  std::optional<double> memory_mib;
  std::optional<int> pcie_generation, pcie_lanes;                  ///< .max
  std::optional<int> current_pcie_generation, current_pcie_lanes;  ///< .current; a GPU at rest lowers the generation
  std::size_t offset = 0;                                          ///< of its line in the text
};

/// The GPUs of `nvidia-smi --query-gpu=... --format=csv` (with or without header and units), of `nvidia-smi -L`, or of
/// `nvidia-smi -q -x`. Empty when the text is none of them. Problems go to `notes`, placed in `text`.
std::vector<QueriedGpu> queried_gpus(std::string_view text, std::vector<Diagnostic>& notes);

/// One port of a network adapter, of ibstat or ibv_devinfo.
struct NetworkPort {
  std::string device;
  bool active = true;
  bool infiniband = true;
  double gbit_per_second = 0;
  std::size_t offset = 0;
};
std::vector<NetworkPort> network_ports(std::string_view text, std::vector<Diagnostic>& notes);

/// Where a text holds the message of a failed nvidia-smi, nothing when it does not.
std::optional<std::size_t> driver_failure(std::string_view text);

}  // namespace tpplan
