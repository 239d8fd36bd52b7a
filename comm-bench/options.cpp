#include "comm-bench/options.h"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cmath>
#include <sstream>
#include <string_view>

#include "cost-model/spec_reader.h"

namespace tpplan::bench {

namespace {

namespace po = boost::program_options;

constexpr double kMostSeconds = 30.0 * 24 * 3600;
constexpr double kMostBytes = 1099511627776.0;  // 1 TiB

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  if (words.empty() || text.back() == ',') words.emplace_back();
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::vector<std::string>& allowed) {
  std::string message = "--" + option + ": \"" + value + "\" is not one of " + joined(allowed);
  if (const auto nearest = nearest_name(value, allowed)) message += "; did you mean \"" + *nearest + "\"?";
  throw UsageError(message);
}

/// The rows of a table whose names are listed, in the order given, each once.
template <class Table, class Project>
auto chosen(const std::string& option, const std::string& list, const Table& table, Project value) {
  std::vector<std::decay_t<decltype(value(*table.begin()))>> result;
  std::vector<std::string> allowed;
  for (const auto& row : table) allowed.emplace_back(row.name);
  for (const std::string& word : split(list)) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const auto& r) { return r.name == word; });
    if (row == table.end()) refuse(option, word, allowed);
    if (std::find(result.begin(), result.end(), value(*row)) == result.end()) result.push_back(value(*row));
  }
  return result;
}

template <class Value>
struct NamedValue {
  std::string_view name;
  Value value;
};
constexpr std::array<NamedValue<BackendChoice>, 3> kBackends{
    {{"auto", BackendChoice::automatic}, {"nccl", BackendChoice::nccl}, {"mpi", BackendChoice::mpi}}};
constexpr std::array<NamedValue<Mode>, 2> kModes{{{"single", Mode::single}, {"batched", Mode::batched}}};
constexpr std::array<NamedValue<OutputFormat>, 2> kFormats{
    {{"table", OutputFormat::table}, {"json", OutputFormat::json}}};

template <class Table>
auto one_of(const std::string& option, const std::string& word, const Table& table) {
  for (const auto& row : table) {
    if (row.name == word) return row.value;
  }
  std::vector<std::string> allowed;
  for (const auto& row : table) allowed.emplace_back(row.name);
  refuse(option, word, allowed);
}

/// A plain number is a count of bytes, as in nccl-tests; a unit needs no blank before it.
std::size_t size_of(const std::string& option, const std::string& text) {
  const std::size_t unit = text.find_first_not_of("0123456789.");
  const std::string spelled = unit == std::string::npos ? text + " B" : text.substr(0, unit) + " " + text.substr(unit);
  UnitError error;
  const std::optional<double> bytes = parse_quantity(spelled, Dimension::bytes, error);
  if (!bytes) throw UsageError("--" + option + ": \"" + text + "\": " + error.message + "; write 64KiB or 1GiB");
  if (!(*bytes >= 1 && *bytes <= kMostBytes)) {
    throw UsageError("--" + option + ": \"" + text + "\" is not between 1 B and 1 TiB");
  }
  return static_cast<std::size_t>(*bytes);
}

Seconds seconds_of(const std::string& option, const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  const std::string rest = text.substr(used);
  if (used == 0 || !(rest.empty() || rest == "s") || !(value > 0 && value <= kMostSeconds)) {
    throw UsageError("--" + option + ": \"" + text + "\" is not a number of seconds");
  }
  return Seconds(value);
}

constexpr const char* kHelp = R"(Usage: mpirun -n RANKS comm-bench [options] -o samples.jsonl

Measures collectives between GPUs (NCCL) or hosts (MPI), one process per GPU, and with --compute the GPU itself.
The samples are fitted by: tpplan calibrate samples.jsonl -o NAME.calibration.json

  mpirun -n 8 comm-bench --backend nccl --compute -o 8xH200.jsonl
  mpirun -n 4 comm-bench --backend mpi --max-bytes 1MiB -o laptop.jsonl

What is measured
  --backend B        nccl, mpi or auto: nccl where every rank has a GPU (auto)
  --collectives L    all_reduce, all_gather, reduce_scatter, all_to_all, send_recv, broadcast (all)
  --dtype L          bf16, fp16, fp32 (bf16)
  --min-bytes N      smallest payload (1KiB)
  --max-bytes N      largest payload (1GiB)
  --groups L         world, node, stride, pairs, concurrent (world,node,stride)
  --mode M           single: a barrier before every repetition; batched: back to back (single)
  --compute          matrix products, attention, memory traffic, launches and copies of one GPU per node

