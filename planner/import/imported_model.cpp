// The model that a job's files describe, as a file in our own format (models/README.md).
#include <array>

#include "planner/import/imported_job.h"
#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

struct MemberRow {
  JobFact fact;
  std::string_view key;
};
constexpr std::array<MemberRow, 7> kMembers{{{JobFact::layers, "layers"},
                                             {JobFact::hidden, "hidden"},
                                             {JobFact::heads, "heads"},
                                             {JobFact::kv_heads, "kv_heads"},
                                             {JobFact::head_dim, "head_dim"},
                                             {JobFact::ffn, "ffn_hidden"},
                                             {JobFact::vocab, "vocab"}}};
constexpr std::array<MemberRow, 6> kMoeMembers{{{JobFact::experts, "experts"},
                                                {JobFact::top_k, "top_k"},
                                                {JobFact::expert_ffn, "expert_ffn"},
                                                {JobFact::shared_ffn, "shared_ffn"},
                                                {JobFact::routing_groups, "routing_groups"},
                                                {JobFact::routing_group_limit, "routing_group_limit"}}};
constexpr std::array<MemberRow, 5> kLatentMembers{{{JobFact::q_lora, "q_lora"},
                                                   {JobFact::kv_lora, "kv_lora"},
                                                   {JobFact::qk_nope, "qk_nope"},
                                                   {JobFact::qk_rope, "qk_rope"},
                                                   {JobFact::v_head, "v"}}};

template <std::size_t N>
std::string members_of(const JobDraft& draft, const std::array<MemberRow, N>& rows) {
  std::string text;
  for (const MemberRow& row : rows) {
    if (const auto number = draft.number(row.fact)) {
      text += (text.empty() ? "" : ", ") + json_quoted(row.key) + ": " + std::to_string(*number);
    }
  }
  return text;
}

}  // namespace

std::string model_file_of(const JobDraft& draft, const std::string& name, const std::string& source) {
  std::string text = "{\n  \"name\": " + json_quoted(name) + ",\n  \"source\": " + json_quoted(source);
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += ",\n  " + json_quoted(key) + ": " + value;
  };
  for (const MemberRow& row : kMembers) {
    if (const auto number = draft.number(row.fact)) {
      add(row.key, std::to_string(*number));
    }
  }
  for (const auto& [key, value] : draft.model_words) {
    add(key, value);
  }
  add("tied_embeddings", draft.number_or(JobFact::tied_embeddings, 0) != 0 ? "true" : "false");
  if (draft.latent_attention) {
    add("mla", "{" + members_of(draft, kLatentMembers) + "}");
  }
  if (draft.number_or(JobFact::experts, 0) > 0) {
    const std::string dense = draft.dense_layers.empty() ? "" : ", \"dense_layers\": " + draft.dense_layers;
    const std::string bias = draft.router_bias ? ", \"router_bias\": true" : "";
    add("moe", "{" + members_of(draft, kMoeMembers) + dense + bias + "}");
  }
  if (const auto modules = draft.number_or(JobFact::mtp_layers, 0); modules > 0) {
    add("mtp_layers", std::to_string(modules));
  }
  return text + "\n}\n";
}

}  // namespace tpplan
