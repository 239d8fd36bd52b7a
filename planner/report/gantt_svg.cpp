#include "planner/report/gantt_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr double kWidth = 1200, kLeft = 76, kRight = 1184, kLegendTop = 38;
constexpr double kLegendLine = 18, kLetter = 6.6;
constexpr double kPass = 20, kThin = 5, kGap = 6;  ///< heights of a row of passes, of a stream, and between stages
constexpr std::size_t kManyStages = 24;            ///< beyond so many, rows are lower and streams are left out
constexpr double kManyPass = 12;
constexpr double kSeen = 0.7;                ///< pixels below which operations are drawn as the most frequent one
constexpr double kDigit = 6.4, kMargin = 5;  ///< pixels of a digit of a micro-batch's number and around it
constexpr std::array<double, 4> kSteps{1, 2, 2.5, 5};

/// What is told apart. Colours are Okabe and Ito's, distinct under every colour blindness.
struct Look {
  std::string_view name, colour, text;
};
constexpr std::array<Look, 16> kLooks{{{"forward", "#0072b2", "#ffffff"},
                                       {"gradient of the input", "#e69f00", "#000000"},
                                       {"gradient of the weights", "#009e73", "#ffffff"},
                                       {"both gradients", "#d55e00", "#ffffff"},
                                       {"transfer to another stage", "#56b4e9", "#000000"},
                                       {"parameter gather", "#cc79a7", "#000000"},
                                       {"gradient reduction", "#8a4a7d", "#ffffff"},
                                       {"optimizer", "#b5a800", "#000000"},
                                       {"wait for a transfer", "#9a9a9a", "#000000"},
                                       {"gradient norm", "#5c5c5c", "#ffffff"},
                                       {"copy to or from the host", "#7a5c00", "#ffffff"},
                                       {"host", "#b0b0b0", "#000000"},
                                       {"tensor parallel", "#4b3fa8", "#ffffff"},
                                       {"context parallel", "#2f8f8f", "#ffffff"},
                                       {"expert parallel", "#a83f5b", "#ffffff"},
                                       {"data loading", "#6b8e23", "#ffffff"}}};

struct KindLook {
  SimulatedKind kind;
  std::size_t look;
};
constexpr std::array<KindLook, 10> kKindLooks{{{SimulatedKind::transfer, 4},
                                               {SimulatedKind::gather, 5},
                                               {SimulatedKind::reduce, 6},
                                               {SimulatedKind::optimizer, 7},
                                               {SimulatedKind::wait, 8},
                                               {SimulatedKind::clip, 9},
                                               {SimulatedKind::copy, 10},
                                               {SimulatedKind::host, 11},
                                               {SimulatedKind::launch, 11},
                                               {SimulatedKind::load, 15}}};
struct StreamLook {
  StreamKind stream;
  std::size_t look;
};
constexpr std::array<StreamLook, 3> kPartLooks{
    {{StreamKind::tensor_parallel, 12}, {StreamKind::context_parallel, 13}, {StreamKind::expert_parallel, 14}}};

std::size_t look_of(const SimulatedOperation& operation) {
  for (const KindLook& row : kKindLooks) {
    if (row.kind == operation.kind) {
      return row.look;
    }
  }
  return static_cast<std::size_t>(operation.pass.kind);
}

/// Of the part of a pass on a stream of its own; nothing where it computes.
std::optional<std::size_t> look_of(StreamKind stream) {
  for (const StreamLook& row : kPartLooks) {
    if (row.stream == stream) {
      return row.look;
    }
  }
  return std::nullopt;
}

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string number(text.data());
  if (number.size() > 2 && number.compare(number.size() - 2, 2, ".0") == 0) {
    number.resize(number.size() - 2);
  }
  return number;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return result;
}

struct Box {
  double start = 0, end = 0;
  std::size_t look = 0;
  const SimulatedOperation* pass = nullptr;  ///< null: of no pass
};

/// A row of the drawing: one stream of one stage.
struct Row {
  double top = 0, height = kPass;
  std::vector<Box> boxes;
};

/// Times onto pixels.
struct Scale {
  TimeWindow window;
  [[nodiscard]] double x(double time) const {
    const double share = (time - window.from) / (window.to - window.from);
    return kLeft + std::clamp(share, 0.0, 1.0) * (kRight - kLeft);
  }
  [[nodiscard]] bool shows(double start, double end) const {
    return end > window.from && start < window.to && end > start;
  }
};

/// Rectangles of one look and shade in a row, gathered into one path.
using Paths = std::array<std::array<std::string, 2>, kLooks.size()>;

void add_rectangle(std::string& path, double left, double right, const Row& row) {
  path +=
      "M" + fixed(left) + " " + fixed(row.top) + "H" + fixed(right) + "v" + fixed(row.height) + "H" + fixed(left) + "z";
}

