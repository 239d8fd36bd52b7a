#include "comm-bench/nccl_backend.h"

#include "comm-bench/comm_error.h"
#include "comm-bench/cuda_runtime.h"

#if defined(TPPLAN_HAVE_NCCL) && defined(TPPLAN_HAVE_CUDA)

#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tpplan::bench {

namespace {

constexpr std::size_t kStagingBytes = std::size_t{32} << 20;
constexpr double kMemoryShare = 0.85;  ///< of the GPU's free memory; NCCL allocates channels of its own
constexpr int kQueriesBetweenPolls = 64;
constexpr auto kBetweenErrorLooks = std::chrono::milliseconds(100);

/// Functions of libnccl; the types come from its header.
struct NcclFunctions {
  decltype(&::ncclGetUniqueId) unique_id;
  decltype(&::ncclCommInitRank) init_rank;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclCommAbort) abort;
  decltype(&::ncclCommGetAsyncError) async_error;
  decltype(&::ncclGetErrorString) error_string;
  const char* (*last_error)(ncclComm_t);  ///< NCCL 2.13 and later, else null
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) receive;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;

  static std::shared_ptr<const NcclFunctions> open(std::string& problem) {
    const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::nccl, problem);
    if (!library) return nullptr;
    auto nccl = std::make_shared<NcclFunctions>();
    std::string missing;
    const auto bind = [&](auto& function, const char* name) {
      function = library->find<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
      if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    };
    bind(nccl->unique_id, "ncclGetUniqueId");
    bind(nccl->init_rank, "ncclCommInitRank");
    bind(nccl->destroy, "ncclCommDestroy");
    bind(nccl->abort, "ncclCommAbort");
    bind(nccl->async_error, "ncclCommGetAsyncError");
    bind(nccl->error_string, "ncclGetErrorString");
    bind(nccl->all_reduce, "ncclAllReduce");
    bind(nccl->all_gather, "ncclAllGather");
    bind(nccl->reduce_scatter, "ncclReduceScatter");
    bind(nccl->broadcast, "ncclBroadcast");
    bind(nccl->send, "ncclSend");
    bind(nccl->receive, "ncclRecv");
    bind(nccl->group_start, "ncclGroupStart");
    bind(nccl->group_end, "ncclGroupEnd");
    nccl->last_error = library->find<const char*(ncclComm_t)>("ncclGetLastError");
    if (missing.empty()) return nccl;
    problem = library->path() + " lacks " + missing + ": NCCL 2.7 or later is needed";
    return nullptr;
  }
};

/// Runs something that may block for ever on a thread of its own, calling `poll` until it is done. When `poll` throws,
/// the thread is left behind: the job ends.
void run_guarded(const std::function<void()>& work, const std::function<void()>& poll) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::exception_ptr error;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, work] {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(shared->mutex);
    shared->done = true;
    shared->error = error;
    shared->changed.notify_one();
  }).detach();
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(shared->mutex);
      if (shared->changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return shared->done; })) break;
    }
    poll();
  }
  if (shared->error) std::rethrow_exception(shared->error);
}

ncclDataType_t nccl_type(Dtype dtype) {
  return std::array<ncclDataType_t, kDtypes.size()>{ncclBfloat16, ncclFloat16,
                                                    ncclFloat32}[static_cast<std::size_t>(dtype)];
}

