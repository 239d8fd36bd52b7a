#include "comm-bench/mpi_backend.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <vector>

#include "comm-bench/mpi_handle.h"

namespace tpplan::bench {

namespace {

constexpr int kRingTag = 7;
constexpr double kMemoryShare = 0.6;  ///< of the host's free memory, left to buffers

template <float (*Widen)(std::uint16_t), std::uint16_t (*Narrow)(float)>
void add_halves(void* in, void* in_out, int* length, MPI_Datatype* /*type*/) {
  const auto* from = static_cast<const std::uint16_t*>(in);
  auto* into = static_cast<std::uint16_t*>(in_out);
  for (int i = 0; i < *length; ++i) into[i] = Narrow(Widen(from[i]) + Widen(into[i]));
}

/// MPI's types and sums of the three dtypes.
class Arithmetic {
 public:
  Arithmetic() {
    MPI_Op_create(&add_halves<from_bf16, to_bf16>, 1, &bf16_sum_);
    MPI_Op_create(&add_halves<from_fp16, to_fp16>, 1, &fp16_sum_);
  }
  ~Arithmetic() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    MPI_Op_free(&bf16_sum_);
    MPI_Op_free(&fp16_sum_);
  }
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

  [[nodiscard]] static MPI_Datatype type(Dtype dtype) { return dtype == Dtype::fp32 ? MPI_FLOAT : MPI_UINT16_T; }
  [[nodiscard]] MPI_Op sum(Dtype dtype) const {
    return std::array<MPI_Op, kDtypes.size()>{bf16_sum_, fp16_sum_, MPI_SUM}[static_cast<std::size_t>(dtype)];
  }

 private:
  MPI_Op bf16_sum_ = MPI_OP_NULL;
  MPI_Op fp16_sum_ = MPI_OP_NULL;
};

/// One started operation: a request, or two for send/recv.
struct Started {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

struct Call {
  const void* send;
  void* receive;
  int count;
  MPI_Datatype type;
  MPI_Op sum;
  const Communicator::Handle& group;
};

int start_all_reduce(const Call& c, Started& started) {
  return MPI_Iallreduce(c.send, c.receive, c.count, c.type, c.sum, c.group.comm, started.requests.data());
}
int start_all_gather(const Call& c, Started& started) {
  return MPI_Iallgather(c.send, c.send == MPI_IN_PLACE ? 0 : c.count, c.type, c.receive, c.count, c.type, c.group.comm,
                        started.requests.data());
}
int start_reduce_scatter(const Call& c, Started& started) {
  return MPI_Ireduce_scatter_block(c.send, c.receive, c.count, c.type, c.sum, c.group.comm, started.requests.data());
}
int start_all_to_all(const Call& c, Started& started) {
  return MPI_Ialltoall(c.send, c.count, c.type, c.receive, c.count, c.type, c.group.comm, started.requests.data());
}
int start_send_recv(const Call& c, Started& started) {
  const int next = (c.group.rank + 1) % c.group.size;
  const int previous = (c.group.rank + c.group.size - 1) % c.group.size;
  const int code = MPI_Irecv(c.receive, c.count, c.type, previous, kRingTag, c.group.comm, started.requests.data());
  if (code != MPI_SUCCESS) return code;
  return MPI_Isend(c.send, c.count, c.type, next, kRingTag, c.group.comm, started.requests.data() + 1);
}
/// The root sends from its input; out of place the others receive into their result buffer.
int start_broadcast(const Call& c, Started& started) {
  void* buffer = c.group.rank == 0 && c.send != MPI_IN_PLACE ? const_cast<void*>(c.send) : c.receive;
  return MPI_Ibcast(buffer, c.count, c.type, 0, c.group.comm, started.requests.data());
}

struct Launcher {
  const char* call;
  int (*start)(const Call&, Started&);
};
/// In the order of Collective.
constexpr std::array<Launcher, kCollectives> kLaunchers{{{"MPI_Iallreduce", start_all_reduce},
                                                         {"MPI_Iallgather", start_all_gather},
                                                         {"MPI_Ireduce_scatter_block", start_reduce_scatter},
                                                         {"MPI_Ialltoall", start_all_to_all},
                                                         {"MPI_Isend/MPI_Irecv", start_send_recv},
                                                         {"MPI_Ibcast", start_broadcast}}};

}  // namespace

struct MpiBackend::State {
  [[nodiscard]] const Communicator::Handle& group(int channel) const {
    return channels[static_cast<std::size_t>(channel)].handle();
  }

