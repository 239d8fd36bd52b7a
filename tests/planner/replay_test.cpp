#include "planner/replay.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cost-model/spec_reader.h"
#include "tests/planner/log_files.h"

using namespace tpplan;
using tests::data_path;
using tests::data_text;

namespace {

double of(const TraceTotals& totals, KernelClass kind) { return totals.kernels[static_cast<std::size_t>(kind)]; }

/// A file that goes away with the test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& content)
      : path_((std::filesystem::temp_directory_path() / ("tpplan-replay-" + std::to_string(::getpid()))).string()) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    std::error_code code;
    std::filesystem::remove(path_, code);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::string& content) {
  const ScratchFile file(content);
  try {
    read_kineto(file.path());
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

std::string span(const std::string& category, const std::string& name, double start_us, double length_us, int stream,
                 int launch_id = 0) {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":0,"tid":)" + std::to_string(stream) +
         R"(,"ts":)" + std::to_string(start_us) + R"(,"dur":)" + std::to_string(length_us) +
         R"(,"args":{"correlation":)" + std::to_string(launch_id) + "}}";
}

}  // namespace

TEST_CASE("class totals of a real trace equal those of the same step summed by another program") {
  const auto totals = totals_of(read_kineto(data_path("kineto/plain-1.3b.json.gz")));
  std::map<KernelClass, double> listed;
  double all = 0;
  const auto sums = nlohmann::json::parse(data_text("kineto/plain-1.3b-kernels.json"));
  for (const auto& row : sums["kernels"]) {
    const std::string name = row[0];
    if (name.rfind("Optimizer.step", 0) != 0) {  // a range, whose kernels are listed too
      listed[class_of_kernel(name)] += row[2].get<double>() * 1e-6;
      all += row[2].get<double>() * 1e-6;
    }
  }
  CHECK(totals.steps == 1);
  CHECK(totals.unknown.empty());
  double sum = 0;
  for (const KernelClassRow& row : kKernelClasses) {
    CAPTURE(row.key);
    CHECK(of(totals, row.value) == doctest::Approx(listed[row.value]).epsilon(0.01));
    sum += of(totals, row.value);
  }
  CHECK(sum == doctest::Approx(all).epsilon(0.001));
  // The trace's own table of the step: matrix products 42.7 ms, attention 10.0, fused Adam 10.9 and the
  // gradient norm 1.4 of 104.2 ms.
  CHECK(of(totals, KernelClass::gemm) == doctest::Approx(42.7e-3).epsilon(0.01));
  CHECK(of(totals, KernelClass::attention) == doctest::Approx(10.0e-3).epsilon(0.01));
  CHECK(of(totals, KernelClass::optimizer) == doctest::Approx(12.3e-3).epsilon(0.01));
  // One stream: what is not busy is idle, nearly all of it waiting for launches.
  CHECK(totals.busy == doctest::Approx(sum).epsilon(0.001));
  CHECK(totals.busy + totals.waits_for_host + totals.waits_in_queue + totals.waits_for_data ==
        doctest::Approx(totals.step).epsilon(0.001));
  CHECK(totals.waits_for_host > 0.9 * (totals.step - totals.busy));
}

TEST_CASE("gaps of a trace are told apart by what the next kernel waited for") {
  // Two steps of 1,000 us. In each: a product 0-300, a gather on another stream 200-500 (200 us alone), a gap 500-600
  // before a kernel launched at 590 while data was loaded 500-580, that kernel 600-800, a gap 800-850 before a kernel
  // launched long ago, and that kernel 850-900.
  std::string events;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000.0 * step;
    const int id = 10 * step;
    for (const std::string& event : {
             span("user_annotation", "ProfilerStep#" + std::to_string(step), at, 1000, 1),
             span("cuda_runtime", "cudaLaunchKernel", at, 5, 1, id + 1),
             span("cuda_runtime", "cudaLaunchKernel", at + 10, 5, 1, id + 2),
             span("cuda_runtime", "cudaLaunchKernel", at + 585, 5, 1, id + 3),
             span("cuda_runtime", "cudaLaunchKernel", at + 595, 5, 1, id + 4),
             span("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 500, 80, 1),
             span("cpu_op", "aten::mm", at, 5, 1),
             span("kernel", "sm80_xmma_gemm_bf16", at, 300, 7, id + 1),
             span("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at + 200, 300, 20,
                  id + 2),
             span("kernel", "void flash_fwd_kernel<...>", at + 600, 200, 7, id + 3),
             span("kernel", "my_own_kernel", at + 850, 50, 7, id + 4),
         }) {
      events += (events.empty() ? "" : ",\n") + event;
    }
  }
  const ScratchFile file(R"({"distributedInfo":{"rank":3,"world_size":8},"traceEvents":[)" + events + "]}");
  const auto trace = read_kineto(file.path());
  CHECK(trace.rank == 3);
  CHECK(trace.world == 8);
  CHECK(trace.events == 22);
  const auto totals = totals_of(trace);
  CHECK(totals.steps == 2);
  CHECK(totals.steps_named);
  CHECK(totals.step == doctest::Approx(1000e-6));
  CHECK(of(totals, KernelClass::gemm) == doctest::Approx(300e-6));
  CHECK(of(totals, KernelClass::attention) == doctest::Approx(200e-6));
  CHECK(of(totals, KernelClass::communication) == doctest::Approx(300e-6));
  CHECK(totals.communication[static_cast<std::size_t>(CommunicationKind::all_gather)] == doctest::Approx(300e-6));
  CHECK(totals.communication_exposed == doctest::Approx(200e-6));
  CHECK(totals.busy == doctest::Approx(750e-6));
  CHECK(totals.waits_for_data == doctest::Approx(80e-6));
  CHECK(totals.waits_in_queue == doctest::Approx(50e-6));
  // 20 us before the late launch, the end of the last step, and 100 us between the steps.
  CHECK(totals.waits_for_host == doctest::Approx(120e-6));
  REQUIRE(totals.unknown.size() == 1);
  CHECK(totals.unknown[0].first == "my_own_kernel");
  CHECK(totals.unknown[0].second == doctest::Approx(50e-6));
}

TEST_CASE("kernels within an optimizer's range are the optimizer's whatever their names") {
  const ScratchFile file("[" + span("gpu_user_annotation", "Optimizer.step#AdamW.step", 100, 50, 7) + "," +
                         span("kernel", "void at::native::vectorized_elementwise_kernel<4>", 110, 20, 7) + "," +
                         span("kernel", "void at::native::vectorized_elementwise_kernel<4>", 10, 20, 7) + "]");
  const auto totals = totals_of(read_kineto(file.path()));
  CHECK(of(totals, KernelClass::optimizer) == doctest::Approx(20e-6));
  CHECK(of(totals, KernelClass::elementwise) == doctest::Approx(20e-6));
}

TEST_CASE("files that are no usable trace are refused with the reason") {
  CHECK(error_of("{\"traceEvents\": [{\"ph\": \"X\", ").find("is needed whole") != std::string::npos);
  CHECK(error_of("").find("is needed whole") != std::string::npos);
  CHECK(error_of("{\"traceEvents\": []}").find("no kernel among its 0 events") != std::string::npos);
  CHECK(error_of("\x1f\x8b\x08 not really").find("cannot be unpacked") != std::string::npos);
  CHECK_THROWS_AS(read_kineto("/nonexistent/trace.json"), SpecError);
}

TEST_CASE("kernel names of the usual libraries have classes") {
  CHECK(class_of_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT") == KernelClass::gemm);
  CHECK(class_of_kernel("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn") == KernelClass::gemm);
  CHECK(class_of_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7") ==
        KernelClass::attention);
  CHECK(class_of_kernel("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>") == KernelClass::attention);
  CHECK(class_of_kernel("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16>") ==
        KernelClass::norm);
  CHECK(class_of_kernel("triton_poi_fused_mul_silu_split_0") == KernelClass::elementwise);
  CHECK(class_of_kernel("Memcpy DtoD (Device -> Device)") == KernelClass::copy);
  CHECK(class_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL") == KernelClass::communication);
  CHECK(communication_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL") == CommunicationKind::reduce_scatter);
  CHECK(communication_of_kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t") == CommunicationKind::send_recv);
  CHECK(class_of_kernel("something_else") == KernelClass::unknown);
}
