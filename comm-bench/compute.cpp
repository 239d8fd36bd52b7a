#include "comm-bench/compute.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <sstream>

namespace tpplan::bench {

namespace {

constexpr double kSlowNode = 1.05;

struct Family {
  int hidden, mlp, heads_per_kv_head;
};
constexpr std::array<Family, 3> kFamilies{{{2048, 5504, 1}, {4096, 14336, 4}, {8192, 28672, 8}}};
constexpr std::array<int, 3> kTensorParallel{1, 4, 8};
constexpr std::array<int, 3> kTokens{1024, 4096, 16384};

ComputeItem gemm(int m, int n, int k, const std::string& dtype, const std::string& pass) {
  ComputeItem item;
  item.kind = ComputeKind::gemm;
  item.m = m;
  item.n = n;
  item.k = k;
  item.dtype = dtype;
  item.pass = pass;
  return item;
}

ComputeItem memory(const std::string& name, int rows, int width, double bytes) {
  ComputeItem item;
  item.kind = ComputeKind::memory;
  item.name = name;
  item.m = rows;
  item.n = width;
  item.bytes = Bytes(bytes);
  return item;
}

/// A result on its way to rank 0.
std::string packed(const ComputeResult& result) {
  std::ostringstream text;
  text.precision(17);
  text << result.samples.size();
  for (const Seconds sample : result.samples) text << ' ' << sample.raw();
  text << ' ' << static_cast<int>(result.check);
  return text.str();
}

ComputeResult unpacked(const std::string& packed_text) {
  std::istringstream text(packed_text);
  ComputeResult result;
  std::size_t count = 0;
  text >> count;
  for (std::size_t i = 0; i < count; ++i) {
    double sample = 0;
    text >> sample;
    result.samples.emplace_back(sample);
  }
  int check = 0;
  text >> check;
  result.check = static_cast<Check>(check);
  return result;
}

/// One row from the answers of all ranks (empty where a rank measured nothing): the node with the median time speaks.
std::optional<ComputeRow> combined(const ComputeItem& item, const std::string& device,
                                   const std::vector<std::string>& answers) {
  struct Answer {
    int rank;
    ComputeResult result;
    Summary summary;
  };
  std::vector<Answer> measured;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].empty()) continue;
    ComputeResult result = unpacked(answers[rank]);
    if (result.samples.empty()) continue;
    const Summary numbers = summary(result.samples);
    measured.push_back({static_cast<int>(rank), std::move(result), numbers});
  }
  if (measured.empty()) return std::nullopt;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Answer& a, const Answer& b) { return a.summary.median < b.summary.median; });
  const Answer& middle = measured[(measured.size() - 1) / 2];
  ComputeRow row;
  row.item = item;
  row.device = device;
  row.summary = middle.summary;
  const bool wrong =
      std::any_of(measured.begin(), measured.end(), [](const Answer& a) { return a.result.check == Check::wrong; });
  row.check = wrong ? Check::wrong : middle.result.check;
  row.nodes = static_cast<int>(measured.size());
  row.slowest = measured.back().summary.median;
  row.slowest_rank = measured.back().rank;
  return row;
}

}  // namespace

Flops ComputeItem::flops() const {
  const double products = 2.0 * m * n * k;
  if (kind == ComputeKind::gemm) return Flops(products);
  if (kind != ComputeKind::attention) return {};
  const double forward = 2.0 * batch * heads * seq * static_cast<double>(seq) * head_dim;
  return Flops(pass == "backward" ? 2.5 * forward : forward);
}

std::string ComputeItem::described() const {
  std::string text(kComputeKindNames[static_cast<std::size_t>(kind)]);
  for (const std::string* word : {&name, &dtype, &pass}) {
    if (!word->empty()) text += " " + *word;
  }
  const auto by = [](int a, int b) { return std::to_string(a) + "x" + std::to_string(b); };
  if (kind == ComputeKind::gemm) text += " " + by(m, n) + "x" + std::to_string(k);
  if (kind == ComputeKind::memory) text += " " + by(m, n);
  if (kind == ComputeKind::attention) {
    text += " b" + std::to_string(batch) + " s" + std::to_string(seq) + " h" + by(heads, kv_heads) + " d" +
            std::to_string(head_dim);
  }
  if (kind == ComputeKind::copy) text += " " + format(bytes);
  return text;
}

std::vector<ComputeItem> transformer_gemms(const std::string& dtype, const std::vector<std::string>& passes) {
  std::set<std::pair<int, int>> weights;  // outputs, inputs
  for (const Family& family : kFamilies) {
    for (const int tp : kTensorParallel) {
      weights.insert({(family.hidden + 2 * family.hidden / family.heads_per_kv_head) / tp, family.hidden});
      weights.insert({family.hidden, family.hidden / tp});
      weights.insert({2 * family.mlp / tp, family.hidden});
      weights.insert({family.hidden, family.mlp / tp});
    }
  }
  std::vector<ComputeItem> items;
  for (const auto& [n, k] : weights) {
    for (const int m : kTokens) {
      for (const std::string& pass : passes) items.push_back(gemm(m, n, k, dtype, pass));
    }
  }
  return items;
}

