#include "cost-model/collectives.h"

namespace tpplan {

std::optional<Collective> collective_from(std::string_view name) {
  for (const CollectiveRow& row : kCollectiveTable) {
    if (row.name == name) return row.collective;
  }
  return std::nullopt;
}

}  // namespace tpplan
