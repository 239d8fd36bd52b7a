#include <exception>
#include <iostream>

#include "cost-model/spec_reader.h"
#include "planner/commands/command.h"
#include "planner/commands/help.h"
#include "planner/launcher.h"

namespace {

int run(int count, char** words) {
  const tpplan::PlannerOptions options = tpplan::parse_options({words + 1, words + count});
  if (options.help != tpplan::HelpPage::none || options.version) {
    return tpplan::run_help(options, std::cout, std::cerr);
  }
  return tpplan::find_command(options.command)->run(options, std::cout, std::cerr);
}

}  // namespace

int main(int count, char** words) {
  constexpr int kBadInput = 2;
  constexpr int kEnvironmentFailure = 3;
  std::ios::sync_with_stdio(false);
  // Of processes that mpirun starts with one command line, one speaks for all.
  const bool speaks = tpplan::launched().value_or(tpplan::Launched{}).rank == 0;
  int code = 0;
  try {
    code = run(count, words);
  } catch (const tpplan::UsageError& error) {
    if (speaks) {
      std::cerr << error.what() << "\n";
    }
    code = kBadInput;
  } catch (const tpplan::SpecError& error) {
    std::cerr << tpplan::error_text(error) << "\n";
    code = kBadInput;
  } catch (const std::exception& error) {
    std::cerr << tpplan::error_text(error) << "\n";
    code = kEnvironmentFailure;
  }
  // A reader that has gone away (head) is no failure: SIGPIPE ends the program before this is reached.
  std::cout.flush();
  if (std::cout.good()) {
    return code;
  }
  std::cerr << "tpplan: error: cannot write standard output\n";
  return kEnvironmentFailure;
}