std::vector<ComputeItem> attention_shapes() {
  struct Shape {
    int batch, seq, heads, kv_heads, head_dim;
  };
  constexpr std::array<Shape, 21> kShapes{{{1, 1024, 8, 8, 128},   {1, 2048, 4, 1, 128},   {1, 2048, 8, 1, 128},
                                           {1, 2048, 8, 8, 128},   {1, 2048, 16, 16, 128}, {1, 2048, 32, 8, 128},
                                           {4, 2048, 32, 8, 128},  {1, 4096, 4, 1, 128},   {1, 4096, 8, 2, 128},
                                           {1, 4096, 16, 16, 128}, {1, 4096, 32, 8, 128},  {2, 4096, 64, 8, 128},
                                           {1, 8192, 4, 1, 128},   {1, 8192, 8, 8, 128},   {1, 8192, 32, 8, 128},
                                           {1, 16384, 8, 1, 128},  {1, 32768, 8, 1, 128},  {4, 2048, 16, 16, 64},
                                           {1, 8192, 16, 16, 64},  {2, 4096, 16, 16, 96},  {2, 4096, 8, 8, 256}}};
  std::vector<ComputeItem> items;
  for (const Shape& shape : kShapes) {
    for (const char* pass : {"forward", "backward"}) {
      ComputeItem item;
      item.kind = ComputeKind::attention;
      item.name = "cudnn";
      item.dtype = "bf16";
      item.pass = pass;
      item.batch = shape.batch;
      item.seq = shape.seq;
      item.heads = shape.heads;
      item.kv_heads = shape.kv_heads;
      item.head_dim = shape.head_dim;
      items.push_back(item);
    }
  }
  return items;
}

std::vector<ComputeItem> memory_kernels() {
  struct Size {
    int tokens, hidden, mlp;
  };
  constexpr std::array<Size, 3> kSizes{{{2048, 4096, 14336}, {8192, 4096, 14336}, {16384, 2048, 5504}}};
  std::vector<ComputeItem> items;
  for (const Size& size : kSizes) {
    const double activations = static_cast<double>(size.tokens) * size.hidden;
    const double inner = static_cast<double>(size.tokens) * size.mlp;
    const double weights = static_cast<double>(size.hidden) * size.mlp;
    // Bytes with bf16 activations, every input and output once.
    items.push_back(memory("copy", size.tokens, size.hidden, 4 * activations));
    items.push_back(memory("add", size.tokens, size.hidden, 6 * activations));
    items.push_back(memory("norm_forward", size.tokens, size.hidden, 4 * activations));
    items.push_back(memory("norm_backward", size.tokens, size.hidden, 6 * activations));
    items.push_back(memory("rope", size.tokens, size.hidden, 4 * activations));
    items.push_back(memory("swiglu_forward", size.tokens, size.mlp, 6 * inner));
    items.push_back(memory("swiglu_backward", size.tokens, size.mlp, 10 * inner));
    // fp32 += bf16: 4 read, 4 written, 2 read.
    items.push_back(memory("grad_accumulate", size.hidden, size.mlp, 10 * weights));
    // fp32 weight, two moments (read and written), fp32 gradient (read), bf16 weight (written).
    items.push_back(memory("adam", size.hidden, size.mlp, 30 * weights));
  }
  items.push_back(memory("copy", 65536, 8192, 4.0 * 65536 * 8192));
  items.push_back(memory("add", 65536, 8192, 6.0 * 65536 * 8192));
  return items;
}

ComputeOutcome run_compute(std::optional<ComputeDevice>& device, const Communicator& world, const Topology& topology,
                           Watchdog& watchdog, Seconds budget, const ComputeSink& sink) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto plan_of = [](const auto& d) { return d.plan(); };
  // All nodes follow the plan of rank 0's device, by index; rank 0 says when to stop.
  const std::vector<ComputeItem> plan = device ? std::visit(plan_of, *device) : std::vector<ComputeItem>();
  const std::size_t items = std::stoul(world.broadcast(std::to_string(plan.size()), 0));
  ComputeOutcome outcome;
  if (world.rank() == 0 && device) {
    if (const auto* cuda = std::get_if<CudaCompute>(&*device)) outcome.notes = cuda->notes();
  }
  std::set<int> slow;
  for (std::size_t index = 0; index < items; ++index) {
    const bool in_time = std::chrono::duration<double>(Clock::now() - start).count() < budget.raw();
    if (world.broadcast(in_time ? "go" : "stop", 0) != "go") {
      outcome.unmeasured = items - index;
      break;
    }
    std::string answer;
    std::string refusal;
    watchdog.begin(index < plan.size() ? plan[index].described() : "waiting for --compute");
    if (device && index < plan.size()) {
      const Poll poll = [&] {
        watchdog.advance();
        world.call_waiting();
      };
      const ComputeResult result = std::visit([&](auto& d) { return d.measure(plan[index], poll); }, *device);
      refusal = result.unsupported;
      if (refusal.empty()) answer = packed(result);
    }
    const std::vector<std::string> answers = world.gather(answer, 0);
    if (world.rank() != 0) continue;
    if (!refusal.empty()) outcome.notes.push_back(plan[index].described() + ": " + refusal);
    const std::string name = std::visit([](const auto& d) { return d.name(); }, *device);
    const std::optional<ComputeRow> row = combined(plan[index], name, answers);
    if (!row) continue;
    if (row->nodes > 1 && row->item.kind == ComputeKind::gemm && row->slowest > row->summary.median * kSlowNode) {
      slow.insert(row->slowest_rank);
    }
    ++outcome.rows;
    if (row->check == Check::wrong) ++outcome.wrong_rows;
    sink(*row);
  }
  for (const int rank : slow) {
    outcome.notes.push_back(
        "the device of rank " + std::to_string(rank) + " (" +
        topology.node_names[static_cast<std::size_t>(topology.node_of[static_cast<std::size_t>(rank)])] +
        ") is over 5 % slower than the median node in matrix products");
  }
  return outcome;
}

}  // namespace tpplan::bench
