#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tpplan {

/// What a journal says of the sweep that wrote it; a sweep goes on only where all of it agrees.
struct SweepIdentity {
  std::string version;  ///< of the program, with its commit
  std::string grid;     ///< SweepGrid::identity()
  std::size_t cells = 0;
};

/// The finished rows of a sweep that may end at any moment: a file of lines beside the output, the first one the
/// identity, then a row for each cell in the order they were finished. A row is handed to the system in one piece
/// before the next cell is counted as done.
class SweepJournal {
 public:
  /// Begins an empty journal; throws UsageError when the file exists and holds rows, or cannot be written.
  static SweepJournal begin(const std::string& path, const SweepIdentity& identity);
  /// Goes on with the journal at `path`: gives back its rows by cell, after cutting off a line that was not finished.
  /// Begins a new one when there is none. Throws UsageError for a journal of another sweep, SpecError for one that is
  /// damaged.
  static SweepJournal resume(const std::string& path, const SweepIdentity& identity,
                             std::vector<std::pair<std::size_t, std::string>>& rows);
  SweepJournal(SweepJournal&& other) noexcept;
  SweepJournal& operator=(SweepJournal&&) = delete;
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;
  ~SweepJournal();

  void add(const std::string& row);  ///< throws EnvironmentError
  /// Removes the file: the output holds the rows now.
  void remove();

 private:
  SweepJournal(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void write_line(const std::string& text) const;
  std::string path_;
  int file_ = -1;
};

}  // namespace tpplan
