#include <optional>

#include "planner/import/log_lines.h"
#include "planner/import/samples.h"

namespace tpplan {

namespace {

/// Columns of an OSU or IMB table, by what they hold.
struct Columns {
  std::size_t size = 0;
  std::size_t time = 1;
  std::size_t count = 2;
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// "Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)  Iterations": names are one to two words, so columns are
/// counted by the words that end them.
Columns osu_columns(const std::string& line) {
  Columns columns;
  columns.count = 1;
  const std::vector<std::string> words = words_of(line);
  std::string first;
  for (const std::string& word : words) {
    if (word == "#" || word == "Size" || word == "Message" || word == "size") continue;
    if (contains(word, "(us)") || contains(word, "(MB/s)") || word == "Iterations" || contains(word, "P")) {
      if (first == "Avg" || (first.empty() && word == "Latency(us)")) columns.time = columns.count;
      ++columns.count;
      first.clear();
    } else {
      first = word;
    }
  }
  return columns;
}

/// "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]", in PingPong "t[usec]".
Columns imb_columns(const std::string& line) {
  Columns columns;
  const std::vector<std::string> words = words_of(line);
  columns.count = words.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "t_avg[usec]" || words[i] == "t[usec]") columns.time = i;
  }
  return columns;
}

/// Reads the lines of OSU and IMB output one by one; a new title begins a new run.
class LatencyTables {
 public:
  explicit LatencyTables(std::string name) {
    log_.name = std::move(name);
    log_.tool = "OSU";
  }

  BenchmarkLog parse(std::string_view text) {
    const std::vector<LogLine> lines = log_lines(text);
    for (const LogLine& line : lines) read(line);
    const bool cut = !lines.empty() && !lines.back().ended && !log_.runs.empty() && !run().rows.empty() &&
                     run().rows.back().line == lines.back().number;
    if (cut) {
      run().warnings.push_back({lines.back().number, "the file ends inside this row (no line break): left out"});
      run().rows.pop_back();
    }
    return std::move(log_);
  }

 private:
  BenchmarkRun& run() { return log_.runs.back(); }

  void begin_run(std::size_t line, std::string program) {
    log_.runs.emplace_back();
    run().line = line;
    run().program = std::move(program);
    run().collective = benchmark_collective(run().program);
    in_table_ = false;
  }

  void read(const LogLine& line) {
    const std::vector<std::string> words = words_of(line.text);
    if (words.empty() || read_title(line, words) || log_.runs.empty()) return;
    if (contains(line.text, "#processes") || contains(line.text, "# processes")) {
      for (const std::string& word : words) {
        const std::optional<std::int64_t> ranks = integer_in(word);
        if (ranks && *ranks > 0 && *ranks < (1 << 24)) run().nranks = static_cast<int>(*ranks);
      }
    } else if (contains(line.text, "t_avg[usec]") || contains(line.text, "t[usec]")) {
      columns_ = imb_columns(line.text);
      in_table_ = true;
    } else if (words[0] == "#" && contains(line.text, "Size") && contains(line.text, "(")) {
      columns_ = osu_columns(line.text);
      in_table_ = !contains(line.text, "(MB/s)");
      if (!in_table_) run().warnings.push_back({line.number, "a bandwidth table: only latency tables are read"});
    } else if (contains(line.text, "Datatype")) {
      type_ = words.back();
      if (!type_.empty() && type_.back() == '.') type_.pop_back();
    } else if (in_table_ && integer_in(words[0])) {
      read_row(line, words);
    }
  }

  bool read_title(const LogLine& line, const std::vector<std::string>& words) {
    const std::size_t osu = line.text.find("OSU MPI");
    if (osu != std::string::npos) {
      begin_run(line.number, line.text.substr(osu));
      type_ = "byte";
      // osu_latency: half of a round trip between two ranks.
      if (run().collective.empty() && contains(run().program, "Latency")) {
        run().collective = "sendrecv";
        run().nranks = 2;
      }
      const std::size_t version = run().program.rfind(" v");
      if (version != std::string::npos) run().variables["OSU"] = run().program.substr(version + 2);
      return true;
    }
    if (!contains(line.text, "Benchmarking") || words.size() < 2) return false;
    log_.tool = "IMB";
    begin_run(line.number, words.back());
    type_ = "byte";
    return true;
  }

  void read_row(const LogLine& line, const std::vector<std::string>& words) {
    const std::optional<double> time = columns_.time < words.size() ? number_in(words[columns_.time]) : std::nullopt;
    if (!time || words.size() < columns_.count) {
      run().warnings.push_back({line.number, "damaged row: expected " + std::to_string(columns_.count) +
                                                 " columns, found " + std::to_string(words.size())});
      return;
    }
    BenchmarkRow row;
    row.line = line.number;
    row.size = *integer_in(words[0]);
    row.type = type_;
    PlaceFigures figures;
    figures.time_us = *time;
    row.out_of_place = figures;
    run().rows.push_back(std::move(row));
  }

  BenchmarkLog log_;
  Columns columns_;
  bool in_table_ = false;
  std::string type_ = "byte";
};

}  // namespace

BenchmarkLog parse_osu(std::string name, std::string_view text) { return LatencyTables(std::move(name)).parse(text); }

}  // namespace tpplan
