#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "comm-bench/compute.h"

namespace tpplan::bench {

namespace {

constexpr int kRepetitions = 7;
constexpr double kLeastSeconds = 0.002;  ///< of one timed stretch

/// Times `work`, repeated until a stretch is long enough for the clock.
std::vector<Seconds> timed(const std::function<void()>& work, const Poll& poll) {
  using Clock = std::chrono::steady_clock;
  work();
  std::vector<Seconds> samples;
  int count = 1;
  while (samples.size() < kRepetitions) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    poll();
    if (seconds < kLeastSeconds && count < (1 << 24)) {
      count *= 4;
      continue;
    }
    samples.emplace_back(seconds / count);
  }
  return samples;
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  // Not a std::uniform_real_distribution: its results differ between libraries.
  for (float& value : values) value = static_cast<float>(generator()) * 0x1p-31F - 1.0F;
  return values;
}

std::size_t area(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }

/// A row-major matrix read as it is or transposed.
struct View {
  const std::vector<float>& values;
  int columns;
  bool transposed;
  [[nodiscard]] float at(int row, int column) const {
    return transposed ? values[area(column, columns) + static_cast<std::size_t>(row)]
                      : values[area(row, columns) + static_cast<std::size_t>(column)];
  }
};

void multiply(const View& a, const View& b, int rows, int columns, int inner, std::vector<float>& out) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      float sum = 0;
      for (int l = 0; l < inner; ++l) sum += a.at(i, l) * b.at(l, j);
      out[area(i, columns) + static_cast<std::size_t>(j)] = sum;
    }
  }
}

ComputeResult measure_gemm(const ComputeItem& item, const Poll& poll) {
  const std::vector<float> x = random_values(area(item.m, item.k), 1);
  const std::vector<float> w = random_values(area(item.n, item.k), 2);
  const std::vector<float> y = random_values(area(item.m, item.n), 3);
  std::vector<float> out(std::max({x.size(), w.size(), y.size()}));
  ComputeResult result;
  result.samples = timed(
      [&] {
        if (item.pass == "forward") {
          multiply({x, item.k, false}, {w, item.k, true}, item.m, item.n, item.k, out);
        } else if (item.pass == "dgrad") {
          multiply({y, item.n, false}, {w, item.k, false}, item.m, item.k, item.n, out);
        } else {
          multiply({y, item.n, true}, {x, item.k, false}, item.n, item.k, item.m, out);
        }
      },
      poll);
  if (item.pass == "forward") {
    double expected = 0;
    for (std::size_t l = 0; l < static_cast<std::size_t>(item.k); ++l) {
      expected += static_cast<double>(x[l]) * static_cast<double>(w[l]);
    }
    const bool right = std::abs(expected - static_cast<double>(out[0])) <= 1e-3 * std::sqrt(item.k);
    result.check = right ? Check::ok : Check::wrong;
  }
  return result;
}

ComputeResult measure_memory(const ComputeItem& item, const Poll& poll) {
  const std::size_t count = area(item.m, item.n);
  const std::vector<float> a = random_values(count, 1);
  const std::vector<float> b = random_values(count, 2);
  std::vector<float> out(count);
  const auto width = static_cast<std::size_t>(item.n);
  ComputeResult result;
  result.samples = timed(
      [&] {
        if (item.name == "copy") {
          std::memcpy(out.data(), a.data(), count * sizeof(float));
        } else if (item.name == "add") {
          for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
        } else {
          for (std::size_t row = 0; row < count; row += width) {
            float squares = 0;
            for (std::size_t i = 0; i < width; ++i) squares += a[row + i] * a[row + i];
            const float scale = 1 / std::sqrt(squares / static_cast<float>(width) + 1e-5F);
            for (std::size_t i = 0; i < width; ++i) out[row + i] = a[row + i] * scale;
          }
        }
      },
      poll);
  return result;
}

