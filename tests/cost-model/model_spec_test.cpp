#include "cost-model/model_spec.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

using namespace tpplan;

namespace {

const std::string kConfigs = TPPLAN_SOURCE_DIR "/tests/data/hf-configs/";
const std::string kModels = TPPLAN_SOURCE_DIR "/models/";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> result;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '\t');) {
    result.push_back(cell);
  }
  result.resize(8);
  return result;
}

std::string refusal(const std::string& source) {
  try {
    parse_model("m.json", source);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "accepted";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// A small valid model in the project's own format with some keys put in front.
std::string own(const std::string& keys) {
  return "{" + keys + R"("layers": 4, "hidden": 64, "heads": 8, "kv_heads": 2, "ffn_hidden": 256, "vocab": 1000})";
}

}  // namespace

TEST_CASE("published configurations count to the last parameter") {
  std::ifstream table(kConfigs + "PARAMS.tsv");
  std::string line;
  std::getline(table, line);  // the header
  int rows = 0;
  while (std::getline(table, line)) {
    const std::vector<std::string> row = cells(line);
    if (row[6] != "exact") {
      continue;
    }
    ++rows;
    SUBCASE(row[0].c_str()) {
      const ParameterCounts counts = parameter_counts(load_model(kConfigs + row[0]));
      CHECK(std::to_string(counts.total) == row[1]);
      if (!row[2].empty()) {
        CHECK(std::to_string(counts.active) == row[2]);
      }
      if (!row[7].empty()) {
        CHECK(std::to_string(counts.vision) == row[7]);
      }
    }
  }
  CHECK(rows == 44);
}

TEST_CASE("further families keep the parameter counts worked out for them") {
  std::ifstream table(kConfigs + "families.jsonl");
  int rows = 0;
  for (std::string line; std::getline(table, line); ++rows) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string name = row["name"];
    SUBCASE(name.c_str()) {
      const ParameterCounts counts = parameter_counts(parse_model(name, row["config"].dump()));
      CHECK(counts.total == row["total_params"].get<std::int64_t>());
      CHECK(counts.vision == row["vision_params"].get<std::int64_t>());
    }
  }
  CHECK(rows == 46);
}

TEST_CASE("kinds of models that cannot be planned are refused with the reason") {
  std::ifstream table(kConfigs + "PARAMS.tsv");
  std::string line;
  int rows = 0;
  while (std::getline(table, line)) {
    const std::vector<std::string> row = cells(line);
    if (row[6] == "unsupported") {
      ++rows;
      SUBCASE(row[0].c_str()) {
        const std::string message = refusal(text_of(kConfigs + row[0]));
        CHECK(first_line(message).find("is not supported, because ") != std::string::npos);
        CHECK(message.substr(message.rfind('\n') + 1) == "1 error in m.json");
      }
    }
  }
  CHECK(rows == 7);
  CHECK(first_line(refusal(R"({"model_type": "mystery", "is_encoder_decoder": true})")) ==
        "m.json:1:2: error: \"mystery\" is not supported, because it is an encoder-decoder model; only decoder-only "
        "transformers can be planned");
  CHECK(first_line(refusal(R"({"model_type": "llama", "layer_types": ["full_attention", "conv"]})")) ==
        "m.json:1:2: error: \"llama\" is not supported, because it has layers of type \"conv\" beside attention");
  CHECK(
      first_line(refusal(R"({"architectures": ["BertForMaskedLM"], "model_type": "bert"})")) ==
      "m.json:1:40: error: \"bert\" is not supported, because it is an encoder; only decoder-only transformers can be "
      "planned");
}

