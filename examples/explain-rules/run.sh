#!/bin/sh
# Breaks each rule of the search once. Ends with 1 when explain does not name the rule.
set -u
missed=0

# breaks RULE MODEL LAYOUT [OPTION]...
breaks() {
  rule=$1 model=$2 layout=$3
  shift 3
  echo "== $rule: --model $model --layout \"$layout\"${*:+ $*}"
  answer=$(tpplan explain --model "$model" --cluster 8xA100 --layout "$layout" "$@" 2>&1)
  code=$?
  echo "$answer"
  echo
  case "$code$answer" in
    1*"$rule"*) ;;
    *) echo "expected $rule and exit code 1, got $code"; missed=1 ;;
  esac
}

breaks heads-divide-tp gpt2-xl "tp=2"
breaks kv-heads-divide-tp llama3-8b "tp=16" --framework torchtitan
breaks ffn-divides-tp llama-33b "tp=13"
breaks experts-need-moe 7b "ep=2"
breaks experts-divide-ep mixtral-8x7b "ep=3"
breaks expert-ffn-divides-etp mixtral-8x7b "etp=3"
breaks etp-one-or-tp mixtral-8x7b "tp=4 etp=2" --framework torchtitan
breaks sequence-divides-cp 7b "cp=2" --seq 4098
breaks cp-type-offered 7b "cp=2 cp-type=ring" --framework deepspeed
breaks ulysses-heads-divide-cp 7b "tp=8 cp=8 cp-type=ulysses"
breaks sequence-parallel-needs-tp 7b "tp=1 sequence-parallel=on"
breaks tp-overlap-needs-sequence-parallel 7b "tp=2 sequence-parallel=off" --overlap tp
breaks moe-needs-sequence-parallel mixtral-8x7b "tp=2 sequence-parallel=off"
breaks sequence-divides-tp 7b "tp=4 sequence-parallel=on" --seq 4098
breaks recompute-modules 7b "recompute=selective:moe_act"
breaks packed-weights-offered 7b "tp=1" --framework megatron --peft qlora
breaks packed-weights-whole 7b "tp=2" --peft qlora
breaks world-divides 7b "tp=2 pp=3"
breaks expert-grid-divides-world mixtral-8x7b "tp=2 etp=2 ep=8 sequence-parallel=on"
breaks batch-divides 7b "micro-batch=8" --global-batch 100
breaks chunks-need-pipeline 7b "vpp=2"
breaks layers-fill-stages 7b "pp=8 vpp=8"
breaks layers-per-stage-match 7b "pp=2 layers-per-stage=10+10"
breaks recompute-fits-stage 7b "pp=8 recompute=full:9"
breaks schedule-offered 7b "pp=2 schedule=gpipe" --framework deepspeed
breaks schedule-needs-pipeline 7b "pp=1 schedule=zb-h1"
breaks schedule-suits-chunks 7b "pp=2 vpp=3 schedule=zb-v"
breaks vpp-group-offered 7b "pp=4 vpp-group=4"
breaks vpp-group-range 7b "pp=4 vpp=2 vpp-group=2"
breaks vpp-group-remainder 7b "pp=4 vpp=2 micro-batch=1 vpp-group=6" --global-batch 16
breaks interleaved-micro-batches 7b "pp=4 vpp=2" --global-batch 6
breaks micro-batches-fill-pipeline 7b "pp=8" --framework torchtitan --global-batch 4
breaks dualpipe-even 7b "pp=8 schedule=dualpipe" --global-batch 8
breaks zero-offered 7b "zero=3" --framework nanotron
breaks sharding-without-pipeline 7b "pp=2 zero=3"
breaks shard-group-divides 7b "shard-group=3"
breaks shard-group-needs-zero 7b "zero=0 shard-group=4"
breaks reduction-offered 7b "zero=1 grad-reduce=each"
breaks offload-needs-zero 7b "zero=0 offload=optimizer"
breaks activation-offload-alone 7b "zero=1 offload=activations recompute=full"
breaks muon-needs-whole-matrices 7b "zero=1 optimizer=muon"
exit $missed
