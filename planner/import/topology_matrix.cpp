#include "planner/import/topology_matrix.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tpplan {
namespace {

struct PathRow {
  std::string_view name;
  Path path;
};
constexpr std::array<PathRow, 12> kPaths{{{"XGMI", Path::xgmi},
                                          {"X", Path::self},
                                          {"PIX", Path::pix},
                                          {"PXB", Path::pxb},
                                          {"PHB", Path::phb},
                                          {"NODE", Path::node},
                                          {"SYS", Path::sys},
                                          {"SOC", Path::sys},
                                          {"PCIE", Path::node},
                                          {"0", Path::self},
                                          {"N/A", Path::unknown},
                                          {"?", Path::unknown}}};
constexpr std::array<std::string_view, 7> kPeerStatus{"OK", "NS", "CNS", "GNS", "TNS", "DR", "U"};

struct Word {
  std::string_view text;
  std::size_t offset;
};

struct Line {
  std::vector<Word> words;
  std::size_t offset = 0;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    Line line;
    line.offset = at;
    for (std::size_t i = at; i < end;) {
      while (i < end && std::isspace(static_cast<unsigned char>(text[i])) != 0) ++i;
      const std::size_t begin = i;
      while (i < end && std::isspace(static_cast<unsigned char>(text[i])) == 0) ++i;
      if (i > begin) line.words.push_back({text.substr(begin, i - begin), begin});
    }
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// "GPU12": the number behind the prefix, when nothing else follows.
std::optional<int> numbered(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix) || word.size() == prefix.size() || word.size() > prefix.size() + 4) return std::nullopt;
  int value = 0;
  for (const char c : word.substr(prefix.size())) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

bool is_peer_status(std::string_view word) {
  return std::find(kPeerStatus.begin(), kPeerStatus.end(), word) != kPeerStatus.end();
}

bool is_gpu(std::string_view word) { return numbered(word, "GPU").has_value(); }

bool is_nic(std::string_view word) {
  return numbered(word, "NIC").has_value() || numbered(word, "mlx5_").has_value() || word.starts_with("mlx4_") ||
         word.starts_with("bnxt_re") || word.starts_with("irdma") || word.starts_with("efa_");
}

/// Splits "NIC11NIC12" where a second name begins; one piece when it is one name.
std::vector<std::string_view> unglued_names(std::string_view word) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < word.size(); ++i) {
    const std::string_view rest = word.substr(i);
    if (is_digit(word[i - 1]) && (rest.starts_with("GPU") || rest.starts_with("NIC") || rest.starts_with("mlx5_"))) {
      pieces.push_back(word.substr(begin, i - begin));
      begin = i;
    }
  }
  pieces.push_back(word.substr(begin));
  return pieces;
}

/// The cell at the start of `word` and its length, 0 when it is none.
std::size_t leading_cell(std::string_view word, PathCell& cell) {
  if (word.starts_with("NV") && word.size() > 2 && is_digit(word[2])) {
    std::size_t length = 2;
    int links = 0;
    while (length < word.size() && is_digit(word[length]) && length < 5) links = links * 10 + (word[length++] - '0');
    cell = {Path::nvlink, links};
    return length;
  }
  for (const PathRow& row : kPaths) {
    if (word.starts_with(row.name)) {
      cell = {row.path, 0};
      return row.name.size();
    }
  }
  return 0;
}

/// The cells of a word, more than one when the paste lost a separator; empty when it is no cell.
std::vector<PathCell> cells_of(std::string_view word) {
  std::vector<PathCell> cells;
  while (!word.empty()) {
    PathCell cell;
    const std::size_t length = leading_cell(word, cell);
    if (length == 0) return {};
    cells.push_back(cell);
    word.remove_prefix(length);
  }
  return cells;
}

void note(std::vector<Diagnostic>& notes, std::size_t offset, std::string message, std::string hint = "") {
  notes.push_back({Diagnostic::Severity::warning, std::move(message), std::move(hint), offset});
}

