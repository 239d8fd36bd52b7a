#include "comm-bench/mpi_session.h"

#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

// The handle and its two functions live in this library, because the planner's sweep links it alone.
#include "comm-bench/mpi_handle.h"

namespace tpplan::bench {

namespace {

constexpr int kTextTag = 17;  ///< of send() and receive()

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string first_line(std::string text) {
  const std::size_t end = text.find_first_of("\r\n");
  if (end != std::string::npos) text.resize(end);
  return text;
}

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > INT_MAX) return std::nullopt;
  return static_cast<int>(value);
}

std::vector<double> reduce(const Communicator::Handle& handle, std::vector<double> values, MPI_Op operation) {
  std::vector<double> result(values.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(values.data(), result.data(), static_cast<int>(values.size()), MPI_DOUBLE, operation,
                           handle.comm, &request),
            "MPI_Iallreduce", handle);
  wait(request, "MPI_Iallreduce", handle, Patience::relaxed);
  return result;
}

std::vector<std::string> cut(const std::string& bytes, const std::vector<int>& lengths) {
  std::vector<std::string> texts;
  texts.reserve(lengths.size());
  std::size_t at = 0;
  for (const int length : lengths) {
    texts.push_back(bytes.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return texts;
}

}  // namespace

Communicator::Handle::Handle(MPI_Comm communicator, bool is_owned, std::shared_ptr<std::function<void()>> poll)
    : comm(communicator), owned(is_owned), waiting(std::move(poll)) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  if (MPI_Get_processor_name(name.data(), &length) == MPI_SUCCESS) {
    host.assign(name.data(), static_cast<std::size_t>(length));
  }
}

Communicator::Handle::~Handle() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective; after an error the other ranks may be gone, and the job ends anyway.
  if (owned && finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm);
}

void check_mpi(int code, const char* call, const Communicator::Handle& where) {
  if (code != MPI_SUCCESS) throw CommError(call, where.rank, where.host, error_text(code));
}

void wait(MPI_Request& request, const char* call, const Communicator::Handle& where, Patience patience) {
  constexpr int kTestsBetweenPolls = 64;
  constexpr int kPollsBeforeSleep = 200;
  constexpr auto kSleep = std::chrono::microseconds(100);
  for (int polls = 0;; ++polls) {
    for (int i = 0; i < kTestsBetweenPolls; ++i) {
      int done = 0;
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call, where);
      if (done != 0) return;
      if (polls < kPollsBeforeSleep) continue;
      if (patience == Patience::eager) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
    }
    if (*where.waiting) (*where.waiting)();
  }
}

Communicator::Communicator(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}

int Communicator::rank() const { return handle_->rank; }
int Communicator::size() const { return handle_->size; }
const std::string& Communicator::host() const { return handle_->host; }

void Communicator::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(handle_->comm, &request), "MPI_Ibarrier", *handle_);
  wait(request, "MPI_Ibarrier", *handle_, Patience::eager);
}

std::string Communicator::broadcast(std::string text, int root) const {
  int length = static_cast<int>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(&length, 1, MPI_INT, root, handle_->comm, &request), "MPI_Ibcast", *handle_);
  wait(request, "MPI_Ibcast", *handle_, Patience::relaxed);
  text.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Ibcast(text.data(), length, MPI_CHAR, root, handle_->comm, &request), "MPI_Ibcast", *handle_);
  wait(request, "MPI_Ibcast", *handle_, Patience::relaxed);
  return text;
}

