#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm-bench/groups.h"
#include "comm-bench/payload.h"
#include "comm-bench/sweep.h"

namespace tpplan::bench {

enum class BackendChoice { automatic, nccl, mpi };
enum class OutputFormat { table, json };

struct Options {
  BackendChoice backend = BackendChoice::automatic;
  std::vector<Collective> collectives;
  std::vector<Dtype> dtypes;
  std::size_t least_bytes = 1024;
  std::size_t most_bytes = std::size_t{1} << 30;
  std::vector<GroupKind> groups;
  Mode mode = Mode::single;
  bool compute = false;
  bool check_only = false;
  bool anonymous = false;
  Seconds timeout{60};
  Seconds budget{120};
  OutputFormat format = OutputFormat::table;
  std::string output;  ///< sample file, empty for none
  std::vector<std::string> command;
};

/// The command line is wrong; says what, what is allowed, and where help is.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the command line asks for: options to run with, or a text to print (help, version).
struct ParsedCommand {
  Options options;
  std::optional<std::string> text;
};
ParsedCommand parse_command(int argc, const char* const* argv);

}  // namespace tpplan::bench