/// The header: device names up to the affinity columns. Empty when the line is no header.
void read_header(const Line& line, TopologyMatrix& matrix, std::vector<Diagnostic>& notes) {
  for (const Word& word : line.words) {
    if (word.text == "CPU" || word.text == "NUMA" || word.text == "Affinity") return;
    if (word.text == "..." || word.text == "\xE2\x80\xA6") {
      note(notes, word.offset, "columns were cut here", "NICs behind the cut are not known");
      return;
    }
    const auto pieces = unglued_names(word.text);
    const bool known = std::all_of(pieces.begin(), pieces.end(), [](auto p) { return is_gpu(p) || is_nic(p); });
    if (!known) {
      note(notes, word.offset, "unknown column \"" + std::string(word.text) + "\"");
      return;
    }
    if (pieces.size() > 1) {
      note(notes, word.offset, "column names run together: \"" + std::string(word.text) + "\"",
           "read as " + std::to_string(pieces.size()) + " columns");
    }
    for (const auto piece : pieces) (is_gpu(piece) ? matrix.gpus : matrix.nics).emplace_back(piece);
  }
}

bool starts_table(const Line& line) {
  // Two names in a row: a header. A row has a cell after its name; "GPU0" alone can be the header of one GPU.
  if (line.words.empty() || unglued_names(line.words[0].text).front() != "GPU0") return false;
  if (line.words.size() == 1) return true;
  const std::string_view second = line.words[1].text;
  return is_gpu(unglued_names(second).front()) || is_nic(second) || second == "CPU";
}

struct Row {
  std::size_t gpu;
  std::vector<PathCell> cells;
  std::size_t offset;
  std::size_t end;
};

/// A row of a GPU of the header; nothing for other lines.
std::optional<Row> read_row(const Line& line, const TopologyMatrix& matrix, std::vector<Diagnostic>& notes) {
  if (line.words.empty()) return std::nullopt;
  const auto gpu = std::find(matrix.gpus.begin(), matrix.gpus.end(), line.words[0].text);
  if (gpu == matrix.gpus.end() || line.words.size() < 2) return std::nullopt;
  const std::size_t wanted = matrix.gpus.size() + matrix.nics.size();
  Row row{static_cast<std::size_t>(gpu - matrix.gpus.begin()), {}, line.words[0].offset, line.words[0].offset};
  for (std::size_t i = 1; i < line.words.size() && row.cells.size() < wanted; ++i) {
    const std::string_view word = line.words[i].text;
    const auto cells = cells_of(word);
    if (is_peer_status(word)) return std::nullopt;
    if (cells.empty()) {
      // Tables of weights or hops hold numbers.
      if (row.cells.size() < matrix.gpus.size() && std::all_of(word.begin(), word.end(), is_digit)) return std::nullopt;
      break;
    }
    // A lone "0" ends a row of nvidia-smi (its NUMA node); in rocm-smi it is the diagonal.
    if (word == "0" && row.cells.size() != row.gpu) break;
    if (cells.size() > 1) {
      note(notes, line.words[i].offset, "cells run together: \"" + std::string(line.words[i].text) + "\"",
           "read as " + std::to_string(cells.size()) + " cells");
    }
    row.cells.insert(row.cells.end(), cells.begin(), cells.end());
    row.end = line.words[i].offset + line.words[i].text.size();
  }
  if (row.cells.size() <= row.gpu || row.cells[row.gpu].path != Path::self) return std::nullopt;
  return row;
}

/// Rows that the text lacks, from the columns of the others; asymmetric pairs are noted.
void complete(TopologyMatrix& matrix, const std::vector<bool>& seen, std::vector<Diagnostic>& notes,
              std::size_t last_offset) {
  const std::size_t n = matrix.gpus.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (seen[i]) continue;
    matrix.missing_rows.push_back(i);
    matrix.between[i][i].path = Path::self;
    for (std::size_t j = 0; j < n; ++j) {
      if (seen[j]) matrix.between[i][j] = matrix.between[j][i];
    }
  }
  if (!matrix.missing_rows.empty()) {
    std::string names;
    for (const std::size_t i : matrix.missing_rows) names += (names.empty() ? "" : ", ") + matrix.gpus[i];
    const bool one = matrix.missing_rows.size() == 1;
    note(notes, last_offset,
         std::string(one ? "the row of " : "the rows of ") + names + (one ? " is" : " are") + " cut off after this one",
         "paths to them are read from the columns of the other rows");
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      if (seen[i] && seen[j] && !(matrix.between[i][j] == matrix.between[j][i])) {
        note(notes, last_offset, matrix.gpus[i] + " and " + matrix.gpus[j] + " contradict each other",
             "the row of " + matrix.gpus[i] + " is used");
        matrix.between[j][i] = matrix.between[i][j];
      }
    }
  }
}