/// Operations too narrow to tell apart: each pixel shows what took most of it.
void add_coarse(const Row& row, const Scale& scale, Paths& paths) {
  const auto columns = static_cast<std::size_t>(kRight - kLeft);
  using Times = std::array<double, kLooks.size()>;
  std::vector<Times> spent(columns, Times{});
  for (const Box& box : row.boxes) {
    const double left = scale.x(box.start) - kLeft;
    const double right = scale.x(box.end) - kLeft;
    for (auto column = static_cast<std::size_t>(left); column < columns && static_cast<double>(column) < right;
         ++column) {
      const auto at = static_cast<double>(column);
      spent[column][box.look] += std::min(right, at + 1) - std::max(left, at);
    }
  }
  constexpr std::size_t kNothing = kLooks.size();
  // Streams beside the passes show although they are busy for a small part of the pixel.
  const double least = row.height > kThin ? 0.5 : 0.1;
  const auto most_of = [least](const Times& times) {
    const auto most = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
    double busy = 0;
    for (const double time : times) {
      busy += time;
    }
    return busy >= least ? most : kNothing;
  };
  std::size_t begin = 0;
  for (std::size_t column = 0; column <= columns; ++column) {
    const std::size_t look = begin < columns ? most_of(spent[begin]) : kNothing;
    if (column == columns || most_of(spent[column]) != look) {
      if (look != kNothing) {
        add_rectangle(paths[look][0], kLeft + static_cast<double>(begin), kLeft + static_cast<double>(column), row);
      }
      begin = column;
    }
  }
}

std::string text_at(double x, double y, std::string_view text, std::string_view attributes) {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\"" + std::string(attributes) + ">" + escaped(text) +
         "</text>\n";
}

std::string draw(const Row& row, const Scale& scale, bool shades) {
  Paths paths;
  std::string numbers;
  double narrowest = kRight;
  for (const Box& box : row.boxes) {
    narrowest = std::min(narrowest, scale.x(box.end) - scale.x(box.start));
  }
  if (narrowest < kSeen && row.boxes.size() > static_cast<std::size_t>(kRight - kLeft) / 4) {
    add_coarse(row, scale, paths);
  } else {
    for (const Box& box : row.boxes) {
      const double left = scale.x(box.start);
      const double right = std::max(scale.x(box.end), left + 0.3);
      const Pass pass = box.pass != nullptr ? box.pass->pass : Pass{};
      add_rectangle(paths[box.look][shades ? static_cast<std::size_t>(pass.chunk % 2) : 0], left, right, row);
      if (box.pass == nullptr) {
        continue;
      }
      std::string number = std::to_string(pass.micro_batch);
      if (pass.with_next) {
        number += "+" + std::to_string(box.pass->beside.micro_batch);
      }
      if (right - left >= static_cast<double>(number.size()) * kDigit + kMargin) {
        numbers += text_at((left + right) / 2, row.top + row.height / 2 + 4, number,
                           " class=\"number\" style=\"fill:" + std::string(kLooks[box.look].text) + "\"");
      }
    }
  }
  std::string svg;
  for (std::size_t look = 0; look < kLooks.size(); ++look) {
    for (std::size_t shade = 0; shade < 2; ++shade) {
      if (!paths[look][shade].empty()) {
        svg += "<path fill=\"" + std::string(kLooks[look].colour) + "\"" +
               (shade == 1 ? " fill-opacity=\"0.72\"" : "") + " d=\"" + paths[look][shade] + "\"/>\n";
      }
    }
  }
  return svg + numbers;
}

std::string axis(const Scale& scale, double top, double bottom) {
  const double span = scale.window.to - scale.window.from;
  const double magnitude = std::pow(10, std::floor(std::log10(span / 10)));
  double step = 10 * magnitude;
  for (const double multiple : kSteps) {
    if (multiple * magnitude * 12 >= span) {
      step = multiple * magnitude;
      break;
    }
  }
  std::string svg;
  for (double i = std::ceil(scale.window.from / step - 1e-9); i * step <= scale.window.to * (1 + 1e-9); ++i) {
    const double x = scale.x(i * step);
    svg += "<path class=\"line\" d=\"M" + fixed(x) + " " + fixed(top - 4) + "V" + fixed(bottom) + "\"/>\n";
    svg += text_at(x, bottom + 16, format(Seconds(std::abs(i * step) < step / 2 ? 0 : i * step)), " class=\"tick\"");
  }
  return svg;
}

using Present = std::array<bool, kLooks.size()>;

/// In as many lines as it takes; `y` moves on to what follows.
std::string legend(const Present& present, double& y) {
  std::string svg;
  double x = kLeft;
  for (std::size_t look = 0; look < kLooks.size(); ++look) {
    if (!present[look]) {
      continue;
    }
    const double width = 17 + static_cast<double>(kLooks[look].name.size()) * kLetter + 18;
    if (x + width > kRight) {
      x = kLeft;
      y += kLegendLine;
    }
    svg += "<rect x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" width=\"12\" height=\"12\" fill=\"" +
           std::string(kLooks[look].colour) + "\"/>\n";
    svg += text_at(x + 17, y + 10, kLooks[look].name, "");
    x += width;
  }
  y += kLegendLine + 8;
  return svg;
}

