// The launch scripts of `tpplan export`, run with programs that print what they are started with.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/export/export_target.h"
#include "tests/planner/exported.h"

using namespace tpplan;

TEST_CASE("a file gets its launch script beside it") {
  const Scratch scratch;
  const auto outcome =
      exported("deepspeed", "7b", "2x8xa100-80gb-sxm", "pp=2 zero=1 micro-batch=1", {"-o", scratch.file("ds.json")});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.empty());
  CHECK(nlohmann::json::parse(content(scratch.file("ds.json")))["zero_optimization"]["stage"] == 1);
  const std::string launch = content(scratch.file("ds.launch.sh"));
  CHECK(is_shell(launch));
  CHECK(has(launch, "# tpplan " TPPLAN_VERSION " wrote this for DeepSpeed 0.19.6"));
  CHECK(has(launch, "PipelineModule(num_stages=2)"));
  // 1,024 sequences / dp 8 of one each.
  CHECK(has(launch, "per_device_train_batch_size=1 gradient_accumulation_steps=128"));
  CHECK(has(launch, "deepspeed --hostfile=hostfile --num_nodes \"$NODES\" --num_gpus \"$GPUS_PER_NODE\""));
  CHECK(has(launch, "\"$SCRIPT\" --deepspeed \"ds.json\""));
  CHECK(has(launch, "slots=$GPUS_PER_NODE"));
  CHECK(std::distance(std::filesystem::directory_iterator(std::filesystem::path(scratch.file("ds.json")).parent_path()),
                      std::filesystem::directory_iterator()) == 2);
}

TEST_CASE("every target launches through Slurm and its scripts are shell") {
  for (const ExportTarget& target : export_targets()) {
    const std::string name(name_in(kTargetNames, target.target));
    CAPTURE(name);
    const Scratch scratch;
    const std::string file = scratch.file("plan" + std::string(target.suffix));
    const std::string layout =
        target.target == Target::megatron || target.target == Target::nanotron ? "tp=2" : "zero=2";
    for (const std::string launcher : {"torchrun", "slurm"}) {
      const auto outcome =
          exported(name, "7b", "2x8xh100-80gb-sxm", target.target == Target::megatron_bridge ? "tp=2" : layout,
                   {"--launcher", launcher, "-o", file});
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      const bool itself = target.kind == FileKind::script;
      const std::string script = content(itself ? file : scratch.file("plan.launch.sh"));
      CHECK(is_shell(script));
      CHECK(script.rfind("#!/bin/bash\n", 0) == 0);
      CHECK(has(script, "#SBATCH --nodes=2\n") == (launcher == "slurm"));
      CHECK(has(script, "\nsrun ") == (launcher == "slurm"));
      if (!itself) {
        CHECK((has(script, std::filesystem::path(file).filename().string()) || target.suffix == ".py"));
      }
    }
  }
}

TEST_CASE("scripts start what they should and stop at what is not given") {
  const Scratch scratch;
  // Programs that the scripts start, each printing its name and words.
  for (const char* program : {"torchrun", "deepspeed", "accelerate", "composer"}) {
    std::ofstream(scratch.file(program)) << "#!/bin/bash\nprintf '%s\\n' " << program << " \"$@\"\n";
  }
  std::ofstream(scratch.file("srun")) << "#!/bin/bash\nexec \"$@\"\n";
  std::ofstream(scratch.file("scontrol")) << "#!/bin/bash\necho node7\necho node8\n";
  std::ofstream(scratch.file("envsubst")) << "#!/bin/bash\nexec cat\n";
  const auto run = [&](const std::string& script, const std::string& given) {
    const std::string line = "cd '" + scratch.file("") + "' && chmod +x torchrun deepspeed accelerate composer srun " +
                             "scontrol envsubst && env -i PATH=\"$PWD:$PATH\" " + given + " bash " + script +
                             " --more > out 2> err";
    return std::system(line.c_str());
  };
  const std::string all =
      "HEAD=node7 NODE_RANK=1 HOSTS='node7 node8' SLURM_JOB_NODELIST=node[7-8] SLURM_NODEID=1 DATA_PATH=d "
      "TOKENIZER_MODEL=t TRAIN_ITERS=10 LR=1e-4 RECIPE=r SCRIPT=train.py MODULE=llama3 MODEL=llama3 FLAVOR=7B "
      "HF_ASSETS=h DATASET=d TOKENIZER=t TRAIN_STEPS=10 DATA_LOCAL=d MAX_DURATION=10ba";
  for (const ExportTarget& target : export_targets()) {
    const std::string name(name_in(kTargetNames, target.target));
    const bool megatron = target.kind == FileKind::script;
    const std::string file = "plan" + std::string(target.suffix);
    const std::string script = megatron ? file : "plan.launch.sh";
    for (const std::string launcher : {"torchrun", "slurm"}) {
      CAPTURE(name);
      CAPTURE(launcher);
      REQUIRE(exported(name, "7b", "2x8xh100-80gb-sxm",
                       megatron || target.target == Target::nanotron ? "tp=2" : "zero=2",
                       {"--launcher", launcher, "-o", scratch.file(file)})
                  .code == 0);
      CHECK(run(script, all) == 0);
      const std::string out = content(scratch.file("out"));
      CHECK_MESSAGE(has(out, "\n--more\n"), content(scratch.file("err")));
      CHECK((has(out, "node7:29500\n") || has(out, "\nnode7\n") || has(out, "--hostfile=hostfile\n")));
      CHECK(run(script, launcher == "slurm" ? "SLURM_JOB_NODELIST=node[7-8]" : "HEAD=node7 NODE_RANK=1") != 0);
      CHECK(has(content(scratch.file("err")), ": "));
      CHECK(content(scratch.file("out")).empty());
    }
  }
  CHECK(content(scratch.file("hostfile")) == "node7 slots=8\nnode8 slots=8\n");
}
