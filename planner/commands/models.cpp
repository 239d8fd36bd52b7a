#include "planner/commands/models.h"

#include <unistd.h>

#include <algorithm>
#include <ostream>

#include "planner/report/json_writer.h"
#include "planner/report/output.h"
#include "planner/report/text_table.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

struct Listed {
  std::string file;
  ModelSpec model;
  ParameterCounts counts;
  std::string error;  ///< rendered problems; the rest is then empty
};

Listed read(const std::string& file, std::ostream& err) {
  Listed listed;
  listed.file = file;
  std::string warnings;
  try {
    listed.model = resolve_model(file, &warnings);
    listed.counts = parameter_counts(listed.model);
  } catch (const SpecError& error) {
    listed.error = error.what();
  }
  if (!warnings.empty()) err << warnings << "\n";
  return listed;
}

std::string count_text(std::int64_t value) { return value > 0 ? with_separators(value) : "-"; }

std::string table_of(const std::vector<Listed>& models, const PlannerOptions& options, std::ostream& err) {
  TextTable table;
  table.columns = {{"model", false, 9}, {"parameters", true, 8}, {"active", true, 7}, {"layers", true, 6},
                   {"hidden", true, 5}, {"heads", true, 3},      {"kv", true, 2},     {"experts", true, 4},
                   {"seq", true, 4},    {"batch", true, 1},      {"vision", true, 0}, {"architecture", false, 0}};
  bool vision = false;
  for (const Listed& row : models) {
    if (!row.error.empty()) {
      err << row.error << "\n";
      continue;
    }
    const ModelSpec& model = row.model;
    vision = vision || model.vision_params > 0;
    table.rows.push_back({row.file, with_separators(row.counts.total), count_text(model.moe ? row.counts.active : 0),
                          std::to_string(model.layers), with_separators(model.hidden), std::to_string(model.heads),
                          std::to_string(model.kv_heads), count_text(model.moe ? model.moe->experts : 0),
                          count_text(model.default_seq), count_text(model.default_global_batch),
                          count_text(row.counts.vision), model.architecture});
  }
  if (table.rows.empty()) return "";
  std::vector<std::string> dropped;
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  std::string text = table.render(terminal, 0, &dropped);
  std::vector<std::string> notes{
      "parameters: trainable weights of the language model, a tied matrix once, without multi-token prediction.",
      "active: without the experts a token does not visit; both embedding tables included."};
  if (vision) notes.emplace_back("vision: tower and projector, on top of parameters.");
  for (const std::string& note : notes) text += wrap(note, terminal.width, 2) + "\n";
  err << left_out_note(dropped, terminal, "json has");
  return text;
}

std::string json_of(const std::vector<Listed>& models) {
  JsonWriter json;
  json.begin_array();
  for (const Listed& row : models) {
    json.begin_object();
    json.field("file", row.file);
    if (row.error.empty()) {
      json.field("name", row.model.name).field("architecture", row.model.architecture);
      json.field("total_params", row.counts.total).field("active_params", row.counts.active);
      json.field("embedding_params", row.counts.embedding).field("vision_params", row.counts.vision);
      json.key("error").null();
    } else {
      for (const char* key :
           {"name", "architecture", "total_params", "active_params", "embedding_params", "vision_params"}) {
        json.key(key).null();
      }
      json.field("error", row.error);
    }
    json.end_object();
  }
  json.end_array();
  return json.text();
}

}  // namespace

int run_models(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<Listed> models;
  for (const std::string& file : options.operands.empty() ? shipped("model") : options.operands) {
    models.push_back(read(file, err));
  }
  const bool json = chosen_format(options) == OutputFormat::json;
  write_result(options, json ? json_of(models) : table_of(models, options, err), out);
  const bool failed = std::any_of(models.begin(), models.end(), [](const Listed& row) { return !row.error.empty(); });
  return failed ? 2 : 0;
}

}  // namespace tpplan
