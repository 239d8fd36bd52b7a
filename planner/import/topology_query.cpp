#include "planner/import/topology_query.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tpplan {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

/// Calls `use(line, offset)` for every line.
template <class Use>
void each_line(std::string_view text, Use&& use) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    use(text.substr(at, end - at), at);
    at = end + 1;
  }
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    fields.push_back(trimmed(line.substr(at, end - at)));
    at = end + 1;
  }
  return fields;
}

/// The number a field starts with; nothing for "[N/A]", "[Not Supported]", "[Unknown Error]".
std::optional<double> number_of(std::string_view field) {
  double value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (code != std::errc() || end == field.data()) return std::nullopt;
  return value;
}

std::optional<int> count_of(std::string_view field) {
  const auto value = number_of(field);
  if (!value || *value < 0 || *value > 1e6) return std::nullopt;
  return static_cast<int>(*value);
}

/// Which column of a CSV table holds what; -1: none.
struct Columns {
  int name = -1, memory = -1, generation = -1, lanes = -1, generation_now = -1, lanes_now = -1;
  std::size_t count = 0;
};

std::optional<Columns> header_of(std::string_view line) {
  Columns columns;
  const auto fields = fields_of(line);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const int at = static_cast<int>(i);
    const std::string_view field = fields[i].substr(0, fields[i].find(' '));
    if (field == "name" || field == "gpu_name") columns.name = at;
    if (field == "memory.total") columns.memory = at;
    if (field == "pcie.link.gen.max") columns.generation = at;
    if (field == "pcie.link.width.max") columns.lanes = at;
    if (field == "pcie.link.gen.current") columns.generation_now = at;
    if (field == "pcie.link.width.current") columns.lanes_now = at;
  }
  columns.count = fields.size();
  if (columns.name < 0) return std::nullopt;
  return columns;
}

bool looks_like_gpu(std::string_view field) {
  return field.starts_with("NVIDIA ") || field.starts_with("Tesla ") || field.starts_with("GeForce ") ||
         field.starts_with("Quadro ") || field.starts_with("AMD ");
}

/// A table without its header: the name is known by its words, the memory by its unit or size.
std::optional<Columns> guessed_columns(std::string_view line) {
  Columns columns;
  const auto fields = fields_of(line);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const int at = static_cast<int>(i);
    if (columns.name < 0 && looks_like_gpu(fields[i])) columns.name = at;
    const auto value = number_of(fields[i]);
    if (columns.memory < 0 && value && (fields[i].ends_with("MiB") || *value >= 4000)) columns.memory = at;
  }
  columns.count = fields.size();
  if (columns.name < 0) return std::nullopt;
  return columns;
}

QueriedGpu csv_row(const std::vector<std::string_view>& fields, const Columns& columns) {
  const auto field = [&](int index) {
    return index < 0 ? std::string_view() : fields[static_cast<std::size_t>(index)];
  };
  QueriedGpu gpu;
  gpu.name = field(columns.name);
  gpu.memory_mib = number_of(field(columns.memory));
  gpu.current_pcie_generation = count_of(field(columns.generation_now));
  gpu.current_pcie_lanes = count_of(field(columns.lanes_now));
  gpu.pcie_generation = count_of(field(columns.generation));
  gpu.pcie_lanes = count_of(field(columns.lanes));
  return gpu;
}

/// "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-...)" of nvidia-smi -L.
std::optional<QueriedGpu> listed_gpu(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with("GPU ")) return std::nullopt;
  const std::size_t colon = line.find(": "), uuid = line.find(" (UUID");
  if (colon == std::string_view::npos || uuid == std::string_view::npos || uuid < colon) return std::nullopt;
  QueriedGpu gpu;
  gpu.name = trimmed(line.substr(colon + 2, uuid - colon - 2));
  return gpu;
}

/// The value of "<product_name>NVIDIA H200</product_name>" in nvidia-smi -q -x.
std::optional<QueriedGpu> xml_gpu(std::string_view line) {
  constexpr std::string_view kOpen = "<product_name>";
  const std::size_t begin = line.find(kOpen), end = line.find("</product_name>");
  if (begin == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  QueriedGpu gpu;
  gpu.name = trimmed(line.substr(begin + kOpen.size(), end - begin - kOpen.size()));
  return gpu;
}

/// The value behind "key:" in an indented listing.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  line = trimmed(line);
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') return std::nullopt;
  return trimmed(line.substr(key.size() + 1));
}

/// Reads one port from the lines between its device's name and the next.
class PortReader {
 public:
  PortReader(std::vector<NetworkPort>& ports, std::vector<Diagnostic>& notes) : ports_(ports), notes_(notes) {}

