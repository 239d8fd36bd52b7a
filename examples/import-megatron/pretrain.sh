#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8

export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${TP:-8}
PP=4
CHUNK=5  # layers per virtual stage
SEQ=4096

MODEL_ARGS=(
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
  --num-attention-heads 64 --group-query-attention --num-query-groups 8
  --seq-length $SEQ --max-position-embeddings $SEQ --position-embedding-type rope
  --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
  --tokenizer-type Llama2Tokenizer --tokenizer-model "$TOKENIZER"
)
LAYOUT_ARGS=(
  --tensor-model-parallel-size $TP
  --pipeline-model-parallel-size $PP
  --sequence-parallel
  --use-distributed-optimizer  # ZeRO-1
  --overlap-grad-reduce
)
if [[ $PP -gt 1 && -n "$CHUNK" ]]; then
  LAYOUT_ARGS+=(--num-layers-per-virtual-pipeline-stage $CHUNK)
fi
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size $((64 * TP)) --bf16 --lr 1.5e-4 \
  --recompute-activations --data-path $DATA --fp8-param-gather"

srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-endpoint "$HEAD:29500" \
  pretrain_gpt.py "${MODEL_ARGS[@]}" "${LAYOUT_ARGS[@]}" $TRAINING_ARGS