/// One NCCL communicator; destroyed in order at the end, aborted when an error unwinds.
class Channel {
 public:
  Channel(std::shared_ptr<const NcclFunctions> nccl, const Communicator& ranks, ncclComm_t comm)
      : members(ranks), nccl_(std::move(nccl)), comm_(comm) {}
  ~Channel() {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() == 0) nccl_->destroy(comm_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  Channel(Channel&& other) noexcept
      : members(std::move(other.members)), nccl_(std::move(other.nccl_)), comm_(std::exchange(other.comm_, nullptr)) {}
  Channel& operator=(Channel&&) = delete;
  [[nodiscard]] ncclComm_t comm() const { return comm_; }

  Communicator members;

 private:
  std::shared_ptr<const NcclFunctions> nccl_;
  ncclComm_t comm_;
};

/// One call, as the launchers see it.
struct Call {
  const NcclFunctions& nccl;
  const std::byte* send;
  std::byte* receive;
  std::size_t count;
  std::size_t block_bytes;
  ncclDataType_t type;
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int ranks;
};

ncclResult_t launch_all_reduce(const Call& c) {
  return c.nccl.all_reduce(c.send, c.receive, c.count, c.type, ncclSum, c.comm, c.stream);
}
ncclResult_t launch_all_gather(const Call& c) {
  return c.nccl.all_gather(c.send, c.receive, c.count, c.type, c.comm, c.stream);
}
ncclResult_t launch_reduce_scatter(const Call& c) {
  return c.nccl.reduce_scatter(c.send, c.receive, c.count, c.type, ncclSum, c.comm, c.stream);
}
ncclResult_t launch_all_to_all(const Call& c) {
  ncclResult_t code = c.nccl.group_start();
  for (int peer = 0; peer < c.ranks && code == ncclSuccess; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * c.block_bytes;
    code = c.nccl.send(c.send + at, c.count, c.type, peer, c.comm, c.stream);
    if (code == ncclSuccess) code = c.nccl.receive(c.receive + at, c.count, c.type, peer, c.comm, c.stream);
  }
  const ncclResult_t end = c.nccl.group_end();
  return code == ncclSuccess ? end : code;
}
ncclResult_t launch_send_recv(const Call& c) {
  ncclResult_t code = c.nccl.group_start();
  if (code == ncclSuccess) code = c.nccl.send(c.send, c.count, c.type, (c.rank + 1) % c.ranks, c.comm, c.stream);
  if (code == ncclSuccess) {
    code = c.nccl.receive(c.receive, c.count, c.type, (c.rank + c.ranks - 1) % c.ranks, c.comm, c.stream);
  }
  const ncclResult_t end = c.nccl.group_end();
  return code == ncclSuccess ? end : code;
}
ncclResult_t launch_broadcast(const Call& c) {
  return c.nccl.broadcast(c.send, c.receive, c.count, c.type, 0, c.comm, c.stream);
}

struct Launcher {
  const char* call;
  ncclResult_t (*launch)(const Call&);
};
/// In the order of Collective.
constexpr std::array<Launcher, kCollectives> kLaunchers{{{"ncclAllReduce", launch_all_reduce},
                                                         {"ncclAllGather", launch_all_gather},
                                                         {"ncclReduceScatter", launch_reduce_scatter},
                                                         {"ncclSend/ncclRecv (all_to_all)", launch_all_to_all},
                                                         {"ncclSend/ncclRecv", launch_send_recv},
                                                         {"ncclBroadcast", launch_broadcast}}};

}  // namespace

struct NcclBackend::State {
  State(const Communicator& world, int local_rank) : everyone(world) {
    std::string problem;
    device.cuda = CudaRuntime::open(problem);
    if (!device.cuda) throw CommError(problem);
    nccl = NcclFunctions::open(problem);
    if (!nccl) throw CommError(problem);
    device.rank = world.rank();
    device.place = world.host();
    int devices = 0;
    device.check(device.cuda->get_device_count(&devices), "cudaGetDeviceCount");
    device.device = local_rank % devices;
    device.place += ", GPU " + std::to_string(device.device);
    device.check(device.cuda->set_device(device.device), "cudaSetDevice");
    stream = make_stream(device);
    start = make_event(device);
    stop = make_event(device);
    aligner = allocate_device(device, sizeof(float));
    device.check(device.cuda->memset_async(aligner.handle(), 0, sizeof(float), stream.handle()), "cudaMemsetAsync");
    staging = allocate_pinned(device, kStagingBytes);
  }

  void check(ncclResult_t code, const char* call, ncclComm_t comm) const {
    if (code == ncclSuccess) return;
    std::string reason = nccl->error_string(code);
    const char* detail = nccl->last_error != nullptr ? nccl->last_error(comm) : nullptr;
    if (detail != nullptr && *detail != '\0') reason += " (" + std::string(detail) + ")";
    throw CommError(call, device.rank, device.place, reason);
  }

  Channel& channel(int index) { return channels[static_cast<std::size_t>(index)]; }

  void enqueue(const Operation& operation, Channel& on) {
    const int ranks = on.members.size();
    const int rank = on.members.rank();
    const std::size_t element = row_of(operation.dtype).bytes;
    const std::size_t count = extent_of(operation, ranks).count;
    const std::size_t own_block = static_cast<std::size_t>(rank) * count * element;
    auto* result = static_cast<std::byte*>(receive.handle());
    const std::byte* input = static_cast<const std::byte*>(send.handle());
    if (operation.in_place) {
      // NCCL's in-place forms: all-gather sends from its own block, reduce-scatter receives into it.
      input = result;
      if (operation.collective == Collective::all_gather) input = result + own_block;
      if (operation.collective == Collective::reduce_scatter) result += own_block;
    }
    const Launcher& launcher = kLaunchers[static_cast<std::size_t>(operation.collective)];
    const Call call{*nccl,     input,           result, count, count * element, nccl_type(operation.dtype),
                    on.comm(), stream.handle(), rank,   ranks};
    check(launcher.launch(call), launcher.call, on.comm());
  }