TEST_CASE("odd configurations behave as their table says") {
  // 8,030,261,248 is Llama 3 8B; with 32 key/value heads each of 32 layers has 2 * 4096 * 24 * 128 weights more.
  constexpr std::int64_t kPlain = 8030261248;
  constexpr std::int64_t kAllHeads = kPlain + 32LL * 2 * 4096 * 24 * 128;
  struct Accepted {
    const char* file;
    std::int64_t total;
    std::size_t assumed;
    bool warned;
  };
  for (const Accepted& row :
       {Accepted{"string-numbers", kPlain, 0, true}, Accepted{"null-kv-heads", kAllHeads, 1, false},
        Accepted{"missing-kv-heads", kAllHeads, 1, false}, Accepted{"float-integer", kPlain, 0, false},
        Accepted{"bom", kPlain, 0, false}, Accepted{"transformers-v5-rope-parameters-dtype", kPlain, 0, false},
        Accepted{"nan-infinity", kPlain, 0, false}}) {
    SUBCASE(row.file) {
      std::string warnings;
      const ModelSpec model = parse_model("m.json", text_of(kConfigs + "quirks/" + row.file + ".json"), &warnings);
      CHECK(parameter_counts(model).total == row.total);
      CHECK(model.assumed.size() == row.assumed);
      CHECK(warnings.empty() == !row.warned);
    }
  }
  struct Refused {
    const char* file;
    const char* message;
  };
  for (const Refused& row :
       {Refused{"heads-not-dividing-hidden", "20:26: error: num_attention_heads: 30 does not divide hidden_size 4096"},
        Refused{"kv-not-dividing-heads", "22:26: error: num_key_value_heads: 5 does not divide num_attention_heads 32"},
        Refused{"negative-hidden", "14:18: error: hidden_size: must be positive, got -4096"},
        Refused{"absurd-layers", "21:24: error: num_hidden_layers: must be at most 10000, got 1000000000"},
        Refused{"uneven-experts", "8:15: error: moe_topk: not supported, because its layers differ"},
        Refused{"trailing-comma", "37:23: error: trailing comma before \"}\""},
        Refused{"truncated", "16:30: error: unexpected end of input"},
        Refused{"not-a-config", "1:43: error: this is a safetensors index, not a configuration"},
        Refused{"empty", "1:1: error: the file is empty"},
        Refused{"html-login-page", "1:1: error: this is an HTML page, not JSON"}}) {
    SUBCASE(row.file) {
      const std::string message = refusal(text_of(kConfigs + "quirks/" + row.file + ".json"));
      CHECK(first_line(message) == std::string("m.json:") + row.message);
    }
  }
}

TEST_CASE("NaN is refused where the value is needed") {
  CHECK(first_line(refusal(R"({"model_type": "llama", "hidden_size": NaN})")) ==
        "m.json:1:1: error: missing key \"num_hidden_layers\"");
  CHECK(refusal(R"({"model_type": "llama", "hidden_size": NaN})")
            .find("error: hidden_size: expected a whole number, got NaN") != std::string::npos);
}

TEST_CASE("Llama 2 7B adds up by hand") {
  // A layer: q, k, v, o of 4096 x 4096; gate, up, down of 4096 x 11008; two norms. Around 32 of them an embedding and a
  // head of 32000 x 4096 and a last norm.
  const ModelSpec model = load_model(kModels + "7b.json");
  const LayerParameters layer = layer_parameters(model, false);
  CHECK(layer.attention == 4LL * 4096 * 4096);
  CHECK(layer.mlp == 3LL * 4096 * 11008);
  CHECK(layer.norms == 2 * 4096);
  CHECK(layer.attention_replicated + layer.router + layer.experts == 0);
  const ParameterCounts counts = parameter_counts(model);
  CHECK(counts.total == 32 * layer.total() + 2LL * 32000 * 4096 + 4096);
  CHECK(counts.embedding == 2LL * 32000 * 4096);
  CHECK(counts.active == counts.total);
}

