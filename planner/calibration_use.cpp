#include "planner/calibration_use.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tpplan {
namespace {

constexpr std::string_view kPrefix = "NCCL_";
/// Variables without influence on speed: logging, files, names of hosts and jobs, and the version that container images
/// announce. By prefix.
constexpr std::array<std::string_view, 10> kWithoutInfluence{
    "NCCL_DEBUG",           "NCCL_VERSION",        "NCCL_CONF_FILE",       "NCCL_HOSTID", "NCCL_COMM_ID",
    "NCCL_SET_THREAD_NAME", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_RAS",    "NCCL_TESTS"};

bool counts(std::string_view name) {
  return name.substr(0, kPrefix.size()) == kPrefix &&
         std::none_of(kWithoutInfluence.begin(), kWithoutInfluence.end(),
                      [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

const std::string* value_of(const Variables& variables, const std::string& name) {
  const auto found = std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
  return found == variables.end() ? nullptr : &found->second;
}

}  // namespace

Variables nccl_environment() {
  Variables found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && text.substr(0, kPrefix.size()) == kPrefix) {
      found.emplace_back(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> calibration_doubts(const Calibration& calibration, const Variables& environment,
                                            const GpuSpec* gpu) {
  std::vector<std::string> doubts;
  const std::string name = "calibration " + (calibration.name.empty() ? "file" : calibration.name);
  if (gpu != nullptr && !calibration.gpu.empty() && !calibration.empty() && calibration.gpu != gpu->id) {
    doubts.push_back(name + " was measured on " + calibration.gpu + ", the cluster has " + gpu->id +
                     ": its times are used all the same; --calibration none prices by the data sheet");
  }
  if (calibration.curves.empty()) {
    return doubts;
  }
  for (const auto& [variable, value] : calibration.variables) {
    if (!counts(variable)) {
      continue;
    }
    const std::string* here = value_of(environment, variable);
    if (here == nullptr) {
      doubts.push_back(name + " was measured with " + variable + "=" + value +
                       ", which is not set here: set it for the training job too, or measure without it");
    } else if (*here != value) {
      doubts.push_back(name + " was measured with " + variable + "=" + value + ", here it is " + *here +
                       ": collectives may take other times");
    }
  }
  for (const auto& [variable, value] : environment) {
    if (counts(variable) && value_of(calibration.variables, variable) == nullptr) {
      doubts.push_back(name + " was measured without " + variable + ", here it is " + value +
                       ": collectives may take other times");
    }
  }
  return doubts;
}

}  // namespace tpplan