How
  --check            look for trouble with drivers, GPUs, links and processor binding, then stop
  --timeout S        give up when no rank has advanced for so long (60)
  --budget S         time of the whole run (120)

Output
  -o, --output FILE  sample file, one JSON object a line
  --format F         on standard output: table, json (table)
  --anonymous        leave out host names and GPU serials
  -h, --help         this text
  --version          version of the program

Exit codes: 0 done, 1 --check found something, 2 wrong usage, 3 MPI, NCCL or GPU failed or results were wrong.
)";

std::string version_text() {
  std::string text = std::string("comm-bench ") + TPPLAN_VERSION;
  const std::string commit = TPPLAN_COMMIT;
  if (!commit.empty()) text += " (" + commit + ")";
  return text + "\n";
}

po::options_description described() {
  po::options_description options;
  const auto text = [] { return po::value<std::string>(); };
  options.add_options()("backend", text())("collectives", text())("dtype", text())("min-bytes", text())(
      "max-bytes", text())("groups", text())("mode", text())("compute", "")("check", "")("timeout", text())(
      "budget", text())("anonymous", "")("format", text())("output,o", text())("help,h", "")("version", "");
  return options;
}

/// The first word that no option takes.
std::string unknown_option(const std::string& word) {
  std::vector<std::string> names;
  const po::options_description options = described();
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  std::string message = "unknown option " + word;
  if (const auto nearest = nearest_name(word, names)) message += "; did you mean " + *nearest + "?";
  return message;
}

po::variables_map values_of(int argc, const char* const* argv) {
  namespace style = po::command_line_style;
  const int strict = style::unix_style & ~style::allow_guessing;
  po::variables_map values;
  try {
    const po::options_description options = described();
    const po::positional_options_description none;
    po::store(po::command_line_parser(argc, argv).options(options).positional(none).style(strict).run(), values);
  } catch (const po::unknown_option& error) {
    throw UsageError(unknown_option(error.get_option_name()));
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("comm-bench takes options only, no file or command");
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  return values;
}

}  // namespace

ParsedCommand parse_command(int argc, const char* const* argv) {
  ParsedCommand parsed;
  Options& options = parsed.options;
  options.command.assign(argv, argv + argc);
  const po::variables_map values = values_of(argc, argv);
  if (values.count("help") > 0) parsed.text = kHelp;
  if (values.count("version") > 0) parsed.text = version_text();
  if (parsed.text) return parsed;

  const auto given = [&](const char* name, const char* fallback) {
    return values.count(name) > 0 ? values[name].as<std::string>() : std::string(fallback);
  };
  options.backend = one_of("backend", given("backend", "auto"), kBackends);
  options.collectives =
      chosen("collectives", given("collectives", "all_reduce,all_gather,reduce_scatter,all_to_all,send_recv,broadcast"),
             kCollectiveTable, [](const CollectiveRow& row) { return row.collective; });
  options.dtypes = chosen("dtype", given("dtype", "bf16"), kDtypes, [](const DtypeRow& row) { return row.dtype; });
  options.groups = chosen("groups", given("groups", "world,node,stride"), kGroupKinds,
                          [](const GroupKindRow& row) { return row.kind; });
  options.least_bytes = size_of("min-bytes", given("min-bytes", "1KiB"));
  options.most_bytes = size_of("max-bytes", given("max-bytes", "1GiB"));
  if (options.least_bytes > options.most_bytes) {
    throw UsageError("--min-bytes " + given("min-bytes", "1KiB") + " is over --max-bytes " +
                     given("max-bytes", "1GiB"));
  }
  options.mode = one_of("mode", given("mode", "single"), kModes);
  options.format = one_of("format", given("format", "table"), kFormats);
  options.timeout = seconds_of("timeout", given("timeout", "60"));
  options.budget = seconds_of("budget", given("budget", "120"));
  options.compute = values.count("compute") > 0;
  options.check_only = values.count("check") > 0;
  options.anonymous = values.count("anonymous") > 0;
  options.output = given("output", "");
  return parsed;
}

}  // namespace tpplan::bench