TEST_CASE("a DeepSeek-V3 layer is grouped by how parallelism divides it") {
  const ModelSpec model = load_model(kConfigs + "deepseek-ai__DeepSeek-V3.json");
  const LayerParameters layer = layer_parameters(model, true);
  // Down-projections to 1536 and 512 + 64, and the norms of both compressed widths, are whole on every rank.
  CHECK(layer.attention_replicated == 7168LL * (1536 + 576) + 1536 + 512);
  CHECK(layer.attention == 1536LL * 128 * 192 + 512LL * 128 * 256 + 128LL * 128 * 7168);
  CHECK(layer.experts == 256LL * 3 * 7168 * 2048);
  CHECK(layer.mlp == 3LL * 7168 * 2048);
  CHECK(layer.router == 256LL * 7168 + 256);
  CHECK(model.moe_layer_count() == 58);
  CHECK_FALSE(model.is_moe_layer(2));
  CHECK(model.is_moe_layer(3));
  CHECK(model.moe->routing_groups == 8);
  CHECK(model.moe->routing_group_limit == 4);
  // One MoE layer, a projection of 2 * 7168 to 7168 and three norms.
  CHECK(parameter_counts(model).mtp == 11610068224);
}

TEST_CASE("layers and tables add up to the total") {
  for (const char* name :
       {"llama4-maverick", "gpt-oss-20b", "opt-175b", "bloom-176b", "command-r-plus", "gemma-2-9b"}) {
    SUBCASE(name) {
      const ModelSpec model = load_model(kModels + name + ".json");
      std::int64_t sum = embedding_parameters(model) + head_parameters(model);
      for (int layer = 0; layer < model.layers; ++layer) {
        sum += layer_parameters(model, model.is_moe_layer(layer)).total();
      }
      const std::int64_t rest = parameter_counts(model).total - sum;  // the last norm
      CHECK(rest == (model.norm == NormKind::layer ? 2 : 1) * model.hidden);
    }
  }
}

TEST_CASE("sliding windows are read only where they are active") {
  struct Row {
    const char* file;
    int window;
    int full_every;
  };
  for (const Row& row : {Row{"google__gemma-2-9b-it", 4096, 2}, Row{"google__gemma-3-27b-it", 1024, 6},
                         Row{"openai__gpt-oss-20b", 128, 2}, Row{"meta-llama__Llama-4-Scout-17B-16E-Instruct", 8192, 4},
                         Row{"bigcode__starcoder2-15b", 4096, 0}, Row{"microsoft__Phi-3-mini-4k-instruct", 2047, 0},
                         Row{"Qwen__Qwen2.5-7B-Instruct", 0, 0}, Row{"Qwen__Qwen1.5-MoE-A2.7B", 0, 0},
                         Row{"HuggingFaceTB__SmolLM3-3B", 0, 0}, Row{"mistralai__Mistral-Nemo-Instruct-2407", 0, 0}}) {
    SUBCASE(row.file) {
      const ModelSpec model = load_model(kConfigs + row.file + ".json");
      CHECK(model.attention_window == row.window);
      CHECK(model.full_attention_every == row.full_every);
    }
  }
}

TEST_CASE("Qwen2 windows start behind max_window_layers") {
  const auto window = [](const std::string& flags) {
    const ModelSpec model = parse_model(
        "m.json", R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4,
                      "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 100, "sliding_window": 512,)" +
                      flags + "}");
    return std::pair(model.attention_window, model.full_attention_every);
  };
  CHECK(window(R"("use_sliding_window": true, "max_window_layers": 0)") == std::pair(512, 0));
  CHECK(window(R"("use_sliding_window": true, "max_window_layers": 4)") == std::pair(512, 2));
  CHECK(window(R"("use_sliding_window": true, "max_window_layers": 8)") == std::pair(0, 0));
  CHECK(window(R"("use_sliding_window": false, "max_window_layers": 0)") == std::pair(0, 0));
}

TEST_CASE("dense layers among experts follow the keys of each family") {
  const ModelSpec maverick = load_model(kConfigs + "meta-llama__Llama-4-Maverick-17B-128E-Instruct.json");
  CHECK(maverick.moe_layer_count() == 24);
  CHECK_FALSE(maverick.is_moe_layer(0));
  CHECK(maverick.is_moe_layer(1));
  const ModelSpec sparse = parse_model(
      "m.json", R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
                    "num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 128, "moe_intermediate_size": 32,
                    "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 100, "decoder_sparse_step": 2,
                    "mlp_only_layers": [3]})");
  // Every second layer from the second on (1, 3, 5), less layer 3.
  CHECK(sparse.moe_layers == std::vector<std::uint8_t>{0, 1, 0, 0, 0, 1});
}

