#include "planner/sweep_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "planner/errors.h"
#include "planner/report/json_writer.h"
#include "planner/report/sweep_row.h"

namespace tpplan {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr mode_t kMode = 0644;

std::string header_line(const SweepIdentity& identity) {
  JsonWriter json(JsonWriter::Form::one_line);
  json.begin_object().field("journal", "tpplan sweep").field("schema_version", kSchemaVersion);
  json.field("version", identity.version).field("grid", identity.grid);
  json.field("cells", static_cast<std::int64_t>(identity.cells)).end_object();
  std::string line = json.text();
  line.pop_back();
  return line;
}

SweepIdentity read_header(const std::string& path, const std::string& line) {
  SpecDocument document = SpecDocument::parse(path, line);
  ObjectReader root = document.root();
  root.choice("journal", {"tpplan sweep"});
  root.count("schema_version", kSchemaVersion, kSchemaVersion);
  SweepIdentity identity;
  identity.version = root.text("version");
  identity.grid = root.text("grid");
  identity.cells = static_cast<std::size_t>(root.count("cells", 1, 1'000'000'000));
  root.close();
  document.finish();
  return identity;
}

void check_identity(const std::string& path, const SweepIdentity& written, const SweepIdentity& wanted) {
  std::vector<std::string> problems;
  if (written.version != wanted.version) {
    problems.push_back(path + " was written by " + written.version + ", and this is " + wanted.version +
                       ": its rows may differ from new ones");
  }
  if (written.grid != wanted.grid || written.cells != wanted.cells) {
    problems.push_back(path + " belongs to another grid, or a model, cluster or profile has changed since (hash " +
                       written.grid + " with " + std::to_string(written.cells) + " cells, now " + wanted.grid +
                       " with " + std::to_string(wanted.cells) + ")");
  }
  if (!problems.empty()) {
    problems.push_back("nothing was changed; remove " + path + " to start again, or go on with what wrote it");
    throw UsageError(problems, "sweep");
  }
}

/// More than the identity: something that took time to compute.
bool holds_rows(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  return std::getline(file, line) && std::getline(file, line) && !file.eof();
}

[[noreturn]] void throw_cannot_write(const std::string& path) {
  throw UsageError({"cannot write " + path + ": " + std::strerror(errno)}, "sweep");
}

}  // namespace

SweepJournal::SweepJournal(SweepJournal&& other) noexcept : path_(std::move(other.path_)), file_(other.file_) {
  other.file_ = -1;
}

SweepJournal::~SweepJournal() {
  if (file_ >= 0) {
    close(file_);
  }
}

SweepJournal SweepJournal::begin(const std::string& path, const SweepIdentity& identity) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored) && !holds_rows(path)) {
    std::filesystem::remove(path, ignored);
  }
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kMode);
  if (file < 0 && errno == EEXIST) {
    throw UsageError({path + " holds the rows of a sweep that was not finished: --resume goes on with it; remove it to "
                             "start again"},
                     "sweep");
  }
  if (file < 0) {
    throw_cannot_write(path);
  }
  SweepJournal journal(path, file);
  journal.write_line(header_line(identity));
  return journal;
}

SweepJournal SweepJournal::resume(const std::string& path, const SweepIdentity& identity,
                                  std::vector<std::pair<std::size_t, std::string>>& rows) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return begin(path, identity);
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t whole = text.rfind('\n') + 1;  // 0 when not even the first line was finished
  std::size_t number = 0;
  for (std::size_t start = 0; start < whole;) {
    const std::size_t end = text.find('\n', start);
    std::string line = text.substr(start, end - start);
    start = end + 1;
    ++number;
    if (number == 1) {
      check_identity(path, read_header(path, line), identity);
      continue;
    }
    const SweepRowHead head = sweep_row_head(path, number, line);
    if (head.cell >= identity.cells) {
      throw SpecError(path + ":" + std::to_string(number) + ":1: error: no cell " + std::to_string(head.cell) +
                      " in a grid of " + std::to_string(identity.cells));
    }
    rows.emplace_back(head.cell, std::move(line));
  }
  if (whole == 0) {
    std::filesystem::remove(path);
    return begin(path, identity);
  }
  if (truncate(path.c_str(), static_cast<off_t>(whole)) != 0) {
    throw_cannot_write(path);
  }
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) {
    throw_cannot_write(path);
  }
  return {path, file};
}

void SweepJournal::add(const std::string& row) { write_line(row); }

void SweepJournal::write_line(const std::string& text) const {
  const std::string line = text + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(file_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw EnvironmentError("cannot write " + path_ + ": " + std::strerror(errno));
    }
    written += static_cast<std::size_t>(count);
  }
}

void SweepJournal::remove() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace tpplan
