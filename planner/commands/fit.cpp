#include "planner/commands/fit.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cost-model/peft.h"
#include "planner/fit_claims.h"
#include "planner/inputs.h"
#include "planner/report/json_writer.h"
#include "planner/report/output.h"
#include "planner/report/plan_report.h"
#include "planner/report/text_table.h"
#include "planner/single_gpu_fit.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;
constexpr int kUsualSeq = 1024;
constexpr std::array<std::string_view, 5> kUsualGpus{"rtx-4060-laptop", "rtx-3090", "rtx-4090", "a100-80gb-sxm",
                                                     "h100-80gb-sxm"};

struct FitInputs {
  FitRequest request;
  std::vector<GpuSpec> gpus;
  GpuSpec claimed_card;  ///< that of the claims of others
  std::vector<Assumption> assumed;
};
/// All that is shown.
struct FitTable {
  std::vector<FitRow> rows;
  std::vector<FitClaim> claims;
};

bool given(const PlannerOptions& options, std::string_view option) {
  return std::any_of(options.given.begin(), options.given.end(),
                     [option](const auto& entry) { return entry.first == option; });
}

std::vector<std::string> gpu_words(const PlannerOptions& options) {
  std::vector<std::string> words = options.operands;
  std::string word;
  for (const char c : options.gpu + ",") {
    if (c != ',') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  return words;
}

FitInputs inputs_of(const PlannerOptions& options, std::string& warnings) {
  FitInputs inputs;
  auto& request = inputs.request;
  const auto assume = [&](std::string what, std::string value, std::string set_by) {
    inputs.assumed.push_back({std::move(what), std::move(value), std::move(set_by)});
  };
  std::string problems;
  const auto attempt = [&](auto load) {
    try {
      load();
    } catch (const SpecError& error) {
      problems += (problems.empty() ? "" : "\n") + error_text(error);
    }
  };
  attempt([&] { request.model = resolve_model(options.model, &warnings); });
  attempt([&] {
    const GpuCatalogue catalogue = shipped_gpus();
    const auto words = gpu_words(options);
    inputs.claimed_card = catalogue.find("rtx-4090");
    if (words.empty()) {
      for (const auto id : kUsualGpus) {
        inputs.gpus.push_back(catalogue.find(id));
      }
      assume("GPUs", "RTX 4060 Laptop, 3090, 4090, A100 and H100", "--gpu");
    }
    for (const auto& word : words) {
      inputs.gpus.push_back(catalogue.find(word));
    }
  });
  auto& training = request.training;
  if (options.peft == PeftMethod::adapter || options.peft == PeftMethod::adapter_v2) {
    problems += (problems.empty() ? "error: " : "\nerror: ") +
                std::string("--peft: fit compares lora and qlora; give their rank and targets (lora:rank=8)");
  }
  const auto targets = adapter_targets(options.peft_targets);
  for (const auto& problem : targets.problems) {
    problems += (problems.empty() ? "error: " : "\nerror: ") + problem;
  }
  if (!problems.empty()) {
    throw SpecError(problems);
  }
  training.seq = options.seq.value_or(kUsualSeq);
  training.framework = Framework::fsdp;
  training.program = "huggingface";
  training.peft_rank = options.peft_rank;
  training.peft_targets = options.peft_targets;
  training.memory_headroom = options.memory_headroom;
  request.layout.optimizer = options.space.optimizers.empty() ? Optimizer::adamw : options.space.optimizers.front();
  const auto recompute = options.space.recompute.empty() ? "full" : options.space.recompute.front();
  if (!set_recompute(request.layout, recompute)) {
    throw SpecError("error: --recompute: \"" + recompute + "\" is not known");
  }
  if (!options.seq) {
    assume("sequence length", std::to_string(kUsualSeq) + " tokens", "--seq");
  }
  if (!given(options, "peft")) {
    assume("adapters", "rank " + std::to_string(training.peft_rank) + " on every matrix of the layers", "--peft");
  }
  if (!given(options, "recompute")) {
    assume("recomputation", "full (gradient checkpointing)", "--recompute");
  }
  if (!given(options, "optimizer")) {
    assume("optimizer", "adamw", "--optimizer");
  }
  if (!given(options, "memory-headroom")) {
    assume("memory kept free", shortest(100 * training.memory_headroom) + " %", "--memory-headroom");
  }
  assume("batch", "1 sequence", "the largest batch is a column");
  assume("program", "Hugging Face transformers, peft and bitsandbytes", "the command");
  return inputs;
}

std::string gib(Bytes bytes) { return brief_number(bytes.raw() / kGib); }

std::string count_text(int count, int most) {
  return count <= 0 ? "-" : (count >= most ? ">= " : "") + with_separators(count);
}

TextTable table_of(const std::vector<FitRow>& rows) {
  TextTable table;
  table.columns = {{"GPU", false, 9},     {"use", false, 9},    {"need GiB", true, 9},  {"+- %", true, 3},
                   {"verdict", false, 8}, {"max seq", true, 7}, {"max batch", true, 7}, {"step", true, 4}};
  for (const auto& row : rows) {
    std::vector<std::string> places{row.gpu.name, gib(row.gpu.usable) + " GiB"};
    places.resize(row.cells.size());
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const auto& cell = row.cells[i];
      const auto dash = cell.mode->key.find('-');
      std::vector<std::string> cells{places[i], std::string(cell.mode->key.substr(dash + 1))};
      if (!cell.impossible.empty()) {
        cells.insert(cells.end(), {"-", "-", "no", "-", "-", "-"});
      } else {
        cells.insert(cells.end(), {gib(cell.memory.total()), shortest(std::round(100 * cell.memory.error)),
                                   std::string(name_of(cell.fits)), count_text(cell.longest_seq, kLongestTried),
                                   count_text(cell.largest_batch, kLargestBatchTried),
                                   cell.step.raw() > 0 ? format(cell.step) : "-"});
      }
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

std::string heading(const FitInputs& inputs) {
  return inputs.request.model.name + ", " + with_separators(parameter_counts(inputs.request.model).total) +
         " parameters, one sequence of " + with_separators(inputs.request.training.seq) + " tokens on one GPU";
}

std::string loading_note(const std::vector<FitRow>& rows) {
  std::string peaks;
  for (const auto& cell : rows.empty() ? std::vector<FitCell>{} : rows.front().cells) {
    if (cell.load_peak > Bytes(0)) {
      peaks += (peaks.empty() ? "" : ", ") + std::string(cell.mode->key) + " " + gib(cell.load_peak) + " GiB";
    }
  }
  return "loading on the GPU, one matrix after the other, its 16 bits beside what it becomes: " + peaks +
         "; a use whose loading does not fit is answered no";
}

std::vector<std::string> notes_of(const FitInputs& inputs, const std::vector<FitRow>& rows) {
  const auto& request = inputs.request;
  const auto memory = [&](double bytes) { return gib(inference_weights(request.model, bytes, bytes)) + " GiB"; };
  return {"use: fp32 to int4 are inference with that many bytes a weight; below each GPU its usable memory",
          "need: reserved memory of the caching allocator and the context at one sequence; +-: its 80 % interval",
          std::string("verdict: fits with the headroom, tight without it, or no; max seq and max batch: the longest "
                      "sequence at batch 1 and the largest batch at the sequence above that fit"),
          "weights alone: fp32 " + memory(4) + ", 16 bits " + memory(2) + "; inference adds a key/value cache of " +
              gib(key_value_cache(request.model, request.training.seq, 1)) + " GiB in 16 bits",
          "step: one micro-batch of the reference forward, backward and update",
          loading_note(rows)};
}

std::string text_of(const FitInputs& inputs, const FitTable& fit, const Terminal& terminal, std::ostream& err) {
  std::vector<std::string> dropped;
  std::string text = heading(inputs) + "\n\n" + table_of(fit.rows).render(terminal, 0, &dropped) + "\n";
  const int width = std::max(40, terminal.width);
  for (const auto& note : notes_of(inputs, fit.rows)) {
    text += wrap(note, width, 2) + "\n";
  }
  if (!fit.claims.empty()) {
    text += "\nclaims of others:\n";
  }
  for (const auto& claim : fit.claims) {
    text += wrap("  " + claim.what + ": claimed " + claim.claimed + ", here " + claim.here + "; " + claim.reason, width,
                 4) +
            "\n";
  }
  text += "\nassumed:\n";
  TextTable assumed;
  assumed.columns = {{"what", false, 9}, {"value", false, 9}, {"set by", false, 1}};
  for (const auto& row : inputs.assumed) {
    assumed.rows.push_back({row.what, row.value, row.set_by});
  }
  text += assumed.render(terminal, 2);
  err << left_out_note(dropped, terminal, "md and json have");
  return text;
}

std::string markdown_of(const FitInputs& inputs, const FitTable& fit) {
  std::string text = "## " + heading(inputs) + "\n\n" + github_table(table_of(fit.rows)) + "\n";
  for (const auto& note : notes_of(inputs, fit.rows)) {
    text += "- " + note + "\n";
  }
  if (!fit.claims.empty()) {
    TextTable claims;
    claims.columns = {
        {"claim of others", false, 0}, {"claimed", false, 0}, {"here", false, 0}, {"why they differ", false, 0}};
    for (const auto& claim : fit.claims) {
      claims.rows.push_back({claim.what, claim.claimed, claim.here, claim.reason});
    }
    text += "\n" + github_table(claims);
  }
  TextTable assumed;
  assumed.columns = {{"assumed", false, 0}, {"value", false, 0}, {"set by", false, 0}};
  for (const auto& row : inputs.assumed) {
    assumed.rows.push_back({row.what, row.value, row.set_by});
  }
  return text + "\n" + github_table(assumed);
}

std::string csv_of(const FitInputs& inputs, const std::vector<FitRow>& rows) {
  std::string text =
      "gpu,usable_bytes,mode,seq,batch,need_bytes,low_bytes,high_bytes,fits,longest_seq,largest_batch,step_s\n";
  for (const auto& row : rows) {
    for (const auto& cell : row.cells) {
      const auto number = [](double value) { return "," + std::to_string(std::llround(value)); };
      text += csv_field(row.gpu.id) + number(row.gpu.usable.raw()) + "," + std::string(cell.mode->key) + "," +
              std::to_string(inputs.request.training.seq) + ",1" + number(cell.memory.total().raw()) +
              number(cell.low().raw()) + number(cell.high().raw()) + "," + std::string(name_of(cell.fits)) + "," +
              std::to_string(cell.longest_seq) + "," + std::to_string(cell.largest_batch) + "," +
              (cell.step.raw() > 0 ? shortest(cell.step.raw()) : "") + "\n";
    }
  }
  return text;
}

void write_cell(JsonWriter& json, const FitCell& cell) {
  const auto whole = [](Bytes bytes) { return static_cast<std::int64_t>(std::llround(bytes.raw())); };
  json.begin_object();
  json.field("mode", cell.mode->key).field("meaning", cell.mode->meaning);
  if (!cell.impossible.empty()) {
    json.field("fits", "no").field("reason", cell.impossible);
    json.end_object();
    return;
  }
  json.field("need_bytes", whole(cell.memory.total()));
  json.field("low_bytes", whole(cell.low())).field("high_bytes", whole(cell.high()));
  json.key("memory_bytes").begin_line_object();
  for (const auto& term : kMemoryTerms) {
    json.field(term.key, whole(cell.memory.*term.field));
  }
  json.end_object();
  if (cell.load_peak > Bytes(0)) {
    json.field("load_peak_bytes", whole(cell.load_peak));
  }
  json.field("fits", name_of(cell.fits));
  json.field("longest_seq", cell.longest_seq).field("largest_batch", cell.largest_batch);
  if (cell.step.raw() > 0) {
    json.field("step_time_s", cell.step.raw());
    json.field("step_time_low_s", cell.step.raw() / (1 + cell.step_error));
    json.field("step_time_high_s", cell.step.raw() * (1 + cell.step_error));
  }
  json.end_object();
}

std::string json_of(const FitInputs& inputs, const FitTable& fit) {
  const auto& request = inputs.request;
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("inputs").begin_object();
  json.field("model", request.model.name).field("parameters", parameter_counts(request.model).total);
  json.field("seq", request.training.seq).field("batch", 1).field("peft_rank", request.training.peft_rank);
  json.field("recompute", recompute_text(request.layout));
  json.field("optimizer", name_in(kOptimizerNames, request.layout.optimizer));
  json.field("memory_headroom", request.training.memory_headroom);
  json.end_object();
  json.key("assumed").begin_array();
  for (const auto& row : inputs.assumed) {
    json.begin_line_object().field("what", row.what).field("value", row.value).field("set_by", row.set_by);
    json.end_object();
  }
  json.end_array();
  json.key("claims").begin_array();
  for (const auto& claim : fit.claims) {
    json.begin_object();
    json.field("what", claim.what).field("claimed", claim.claimed).field("here", claim.here);
    json.field("reason", claim.reason).end_object();
  }
  json.end_array();
  json.key("gpus").begin_array();
  for (const auto& row : fit.rows) {
    json.begin_object();
    json.field("gpu", row.gpu.id).field("name", row.gpu.name);
    json.field("usable_bytes", static_cast<std::int64_t>(std::llround(row.gpu.usable.raw())));
    json.key("modes").begin_array();
    for (const auto& cell : row.cells) {
      write_cell(json, cell);
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace

int run_fit(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  std::string warnings;
  const FitInputs inputs = inputs_of(options, warnings);
  err << warnings;
  const ProfileSet profiles = ProfileSet::load(data_folder("clusters/profiles"));
  std::vector<const GpuSpec*> gpus;
  for (const auto& gpu : inputs.gpus) {
    gpus.push_back(&gpu);
  }
  FitTable fit;
  fit.rows = single_gpu_fits(inputs.request, gpus, profiles);
  fit.claims = claims_about(inputs.request, inputs.claimed_card, profiles);
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  switch (chosen_format(options)) {
    case OutputFormat::json:
      write_result(options, json_of(inputs, fit), out);
      break;
    case OutputFormat::csv:
      write_result(options, csv_of(inputs, fit.rows), out);
      break;
    case OutputFormat::markdown:
      write_result(options, markdown_of(inputs, fit), out);
      break;
    default:
      write_result(options, text_of(inputs, fit, terminal, err), out);
  }
  const bool some = std::any_of(fit.rows.begin(), fit.rows.end(), [](const FitRow& row) {
    return std::any_of(row.cells.begin(), row.cells.end(),
                       [](const FitCell& cell) { return cell.impossible.empty() && cell.fits != Fits::no; });
  });
  return some ? 0 : 1;
}

}  // namespace tpplan