TEST_CASE("misspelt keys that are needed are pointed out and others are ignored") {
  CHECK(
      refusal(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_atention_heads": 4,
 "intermediate_size": 128, "vocab_size": 100, "my_own_note": 1})") ==
      "m.json:1:68: error: unknown key \"num_atention_heads\"\n"
      "    1 | {\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_atention_heads\": 4,\n"
      "      |                                                                    ^ did you mean "
      "\"num_attention_heads\"?\n"
      "1 error in m.json");
  CHECK(first_line(refusal(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_head": 2, "intermediate_size": 128, "vocab_size": 100})")) ==
        "m.json:2:28: error: unknown key \"num_key_value_head\"");
}

TEST_CASE("a near miss of one name is ignored when the value is given under another") {
  CHECK(refusal(R"({"model_type": "gpt2", "n_embd": 64, "n_layers": 2, "n_layerz": 3, "n_head": 4, "n_positions": 128,
                    "vocab_size": 100})") == "accepted");
}

TEST_CASE("an unknown architecture is answered with the known ones") {
  const std::string message = refusal(R"({"model_type": "lama"})");
  CHECK(first_line(message) == "m.json:1:2: error: unknown architecture \"lama\"");
  CHECK(message.find("did you mean \"llama\"? known: apertus, arcee, ") != std::string::npos);
  CHECK(first_line(refusal(R"({"hidden_size": 64})")) ==
        "m.json:1:1: error: unknown architecture: no model_type and no architectures");
}

TEST_CASE("a known class name stands in for an unknown model_type") {
  const ModelSpec model =
      parse_model("m.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 100})");
  CHECK(model.hidden == 64);
  CHECK_FALSE(model.tied_embeddings);
}

TEST_CASE("an unknown vision tower is a warning and the language model still counts") {
  std::string warnings;
  const ModelSpec model =
      parse_model("m.json", R"({"model_type": "seeing", "vision_config": {}, "text_config": {"model_type": "llama",
                    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
                    "intermediate_size": 128, "vocab_size": 100}})",
                  &warnings);
  // Two layers of 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64, twice 100 * 64, and the last norm.
  CHECK(parameter_counts(model).total == 2 * (16384 + 24576 + 128) + 12800 + 64);
  CHECK(warnings.find("the vision tower of \"seeing\" is not counted") != std::string::npos);
}

TEST_CASE("the own format reads experts by number list and period") {
  const auto moe_layers = [](const std::string& keys) {
    return parse_model("m.json", own(R"("moe": {"experts": 8, "top_k": 2, "expert_ffn": 32)" + keys + "},")).moe_layers;
  };
  CHECK(moe_layers("") == std::vector<std::uint8_t>{1, 1, 1, 1});
  CHECK(moe_layers(R"(, "dense_layers": 1)") == std::vector<std::uint8_t>{0, 1, 1, 1});
  CHECK(moe_layers(R"(, "dense_layers": [0, 3])") == std::vector<std::uint8_t>{0, 1, 1, 0});
  CHECK(moe_layers(R"(, "every": 2)") == std::vector<std::uint8_t>{0, 1, 0, 1});
}

TEST_CASE("the own format fills in defaults") {
  const ModelSpec model = parse_model("dir/my-model.json", own(""));
  CHECK(model.name == "my-model");
  CHECK(model.head_dim == 8);
  CHECK(model.gated_mlp);
  CHECK(model.default_seq == 0);
  CHECK(model.assumed.empty());
}

TEST_CASE("stated parameters must agree with the shapes") {
  // Four layers of 2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 256 + 2 * 64, two tables of 1000 * 64, a last norm.
  constexpr std::int64_t kTotal = 4 * (8192 + 2048 + 49152 + 128) + 128000 + 64;
  CHECK(refusal(own(R"("parameters": )" + std::to_string(kTotal) + ",")) == "accepted");
  CHECK(first_line(refusal(own(R"("parameters": 1000,)"))) ==
        "m.json:1:16: error: parameters: the shapes give 366,144 parameters, not 1,000");
}