/// Causal attention of one head after the other, as its definition reads.
ComputeResult measure_attention(const ComputeItem& item, const Poll& poll) {
  if (item.pass != "forward") {
    ComputeResult result;
    result.unsupported = "the host measures the forward pass of attention only";
    return result;
  }
  const std::vector<float> q = random_values(area(item.seq, item.head_dim), 1);
  const std::vector<float> k = random_values(area(item.seq, item.head_dim), 2);
  std::vector<float> weights(static_cast<std::size_t>(item.seq));
  std::vector<float> out(q.size());
  const auto d = static_cast<std::size_t>(item.head_dim);
  ComputeResult result;
  result.samples = timed(
      [&] {
        for (int head = 0; head < item.batch * item.heads; ++head) {
          for (std::size_t i = 0; i < static_cast<std::size_t>(item.seq); ++i) {
            float total = 0;
            for (std::size_t j = 0; j <= i; ++j) {
              float score = 0;
              for (std::size_t c = 0; c < d; ++c) score += q[i * d + c] * k[j * d + c];
              weights[j] = std::exp(score / std::sqrt(static_cast<float>(d)));
              total += weights[j];
            }
            for (std::size_t c = 0; c < d; ++c) out[i * d + c] = 0;
            for (std::size_t j = 0; j <= i; ++j) {
              for (std::size_t c = 0; c < d; ++c) out[i * d + c] += weights[j] / total * k[j * d + c];
            }
          }
        }
      },
      poll);
  return result;
}

ComputeResult measure_launch(const Poll& poll) {
  // Through a volatile pointer, so that the call is made.
  void (*volatile callee)() = [] {};
  ComputeResult result;
  result.samples = timed([&] { callee(); }, poll);
  return result;
}

ComputeResult measure_copy(const ComputeItem& item, const Poll& poll) {
  const std::vector<float> from = random_values(static_cast<std::size_t>(item.bytes.raw()) / sizeof(float), 1);
  std::vector<float> to(from.size());
  ComputeResult result;
  result.samples = timed([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }, poll);
  result.check = to == from ? Check::ok : Check::wrong;
  return result;
}

}  // namespace

std::vector<ComputeItem> HostCompute::plan() const {
  std::vector<ComputeItem> items;
  const auto add = [&](ComputeKind kind, const std::string& name) -> ComputeItem& {
    items.push_back({});
    items.back().kind = kind;
    items.back().name = name;
    return items.back();
  };
  add(ComputeKind::launch, "stream");
  add(ComputeKind::copy, "host_to_device").bytes = Bytes(1 << 20);
  for (const char* name : {"copy", "add", "norm_forward"}) {
    ComputeItem& item = add(ComputeKind::memory, name);
    item.m = 64;
    item.n = 1024;
    item.bytes = Bytes(sizeof(float) * (std::strcmp(name, "add") == 0 ? 3.0 : 2.0) * item.m * item.n);
  }
  for (const int size : {32, 64, 96}) {
    for (const char* pass : {"forward", "dgrad", "wgrad"}) {
      ComputeItem& item = add(ComputeKind::gemm, "");
      item.m = 64;
      item.n = size;
      item.k = 2 * size;
      item.dtype = "fp32";
      item.pass = pass;
    }
  }
  ComputeItem& attention = add(ComputeKind::attention, "loops");
  attention.batch = 1;
  attention.seq = 64;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = 16;
  attention.dtype = "fp32";
  attention.pass = "forward";
  return items;
}

ComputeResult HostCompute::measure(const ComputeItem& item, const Poll& poll) {
  switch (item.kind) {
    case ComputeKind::gemm:
      return measure_gemm(item, poll);
    case ComputeKind::memory:
      return measure_memory(item, poll);
    case ComputeKind::attention:
      return measure_attention(item, poll);
    case ComputeKind::launch:
      return measure_launch(poll);
    case ComputeKind::copy:
      return measure_copy(item, poll);
  }
  return {};
}

}  // namespace tpplan::bench
