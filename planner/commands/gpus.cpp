#include "planner/commands/gpus.h"

#include <unistd.h>

#include <ostream>

#include "planner/report/json_writer.h"
#include "planner/report/output.h"
#include "planner/report/text_table.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

std::string peak_text(const GpuSpec& gpu, Precision precision) {
  const double peak = gpu.peak_of(precision).raw();
  return peak > 0 ? brief_number(peak / 1e12) : "-";
}

std::string rate_text(BytesPerSecond rate) { return rate > BytesPerSecond{} ? brief_number(rate.raw() / 1e9) : "-"; }

std::string table_of(const std::vector<const GpuSpec*>& gpus, const PlannerOptions& options, std::ostream& err) {
  TextTable table;
  table.columns = {{"GPU", false, 9}, {"GiB", true, 8},      {"bf16", true, 7},      {"fp16", true, 3},
                   {"fp8", true, 4},  {"mem GB/s", true, 6}, {"link GB/s", true, 5}, {"topology", false, 5},
                   {"W", true, 1},    {"launch", false, 2},  {"plan", false, 6}};
  for (const GpuSpec* gpu : gpus) {
    table.rows.push_back({gpu->id, brief_number(gpu->memory.raw() / 1073741824), peak_text(*gpu, Precision::bf16),
                          peak_text(*gpu, Precision::fp16), peak_text(*gpu, Precision::fp8),
                          rate_text(gpu->memory_bandwidth), rate_text(gpu->link), std::string(name_of(gpu->topology)),
                          gpu->tdp_watts > 0 ? brief_number(gpu->tdp_watts) : "-", gpu->launch,
                          gpu->unplannable.empty() ? "yes" : "no"});
  }
  std::vector<std::string> dropped;
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  std::string text = table.render(terminal, 0, &dropped);
  std::vector<std::string> notes{
      "GiB: visible to the driver. bf16, fp16, fp8: dense TFLOP/s. link: one direction, all links of a GPU."};
  if (gpus.size() == 1) {
    const GpuSpec& gpu = *gpus.front();
    notes.push_back("source: " + gpu.source + " (confidence " + gpu.confidence + ")");
    if (!gpu.note.empty()) notes.push_back("note: " + gpu.note);
    if (!gpu.unplannable.empty()) notes.push_back("not planned: " + gpu.unplannable);
  }
  for (const std::string& note : notes) text += wrap(note, terminal.width, 2) + "\n";
  err << left_out_note(dropped, terminal, "json has");
  return text;
}

std::int64_t whole_bytes(Bytes size) { return static_cast<std::int64_t>(size.raw()); }

void optional_field(JsonWriter& json, std::string_view name, double value) {
  json.key(name);
  if (value > 0) {
    json.value(value);
  } else {
    json.null();
  }
}

std::string json_of(const std::vector<const GpuSpec*>& gpus) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("gpus").begin_array();
  for (const GpuSpec* gpu : gpus) {
    json.begin_object();
    json.field("id", gpu->id).field("name", gpu->name).field("vendor", gpu->vendor);
    json.field("architecture", gpu->architecture);
    json.field("memory_bytes", whole_bytes(gpu->memory));
    json.field("usable_bytes", whole_bytes(gpu->usable));
    json.field("memory_bandwidth_bytes_per_s", gpu->memory_bandwidth.raw());
    json.key("peak_flop_per_s").begin_line_object();
    for (const PrecisionRow& row : kPrecisionTable) {
      if (const double peak = gpu->peak_of(row.precision).raw(); peak > 0) json.field(row.name, peak);
    }
    json.end_object();
    optional_field(json, "sms", gpu->sms);
    json.field("topology", name_of(gpu->topology));
    optional_field(json, "link_bytes_per_s", gpu->link.raw());
    optional_field(json, "per_peer_bytes_per_s", gpu->per_peer.raw());
    json.field("link_name", gpu->link_name).field("pcie", gpu->pcie);
    optional_field(json, "usual_network_bytes_per_s", gpu->usual_network.raw());
    optional_field(json, "tdp_watts", gpu->tdp_watts);
    json.field("launch", gpu->launch).field("confidence", gpu->confidence);
    json.field("source", gpu->source).field("note", gpu->note);
    json.field("plannable", gpu->unplannable.empty());
    json.field("unplannable_reason", gpu->unplannable);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace

int run_gpus(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const GpuCatalogue catalogue = shipped_gpus();
  std::vector<const GpuSpec*> gpus;
  if (options.operands.empty()) {
    for (const GpuSpec& row : catalogue.rows()) gpus.push_back(&row);
  } else {
    std::string words;
    for (const std::string& word : options.operands) words += (words.empty() ? "" : " ") + word;
    gpus = catalogue.matches(words);
    if (gpus.empty()) gpus.push_back(&catalogue.find(words));  // throws with near names
  }
  const bool json = chosen_format(options) == OutputFormat::json;
  write_result(options, json ? json_of(gpus) : table_of(gpus, options, err), out);
  return 0;
}

}  // namespace tpplan
