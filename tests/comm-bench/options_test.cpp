#include "comm-bench/options.h"

#include <doctest/doctest.h>

using namespace tpplan::bench;
using tpplan::Collective;

namespace {

ParsedCommand parse(std::vector<const char*> words) {
  words.insert(words.begin(), "comm-bench");
  return parse_command(static_cast<int>(words.size()), words.data());
}

std::string refusal(std::vector<const char*> words) {
  try {
    parse(std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("comm-bench without options measures everything that is asked for by default") {
  const Options options = parse({}).options;
  CHECK(options.backend == BackendChoice::automatic);
  CHECK(options.collectives.size() == 6);
  CHECK(options.dtypes == std::vector<Dtype>{Dtype::bf16});
  CHECK(options.groups == std::vector<GroupKind>{GroupKind::world, GroupKind::node, GroupKind::stride});
  CHECK(options.least_bytes == 1024);
  CHECK(options.most_bytes == std::size_t{1} << 30);
  CHECK(options.timeout.raw() == 60);
  CHECK(options.budget.raw() == 120);
  CHECK(options.mode == Mode::single);
}

TEST_CASE("comm-bench options are read as the contract spells them") {
  const Options options = parse({"--backend",
                                 "mpi",
                                 "--collectives",
                                 "broadcast,all_reduce,broadcast",
                                 "--dtype=fp16,fp32",
                                 "--min-bytes",
                                 "4096",
                                 "--max-bytes",
                                 "1MiB",
                                 "--groups",
                                 "pairs,concurrent",
                                 "--mode",
                                 "batched",
                                 "--compute",
                                 "--timeout",
                                 "5",
                                 "--budget",
                                 "2.5",
                                 "--anonymous",
                                 "--format",
                                 "json",
                                 "-o",
                                 "x.jsonl"})
                              .options;
  CHECK(options.collectives == std::vector<Collective>{Collective::broadcast, Collective::all_reduce});
  CHECK(options.dtypes == std::vector<Dtype>{Dtype::fp16, Dtype::fp32});
  CHECK(options.least_bytes == 4096);
  CHECK(options.most_bytes == 1048576);
  CHECK(options.mode == Mode::batched);
  CHECK(options.compute);
  CHECK(options.anonymous);
  CHECK(options.budget.raw() == 2.5);
  CHECK(options.output == "x.jsonl");
  CHECK(options.format == OutputFormat::json);
}

TEST_CASE("comm-bench refuses what it does not know and suggests the nearest") {
  CHECK(refusal({"--collectives", "allreduce"}) ==
        "--collectives: \"allreduce\" is not one of all_reduce, all_gather, reduce_scatter, all_to_all, send_recv, "
        "broadcast; did you mean \"all_reduce\"?");
  CHECK(refusal({"--backend", "gloo"}).find("is not one of auto, nccl, mpi") != std::string::npos);
  CHECK(refusal({"--budgt", "3"}) == "unknown option --budgt; did you mean --budget?");
  // A prefix of an option is not the option.
  CHECK(refusal({"--comp"}).find("unknown option --comp") == 0);
  CHECK(refusal({"--max-bytes", "1Gb"}).find("--max-bytes: \"1Gb\"") == 0);
  CHECK(refusal({"--max-bytes", "-5"}).find("--max-bytes") == 0);
  CHECK(refusal({"--min-bytes", "2MiB", "--max-bytes", "1MiB"}) == "--min-bytes 2MiB is over --max-bytes 1MiB");
  CHECK(refusal({"--timeout", "0"}) == "--timeout: \"0\" is not a number of seconds");
  CHECK(refusal({"--budget", "nan"}).find("is not a number of seconds") != std::string::npos);
  CHECK(refusal({"samples.jsonl"}) == "comm-bench takes options only, no file or command");
  CHECK(refusal({"--groups", ""}).find("--groups: \"\"") == 0);
}

TEST_CASE("comm-bench help names every option") {
  const auto text = parse({"--help"}).text;
  REQUIRE(text.has_value());
  for (const char* option :
       {"--backend", "--collectives", "--dtype", "--min-bytes", "--max-bytes", "--groups", "--mode", "--compute",
        "--check", "--timeout", "--budget", "--anonymous", "--format", "--output"}) {
    CAPTURE(std::string(option));
    CHECK(text->find(option) != std::string::npos);
  }
  CHECK(parse({"--version"}).text->find("comm-bench ") == 0);
}
