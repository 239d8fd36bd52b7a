// Runs under mpirun with any number of ranks; every expectation is a formula of the rank. A failure on one rank fails
// the program on all.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <numeric>

#include "comm-bench/backend.h"
#include "comm-bench/compute.h"
#include "comm-bench/mpi_session.h"
#include "comm-bench/mpi_watchdog.h"
#include "comm-bench/preflight_facts.h"
#include "comm-bench/samples.h"
#include "comm-bench/sweep.h"

using namespace tpplan::bench;
using tpplan::Collective;
using tpplan::kCollectiveTable;
using tpplan::Seconds;

namespace {

/// doctest's test functions take no arguments; the session of main is reached through this.
Communicator& world(Communicator* set = nullptr) {
  static Communicator* held = nullptr;
  if (set != nullptr) held = set;
  return *held;
}

Topology on_hosts(int ranks, int each) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks; ++rank) keys.push_back(std::to_string(rank / each));
  return topology_from(keys, keys);
}

}  // namespace

TEST_CASE("texts travel between ranks whole and in rank order") {
  const Communicator& all = world();
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 1000, 'x') + std::to_string(rank);
  };
  CHECK(all.broadcast(all.rank() == all.size() - 1 ? "from the last" : "", all.size() - 1) == "from the last");
  const auto everywhere = all.all_gather(text_of(all.rank()));
  REQUIRE(static_cast<int>(everywhere.size()) == all.size());
  for (int rank = 0; rank < all.size(); ++rank) CHECK(everywhere[static_cast<std::size_t>(rank)] == text_of(rank));
  const auto at_root = all.gather(text_of(all.rank()), 0);
  CHECK(static_cast<int>(at_root.size()) == (all.rank() == 0 ? all.size() : 0));
}

TEST_CASE("maximum and sum go over the ranks element by element") {
  const Communicator& all = world();
  const int n = all.size();
  const auto most = all.maximum({static_cast<double>(all.rank()), -static_cast<double>(all.rank())});
  CHECK(most == std::vector<double>{static_cast<double>(n - 1), 0});
  CHECK(all.sum({static_cast<double>(all.rank() + 1)}).front() == n * (n + 1) / 2.0);
}

TEST_CASE("a split orders the ranks by key and leaves negative colours out") {
  const Communicator& all = world();
  // Reversed order: rank r becomes n - 1 - r.
  const auto reversed = all.split(0, -all.rank());
  REQUIRE(reversed.has_value());
  CHECK(reversed->rank() == all.size() - 1 - all.rank());
  const auto even = all.split(all.rank() % 2 == 0 ? 0 : -1, all.rank());
  CHECK(even.has_value() == (all.rank() % 2 == 0));
  CHECK(all.split_by_host().size() == all.size());  // the tests run on one host
}

TEST_CASE("an MPI failure carries the call and the rank and the host") {
  const Communicator& all = world();
  try {
    static_cast<void>(all.broadcast("x", all.size() + 5));
    FAIL("a root outside the communicator was accepted");
  } catch (const CommError& error) {
    const std::string text = error.what();
    CHECK(text.find("MPI_Ibcast failed on rank " + std::to_string(all.rank()) + " (" + all.host() + "): ") == 0);
    CHECK(text.size() > text.find("): ") + 3);
  }
}

TEST_CASE("every collective gives the result that the formula of the ranks says") {
  const Communicator& all = world();
  MpiBackend backend;
  const int channel = backend.open_channel(all);
  backend.reserve({std::size_t{1} << 20, std::size_t{1} << 20});
  for (const auto& row : kCollectiveTable) {
    for (const DtypeRow& type : kDtypes) {
      for (const std::size_t size : {std::size_t{64}, std::size_t{4096}, std::size_t{1} << 20}) {
        for (const bool in_place : {false, true}) {
          if (in_place && !has_in_place(row.collective)) continue;
          const Operation operation{row.collective, type.dtype, shareable_bytes(row.collective, size, all.size()),
                                    in_place};
          CAPTURE(std::string(row.name));
          CAPTURE(std::string(type.name));
          CAPTURE(size);
          CAPTURE(in_place);
          Payload payload(type.dtype, all.size(), size);
          CHECK(backend.wrong_elements(operation, channel, payload) == 0);
          backend.prepare(operation, channel, payload);
          CHECK(backend.run(operation, channel, 2) > 0);
        }
      }
    }
  }
}

TEST_CASE("the check finds data of another seed") {
  const Communicator& all = world();
  MpiBackend backend;
  const int channel = backend.open_channel(all);
  backend.reserve({4096, 4096});
  // Ranks that disagree on the data: rank 0 uses another seed, so everybody receives something unexpected.
  Payload payload(Dtype::bf16, all.size(), all.rank() == 0 ? 1 : 2);
  const Operation operation{Collective::all_gather, Dtype::bf16,
                            shareable_bytes(Collective::all_gather, 4096, all.size()), false};
  const double wrong = static_cast<double>(backend.wrong_elements(operation, channel, payload));
  if (all.size() > 1) CHECK(all.sum({wrong}).front() > 0);
}