TEST_CASE("absurd shapes are refused before they overflow") {
  const std::string message = refusal(
      R"({"layers": 10000, "hidden": 16777216, "heads": 65536, "kv_heads": 65536, "head_dim": 16777216,
          "ffn_hidden": 16777216, "vocab": 16777216})");
  CHECK(first_line(message).find("m.json:1:12: error: layers: the shapes give ") == 0);
  CHECK(first_line(message).find("more than 1e+16 are not planned") != std::string::npos);
}

TEST_CASE("a folder stands for the config.json in it") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "tpplan_model_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CHECK_THROWS_WITH_AS(load_model(folder.string()), ("no config.json in the folder " + folder.string()).c_str(),
                       SpecError);
  std::filesystem::copy(kConfigs + "openai-community__gpt2.json", folder / "config.json");
  const ModelSpec model = load_model(folder.string());
  CHECK(model.name == "tpplan_model_folder");
  CHECK(model.architecture == "gpt2");
  std::filesystem::remove_all(folder);
}

TEST_CASE("every shipped model loads and states its parameters and source") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.path().extension() != ".json") {
      continue;
    }
    ++files;
    SUBCASE(entry.path().filename().c_str()) {
      const std::string source = text_of(entry.path().string());
      std::string warnings;
      const ModelSpec model = load_model(entry.path().string(), &warnings);
      CHECK(warnings.empty());
      CHECK(source.find("\"source\": ") != std::string::npos);
      CHECK(source.find("\"parameters\": " + std::to_string(parameter_counts(model).total) + ",") != std::string::npos);
      CHECK(model.default_seq > 0);
    }
  }
  CHECK(files >= 28);
}

TEST_CASE("famous shipped models keep their parameter counts") {
  struct Row {
    const char* name;
    std::int64_t total;
  };
  for (const Row& row : {Row{"7b", 6738415616},
                         Row{"13b", 13015864320},
                         Row{"70b", 68976648192},
                         Row{"gpt3-175b", 174615846912},
                         Row{"llama3-8b", 8030261248},
                         Row{"llama3-70b", 70553706496},
                         Row{"llama3-405b", 405853388800},
                         Row{"mixtral-8x7b", 46702792704},
                         Row{"mixtral-8x22b", 140620634112},
                         Row{"deepseek-v3", 671026419200},
                         Row{"deepseek-v2", 235741434880},
                         Row{"qwen3-30b-a3b", 30532122624},
                         Row{"qwen3-235b-a22b", 235093634560},
                         Row{"qwen2.5-72b", 72706203648},
                         Row{"gemma-2-9b", 9241705984},
                         Row{"gemma-3-27b", 27009346304},
                         Row{"phi-4", 14659507200},
                         Row{"falcon-40b", 41303293952},
                         Row{"bloom-176b", 176247271424},
                         Row{"gpt2-xl", 1557611200},
                         Row{"gpt-oss-120b", 116829156672},
                         Row{"mpt-7b", 6649286656},
                         Row{"kimi-k2", 1026408232448},
                         Row{"glm-4.5", 352797829024},
                         Row{"llama4-scout", 107769861120},
                         Row{"dbrx", 131596523520}}) {
    SUBCASE(row.name) { CHECK(parameter_counts(load_model(kModels + row.name + ".json")).total == row.total); }
  }
}

TEST_CASE("broken configurations end in a message and never in a crash") {
  const std::string source = text_of(kConfigs + "deepseek-ai__DeepSeek-V3.json");
  for (std::size_t length = 0; length + 4 < source.size(); ++length) {
    CHECK_THROWS_AS(parse_model("m.json", source.substr(0, length)), SpecError);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string broken = source;
    for (int change = 0; change < 3; ++change) {
      broken[random() % broken.size()] = static_cast<char>(32 + random() % 95);
    }
    try {
      const ModelSpec model = parse_model("m.json", broken);
      CHECK(parameter_counts(model).total > 0);
    } catch (const SpecError& error) {
      CHECK(std::string(error.what()).substr(0, 7) == "m.json:");
    }
  }
}
