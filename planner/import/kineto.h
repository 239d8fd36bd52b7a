#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpplan {

/// What a span of a profiler trace is.
enum class SpanKind : std::uint8_t {
  gpu,         ///< a kernel, copy or fill on a GPU stream
  launch,      ///< a call of the driver or runtime that starts one
  annotation,  ///< a named range of the program (a profiler step, an optimizer step, a data loader)
  gpu_range    ///< the same as it ran on the GPU
};

/// One span. Times are seconds since the earliest span of the trace.
struct TraceSpan {
  SpanKind kind = SpanKind::gpu;
  std::int32_t name = 0;       ///< index into KinetoTrace::names
  std::int32_t device = 0;     ///< process of the span as the trace numbers it: of GPU spans the GPU
  std::int64_t stream = 0;     ///< of GPU spans the stream, else the thread
  std::int64_t launch_id = 0;  ///< joins a launch and what it started ("correlation"); 0: unknown
  double start = 0, end = 0;
};

/// A trace of the PyTorch profiler (Kineto), reduced to what tells where the time of a GPU goes.
struct KinetoTrace {
  std::string file;
  std::vector<std::string> names;
  std::vector<TraceSpan> spans;      ///< in order of their starts
  int rank = 0, world = 0;           ///< of distributedInfo; world 0: not told
  std::uint64_t events = 0;          ///< of the file, those left out included
  std::vector<std::string> remarks;  ///< about what could not be used
  [[nodiscard]] const std::string& name_of(const TraceSpan& span) const {
    return names[static_cast<std::size_t>(span.name)];
  }
};

/// Reads the JSON that torch.profiler's export_chrome_trace() writes, plain or compressed by gzip. Throws SpecError
/// when the file cannot be read, is no such JSON, is cut short, or holds no GPU span.
KinetoTrace read_kineto(const std::string& path);

}  // namespace tpplan
