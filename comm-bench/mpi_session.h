#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm-bench/comm_error.h"

namespace tpplan::bench {

/// A set of ranks that talk to each other; owns its MPI communicator. Calls are collective over the ranks (but for send
/// and receive) and wait without blocking inside MPI: while it waits it calls the function set by `while_waiting`, so
/// that a rank which never comes can be noticed. Throws CommError with the MPI call and MPI's own text.
class Communicator {
 public:
  struct Handle;
  explicit Communicator(std::shared_ptr<Handle> handle);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Name of this rank's host, as MPI reports it.
  [[nodiscard]] const std::string& host() const;

  void barrier() const;
  [[nodiscard]] std::string broadcast(std::string text, int root) const;
  /// The texts of all ranks in rank order, at `root`; nothing elsewhere.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text, int root) const;
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text) const;
  /// Element by element over the ranks; every rank passes the same number of values and gets the result.
  [[nodiscard]] std::vector<double> maximum(std::vector<double> values) const;
  [[nodiscard]] std::vector<double> sum(std::vector<double> values) const;
  /// A text to one rank, not collective: the other calls receive() until it is there. Texts between two ranks arrive in
  /// the order they were sent.
  void send(const std::string& text, int to) const;
  struct Message {
    int from = 0;
    std::string text;
  };
  /// A text that send() has brought to this rank; nothing when none is there now.
  [[nodiscard]] std::optional<Message> receive() const;
  /// Ranks of equal colour, ordered by key. A negative colour takes part and gets nothing.
  [[nodiscard]] std::optional<Communicator> split(int colour, int key) const;
  /// The ranks that share memory with this one, that is those of one host.
  [[nodiscard]] Communicator split_by_host() const;
  /// The same ranks with message traffic of their own.
  [[nodiscard]] Communicator duplicate() const;

  /// Called again and again while a rank waits; communicators split or duplicated later inherit it.
  void while_waiting(std::function<void()> poll);
  void call_waiting() const;

  [[nodiscard]] const Handle& handle() const { return *handle_; }

 private:
  std::shared_ptr<Handle> handle_;
};

/// MPI_Init to MPI_Finalize. One per program.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] const Communicator& world() const { return *world_; }
  [[nodiscard]] Communicator& world() { return *world_; }
  /// Library and version at run time, such as "Open MPI v4.1.4".
  [[nodiscard]] static std::string library_version();
  /// The MPI this program was compiled against, in the same words where its header tells them.
  [[nodiscard]] static std::string compiled_version();
  /// Ends every rank of the job with this exit code; does not return.
  [[noreturn]] static void abort(int exit_code);

 private:
  std::optional<Communicator> world_;
};

/// What the launcher's variables say about this process before MPI starts (Open MPI, MPICH/PMI, Slurm); nothing when
/// it was started without a launcher.
struct LaunchedAs {
  int rank = 0;
  int size = 1;
};
std::optional<LaunchedAs> launched_as();

}  // namespace tpplan::bench