std::vector<std::string> Communicator::gather(const std::string& text, int root) const {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(rank() == root ? static_cast<std::size_t>(size()) : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Igather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, root, handle_->comm, &request), "MPI_Igather",
            *handle_);
  wait(request, "MPI_Igather", *handle_, Patience::relaxed);
  std::vector<int> offsets(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string bytes(lengths.empty() ? 0 : static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  check_mpi(MPI_Igatherv(text.data(), length, MPI_CHAR, bytes.data(), lengths.data(), offsets.data(), MPI_CHAR, root,
                         handle_->comm, &request),
            "MPI_Igatherv", *handle_);
  wait(request, "MPI_Igatherv", *handle_, Patience::relaxed);
  return cut(bytes, lengths);
}

std::vector<std::string> Communicator::all_gather(const std::string& text) const {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size()));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, handle_->comm, &request), "MPI_Iallgather",
            *handle_);
  wait(request, "MPI_Iallgather", *handle_, Patience::relaxed);
  std::vector<int> offsets(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string bytes(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  check_mpi(MPI_Iallgatherv(text.data(), length, MPI_CHAR, bytes.data(), lengths.data(), offsets.data(), MPI_CHAR,
                            handle_->comm, &request),
            "MPI_Iallgatherv", *handle_);
  wait(request, "MPI_Iallgatherv", *handle_, Patience::relaxed);
  return cut(bytes, lengths);
}

std::vector<double> Communicator::maximum(std::vector<double> values) const {
  return reduce(*handle_, std::move(values), MPI_MAX);
}

std::vector<double> Communicator::sum(std::vector<double> values) const {
  return reduce(*handle_, std::move(values), MPI_SUM);
}

void Communicator::send(const std::string& text, int to) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kTextTag, handle_->comm, &request),
            "MPI_Isend", *handle_);
  wait(request, "MPI_Isend", *handle_, Patience::relaxed);
}

std::optional<Communicator::Message> Communicator::receive() const {
  int waiting = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTextTag, handle_->comm, &waiting, &status), "MPI_Iprobe", *handle_);
  if (waiting == 0) return std::nullopt;
  int length = 0;
  check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count", *handle_);
  Message message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), '\0')};
  check_mpi(MPI_Recv(message.text.data(), length, MPI_CHAR, message.from, kTextTag, handle_->comm, MPI_STATUS_IGNORE),
            "MPI_Recv", *handle_);
  return message;
}

// MPI creates communicators only in a blocking call: the barrier before it finds a rank that does not come.
std::optional<Communicator> Communicator::split(int colour, int key) const {
  barrier();
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(handle_->comm, colour < 0 ? MPI_UNDEFINED : colour, key, &part), "MPI_Comm_split", *handle_);
  if (part == MPI_COMM_NULL) return std::nullopt;
  return Communicator(std::make_shared<Handle>(part, true, handle_->waiting));
}

Communicator Communicator::split_by_host() const {
  barrier();
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(handle_->comm, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &part),
            "MPI_Comm_split_type", *handle_);
  return Communicator(std::make_shared<Handle>(part, true, handle_->waiting));
}

Communicator Communicator::duplicate() const {
  barrier();
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(handle_->comm, &copy), "MPI_Comm_dup", *handle_);
  return Communicator(std::make_shared<Handle>(copy, true, handle_->waiting));
}

void Communicator::while_waiting(std::function<void()> poll) { *handle_->waiting = std::move(poll); }

void Communicator::call_waiting() const {
  if (*handle_->waiting) (*handle_->waiting)();
}

MpiSession::MpiSession(int& argc, char**& argv) {
  // Funneled: a helper thread may sit in a blocking NCCL or CUDA call, only this thread calls MPI.
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    throw CommError("MPI_Init_thread failed");
  }
  world_.emplace(
      std::make_shared<Communicator::Handle>(MPI_COMM_WORLD, false, std::make_shared<std::function<void()>>()));
}

MpiSession::~MpiSession() {
  world_->while_waiting({});
  world_.reset();
  MPI_Finalize();
}

std::string MpiSession::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version = first_line({text.data(), static_cast<std::size_t>(length)});
  const std::size_t comma = version.find(',');
  if (comma != std::string::npos) version.resize(comma);
  return version;
}

std::string MpiSession::compiled_version() {
#if defined(OMPI_MAJOR_VERSION)
  return "Open MPI v" + std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) + "." +
         std::to_string(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  return std::string("MPICH ") + MPICH_VERSION;
#else
  return "MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION);
#endif
}

void MpiSession::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

std::optional<LaunchedAs> launched_as() {
  struct Launcher {
    const char* rank;
    const char* size;
  };
  constexpr std::array<Launcher, 4> kLaunchers{{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                {"PMIX_RANK", "PMIX_SIZE"},
                                                {"PMI_RANK", "PMI_SIZE"},
                                                {"SLURM_PROCID", "SLURM_NTASKS"}}};
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> rank = number_in(launcher.rank);
    const std::optional<int> size = number_in(launcher.size);
    if (rank && size) return LaunchedAs{*rank, *size};
  }
  return std::nullopt;
}

}  // namespace tpplan::bench
