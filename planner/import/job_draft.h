#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost-model/profile.h"
#include "planner/export/framework_keys.h"
#include "planner/import/config_file.h"

namespace tpplan {

/// Where a value was read.
struct Origin {
  const ConfigFile* file = nullptr;
  std::size_t at = 0;
  std::string key = {};
};
/// "run.sh:12 --seq-length"; a file name alone where there is no key.
std::string place_of(const Origin& origin);

/// A value and where it was read.
template <class Value>
struct Read {
  Value value{};
  std::vector<Origin> from = {};  ///< empty: derived or a habit of the framework
};

/// What the files of a job have said so far, in our terms. Readers of single frameworks fill it in; finish_job() makes
/// a layout of it.
class JobDraft {
 public:
  explicit JobDraft(std::vector<ConfigFile>& files) : files_(&files) {}

  /// Counts. The last of a file counts; two files that differ are an error.
  void say(JobFact fact, std::int64_t number, const Origin& origin);
  void say_derived(JobFact fact, std::int64_t number, std::vector<Origin> from);
  void forget(JobFact fact) { numbers_.erase(fact); }
  [[nodiscard]] std::optional<std::int64_t> number(JobFact fact) const;
  [[nodiscard]] std::int64_t number_or(JobFact fact, std::int64_t fallback) const;
  [[nodiscard]] std::vector<Origin> origins(JobFact fact) const;

  /// Words in the vocabulary of --layout and of plan's options: "precision" "bf16", "recompute" "full:2".
  void say(std::string_view option, std::string word, std::vector<Origin> from);
  [[nodiscard]] std::string word(std::string_view option) const;
  [[nodiscard]] const std::map<std::string, Read<std::string>, std::less<>>& words() const { return words_; }

  /// Whether a file has said anything of the job but its number of GPUs.
  [[nodiscard]] bool says_something() const;

  void error(const Origin& origin, std::string message, std::string hint = "");
  /// A setting that was seen but leaves its value open ("auto", a variable that is not set).
  void leave_open(const Origin& origin, std::string_view text);
  /// A setting that may matter and was not understood.
  void not_read(const Origin& origin, std::string_view text);
  void remark(std::string text) { remarks.push_back(std::move(text)); }
  /// Throws SpecError with every error of every file, when there are any.
  void throw_errors() const;

  std::string program = {};  ///< "Megatron-LM"
  std::optional<Framework> framework = {};
  std::optional<std::int64_t> nodes = {}, gpus_per_node = {};
  std::vector<int> layers_per_stage = {};  ///< of given stages, along the pipeline
  std::int64_t layers_in_stage = 0;        ///< TorchTitan: layers and ends per (virtual) stage, 0 for none given
  std::int64_t counted_ends = 2;           ///< TorchTitan: layers that embedding and head count as
  bool several_stages_per_rank = false;    ///< the schedule has virtual stages
  std::int64_t recompute_every = 0;        ///< every so many layers are recomputed whole, 0 for no such thing
  bool shards_of_node = false;             ///< states are shared inside a node and copied between nodes
  std::vector<std::string> open = {}, unread = {}, remarks = {};
  std::vector<std::pair<std::string, std::string>> assumed = {};  ///< what, value
  int passed_over = 0;                                            ///< settings that do not bear on time or memory

  // Model: what the counts do not say, in the words of model files.
  bool describes_model = false;
  std::string model_name = {};
  std::vector<std::pair<std::string, std::string>> model_words = {};  ///< key and JSON value
  std::string dense_layers = {};                                      ///< JSON value of moe.dense_layers
  bool latent_attention = false;
  bool router_bias = false;

 private:
  struct Problem {
    const ConfigFile* file;
    Diagnostic diagnostic;
  };
  std::vector<ConfigFile>* files_;
  std::map<JobFact, Read<std::int64_t>> numbers_;
  std::map<std::string, Read<std::string>, std::less<>> words_;
  std::vector<Problem> problems_;
};

/// Access to the settings of one file: what is asked for counts as read. The last of several equal keys counts.
class SettingReader {
 public:
  SettingReader(const ConfigFile& file, JobDraft& draft);

  [[nodiscard]] bool has(std::string_view key) const { return file_.has(key); }
  [[nodiscard]] Origin origin(std::string_view key) const;
  [[nodiscard]] const ConfigFile& file() const { return file_; }
  JobDraft& draft() { return draft_; }

  /// A whole number; nothing when it is absent or left open ("auto", null, -1, $VARIABLE), an error when it is none.
  std::optional<std::int64_t> count(std::string_view key);
  /// A switch: a flag without value is on.
  std::optional<bool> flag(std::string_view key);
  bool on(std::string_view key) { return flag(key).value_or(false); }
  /// A text; nothing when it is absent, empty or left open.
  std::optional<std::string> word(std::string_view key);
  /// Marks as read without looking.
  void pass(std::string_view key);

  /// Reads every key of the target's table into the draft. Words that the table does not have are noted as not read.
  void take_table(Target target);
  void take(const FrameworkKey& row);
  /// One fact under another name than the table's.
  void take(std::string_view key, JobFact fact);

  /// Sorts what nobody asked for into what may bear on time or memory and what does not.
  void close();

 private:
  const ConfigEntry* find(std::string_view key);

  const ConfigFile& file_;
  JobDraft& draft_;
  std::vector<bool> used_;
};

/// Whether a setting leaves its value open: "auto", "null", "${VARIABLE}", "$(command)".
bool is_open(std::string_view value);
/// Whether a switch of a configuration is off: false, no, off, 0, null in any case.
bool is_off(std::string_view value);
/// The word of the target's table in any case of its letters.
std::optional<std::string_view> our_word_in_any_case(Target target, JobFact fact, std::string_view theirs);

}  // namespace tpplan
