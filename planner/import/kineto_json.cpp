#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <istream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <string_view>
#include <unordered_map>

#include "cost-model/spec_reader.h"
#include "planner/import/kineto.h"

namespace tpplan {
namespace {

constexpr std::size_t kBlock = 1 << 16;
constexpr double kMicro = 1e-6;  // times of the format are microseconds

/// Bytes of a file, gunzipped where it is compressed.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(const std::string& path) : file_(gzopen(path.c_str(), "rb"), gzclose_r_or_w) {}
  [[nodiscard]] bool open() const { return file_ != nullptr; }
  /// What went wrong while unpacking, empty when nothing did.
  [[nodiscard]] std::string problem() const {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    return code == Z_OK || code == Z_STREAM_END ? "" : text;
  }

 protected:
  int_type underflow() override {
    const int read = gzread(file_.get(), block_.data(), static_cast<unsigned>(block_.size()));
    if (read <= 0) {
      return traits_type::eof();
    }
    setg(block_.data(), block_.data(), block_.data() + read);
    return traits_type::to_int_type(block_[0]);
  }

 private:
  static void gzclose_r_or_w(gzFile file) {
    if (file != nullptr) {
      gzclose(file);
    }
  }
  std::unique_ptr<gzFile_s, void (*)(gzFile)> file_;
  std::array<char, kBlock> block_{};
};

struct CategoryRow {
  std::string_view name;
  SpanKind kind;
};
constexpr std::array<CategoryRow, 9> kCategories{{{"kernel", SpanKind::gpu},
                                                  {"gpu_memcpy", SpanKind::gpu},
                                                  {"gpu_memset", SpanKind::gpu},
                                                  {"cuda_runtime", SpanKind::launch},
                                                  {"cuda_driver", SpanKind::launch},
                                                  {"hip_runtime", SpanKind::launch},
                                                  {"user_annotation", SpanKind::annotation},
                                                  {"cpu_op", SpanKind::annotation},
                                                  {"gpu_user_annotation", SpanKind::gpu_range}}};

/// Operators are ranges too, but only those that load data say anything that kernels do not.
bool wanted(std::string_view category, std::string_view name) {
  return category != "cpu_op" || name.find("DataLoader") != std::string_view::npos;
}

/// Takes the events out of the stream of JSON tokens, without a tree of the whole file in memory.
class EventHandler : public nlohmann::json::json_sax_t {
 public:
  explicit EventHandler(KinetoTrace& trace) : trace_(trace) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return number(value, static_cast<std::int64_t>(value));
  }
  bool string(string_t& value) override {
    if (depth_ == event_depth_ && in_events_) {
      if (key_ == "name") {
        name_ = value;
      } else if (key_ == "cat") {
        category_ = value;
      } else if (key_ == "ph") {
        phase_ = value;
      }
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_events_ && depth_ == event_depth_) {
      span_ = TraceSpan{};
      start_ = duration_ = std::numeric_limits<double>::quiet_NaN();
      name_.clear();
      category_.clear();
      phase_.clear();
    }
    if (depth_ == event_depth_ + 1 || (!in_events_ && depth_ == 2)) {
      outer_ = key_;
    }
    return true;
  }
  bool end_object() override {
    if (in_events_ && depth_ == event_depth_) {
      take();
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    // {"traceEvents": [...]} or, as older viewers wrote it, the array alone.
    if (!in_events_ && ((depth_ == 2 && key_ == "traceEvents") || depth_ == 1)) {
      in_events_ = true;
      event_depth_ = depth_ + 1;
    }
    return true;
  }
  bool end_array() override {
    if (in_events_ && depth_ == event_depth_ - 1) {
      in_events_ = false;
      event_depth_ = std::numeric_limits<int>::max() - 1;
    }
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    const std::string_view text = error.what();
    problem = "byte " + std::to_string(position) + ": " + std::string(text.substr(text.find("] ") + 2));
    return false;
  }

  std::string problem;

 private:
  bool number(double value, std::int64_t whole) {
    if (!in_events_) {
      if (depth_ == 2 && outer_ == "distributedInfo") {
        if (key_ == "rank") {
          trace_.rank = static_cast<int>(whole);
        } else if (key_ == "world_size") {
          trace_.world = static_cast<int>(whole);
        }
      }
      return true;
    }
    if (depth_ == event_depth_) {
      if (key_ == "ts") {
        start_ = value;
      } else if (key_ == "dur") {
        duration_ = value;
      } else if (key_ == "pid") {
        span_.device = static_cast<std::int32_t>(whole);
      } else if (key_ == "tid") {
        span_.stream = whole;
      }
    } else if (depth_ == event_depth_ + 1 && outer_ == "args" && key_ == "correlation") {
      span_.launch_id = whole;
    }
    return true;
  }

  void take() {
    ++trace_.events;
    const auto row = std::find_if(kCategories.begin(), kCategories.end(),
                                  [&](const CategoryRow& category) { return category.name == category_; });
    if (phase_ != "X" || row == kCategories.end() || std::isnan(start_) || !wanted(category_, name_)) {
      return;
    }
    span_.kind = row->kind;
    span_.start = start_ * kMicro;
    span_.end = (start_ + (duration_ > 0 ? duration_ : 0)) * kMicro;
    const auto [at, added] = names_.emplace(name_, static_cast<std::int32_t>(trace_.names.size()));
    if (added) {
      trace_.names.push_back(name_);
    }
    span_.name = at->second;
    trace_.spans.push_back(span_);
  }

  KinetoTrace& trace_;
  int depth_ = 0;
  int event_depth_ = std::numeric_limits<int>::max() - 1;
  bool in_events_ = false;
  std::string key_, outer_;  ///< the last key; that of the object within an event, or within the file
  std::string name_, category_, phase_;
  double start_ = 0, duration_ = 0;
  TraceSpan span_;
  std::unordered_map<std::string, std::int32_t> names_;
};

}  // namespace

KinetoTrace read_kineto(const std::string& path) {
  GzipBuffer buffer(path);
  if (!buffer.open()) {
    throw SpecError(path + ": cannot be read");
  }
  std::istream stream(&buffer);
  KinetoTrace trace;
  trace.file = path;
  EventHandler handler(trace);
  const bool parsed = nlohmann::json::sax_parse(stream, &handler);
  if (const std::string problem = buffer.problem(); !problem.empty()) {
    throw SpecError(path + ": cannot be unpacked: " + problem);
  }
  if (!parsed) {
    throw SpecError(path + ": " + handler.problem +
                    "; a trace of torch.profiler's export_chrome_trace(), plain or gzipped, is needed whole");
  }
  auto& spans = trace.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.start < b.start; });
  if (std::none_of(spans.begin(), spans.end(), [](const TraceSpan& span) { return span.kind == SpanKind::gpu; })) {
    throw SpecError(path + ": no kernel among its " + std::to_string(trace.events) +
                    " events; profile with ProfilerActivity.CUDA");
  }
  const double origin = spans.front().start;
  for (TraceSpan& span : spans) {
    span.start -= origin;
    span.end -= origin;
  }
  return trace;
}

}  // namespace tpplan
