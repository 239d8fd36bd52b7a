// DeepSpeed: its JSON file. Batches are counted per data-parallel rank, whatever the keys say of GPUs.
#include "planner/export/export_target.h"
#include "planner/export/settings.h"

namespace tpplan {
namespace {

/// With pipeline stages tensor parallelism is the model's, not DeepSpeed's.
bool cuts_matrices_itself(const Layout& layout) { return layout.tp > 1 && layout.pp == 1; }

}  // namespace

std::string write_deepspeed(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const TrainingSpec& training = request.job.training;
  std::vector<JobFact> except{JobFact::shard_group, JobFact::ep};
  if (!cuts_matrices_itself(layout)) {
    except.push_back(JobFact::tp);
  }
  if (layout.cp == 1) {
    except.push_back(JobFact::cp);
  }
  Settings settings = settings_of(request, Target::deepspeed, except);
  const auto say = [&settings](std::string key, const auto& value) { settings.push_back({std::move(key), value}); };
  if (layout.zero > 0) {
    say("zero_optimization.overlap_comm", training.overlap_dp_grad != Switch::off);
    say("zero_optimization.contiguous_gradients", true);
  }
  if (layout.shard_group > 0) {
    say("zero_optimization.zero_hpz_partition_size", std::int64_t{layout.shard_group});
  }
  if (layout.offload == Offload::optimizer) {
    say("zero_optimization.offload_optimizer.device", std::string("cpu"));
    say("zero_optimization.offload_optimizer.pin_memory", true);
  }
  if (layout.ep > 1) {
    say("expert_parallel.enabled", true);
    say("expert_parallel.autoep_size", std::int64_t{layout.ep});
  }
  const bool wide = training.precision == Precision::fp32 || training.precision == Precision::tf32;
  say("bf16.enabled", !wide && training.precision != Precision::fp16);
  say("fp16.enabled", training.precision == Precision::fp16);
  if (training.gradient_bytes > 0) {
    const std::string type = training.gradient_bytes < 4 ? "bf16" : "fp32";
    say("communication_data_type", type);
    say("data_types.grad_accum_dtype", type);
  }
  return as_json(settings);
}

LaunchLine launch_deepspeed(const ExportRequest& request) {
  const Layout& layout = request.layout();
  std::string notes;
  const auto note = [&notes](bool there, const std::string& text) {
    notes += there ? "# In the script: " + text + "\n" : "";
  };
  note(true, "the Hugging Face Trainer wants the same batches: per_device_train_batch_size=" +
                 std::to_string(layout.micro_batch) +
                 " gradient_accumulation_steps=" + std::to_string(micro_batches(request.job, layout)));
  note(layout.pp > 1,
       "PipelineModule(num_stages=" + std::to_string(layout.pp) + ")" +
           (layout.tp > 1 ? " with a model that is cut " + std::to_string(layout.tp) + " ways (mpu)" : ""));
  note(layout.recompute == RecomputeKind::full,
       layout.pp > 1 ? "PipelineModule(activation_checkpoint_interval=1)" : "model.gradient_checkpointing_enable()");
  note(layout.cp > 1, "DistributedAttention (Ulysses) over the sequence-parallel group");
  const std::string program = "\"$SCRIPT\" --deepspeed \"" + request.file + "\" \"$@\"";
  if (request.launcher == Launcher::slurm) {
    return {torchrun(program), false, false, notes};
  }
  if (request.job.cluster.nodes == 1) {
    return {"deepspeed --num_gpus \"$GPUS_PER_NODE\" \\\n  " + program, false, true, notes};
  }
  return {"deepspeed --hostfile=hostfile --num_nodes \"$NODES\" --num_gpus \"$GPUS_PER_NODE\" \\\n  " + program, false,
          true, notes + "for host in $HOSTS; do echo \"$host slots=$GPUS_PER_NODE\"; done > hostfile\n"};
}

}  // namespace tpplan
