#include "planner/import/nccl_tests.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "planner/import/log_lines.h"
#include "planner/import/nccl_messages.h"

namespace tpplan {

namespace {

constexpr std::array<std::string_view, 12> kTypes{"int8", "uint8", "int32",  "uint32",   "int64", "uint64",
                                                  "half", "float", "double", "bfloat16", "char",  "int"};

bool is_type(const std::string& word) {
  const bool fp8 = word.rfind("f8e", 0) == 0 || word.rfind("fp8", 0) == 0;  // their spellings differ by build
  return fp8 || std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The number of unsigned digits that ends a word such as "0:1024" or "|1024".
std::optional<std::int64_t> trailing_integer(const std::string& word) {
  std::size_t at = word.size();
  while (at > 0 && all_digits(word.substr(at - 1, 1))) --at;
  if (at == word.size() || (at > 0 && std::string_view(":|>#(").find(word[at - 1]) == std::string_view::npos)) {
    return std::nullopt;
  }
  return integer_in(word.substr(at));
}

bool is_value(const std::string& word) { return word == "N/A" || number_in(word).has_value(); }

/// A check column: a number, "N/A", or a number with the asterisk of a failed check.
bool is_check(const std::string& word) {
  return is_value(word) || (word.size() > 1 && word.back() == '*' && is_value(word.substr(0, word.size() - 1)));
}

bool is_date(const std::string& word) { return word.size() == 10 && word[4] == '-' && word[7] == '-'; }
bool is_clock(const std::string& word) { return word.size() >= 8 && word[2] == ':' && word[5] == ':'; }

/// What follows `key` in a line up to the end, without blanks around it.
std::string after(const std::string& line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return "";
  std::string rest = line.substr(at + key.size());
  const std::size_t first = rest.find_first_not_of(' ');
  const std::size_t last = rest.find_last_not_of(' ');
  return first == std::string::npos ? "" : rest.substr(first, last - first + 1);
}

/// A row whose pieces may be spread over several lines.
struct OpenRow {
  BenchmarkRow row;
  std::vector<std::string> words;  // after the type
};

class NcclTestsParser {
 public:
  explicit NcclTestsParser(std::string name) {
    log_.name = std::move(name);
    log_.tool = "nccl-tests";
    log_.runs.emplace_back();
  }

  BenchmarkLog parse(std::string_view text) {
    const std::vector<LogLine> lines = log_lines(text);
    for (const LogLine& line : lines) {
      read_text(line);
      if (line.message.empty()) continue;
      messages_.read(line.number, line.message);
      take_whole_row(line.message, line.number);
    }
    flush_pieces();
    close_row(true);
    drop_unfinished_last_row(lines);
    finish_run();
    log_.runs.erase(std::remove_if(log_.runs.begin(), log_.runs.end(),
                                   [](const BenchmarkRun& run) {
                                     return run.rows.empty() && run.devices.empty() && run.configuration.empty();
                                   }),
                    log_.runs.end());
    log_.warnings.insert(log_.warnings.end(), messages_.warnings().begin(), messages_.warnings().end());
    return std::move(log_);
  }

 private:
  BenchmarkRun& run() { return log_.runs.back(); }

  void finish_run() {
    messages_.describe(run());
    if (run().collective.empty()) run().collective = benchmark_collective(run().program);
  }

  /// A new run begins when the current one has rows already.
  void begin_run_if_used(std::size_t line) {
    close_row(false);
    if (run().rows.empty() && !run().summary) {
      if (run().line == 0) run().line = line;
      return;
    }
    finish_run();
    log_.runs.emplace_back();
    run().line = line;
    run().program = program_;
    layout_ = {};
    bare_layout_ = {};
    places_line_.clear();
  }

  /// A message that begins in the middle of a line cuts a row anywhere, even in a number; the next text without a
  /// message goes on with it. Pieces that do not make a whole row are read one by one.
  void read_text(const LogLine& line) {
    const bool blank = line.text.find_first_not_of(' ') == std::string::npos;
    if (!line.message.empty()) {
      if (blank) return;
      pieces_.push_back(line);
      joined_ += line.text;
      return;
    }
    if (!pieces_.empty()) {
      const bool whole = take_whole_row(joined_ + line.text, pieces_.front().number);
      if (!whole) flush_pieces();
      pieces_.clear();
      joined_.clear();
      if (whole) return;
    }
    read_table_line(line);
  }

  void flush_pieces() {
    for (const LogLine& piece : pieces_) read_table_line(piece);
    pieces_.clear();
  }

  /// Takes a row that stands whole at the end of a text, as behind a message whose line end came too late. Such a row
  /// replaces one that is open.
  bool take_whole_row(const std::string& text, std::size_t line) {
    const std::vector<std::string> words = words_of(text);
    const NcclTestsLayout& layout = layout_.known() ? layout_ : bare_layout_;
    if (!layout.known()) return false;
    for (std::size_t i = 2; i < words.size(); ++i) {
      std::optional<OpenRow> row = row_at(words, i, line);
      if (!row) continue;
      if (row->words.size() > layout.lead.size() + layout.values()) return false;
      std::optional<OpenRow> before = std::exchange(open_, std::move(row));
      if (take_row(layout, std::vector<std::string>(open_->words))) return true;
      open_ = std::move(before);
      return false;
    }
    return false;
  }

  void read_table_line(const LogLine& line) {
    const std::string& text = line.text;
    if (text.find_first_not_of(" #") == std::string::npos) return;
    if (read_row(line) || read_header(line) || read_device(line)) return;
    read_program(line);
    read_configuration(line);
    read_summary(line);
    read_failure(line);
    read_versions(line);
    if (contains(text, "Blocking Enabled")) run().blocking = true;
    if (contains(text, "=====")) read_separator(line);
    read_remark(line);
  }

  // ---- rows -------------------------------------------------------------------------------------------------------

  /// The row whose type is word `i`.
  static std::optional<OpenRow> row_at(const std::vector<std::string>& words, std::size_t i, std::size_t line) {
    if (!is_type(words[i]) || !all_digits(words[i - 1])) return std::nullopt;
    const std::optional<std::int64_t> size = trailing_integer(words[i - 2]);
    const std::optional<std::int64_t> count = integer_in(words[i - 1]);
    if (!size || !count) return std::nullopt;
    OpenRow open;
    open.row.line = line;
    open.row.size = *size;
    open.row.count = *count;
    open.row.type = words[i];
    open.words.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
    return open;
  }

  bool read_row(const LogLine& line) {
    const std::vector<std::string> words = words_of(line.text);
    for (std::size_t i = 2; i < words.size(); ++i) {
      std::optional<OpenRow> open = row_at(words, i, line.number);
      if (!open) continue;
      close_row(false);
      open_ = std::move(open);
      complete_row();
      return true;
    }
    return continue_row(line, words);
  }

  /// A line of figures alone: the rest of a row that a message interrupted.
  bool continue_row(const LogLine& line, const std::vector<std::string>& words) {
    if (words.empty() || !std::all_of(words.begin(), words.end(), is_value)) return false;
    if (open_) {
      open_->words.insert(open_->words.end(), words.begin(), words.end());
      complete_row();
      return true;
    }
    if (words.size() != 4 && words.size() != 8) return false;
    warn(line.number, "figures without the beginning of their row (size, count, type)");
    return true;
  }

  /// Whether a row may lack its redop or root: only in tables that name at most one of them (alltoall leaves it blank).
  [[nodiscard]] bool lead_fits(const NcclTestsLayout& layout, const std::vector<std::string>& words) const {
    const std::size_t lead = words.size() - layout.values();
    if (lead > layout.lead.size() || (layout.lead.size() == 2 && lead < 2)) return false;
    for (std::size_t i = 0; i < lead; ++i) {
      const bool number = integer_in(words[i]).has_value();
      if (number != (layout.lead[i] == "root")) return false;
    }
    return true;
  }

  static void strip_time_stamp(std::vector<std::string>& words) {
    if (words.size() > 2 && is_date(words[words.size() - 2]) && is_clock(words.back())) words.resize(words.size() - 2);
  }

  /// Closes the open row as soon as it has all its figures.
  void complete_row() {
    std::vector<std::string> words = open_->words;
    strip_time_stamp(words);
    const NcclTestsLayout bare = layout_of_bare_row(words.size());
    const NcclTestsLayout& layout = layout_.known() ? layout_ : bare_layout_.known() ? bare_layout_ : bare;
    if (take_row(layout, words)) return;
    // A header that was cut at the right names fewer columns than the rows have.
    if (layout_.known() && bare.known() && bare.values() > layout_.values() && bare.lead == layout_.lead) {
      NcclTestsLayout whole = bare;
      whole.deviation = layout_.deviation;
      if (take_row(whole, words)) layout_ = whole;
    }
  }

  bool take_row(const NcclTestsLayout& layout, const std::vector<std::string>& words) {
    if (!layout.known() || words.size() < layout.values() || !lead_fits(layout, words)) return false;
    if (!fill(open_->row, layout, words)) return false;
    run().rows.push_back(std::move(open_->row));
    if (run().line == 0) run().line = run().rows.back().line;
    if (!layout_.known()) bare_layout_ = layout;
    open_.reset();
    return true;
  }

  static bool fill(BenchmarkRow& row, const NcclTestsLayout& layout, const std::vector<std::string>& words) {
    std::size_t at = words.size() - layout.values();
    for (std::size_t i = 0; i < at; ++i) {
      if (layout.lead[i] == "root") {
        row.root = static_cast<int>(integer_in(words[i]).value_or(-1));
      } else {
        row.redop = words[i];
      }
    }
    for (std::size_t place = 0; place < layout.places.size(); ++place) {
      PlaceFigures figures;
      for (const std::string& column : layout.places[place]) {
        const std::string& word = words[at++];
        const bool check = column == "#wrong" || column == "error" || column == "res";
        const bool figure = column == "time" || column == "cputime" || column == "algbw" || column == "busbw";
        if ((check && !is_check(word)) || (figure && !number_in(word))) return false;
        if (check) {
          figures.over_threshold = word.back() == '*';
          figures.wrong = number_in(figures.over_threshold ? word.substr(0, word.size() - 1) : word);
        }
        if (column == "time" || column == "cputime") {
          figures.time_us = *number_in(word) * (layout.milliseconds ? 1000 : 1);
          if (figures.time_us < 0) return false;
        }
        if (column == "algbw") figures.algbw = *number_in(word);
        if (column == "busbw") figures.busbw = *number_in(word);
      }
      const bool in_place = layout.places.size() == 1 ? layout.only_in_place : (place == 1) != layout.in_place_first;
      (in_place ? row.in_place : row.out_of_place) = figures;
    }
    return true;
  }

  /// An open row that got no more figures: keeps a complete first place, else tells what is missing.
  void close_row(bool at_end) {
    if (!open_) return;
    OpenRow open = std::move(*open_);
    open_.reset();
    const NcclTestsLayout& layout = layout_.known() ? layout_ : bare_layout_;
    if (layout.places.size() == 2) {
      NcclTestsLayout first = layout;
      first.places.resize(1);
      first.only_in_place = layout.in_place_first;
      if (open.words.size() == layout.lead.size() + first.values() && lead_fits(first, open.words) &&
          fill(open.row, first, open.words)) {
        warn(open.row.line, "only one place of this row is there: the other one is missing");
        run().rows.push_back(std::move(open.row));
        return;
      }
    }
    const std::string found = std::to_string(3 + open.words.size());
    if (std::find(open.words.begin(), open.words.end(), "...") != open.words.end()) return;
    if (layout.known()) {
      const bool same_count = open.words.size() == layout.lead.size() + layout.values();
      warn(open.row.line, std::string(at_end ? "cut row: " : "damaged row: ") + "expected " + layout.words() +
                              (same_count ? ", one of the figures is no number" : ", found " + found));
    } else {
      warn(open.row.line, std::string(at_end ? "cut row: " : "damaged row: ") + "found " + found +
                              " columns and no header; 13 are expected (size count type redop root, then time algbw "
                              "busbw #wrong twice)");
    }
  }

  /// A file that ends inside its last row: a cut number looks whole.
  void drop_unfinished_last_row(const std::vector<LogLine>& lines) {
    if (lines.empty() || lines.back().ended || run().summary || run().rows.empty()) return;
    if (run().rows.back().line != lines.back().number) return;
    warn(lines.back().number, "the file ends inside this row (no line break, no summary): left out");
    run().rows.pop_back();
  }

  // ---- around the rows --------------------------------------------------------------------------------------------

  bool read_header(const LogLine& line) {
    NcclTestsLayout layout = nccl_tests_layout(line.text);
    if (layout.known()) {
      begin_run_if_used(line.number);
      const std::size_t in_place = places_line_.find(" in-place");
      const std::size_t out_of_place = places_line_.find("out-of-place");
      layout.in_place_first = in_place < out_of_place && out_of_place != std::string::npos;
      layout.only_in_place = in_place != std::string::npos && out_of_place == std::string::npos;
      layout_ = std::move(layout);
      run().cpu_time = layout_.cpu_time;
      run().error_is_deviation = layout_.deviation;
      return true;
    }
    const std::vector<std::string> words = words_of(line.text);
    const bool places = std::all_of(words.begin(), words.end(), [](const std::string& word) {
      return word == "#" || word == "out-of-place" || word == "in-place";
    });
    if (places) {
      begin_run_if_used(line.number);
      places_line_ = line.text + " ";
      return true;
    }
    return false;
  }

  bool read_device(const LogLine& line) {
    const std::vector<std::string> words = words_of(line.text);
    const auto rank = std::find(words.begin(), words.end(), "Rank");
    const auto on = std::find(rank, words.end(), "on");
    const auto device_word = std::find(on, words.end(), "device");
    if (device_word == words.end() || words.end() - device_word < 2 || on - rank < 2 || device_word - on != 2) {
      return false;
    }
    const std::optional<std::int64_t> number = integer_in(rank[1]);
    const std::optional<std::int64_t> index = integer_in(device_word[1]);
    if (!number || !index) return false;
    begin_run_if_used(line.number);
    BenchmarkDevice device;
    device.rank = static_cast<int>(*number);
    device.device = static_cast<int>(*index);
    device.host = on[1];
    const auto group = std::find(rank, on, "Group");
    if (on - group > 1) device.group = static_cast<int>(integer_in(group[1]).value_or(0));
    if (words.end() - device_word > 2) device.bus_id = device_word[2];
    for (auto word = device_word + std::min<std::ptrdiff_t>(3, words.end() - device_word); word != words.end();
         ++word) {
      device.model += (device.model.empty() ? "" : " ") + *word;
    }
    if (device.rank == 0 && device.group == 0) {
      const auto first = std::count_if(run().devices.begin(), run().devices.end(),
                                       [](const BenchmarkDevice& d) { return d.rank == 0 && d.group == 0; });
      if (first > 0) run().processes_without_mpi = static_cast<int>(first) + 1;
    }
    run().devices.push_back(std::move(device));
    return true;
  }

  void read_program(const LogLine& line) {
    const std::string& text = line.text;
    if (contains(text, "nccl-tests version") || contains(text, "Collective test starting")) {
      begin_run_if_used(line.number);
    }
    const std::size_t at = text.find("_perf");
    if (at == std::string::npos || contains(text, "Collective test concluded") || contains(text, "ibverbs")) return;
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_')) {
      --begin;
    }
    const std::string program = text.substr(begin, at + 5 - begin);
    if (benchmark_collective(program).empty()) return;
    program_ = program;
    if (run().summary) begin_run_if_used(line.number);
    // A name inside a table belongs to the next one (or to an error message).
    if (run().rows.empty()) run().program = program;
  }

  void read_configuration(const LogLine& line) {
    const std::size_t at = line.text.find("nThread");
    if (at == std::string::npos || !contains(line.text, "minBytes")) return;
    begin_run_if_used(line.number);
    std::string key;
    for (std::string& word : words_of(line.text.substr(at))) {
      const bool number = !word.empty() && (all_digits(word.substr(0, 1)) || word[0] == '-');
      if (!number) {
        if (!key.empty() && key.back() != ':') key += ' ';
        if (!key.empty() && key.back() == ':') key.clear();
        key += word;
        continue;
      }
      if (!key.empty() && key.back() == ':') key.pop_back();
      if (!key.empty()) run().configuration[key] = std::move(word);
      key.clear();
    }
    const auto graph = run().configuration.find("graph");
    run().graph = graph != run().configuration.end() && graph->second != "0";
  }

  void read_summary(const LogLine& line) {
    const std::string bounds = after(line.text, "Out of bounds values");
    const std::string average = after(line.text, "Avg bus bandwidth");
    if (bounds.empty() && average.empty()) return;
    close_row(false);
    run().summary = true;
    for (const std::string& word : words_of(bounds.empty() ? average : bounds)) {
      if (!bounds.empty() && !run().out_of_bounds) run().out_of_bounds = integer_in(word);
      if (!average.empty() && !run().average_busbw) run().average_busbw = number_in(word);
    }
  }

  void read_failure(const LogLine& line) {
    static constexpr std::array<std::string_view, 6> kSigns{"Test NCCL failure",      "Test CUDA failure",
                                                            ": Test failure",         "Test timeout",
                                                            "Invalid number of GPUs", "# error:"};
    for (const std::string_view sign : kSigns) {
      if (!contains(line.text, sign)) continue;
      if (!run().summary) run().failed = true;
      const std::string what = line.text.substr(line.text.find_first_not_of(" .#"));
      if (told_.insert(what).second) log_.failures.push_back({line.number, what});
      return;
    }
  }

  void read_versions(const LogLine& line) {
    const std::string& text = line.text;
    if (contains(text, "rccl-tests: Version") || contains(text, "rccl-tests version")) {
      log_.tool = "rccl-tests";
      run().variables["rccl-tests"] = after(text, "Version");
    }
    for (const std::string_view key : {"RCCL version", "NCCL version", "HIP version", "ROCm version"}) {
      if (text.rfind(key, text.find_first_not_of(' ')) == std::string::npos) continue;
      std::string value = after(text, key);
      if (!value.empty() && value[0] == ':') value = after(value, ":");
      run().variables[std::string(key)] = value;
      break;
    }
    if (contains(text, "nccl-library=")) {
      run().variables["nccl-library"] = words_of(after(text, "nccl-library=")).at(0);
      run().variables["nccl-headers"] = words_of(after(text, "nccl-headers=")).at(0);
    }
  }

  /// "# 16x V100 in 2 nodes": what people write above a table.
  void read_remark(const LogLine& line) {
    constexpr std::size_t kMostRemarks = 20;
    const bool comment = line.text[line.text.find_first_not_of(' ')] == '#';
    if (comment && log_.rows() == 0 && log_.remarks.size() < kMostRemarks)
      log_.remarks.push_back({line.number, line.text});
  }

  void read_separator(const LogLine& line) {
    std::string text = line.text;
    text.erase(std::remove(text.begin(), text.end(), '='), text.end());
    const std::vector<std::string> words = words_of(text);
    if (words.empty() || words.size() > 6) return;
    begin_run_if_used(line.number);
    for (const std::string& word : words) run().section += (run().section.empty() ? "" : " ") + word;
  }

  void warn(std::size_t line, std::string text) { run().warnings.push_back({line, std::move(text)}); }

  BenchmarkLog log_;
  NcclMessages messages_;
  NcclTestsLayout layout_, bare_layout_;
  std::string places_line_;
  std::optional<OpenRow> open_;
  std::vector<LogLine> pieces_;  // lines cut by messages, and their texts joined
  std::string joined_;
  std::string program_;
  std::set<std::string> told_;
};

}  // namespace

BenchmarkLog parse_nccl_tests(std::string name, std::string_view text) {
  return NcclTestsParser(std::move(name)).parse(text);
}

}  // namespace tpplan