TEST_CASE("a sweep measures all cells of all groups and rank 0 gets the rows") {
  Communicator& all = world();
  Watchdog watchdog(all, Seconds(60));
  Backend backend{MpiBackend()};
  // Pretended nodes of two ranks give groups across nodes and several at once.
  const Topology topology = on_hosts(all.size(), 2);
  SweepRequest request;
  request.collectives = {Collective::all_reduce, Collective::all_gather, Collective::send_recv};
  request.dtypes = {Dtype::bf16};
  request.least_bytes = 1024;
  request.most_bytes = 4096;
  request.sets =
      plan_groups(topology, {GroupKind::world, GroupKind::node, GroupKind::stride, GroupKind::concurrent}).sets;
  request.budget = Seconds(20);
  request.rule.most_samples = 12;
  std::vector<SampleRow> rows;
  const SweepOutcome outcome =
      run_sweep(backend, all, topology, watchdog, request, [&](const SampleRow& row) { rows.push_back(row); });
  // 3 sizes x (all_reduce and all_gather in both places, send_recv in one) per set.
  const std::size_t expected = all.rank() == 0 ? 15 * request.sets.size() : 0;
  CHECK(rows.size() == expected);
  CHECK(outcome.rows == expected);
  for (const SampleRow& row : rows) {
    CHECK(row.check == Check::ok);
    CHECK(row.summary.count >= 3);
    CHECK(row.summary.median.raw() > 0);
  }
  CHECK(outcome.unmeasured.empty());
}

TEST_CASE("a rank with wrong data marks the row and ends its measurement") {
  Communicator& all = world();
  Watchdog watchdog(all, Seconds(60));
  Backend backend{MpiBackend()};
  const Topology topology = on_hosts(all.size(), all.size());
  SweepRequest request;
  request.collectives = {Collective::broadcast};
  request.dtypes = {Dtype::fp32};
  request.least_bytes = request.most_bytes = 1024;
  request.sets = plan_groups(topology, {GroupKind::world}).sets;
  request.budget = Seconds(20);
  request.faults.lying_rank = all.size() - 1;
  std::vector<SampleRow> rows;
  const SweepOutcome outcome =
      run_sweep(backend, all, topology, watchdog, request, [&](const SampleRow& row) { rows.push_back(row); });
  if (all.rank() == 0) {
    REQUIRE(rows.size() == 2);  // out of place and in place
    CHECK(rows[0].check == Check::wrong);
    CHECK(rows[0].wrong_elements == 1);
    CHECK(outcome.wrong_rows == 2);
  }
}

TEST_CASE("compute rows come from one rank of every node") {
  Communicator& all = world();
  Watchdog watchdog(all, Seconds(60));
  const Topology topology = on_hosts(all.size(), 2);
  const bool leads = topology.local_ranks()[static_cast<std::size_t>(all.rank())] == 0;
  std::optional<ComputeDevice> device;
  if (leads) device.emplace(HostCompute());
  std::vector<ComputeRow> rows;
  const ComputeOutcome outcome =
      run_compute(device, all, topology, watchdog, Seconds(60), [&](const ComputeRow& row) { rows.push_back(row); });
  if (all.rank() != 0) {
    CHECK(rows.empty());
    return;
  }
  CHECK(rows.size() == HostCompute().plan().size());
  CHECK(outcome.unmeasured == 0);
  for (const ComputeRow& row : rows) CHECK(row.nodes == topology.nodes());
}

TEST_CASE("facts of every rank reach rank 0 readable") {
  const Communicator& all = world();
  RankPlace place;
  place.rank = all.rank();
  place.world_ranks = all.size();
  place.host = all.host();
  const auto texts = all.gather(to_json(std::vector<RankFacts>{collect_facts(place)}), 0);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto facts = facts_from_json("facts", texts[rank]);
    REQUIRE(facts.size() == 1);
    CHECK(facts.front().rank == static_cast<int>(rank));
    CHECK(facts.front().mpi_library == MpiSession::library_version());
    CHECK(facts.front().cpus_allowed > 0);
  }
}

int main(int argc, char** argv) {
  MpiSession session(argc, argv);
  world(&session.world());
  doctest::Context context(argc, argv);
  // Only rank 0 reports success; failures are printed by the rank that sees them.
  if (session.world().rank() != 0) context.setOption("minimal", true);
  const int failed = context.run();
  return session.world().maximum({static_cast<double>(failed)}).front() > 0 ? 1 : 0;
}