  void device(std::string_view name, std::size_t offset) {
    end();
    device_ = name;
    start(offset);
  }
  void port(std::size_t offset) {
    if (rate_ > 0 || width_ > 0) end();
    start(offset);
  }
  void field(std::string_view line, std::size_t offset) {
    if (const auto value = value_of(line, "State")) state(*value, "Active", offset);
    if (const auto value = value_of(line, "state")) state(*value, "PORT_ACTIVE", offset);
    if (const auto value = value_of(line, "Link layer")) port_.infiniband = *value == "InfiniBand";
    if (const auto value = value_of(line, "link_layer")) {
      port_.infiniband = *value == "InfiniBand";
      layer_known_ = true;
    }
    if (const auto value = value_of(line, "Link layer")) layer_known_ = !value->empty();
    if (const auto value = value_of(line, "Rate")) rate(number_of(*value).value_or(0), offset);
    if (const auto value = value_of(line, "active_width")) {
      width_ = number_of(*value).value_or(0);
      open(offset);
    }
    if (const auto value = value_of(line, "active_speed")) {
      speed_ = number_of(*value).value_or(0);
      open(offset);
    }
  }
  void end() {
    if (open_) {
      if (width_ > 0 && speed_ > 0) rate_ = width_ * speed_;
      if (rate_ > 0) {
        port_.device = device_;
        port_.gbit_per_second = rate_;
        if (!layer_known_) {
          notes_.push_back({Diagnostic::Severity::warning, "no link layer given for this port",
                            "taken as Ethernet (RoCE)", port_.offset});
          port_.infiniband = false;
        }
        ports_.push_back(port_);
      } else {
        notes_.push_back({Diagnostic::Severity::warning, "no rate given for this port", "left out", port_.offset});
      }
    }
    port_ = NetworkPort();
    rate_ = width_ = speed_ = 0;
    open_ = layer_known_ = false;
  }

 private:
  void start(std::size_t offset) { port_.offset = offset; }
  void open(std::size_t offset) {
    if (!open_ && port_.offset == 0) port_.offset = offset;
    open_ = true;
  }
  void state(std::string_view value, std::string_view active, std::size_t offset) {
    port_.active = value.starts_with(active);
    open(offset);
  }
  void rate(double value, std::size_t offset) {
    rate_ = value;
    open(offset);
  }

  std::vector<NetworkPort>& ports_;
  std::vector<Diagnostic>& notes_;
  std::string device_;
  NetworkPort port_;
  double rate_ = 0, width_ = 0, speed_ = 0;
  bool open_ = false, layer_known_ = false;
};

}  // namespace

std::vector<QueriedGpu> queried_gpus(std::string_view text, std::vector<Diagnostic>& notes) {
  std::vector<QueriedGpu> gpus;
  std::optional<Columns> columns;
  bool header = false;
  each_line(text, [&](std::string_view line, std::size_t offset) {
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') return;
    auto gpu = listed_gpu(line);
    if (!gpu) gpu = xml_gpu(line);
    if (!gpu && content.find(',') != std::string_view::npos) {
      if (const auto found = header_of(content)) {
        columns = found;
        header = true;
        return;
      }
      if (!header) columns = guessed_columns(content);
      if (!columns) return;
      const auto fields = fields_of(content);
      if (fields.size() != columns->count) {
        notes.push_back(
            {Diagnostic::Severity::warning,
             std::to_string(fields.size()) + " fields where the header has " + std::to_string(columns->count),
             "this line is left out", offset});
        return;
      }
      gpu = csv_row(fields, *columns);
    }
    if (!gpu && looks_like_gpu(content)) {
      gpu = QueriedGpu();
      gpu->name = content;
    }
    if (gpu && !gpu->name.empty()) {
      gpu->offset = offset;
      gpus.push_back(*std::move(gpu));
    }
  });
  return gpus;
}

std::vector<NetworkPort> network_ports(std::string_view text, std::vector<Diagnostic>& notes) {
  std::vector<NetworkPort> ports;
  PortReader reader(ports, notes);
  each_line(text, [&](std::string_view line, std::size_t offset) {
    const std::string_view content = trimmed(line);
    if (content.starts_with("CA '")) {
      reader.device(content.substr(4, content.find('\'', 4) - 4), offset);
    } else if (const auto id = value_of(line, "hca_id")) {
      reader.device(*id, offset);
    } else if ((content.starts_with("Port ") && content.ends_with(':')) || value_of(line, "port")) {
      reader.port(offset);
    } else {
      reader.field(line, offset);
    }
  });
  reader.end();
  return ports;
}

std::optional<std::size_t> driver_failure(std::string_view text) {
  for (const std::string_view message : {"NVIDIA-SMI has failed", "Failed to initialize NVML", "No devices were found",
                                         "nvidia-smi: command not found"}) {
    if (const std::size_t at = text.find(message); at != std::string_view::npos) return at;
  }
  return std::nullopt;
}

}  // namespace tpplan