std::string description(const SimulatedStep& step, const Scale& scale) {
  std::string text = std::to_string(step.ranks.size()) + " pipeline stages and " +
                     std::to_string(step.schedule.micro_batches) + " micro-batches; passes end at " +
                     format(Seconds(step.passes_end)) + ".";
  if (scale.window.from > 0 || scale.window.to < end_of(step)) {
    text += " Shown: " + format(Seconds(scale.window.from)) + " to " + format(Seconds(scale.window.to)) + ".";
  }
  double least = 1;
  double most = 0;
  for (const auto& rank : step.ranks) {
    const double idle = step.passes_end > 0 ? 1 - rank.passes / step.passes_end : 0;
    least = std::min(least, idle);
    most = std::max(most, idle);
  }
  return text + " Stages run no pass for " + percent(least) + " to " + percent(most) + " of that time.";
}

}  // namespace

std::string gantt_svg(const SimulatedStep& step, const std::string& title, TimeWindow window, const std::string& id) {
  const Scale scale{within(step, window)};
  const bool many = step.ranks.size() > kManyStages;
  std::vector<std::array<Row, kStreamKinds.size()>> stages(step.ranks.size());
  Present present{};
  const auto add = [&](int rank, StreamKind stream, const Box& box) {
    if (scale.shows(box.start, box.end)) {
      stages[static_cast<std::size_t>(rank)][static_cast<std::size_t>(stream)].boxes.push_back(box);
      present[box.look] = present[box.look] || !many || stream == StreamKind::compute;
    }
  };
  for (const auto& operation : step.operations) {
    const bool pass = operation.kind == SimulatedKind::pass;
    add(operation.rank, operation.stream,
        {operation.start, operation.end, look_of(operation), pass ? &operation : nullptr});
  }
  for (const auto& part : step.parts) {
    if (const auto look = look_of(part.stream)) {
      add(step.operations[part.operation].rank, part.stream, {part.start, part.end, *look, nullptr});
    }
  }
  std::string rows;
  double y = kLegendTop;
  const std::string key = legend(present, y);
  const double top = y;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    rows += "<g><title>stage " + std::to_string(r) + "</title>\n";
    for (std::size_t stream = 0; stream < kStreamKinds.size(); ++stream) {
      Row& row = stages[r][stream];
      const bool passes = kStreamKinds[stream].kind == StreamKind::compute;
      if (!passes && (many || row.boxes.empty())) {
        continue;
      }
      row.height = !passes ? kThin : many ? kManyPass : kPass;
      row.top = y;
      if (passes) {
        rows += "<rect class=\"idle\" x=\"" + fixed(kLeft) + "\" y=\"" + fixed(y) + "\" width=\"" +
                fixed(kRight - kLeft) + "\" height=\"" + fixed(row.height) + "\"/>\n";
        rows += text_at(kLeft - 8, y + row.height / 2 + 4, "stage " + std::to_string(r), " class=\"name\"");
      }
      rows += draw(row, scale, step.schedule.chunks > 1);
      y += row.height + 1;
    }
    rows += "</g>\n";
    y += many ? 2 : kGap;
  }
  const double height = y + 30;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(kWidth) + " " + fixed(height) +
                    "\" width=\"" + fixed(kWidth) + "\" height=\"" + fixed(height) + "\" class=\"" + id +
                    "\" role=\"img\" aria-labelledby=\"" + id + "-title " + id + "-description\">\n";
  svg += "<title id=\"" + id + "-title\">" + escaped(title) + "</title>\n";
  svg += "<desc id=\"" + id + "-description\">" + escaped(description(step, scale)) + "</desc>\n";
  const std::string scope = "." + id + " ";
  svg += "<style>\n" + scope + "{ color: #222222; background: #ffffff }\n" + scope +
         "text { font: 12px sans-serif; fill: currentColor }\n" + scope +
         ".heading { font-size: 15px; font-weight: bold }\n" + scope + ".name { text-anchor: end }\n" + scope +
         ".tick { text-anchor: middle; font-size: 11px }\n" + scope +
         ".number { text-anchor: middle; font-size: 10.5px }\n" + scope +
         ".idle { fill: currentColor; fill-opacity: 0.07 }\n" + scope +
         ".line { stroke: currentColor; stroke-opacity: 0.2; fill: none }\n" +
         "@media (prefers-color-scheme: dark) { " + scope + "{ color: #e6e6e6; background: #16181c } }\n</style>\n";
  svg += text_at(kLeft, 24, title, " class=\"heading\"");
  return svg + key + axis(scale, top, y) + rows + "</svg>\n";
}

}  // namespace tpplan
