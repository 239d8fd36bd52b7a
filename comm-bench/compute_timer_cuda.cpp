#include "comm-bench/compute_timer_cuda.h"

#if defined(TPPLAN_HAVE_CUDA)

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <thread>

#include "comm-bench/payload.h"

namespace tpplan::bench {

namespace {

constexpr Seconds kSample(0.008);
constexpr int kSamples = 7;
constexpr int kWarmUps = 3;
constexpr int kMostReplays = 20000;
constexpr int kQueriesBetweenPolls = 256;

double uniform(std::uint64_t& state) {
  // xorshift64* (Vigna 2016); 53 bits, never 0.
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (static_cast<double>((state * 2685821657736338717ULL) >> 11) + 0.5) * 0x1p-53;
}

}  // namespace

RandomTile::RandomTile(std::uint64_t seed) : values_(kElements) {
  std::uint64_t state = seed * 2654435761ULL + 1;
  // Box and Muller 1958; the cosine alone is enough here.
  for (float& value : values_) {
    const double radius = std::sqrt(-2 * std::log(uniform(state)));
    value = static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform(state)));
  }
}

std::vector<std::byte> RandomTile::bits(const std::string& dtype) const {
  std::vector<std::byte> out;
  const auto append = [&](auto pattern) {
    const std::size_t at = out.size();
    out.resize(at + sizeof pattern);
    std::memcpy(out.data() + at, &pattern, sizeof pattern);
  };
  for (const float value : values_) {
    if (dtype == "bf16") {
      append(to_bf16(value));
    } else if (dtype == "fp16") {
      append(to_fp16(value));
    } else if (dtype == "fp8") {
      append(to_e4m3(value));
    } else {
      append(value);
    }
  }
  return out;
}

float RandomTile::value(const std::string& dtype, std::size_t index) const {
  const float value = values_[index % kElements];
  if (dtype == "bf16") return from_bf16(to_bf16(value));
  if (dtype == "fp16") return from_fp16(to_fp16(value));
  if (dtype == "fp8") return from_e4m3(to_e4m3(value));
  return value;
}

std::uint8_t to_e4m3(float value) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::min(std::abs(value), 448.0F);
  if (magnitude < 0x1p-6F) {  // subnormal: a multiple of 2^-9; rounding up to 8 gives the smallest normal number
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(std::nearbyint(magnitude * 512.0F)));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  auto eighths = static_cast<int>(std::nearbyint(fraction * 16.0F));
  if (eighths == 16) {
    eighths = 8;
    ++exponent;
  }
  return static_cast<std::uint8_t>(sign | ((exponent + 6) << 3) | (eighths - 8));
}

float from_e4m3(std::uint8_t bits) {
  const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 3) & 0xf;
  const int fraction = bits & 0x7;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -9);
  return sign * std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
}

GraphTimer::GraphTimer(const CudaDevice& device)
    : device_(device), stream_(make_stream(device)), start_(make_event(device)), stop_(make_event(device)) {}

void GraphTimer::wait(const CudaEvent& event, const Poll& poll) {
  for (;;) {
    for (int i = 0; i < kQueriesBetweenPolls; ++i) {
      const cudaError_t code = device_.cuda->event_query(event.handle());
      if (code == cudaSuccess) return;
      if (code != cudaErrorNotReady) device_.check(code, "cudaEventQuery");
    }
    poll();
  }
}

void GraphTimer::finish(const Poll& poll) {
  device_.check(device_.cuda->event_record(stop_.handle(), stream()), "cudaEventRecord");
  wait(stop_, poll);
}

double GraphTimer::stretch(cudaGraphExec_t graph, int replays, const Poll& poll) {
  device_.check(device_.cuda->event_record(start_.handle(), stream()), "cudaEventRecord");
  for (int i = 0; i < replays; ++i) device_.check(device_.cuda->graph_launch(graph, stream()), "cudaGraphLaunch");
  device_.check(device_.cuda->event_record(stop_.handle(), stream()), "cudaEventRecord");
  wait(stop_, poll);
  float milliseconds = 0;
  device_.check(device_.cuda->event_elapsed(&milliseconds, start_.handle(), stop_.handle()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

std::vector<Seconds> GraphTimer::time(const Enqueue& work, int copies, const Poll& poll) {
  return time(work, copies, kSample, kSamples, poll);
}

std::vector<Seconds> GraphTimer::time(const Enqueue& work, int copies, Seconds sample, int samples, const Poll& poll) {
  for (int i = 0; i < kWarmUps; ++i) work(stream());
  finish(poll);
  cudaGraph_t captured = nullptr;
  device_.check(device_.cuda->begin_capture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < copies; ++i) work(stream());
  device_.check(device_.cuda->end_capture(stream(), &captured), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  device_.check(device_.cuda->graph_instantiate(&executable, captured, 0), "cudaGraphInstantiateWithFlags");
  device_.cuda->graph_destroy(captured);
  const CudaGraph graph(device_.cuda, executable);
  stretch(graph.handle(), 1, poll);
  const double once = stretch(graph.handle(), 2, poll) / 2;
  const int replays =
      static_cast<int>(std::clamp(sample.raw() / std::max(once, 1e-9), 2.0, static_cast<double>(kMostReplays)));
  std::vector<Seconds> result;
  for (int i = 0; i < samples; ++i) result.emplace_back(stretch(graph.handle(), replays, poll) / replays / copies);
  return result;
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