  /// Where a rank's input lies: its own buffer, or its place in the result buffer.
  std::byte* input(const Operation& operation, int channel) {
    if (!operation.in_place) return send.data();
    const std::size_t block = extent_of(operation, group(channel).size).count * row_of(operation.dtype).bytes;
    const bool gathers = operation.collective == Collective::all_gather;
    return receive.data() + (gathers ? static_cast<std::size_t>(group(channel).rank) * block : 0);
  }

  /// MPI leaves the result of an in-place reduce-scatter at the start of the buffer on every rank.
  std::byte* result() { return receive.data(); }

  void run_once(const Operation& operation, int channel) {
    const Communicator::Handle& where = group(channel);
    const Extent extent = extent_of(operation, where.size);
    const Launcher& launcher = kLaunchers[static_cast<std::size_t>(operation.collective)];
    if (extent.count > static_cast<std::size_t>(INT_MAX)) {
      throw CommError(launcher.call, where.rank, where.host, "more than 2^31 - 1 elements in one call");
    }
    const Call call{operation.in_place ? MPI_IN_PLACE : send.data(),
                    receive.data(),
                    static_cast<int>(extent.count),
                    Arithmetic::type(operation.dtype),
                    arithmetic.sum(operation.dtype),
                    where};
    Started started;
    check_mpi(launcher.start(call, started), launcher.call, where);
    for (MPI_Request& request : started.requests) wait(request, launcher.call, where, Patience::eager);
    const bool copies = operation.collective == Collective::broadcast && !operation.in_place && where.rank == 0;
    if (copies) std::memcpy(receive.data(), send.data(), extent.count * row_of(operation.dtype).bytes);
  }

  Arithmetic arithmetic;
  std::vector<Communicator> channels;
  std::vector<std::byte> send;
  std::vector<std::byte> receive;
};

MpiBackend::MpiBackend() : state_(std::make_unique<State>()) {}
MpiBackend::~MpiBackend() = default;
MpiBackend::MpiBackend(MpiBackend&&) noexcept = default;
MpiBackend& MpiBackend::operator=(MpiBackend&&) noexcept = default;

void MpiBackend::reserve(BufferSizes sizes) {
  state_->send.resize(sizes.send);
  state_->receive.resize(sizes.receive);
}

double MpiBackend::memory_available(int ranks_on_host) {
  const long pages = sysconf(_SC_AVPHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return kMemoryShare * static_cast<double>(pages) * static_cast<double>(page) / ranks_on_host;
}

int MpiBackend::open_channel(const Communicator& members) {
  state_->channels.push_back(members.duplicate());
  return static_cast<int>(state_->channels.size()) - 1;
}

void MpiBackend::prepare(const Operation& operation, int channel, const Payload& payload) {
  const Communicator::Handle& where = state_->group(channel);
  const std::size_t element = row_of(operation.dtype).bytes;
  const std::vector<std::byte> tile = payload.tile(where.rank);
  write_tiled({state_->input(operation, channel), extent_of(operation, where.size).send * element}, tile, element, 0);
}

double MpiBackend::run(const Operation& operation, int channel, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) state_->run_once(operation, channel);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
}

std::size_t MpiBackend::wrong_elements(const Operation& operation, int channel, Payload& payload) {
  const Communicator::Handle& where = state_->group(channel);
  const std::size_t element = row_of(operation.dtype).bytes;
  // Bits that no correct result holds: an element that is never written is then seen.
  const BufferSizes sizes = buffers_of(operation, where.size);
  std::memset(state_->receive.data(), 0xff, sizes.receive);
  prepare(operation, channel, payload);
  state_->run_once(operation, channel);
  std::size_t wrong = 0;
  for (const Expectation& part : expected_result(operation, where.rank, where.size)) {
    const std::vector<std::byte> tile = part.tile_of < 0 ? payload.sum_tile() : payload.tile(part.tile_of);
    wrong += differing({state_->result() + part.at * element, part.count * element}, tile, element, part.first);
    state_->channels[static_cast<std::size_t>(channel)].call_waiting();
  }
  return wrong;
}

}  // namespace tpplan::bench
