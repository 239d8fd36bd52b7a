#include "planner/launcher.h"

#include <array>
#include <cstdlib>

namespace tpplan {
namespace {

std::optional<int> count_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  constexpr long kMostRanks = 1 << 24;
  return *end == '\0' && value >= 0 && value < kMostRanks ? std::optional(static_cast<int>(value)) : std::nullopt;
}

}  // namespace

std::optional<Launched> launched() {
  struct Variables {
    const char* rank;
    const char* size;
  };
  constexpr std::array<Variables, 3> kLaunchers{
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", "SLURM_NTASKS"}}};
  for (const Variables& names : kLaunchers) {
    const std::optional<int> rank = count_in(names.rank);
    const std::optional<int> size = count_in(names.size);
    if (rank && size && *rank < *size) {
      return Launched{*rank, *size};
    }
  }
  return std::nullopt;
}

}  // namespace tpplan
