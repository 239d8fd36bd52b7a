#include "planner/import/nccl_messages.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tpplan {

namespace {

constexpr std::size_t kMostWarnings = 20;
// The order of NCCL_ALGO_* and NCCL_PROTO_* in NCCL's device.h: older messages print the number.
constexpr std::array<std::string_view, 7> kAlgorithms{"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                                      "NVLSTree", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "Simple"};

template <std::size_t N>
std::string named(const std::array<std::string_view, N>& names, const std::string& word) {
  const std::optional<std::int64_t> index = integer_in(word);
  if (!index) return word;
  return *index >= 0 && *index < static_cast<std::int64_t>(N) ? std::string(names[static_cast<std::size_t>(*index)])
                                                              : word;
}

/// The word that follows `key` in `words`.
std::string word_after(const std::vector<std::string>& words, std::string_view key) {
  const auto at = std::find(words.begin(), words.end(), key);
  return at == words.end() || at + 1 == words.end() ? "" : at[1];
}

std::optional<int> count_after(const std::vector<std::string>& words, std::string_view key) {
  const std::optional<std::int64_t> value = integer_in(word_after(words, key));
  if (!value || *value < 1 || *value > 10'000'000) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

void NcclMessages::read(std::size_t line, const std::string& message) {
  const std::size_t warn = message.find("NCCL WARN");
  if (warn != std::string::npos) {
    const std::string text = message.substr(warn);
    const bool told =
        std::any_of(warnings_.begin(), warnings_.end(), [&](const ImportNote& n) { return n.text == text; });
    if (!told && warnings_.size() < kMostWarnings) warnings_.push_back({line, text});
    return;
  }
  const std::vector<std::string> words = words_of(message);
  const std::string version = word_after(words, "version");
  if (message.find("NCCL version ") != std::string::npos && !version.empty()) variables_["NCCL version"] = version;
  if (!nranks_) nranks_ = count_after(words, "nranks");
  if (!nranks_) nranks_ = count_after(words, "nRanks");
  if (!nnodes_) nnodes_ = count_after(words, "nNodes");
  if (!local_ranks_) local_ranks_ = count_after(words, "localRanks");
  const std::size_t set = message.find(" set by environment to ");
  if (set != std::string::npos) {
    std::string value = message.substr(set + 23);
    while (!value.empty() && (value.back() == '.' || value.back() == ' ')) value.pop_back();
    const std::size_t begin = message.rfind(' ', set - 1);
    variables_[message.substr(begin + 1, set - begin - 1)] = value;
  }
  const std::size_t network = message.find("Using network ");
  if (network != std::string::npos) variables_["network"] = word_after(words, "network");
  if (message.find("TUNER/Plugin: Using") != std::string::npos) variables_["tuner plugin"] = words.back();
  read_transport(message);
  read_choice(message);
}

void NcclMessages::read_transport(const std::string& message) {
  const std::size_t via = message.find(" via ");
  if (via == std::string::npos || message.find("Channel") == std::string::npos) return;
  const std::string transport = message.substr(via + 5);
  if (transport.rfind("P2P", 0) == 0) ++transports_["P2P"];
  if (transport.rfind("SHM", 0) == 0) ++transports_["SHM"];
  if (transport.rfind("NET/Socket", 0) == 0) {
    ++transports_["TCP sockets"];
  } else if (transport.rfind("NET/", 0) == 0) {
    ++transports_[transport.find("GDRDMA") != std::string::npos ? "RDMA to GPU memory" : "network through host memory"];
  }
}

/// "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}"; numbers for both in older versions.
void NcclMessages::read_choice(const std::string& message) {
  const std::size_t arrow = message.find(" Bytes -> Algo ");
  if (arrow == std::string::npos) return;
  const std::size_t begin = message.rfind(' ', arrow - 1);
  const std::optional<double> bytes = number_in(message.substr(begin + 1, arrow - begin - 1));
  const std::vector<std::string> words = words_of(message.substr(arrow));
  if (!bytes || (largest_ && largest_->bytes > *bytes)) return;
  largest_ =
      Choice{*bytes, named(kAlgorithms, word_after(words, "Algo")), named(kProtocols, word_after(words, "proto"))};
}

void NcclMessages::describe(BenchmarkRun& run) {
  for (const auto& [key, value] : variables_) run.variables.emplace(key, value);
  if (largest_) {
    run.variables["algorithm at the largest size"] = largest_->algorithm;
    run.variables["protocol at the largest size"] = largest_->protocol;
  }
  std::string transports;
  for (const auto& [transport, count] : transports_) {
    transports += (transports.empty() ? "" : ", ") + transport + " " + std::to_string(count);
  }
  if (!transports.empty()) run.variables["channels"] = transports;
  if (nranks_) run.nranks = nranks_;
  if (nnodes_) run.nnodes = nnodes_;
  if (local_ranks_) run.local_ranks = local_ranks_;
  nranks_.reset();
  nnodes_.reset();
  local_ranks_.reset();
  transports_.clear();
  largest_.reset();
}

}  // namespace tpplan
