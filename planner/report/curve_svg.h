#pragma once

#include <string>
#include <vector>

#include "cost-model/calibration.h"

namespace tpplan {

/// Bus bandwidth of measured points and fitted lines over message size (logarithmic) as a self-contained SVG: text is
/// text, role="img" with title and description, colours told apart by shape and dash as well, light and dark. At most
/// twelve curves are drawn; the description says which ones are not.
std::string curve_svg(const std::vector<CollectiveCurve>& curves, const std::string& title);

}  // namespace tpplan
