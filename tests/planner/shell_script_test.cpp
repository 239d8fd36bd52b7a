// Shell scripts followed without running them. The files are written for these tests.
#include "planner/import/shell_script.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "planner/import/shell_text.h"

using namespace tpplan;

namespace {

ConfigFile script(const std::string& text) { return parse_config("run.sh", text); }

/// The last value of a key, "-" when there is none.
std::string value(const ConfigFile& file, const std::string& key) {
  const auto found = std::find_if(file.entries.rbegin(), file.entries.rend(),
                                  [&key](const ConfigEntry& entry) { return entry.key == key; });
  return found == file.entries.rend() ? "-" : found->value;
}

std::string value(const std::string& text, const std::string& key) { return value(script(text), key); }

std::string refusal(const std::string& text) {
  try {
    script(text);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("variables and defaults and arithmetic of a script give the values of its flags") {
  const std::string text =
      "TP=8\nPP=${PP:-4}\nWORLD=$((TP * PP * 2))\nSEQ=\"4096\"  # tokens\n"
      "python pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \\\n"
      "  --world $WORLD --seq_length=$SEQ --rest $(( (WORLD - 4) / 3 % 7 )) --pick $((TP > 4 ? 1 : 0)) --bf16\n";
  CHECK(value(text, "--tensor-model-parallel-size") == "8");
  CHECK(value(text, "--pipeline-model-parallel-size") == "4");
  CHECK(value(text, "--world") == "64");
  CHECK(value(text, "--seq-length") == "4096");
  CHECK(value(text, "--rest") == "6");  // (64 - 4) / 3 = 20, 20 % 7 = 6
  CHECK(value(text, "--pick") == "1");
  CHECK(value(text, "--bf16").empty());
  CHECK(value(text, "--fp16") == "-");
}

TEST_CASE("arrays and strings of flags are taken apart as the shell does it") {
  const std::string text =
      "ARGS=(\n  --num-layers 24  # a comment with a ' in it\n  # --num-layers 99\n  \"--hidden-size 1024\"\n)\n"
      "ARGS+=(--names \"two words\")\nMORE=\"--bf16 \\\n  --lr 1e-4\"\n"
      "torchrun --nproc_per_node 8 train.py ${ARGS[@]} $MORE\n";
  CHECK(value(text, "--num-layers") == "24");
  CHECK(value(text, "--hidden-size") == "1024");  // one element of two words, split because it is not quoted
  CHECK(value(text, "--names") == "two words");
  CHECK(value(text, "--lr") == "1e-4");
  CHECK(value(text, "launcher --nproc-per-node") == "8");
  const ConfigFile file = script(text);
  const auto entry = std::find_if(file.entries.begin(), file.entries.end(),
                                  [](const ConfigEntry& e) { return e.key == "--hidden-size"; });
  REQUIRE(entry != file.entries.end());
  CHECK(file.line_of(entry->value_at) == 4);  // where it is written, not where it is used
}

TEST_CASE("tests and case and loops decide which flags are read") {
  const std::string text =
      "SIZE=7B\nMODE=sel\nif [ -z ${VP} ]; then VP_ARGS=\"\"; else VP_ARGS=\"--vp $VP\"; fi\n"
      "if [[ $SIZE == \"70B\" ]]; then\n  LAYERS=80\nelif [ $SIZE = 7B ] && [ 2 -gt 1 ]; then\n  LAYERS=32\n"
      "else\n  LAYERS=1\nfi\n"
      "case $MODE in\n  full) RC=\"--recompute-granularity full\" ;;\n  sel | selective) "
      "RC=\"--recompute-activations\" ;;\n"
      "  *) RC=\"--none\" ;;\nesac\n"
      "for N in 16 32; do NODES=$N; done\n[ $LAYERS -eq 32 ] && EXTRA=--extra\n[ -f /nowhere ] || EXTRA2=--extra2\n"
      "python pretrain_gpt.py --num-layers $LAYERS $RC $VP_ARGS $EXTRA $EXTRA2 --nodes $NODES\n";
  const ConfigFile file = script(text);
  CHECK(value(file, "--num-layers") == "32");
  CHECK(file.has("--recompute-activations"));
  CHECK(!file.has("--recompute-granularity"));
  CHECK(!file.has("--vp"));
  CHECK(file.has("--extra"));
  CHECK(file.has("--extra2"));
  CHECK(value(file, "--nodes") == "16");  // the first round of a loop
}

TEST_CASE("commands inside eval and bash -c and srun are read with the options in front of them") {
  CHECK(value("cmd=\"torchrun --nnodes 4 train.py --num-layers 8 &> log\"\necho $cmd\neval ${cmd} | tee out\n",
              "--num-layers") == "8");
  const ConfigFile file = script(
      "#SBATCH --nodes=16  # nodes\n#SBATCH --gres=gpu:h100:8\nexport L=12\n"
      "srun --mpi=pmix bash -c 'cd /x; python -u pretrain_gpt.py --num-layers $L \\\n  --micro-batch-size 2'\n");
  CHECK(value(file, "--num-layers") == "12");
  CHECK(value(file, "--micro-batch-size") == "2");
  CHECK(value(file, "launcher --mpi") == "pmix");
  CHECK(value(file, "sbatch --nodes") == "16");
  CHECK(value(file, "sbatch --gres") == "gpu:h100:8");
}

TEST_CASE("what only a running shell knows is kept as written") {
  const std::string text =
      "N=$(scontrol show hostnames | wc -l)\npython train.py --nnodes $N --rank $RANK --x ${Y%.*}\n";
  CHECK(value(text, "--nnodes") == "$(scontrol show hostnames | wc -l)");
  CHECK(value(text, "--rank") == "$RANK");
  CHECK(value(text, "--x") == "${Y%.*}");
}

TEST_CASE("the command with most flags counts and others are told of") {
  const ConfigFile file = script(
      "python preprocess.py --input a --output b --workers 4 --keys c --tokenizer d\n"
      "python pretrain_gpt.py --num-layers 2 --hidden-size 8 --bf16 --fp8 --lr 1 --seq-length 64\n");
  CHECK(value(file, "--num-layers") == "2");
  CHECK(!file.has("--workers"));
  REQUIRE(file.remarks.size() == 1);
  CHECK(file.remarks[0].find("line 2") != std::string::npos);
}

TEST_CASE("a list of flags or of overrides needs no command") {
  CHECK(value("--num-layers 24\n--hidden-size 1024 --bf16\n", "--hidden-size") == "1024");
  const std::string overrides = "model.tensor_model_parallel_size=4\n+trainer.devices=8 model.layers=[1,2]\n";
  CHECK(value(overrides, "model.tensor_model_parallel_size") == "4");
  CHECK(value(overrides, "trainer.devices") == "8");
  CHECK(value(overrides, "model.layers") == "1 2");
  CHECK(value("torchrun -m torchtitan.train --training.seq-len 2048\n", "training.seq_len") == "2048");
}

TEST_CASE("an open quote or bracket is shown at its place") {
  CHECK(refusal("A=1\nB=\"x\npython t.py\n").find("run.sh:2:3: error: this quote is not closed") != std::string::npos);
  CHECK(refusal("ARGS=(\n --x 1\n").find("run.sh:1:6: error: this list is not closed") != std::string::npos);
  CHECK(refusal("python t.py --x ${A\n").find("run.sh:1:17: error: this bracket is not closed") != std::string::npos);
}

TEST_CASE("a variable that doubles itself again and again is stopped") {
  std::string text = "A=0123456789abcdef\n";
  for (int i = 0; i < 40; ++i) {
    text += "A=$A$A\n";
  }
  CHECK(refusal(text).find("grows beyond 1 MiB") != std::string::npos);
}

TEST_CASE("shell arithmetic follows the precedence of C and fails where it has no value") {
  const ShellVariables variables{{"N", {TracedText::of("6", 0)}}, {"LOOP", {TracedText::of("LOOP", 0)}}};
  CHECK(arithmetic("2 + 3 * N", variables) == 20);
  CHECK(arithmetic("(2 + 3) * $N - -1", variables) == 31);
  CHECK(arithmetic("N >= 6 && N != 7", variables) == 1);
  CHECK(!arithmetic("N / 0", variables));
  CHECK(!arithmetic("M + 1", variables));
  CHECK(!arithmetic("LOOP", variables));
  CHECK(!arithmetic("9223372036854775807 + 1", variables));
  CHECK(!arithmetic("2 +", variables));
}
