#include "comm-bench/mpi_watchdog.h"

#include <mpi.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>

#include "comm-bench/liveness.h"
#include "comm-bench/mpi_handle.h"

namespace tpplan::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPing = 1;
constexpr int kPulse = 2;
constexpr int kGoodbye = 3;
constexpr int kGoodbyeTests = 1000;
constexpr std::size_t kTextBytes = 112;
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr auto kBetweenProcessLooks = std::chrono::milliseconds(250);
constexpr double kAskAfter = 0.75;  ///< of the timeout
constexpr double kAnswerWithin = 0.15;

/// A pulse as it travels.
struct WirePulse {
  double step;
  double idle_s;
  std::array<char, kTextBytes> doing;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Identity of the process-id space: ids mean the same process only within it.
std::string pid_space() {
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) != 0) return "unknown";
  return std::to_string(status.st_ino);
}

/// SIGTERM as a readable descriptor instead of sudden death; -1 when the system has none.
int catch_termination() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) return -1;
  return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

}  // namespace

struct Watchdog::State {
  State(const Communicator& world, Seconds limit) : control(world.duplicate()), timeout(limit) {
    hosts = world.all_gather(world.host());
    std::ostringstream own;
    own << getpid() << ' ' << pid_space() << ' ' << world.host();
    const std::vector<std::string> processes = world.all_gather(own.str());
    const std::string here = own.str().substr(own.str().find(' '));
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      const bool same = processes[rank].substr(processes[rank].find(' ')) == here;
      neighbours.push_back(same ? static_cast<pid_t>(std::stol(processes[rank])) : pid_t{0});
    }
  }
  ~State() {
    if (termination >= 0) close(termination);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void answer_pings() {
    for (;;) {
      int waiting = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kPing, comm(), &waiting, &status) != MPI_SUCCESS || waiting == 0) return;
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kPing, comm(), MPI_STATUS_IGNORE);
      auto pulse = std::make_unique<WirePulse>(own_pulse());
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(pulse.get(), sizeof *pulse, MPI_BYTE, status.MPI_SOURCE, kPulse, comm(), &request);
      sent.push_back({request, std::move(pulse)});
    }
  }

  void collect_pulses() {
    for (;;) {
      int waiting = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kPulse, comm(), &waiting, &status) != MPI_SUCCESS || waiting == 0) return;
      WirePulse pulse{};
      MPI_Recv(&pulse, sizeof pulse, MPI_BYTE, status.MPI_SOURCE, kPulse, comm(), MPI_STATUS_IGNORE);
      pulse.doing.back() = '\0';
      if (!asking) continue;
      pulses[static_cast<std::size_t>(status.MPI_SOURCE)] = {true, static_cast<long>(pulse.step), Seconds(pulse.idle_s),
                                                             pulse.doing.data()};
    }
  }

  void drop_finished_sends() {
    std::erase_if(sent, [](Sent& message) {
      int done = 0;
      return MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
    });
  }

  /// Rank 0 asks everyone, the others ask rank 0.
  void ask() {
    asking = true;
    asked = Clock::now();
    pulses.assign(hosts.size(), Pulse{});
    const auto me = static_cast<std::size_t>(control.rank());
    const WirePulse own = own_pulse();
    pulses[me] = {true, static_cast<long>(own.step), Seconds(own.idle_s), doing};
    const std::size_t last = me == 0 ? hosts.size() : 1;
    for (std::size_t rank = 0; rank < last; ++rank) {
      if (rank == me) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(rank), kPing, comm(), &request);
      sent.push_back({request, nullptr});
    }
  }

  [[nodiscard]] bool all_answered() const {
    const std::size_t last = control.rank() == 0 ? pulses.size() : 1;
    return std::all_of(pulses.begin(), pulses.begin() + static_cast<std::ptrdiff_t>(last),
                       [](const Pulse& pulse) { return pulse.answered; });
  }

  void decide() {
    asking = false;
    const Seconds waited(seconds_since(advanced));
    if (control.rank() != 0) {
      const Pulse& first = pulses.front();
      // A rank 0 that answers looks after the job itself.
      patience = Clock::now();
      if (first.answered) return;
      pulses.resize(1);
      if (const auto text = verdict({first}, hosts, doing, waited, timeout)) throw CommError(*text);
      return;
    }
    if (const auto text = verdict(pulses, hosts, doing, waited, timeout)) throw CommError(*text);
    double idle = waited.raw();
    for (const Pulse& pulse : pulses) idle = pulse.answered ? std::min(idle, pulse.idle.raw()) : idle;
    patience = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(idle));
  }

  void look_at_processes() {
    if (seconds_since(last_process_look) < std::chrono::duration<double>(kBetweenProcessLooks).count()) return;
    last_process_look = Clock::now();
    name_dead_neighbour();
  }

  void say_goodbye() {
    std::vector<MPI_Request> requests;
    for (int rank = 0; rank < control.size(); ++rank) {
      if (rank == control.rank()) continue;
      requests.push_back(MPI_REQUEST_NULL);
      if (MPI_Isend(nullptr, 0, MPI_BYTE, rank, kGoodbye, comm(), &requests.back()) != MPI_SUCCESS) return;
    }
    int done = 0;
    for (int i = 0; i < kGoodbyeTests && done == 0; ++i) {
      if (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) {
        return;
      }
    }
  }

  void look_for_goodbye() const {
    int waiting = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kGoodbye, comm(), &waiting, &status) == MPI_SUCCESS && waiting != 0) {
      throw Interrupted("rank " + std::to_string(status.MPI_SOURCE) + " left with an error");
    }
  }

  void name_dead_neighbour() const {
    look_for_goodbye();
    for (std::size_t rank = 0; rank < neighbours.size(); ++rank) {
      const pid_t pid = neighbours[rank];
      if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) {
        throw CommError(dead_rank(static_cast<int>(rank), hosts[rank], doing));
      }
    }
  }

  void look_for_termination() {
    signalfd_siginfo info{};
    if (termination < 0 || read(termination, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    name_dead_neighbour();
    throw Interrupted("ended from outside (SIGTERM) in " + doing);
  }

  [[nodiscard]] WirePulse own_pulse() const {
    WirePulse pulse{static_cast<double>(step), seconds_since(advanced), {}};
    std::strncpy(pulse.doing.data(), doing.c_str(), pulse.doing.size() - 1);
    return pulse;
  }

  [[nodiscard]] MPI_Comm comm() const { return control.handle().comm; }

  struct Sent {
    MPI_Request request;
    std::unique_ptr<WirePulse> pulse;
  };

  Communicator control;
  Seconds timeout;
  std::vector<std::string> hosts;
  std::vector<pid_t> neighbours;  ///< process ids on this host by rank, 0 elsewhere
  int termination = catch_termination();
  std::string doing = "start-up";
  long step = 0;
  Clock::time_point advanced = Clock::now();  ///< this rank began or finished something
  Clock::time_point patience = Clock::now();  ///< somebody else was seen to move
  Clock::time_point last_look = Clock::now();
  Clock::time_point last_process_look = Clock::now();
  Clock::time_point asked;
  bool asking = false;
  std::vector<Pulse> pulses;
  std::vector<Sent> sent;
};

Watchdog::Watchdog(Communicator& world, Seconds timeout)
    : state_(std::make_unique<State>(world, timeout)), world_(world) {
  world_.while_waiting([this] { poll(); });
}

Watchdog::~Watchdog() { world_.while_waiting({}); }

void Watchdog::say_goodbye() { state_->say_goodbye(); }

void Watchdog::begin(std::string doing) {
  state_->doing = std::move(doing);
  ++state_->step;
  advance();
}

void Watchdog::advance() {
  state_->advanced = state_->patience = Clock::now();
  state_->asking = false;
}

void Watchdog::poll() {
  State& state = *state_;
  const Clock::time_point now = Clock::now();
  if (now - state.last_look < kBetweenLooks) return;
  state.last_look = now;
  state.look_for_termination();
  state.answer_pings();
  state.collect_pulses();
  state.drop_finished_sends();
  state.look_at_processes();
  if (!state.asking) {
    if (seconds_since(state.patience) >= kAskAfter * state.timeout.raw()) state.ask();
    return;
  }
  const bool late = seconds_since(state.asked) >= kAnswerWithin * state.timeout.raw();
  if (late || state.all_answered()) state.decide();
}

}  // namespace tpplan::bench