  void align(Channel& on) {
    check(nccl->all_reduce(aligner.handle(), aligner.handle(), 1, ncclFloat32, ncclSum, on.comm(), stream.handle()),
          "ncclAllReduce (aligning)", on.comm());
  }

  /// Waits for an event without blocking, so that a rank that never comes and an error of NCCL are noticed.
  void wait_for(const CudaEvent& event, Channel& on) {
    auto last_look = std::chrono::steady_clock::now();
    for (;;) {
      for (int i = 0; i < kQueriesBetweenPolls; ++i) {
        const cudaError_t code = device.cuda->event_query(event.handle());
        if (code == cudaSuccess) return;
        if (code != cudaErrorNotReady) device.check(code, "cudaEventQuery");
      }
      on.members.call_waiting();
      const auto now = std::chrono::steady_clock::now();
      if (now - last_look < kBetweenErrorLooks) continue;
      last_look = now;
      ncclResult_t pending = ncclSuccess;
      check(nccl->async_error(on.comm(), &pending), "ncclCommGetAsyncError", on.comm());
      if (pending != ncclSuccess && pending != ncclInProgress) check(pending, "NCCL in the background", on.comm());
    }
  }

  /// Runs the operation once where it may connect ranks for the first time, which blocks inside NCCL.
  void run_first(const Operation& operation, Channel& on) {
    run_guarded(
        [this, operation, &on] {
          device.check(device.cuda->set_device(device.device), "cudaSetDevice");
          align(on);
          enqueue(operation, on);
        },
        [&on] { on.members.call_waiting(); });
    device.check(device.cuda->event_record(stop.handle(), stream.handle()), "cudaEventRecord");
    wait_for(stop, on);
  }

  /// Bytes of a rank's input and where it lies.
  std::byte* input(const Operation& operation, const Channel& on) {
    if (!operation.in_place) return static_cast<std::byte*>(send.handle());
    const std::size_t block = extent_of(operation, on.members.size()).count * row_of(operation.dtype).bytes;
    const bool gathers = operation.collective == Collective::all_gather;
    return static_cast<std::byte*>(receive.handle()) +
           (gathers ? static_cast<std::size_t>(on.members.rank()) * block : 0);
  }

  /// Compares device memory with a repeated tile, a staging buffer at a time.
  std::size_t count_differing(const std::byte* from, std::size_t elements, const std::vector<std::byte>& tile,
                              std::size_t element, std::size_t first, Channel& on) {
    std::size_t wrong = 0;
    const std::size_t at_once = kStagingBytes / element;
    for (std::size_t done = 0; done < elements;) {
      const std::size_t now = std::min(at_once, elements - done);
      device.check(device.cuda->memcpy_async(staging.handle(), from + done * element, now * element,
                                             cudaMemcpyDeviceToHost, stream.handle()),
                   "cudaMemcpyAsync");
      device.check(device.cuda->event_record(stop.handle(), stream.handle()), "cudaEventRecord");
      wait_for(stop, on);
      wrong += differing({static_cast<const std::byte*>(staging.handle()), now * element}, tile, element, first + done);
      done += now;
      on.members.call_waiting();
    }
    return wrong;
  }

  Communicator everyone;
  CudaDevice device;
  std::shared_ptr<const NcclFunctions> nccl;
  CudaStream stream;
  CudaEvent start, stop;
  DeviceMemory send, receive, aligner;
  PinnedMemory staging;
  std::vector<Channel> channels;
};

std::optional<std::string> NcclBackend::why_not() {
  std::string problem;
  const std::shared_ptr<const CudaRuntime> cuda = CudaRuntime::open(problem);
  if (!cuda) return problem;
  if (!NcclFunctions::open(problem)) return problem;
  int devices = 0;
  const cudaError_t code = cuda->get_device_count(&devices);
  if (code != cudaSuccess) return std::string("no usable GPU: ") + cuda->error_string(code);
  if (devices == 0) return "no GPU on this machine";
  return std::nullopt;
}

NcclBackend::NcclBackend(const Communicator& world, int local_rank)
    : state_(std::make_unique<State>(world, local_rank)) {}
NcclBackend::~NcclBackend() = default;
NcclBackend::NcclBackend(NcclBackend&&) noexcept = default;
NcclBackend& NcclBackend::operator=(NcclBackend&&) noexcept = default;

void NcclBackend::reserve(BufferSizes sizes) {
  state_->send = {};
  state_->receive = {};
  state_->send = allocate_device(state_->device, sizes.send);
  state_->receive = allocate_device(state_->device, sizes.receive);
}

double NcclBackend::memory_available(int /*ranks_on_host*/) const {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  state_->device.check(state_->device.cuda->memory_info(&free_bytes, &total), "cudaMemGetInfo");
  return kMemoryShare * static_cast<double>(free_bytes);
}

