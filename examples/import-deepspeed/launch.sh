#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
srun torchrun --nnodes 2 --nproc-per-node 8 train.py \
  --model_name_or_path meta-llama/Meta-Llama-3-8B --max_seq_length 8192 \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
  --bf16 --gradient_checkpointing --deepspeed ds_config.json
