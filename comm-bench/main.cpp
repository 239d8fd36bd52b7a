#include <exception>
#include <iostream>

#include "comm-bench/mpi_session.h"
#include "comm-bench/options.h"
#include "comm-bench/program.h"

int main(int argc, char** argv) {
  namespace bench = tpplan::bench;
  constexpr int kUsage = 2;
  constexpr int kEnvironment = 3;
  // One of the processes that mpirun starts speaks for all.
  const bool speaks = bench::launched_as().value_or(bench::LaunchedAs{}).rank == 0;
  try {
    const bench::ParsedCommand command = bench::parse_command(argc, argv);
    if (command.text) {
      if (speaks) std::cout << *command.text << std::flush;
      return 0;
    }
    bench::MpiSession session(argc, argv);
    return bench::run_program(command.options, session);
  } catch (const bench::UsageError& error) {
    if (speaks) std::cerr << "comm-bench: " << error.what() << "\ntry: comm-bench --help\n";
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "comm-bench: error: " << error.what() << "\n";
    return kEnvironment;
  }
}