int NcclBackend::open_channel(const Communicator& members) {
  State& state = *state_;
  ncclUniqueId id{};
  if (members.rank() == 0) state.check(state.nccl->unique_id(&id), "ncclGetUniqueId", nullptr);
  const std::string sent = members.broadcast({id.internal, sizeof id.internal}, 0);
  std::memcpy(id.internal, sent.data(), sizeof id.internal);
  // Initialisation blocks until every rank has come, so it runs beside the polling of this thread.
  auto comm = std::make_shared<ncclComm_t>(nullptr);
  const int ranks = members.size();
  const int rank = members.rank();
  run_guarded(
      [&state, comm, ranks, id, rank] {
        state.device.check(state.device.cuda->set_device(state.device.device), "cudaSetDevice");
        state.check(state.nccl->init_rank(comm.get(), ranks, id, rank), "ncclCommInitRank", nullptr);
      },
      [&members] { members.call_waiting(); });
  state.channels.emplace_back(state.nccl, members, *comm);
  return static_cast<int>(state.channels.size()) - 1;
}

void NcclBackend::prepare(const Operation& operation, int channel, const Payload& payload) {
  State& state = *state_;
  const Channel& on = state.channel(channel);
  const std::size_t element = row_of(operation.dtype).bytes;
  const std::vector<std::byte> tile = payload.tile(on.members.rank());
  fill_tiled(state.device, state.stream.handle(), state.input(operation, on),
             extent_of(operation, on.members.size()).send * element, tile.data(), tile.size());
}

double NcclBackend::run(const Operation& operation, int channel, int count) {
  State& state = *state_;
  Channel& on = state.channel(channel);
  state.align(on);
  state.device.check(state.device.cuda->event_record(state.start.handle(), state.stream.handle()), "cudaEventRecord");
  for (int i = 0; i < count; ++i) state.enqueue(operation, on);
  state.device.check(state.device.cuda->event_record(state.stop.handle(), state.stream.handle()), "cudaEventRecord");
  state.wait_for(state.stop, on);
  float milliseconds = 0;
  state.device.check(state.device.cuda->event_elapsed(&milliseconds, state.start.handle(), state.stop.handle()),
                     "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3 / count;
}

std::size_t NcclBackend::wrong_elements(const Operation& operation, int channel, Payload& payload) {
  State& state = *state_;
  Channel& on = state.channel(channel);
  const int rank = on.members.rank();
  const int ranks = on.members.size();
  const std::size_t element = row_of(operation.dtype).bytes;
  // Bits that no correct result holds: an element that is never written is then seen.
  state.device.check(state.device.cuda->memset_async(state.receive.handle(), 0xff, buffers_of(operation, ranks).receive,
                                                     state.stream.handle()),
                     "cudaMemsetAsync");
  prepare(operation, channel, payload);
  state.run_first(operation, on);
  auto* result = static_cast<const std::byte*>(state.receive.handle());
  if (operation.in_place && operation.collective == Collective::reduce_scatter) {
    result += static_cast<std::size_t>(rank) * extent_of(operation, ranks).count * element;
  }
  std::size_t wrong = 0;
  for (const Expectation& part : expected_result(operation, rank, ranks)) {
    const std::vector<std::byte> tile = part.tile_of < 0 ? payload.sum_tile() : payload.tile(part.tile_of);
    wrong += state.count_differing(result + part.at * element, part.count, tile, element, part.first, on);
  }
  return wrong;
}

}  // namespace tpplan::bench

#else

namespace tpplan::bench {

struct NcclBackend::State {};

std::optional<std::string> NcclBackend::why_not() {
  return "comm-bench was built without the headers of NCCL and CUDA: build it where nccl.h and cuda_runtime_api.h are "
         "found (set CUDA_HOME)";
}
NcclBackend::NcclBackend(const Communicator& /*world*/, int /*local_rank*/) { throw CommError(*why_not()); }
NcclBackend::~NcclBackend() = default;
NcclBackend::NcclBackend(NcclBackend&&) noexcept = default;
NcclBackend& NcclBackend::operator=(NcclBackend&&) noexcept = default;
void NcclBackend::reserve(BufferSizes /*sizes*/) {}
double NcclBackend::memory_available(int /*ranks_on_host*/) const { return 0; }
int NcclBackend::open_channel(const Communicator& /*members*/) { return 0; }
void NcclBackend::prepare(const Operation& /*operation*/, int /*channel*/, const Payload& /*payload*/) {}
double NcclBackend::run(const Operation& /*operation*/, int /*channel*/, int /*count*/) { return 0; }
std::size_t NcclBackend::wrong_elements(const Operation& /*operation*/, int /*channel*/, Payload& /*payload*/) {
  return 0;
}

}  // namespace tpplan::bench

#endif