std::optional<TopologyMatrix> read_table(const std::vector<Line>& lines, std::size_t header,
                                         std::vector<Diagnostic>& notes) {
  TopologyMatrix matrix;
  read_header(lines[header], matrix, notes);
  const std::size_t n = matrix.gpus.size(), m = matrix.nics.size();
  matrix.between.assign(n, std::vector<PathCell>(n));
  matrix.to_nics.assign(n, std::vector<PathCell>(m));
  std::vector<bool> seen(n, false);
  std::size_t last_offset = lines[header].offset;
  for (std::size_t i = header + 1; i < lines.size() && !starts_table(lines[i]); ++i) {
    const auto row = read_row(lines[i], matrix, notes);
    if (!row || seen[row->gpu]) continue;
    seen[row->gpu] = true;
    last_offset = row->offset;
    if (row->cells.size() < n + m) {
      note(notes, row->end,
           "the row of " + matrix.gpus[row->gpu] + " has " + std::to_string(row->cells.size()) + " cells of " +
               std::to_string(n + m),
           "cut here, the rest is not known");
    }
    for (std::size_t j = 0; j < row->cells.size(); ++j) {
      (j < n ? matrix.between[row->gpu][j] : matrix.to_nics[row->gpu][j - n]) = row->cells[j];
      if (row->cells[j].path == Path::xgmi) matrix.rocm = true;
    }
  }
  if (std::none_of(seen.begin(), seen.end(), [](bool s) { return s; })) return std::nullopt;
  complete(matrix, seen, notes, last_offset);
  return matrix;
}

}  // namespace

std::string_view name_of(Path path) {
  constexpr std::array<std::string_view, 9> kNames{"X",   "NVLink", "xGMI", "PIX",    "PXB",
                                                   "PHB", "NODE",   "SYS",  "unknown"};
  return kNames[static_cast<std::size_t>(path)];
}

std::size_t TopologyMatrix::near_nics() const {
  std::size_t count = 0;
  for (std::size_t j = 0; j < nics.size(); ++j) {
    count += std::any_of(to_nics.begin(), to_nics.end(), [&](const std::vector<PathCell>& row) {
      return row[j].path == Path::pix || row[j].path == Path::pxb;
    });
  }
  return count;
}

Path TopologyMatrix::worst_path() const {
  Path worst = Path::self;
  for (const auto& row : between) {
    for (const PathCell& cell : row) {
      if (cell.path >= Path::pix && cell.path <= Path::sys) worst = std::max(worst, cell.path);
    }
  }
  return worst;
}

std::optional<TopologyMatrix> topology_matrix(std::string_view text, std::vector<Diagnostic>& notes) {
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!starts_table(lines[i])) continue;
    std::vector<Diagnostic> own;
    if (auto matrix = read_table(lines, i, own)) {
      notes.insert(notes.end(), own.begin(), own.end());
      return matrix;
    }
  }
  return std::nullopt;
}

std::optional<PeerTable> peer_table(std::string_view text) {
  PeerTable table;
  bool found = false, inside = false;
  for (const Line& line : lines_of(text)) {
    if (starts_table(line)) {
      inside = true;
      table.gpus = static_cast<std::size_t>(
          std::count_if(line.words.begin(), line.words.end(), [](const Word& w) { return is_gpu(w.text); }));
    } else if (inside && line.words.size() > 1 && is_gpu(line.words[0].text)) {
      for (std::size_t i = 1; i < line.words.size(); ++i) {
        const std::string_view word = line.words[i].text;
        if (!is_peer_status(word)) continue;
        found = true;
        if (word != "OK") {
          table.all_ok = false;
          if (table.refusal.empty()) table.refusal = word;
        }
      }
    }
  }
  return found ? std::optional<PeerTable>(table) : std::nullopt;
}

}  // namespace tpplan
