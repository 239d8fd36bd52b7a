#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_rules.h"
#include "planner/export/launch.h"

namespace tpplan {

/// What the file of a target is.
enum class FileKind : std::uint8_t {
  script,    ///< a shell script that starts the job: launch lines included
  remarked,  ///< a configuration that may hold comments after "#"
  bare       ///< a configuration without comments
};

/// One framework that layouts are written for.
struct ExportTarget {
  Target target;
  Framework framework;       ///< whose rules and speed apply unless --framework says otherwise
  std::string_view program;  ///< what the keys were checked against
  std::string_view suffix;   ///< of the file's name
  FileKind kind;
  std::uint32_t expresses;                             ///< Feature bits of what its file can say
  std::string (*write)(const ExportRequest& request);  ///< the file without its head
  LaunchLine (*launch)(const ExportRequest& request);
  std::string_view prepare;  ///< shell lines before the launch line: what the user must give, in variables
};

/// Every target, in the order of kTargetNames.
const std::vector<ExportTarget>& export_targets();
const ExportTarget& row_of(Target target);

/// The target whose usual framework this is and that runs the layout; nothing when there is none.
const ExportTarget* target_for(const Job& job, const Layout& layout);

/// What is written: the main file, and the script that launches it where that is another file.
struct ExportFiles {
  std::string main;
  std::string launch;  ///< empty: the main file launches itself
};
ExportFiles export_files(const ExportTarget& target, const ExportRequest& request);

// The writers, a file each.
std::string write_megatron(const ExportRequest& request);
LaunchLine launch_megatron(const ExportRequest& request);
std::string write_megatron_bridge(const ExportRequest& request);
LaunchLine launch_megatron_bridge(const ExportRequest& request);
std::string write_deepspeed(const ExportRequest& request);
LaunchLine launch_deepspeed(const ExportRequest& request);
std::string write_torchtitan(const ExportRequest& request);
LaunchLine launch_torchtitan(const ExportRequest& request);
std::string write_torchtitan_toml(const ExportRequest& request);
LaunchLine launch_torchtitan_toml(const ExportRequest& request);
std::string write_accelerate(const ExportRequest& request);
LaunchLine launch_accelerate(const ExportRequest& request);
std::string write_nanotron(const ExportRequest& request);
LaunchLine launch_nanotron(const ExportRequest& request);
std::string write_llm_foundry(const ExportRequest& request);
LaunchLine launch_llm_foundry(const ExportRequest& request);
std::string write_colossalai(const ExportRequest& request);
LaunchLine launch_colossalai(const ExportRequest& request);

}  // namespace tpplan
