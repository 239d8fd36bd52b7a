#pragma once

#include "planner/import/run_records.h"

namespace tpplan {

/// Whether a line is a fine-tuning row: GPU, batch and method at its top level, no "hardware" or "training".
bool is_finetune_row(const ObjectReader& in);

/// Group of a row that names none: "finetune-litgpt-2024".
std::string finetune_group(const RunRecord& record);

/// Reads a fine-tuning row (docs/fine-tuning.md) into `record`. What a row leaves out is taken from the
/// configuration files of the program it names and listed under `assumed`; a row that neither settles is skipped.
void read_finetune_row(ObjectReader& in, RunRecord& record, const GpuCatalogue& catalogue);

}  // namespace tpplan
