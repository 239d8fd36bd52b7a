"""Measured training steps of a Llama-style decoder, for `tpplan validate`: plain PyTorch, any mix of tensor, data and pipeline
parallelism on the GPUs of one host.

    torchrun --nproc-per-node N scripts/lab/train_steps.py RUNS.json OUT.jsonl [--gpu h200-141gb-sxm] [--profile OVERLAP.json]
    torchrun --nproc-per-node N scripts/lab/train_steps.py --check      # numerics of every layout of N processes, on CPUs

RUNS.json is a list of objects: name, layers, hidden, heads, kv_heads, ffn, vocab, seq, mbs, gbs, and as wished tp, pp, dp (1),
sp, zero (0, 1, or 3: FSDP2), recompute ("none", "full"), overlap (true), steps (6), and for experts in every layer experts,
topk, expert_ffn, shared_ffn (each data-parallel rank holds all of them). Each must fill one GPU or all N. A line of
OUT.jsonl is a run record as docs/accuracy-records.md describes it, written as soon as it is measured; steps that ran out of
memory are records too.

Numerics follow Megatron: bf16 weights, fp32 main gradients accumulated by a kernel of their own, fp32 master weights and Adam
moments (18 bytes a parameter; zero 1 shards 12 of them), fp32 vocabulary-parallel cross entropy, gradient buckets reduced beside
the last backward. zero 3 is FSDP2: fp32 parameters and gradients, bf16 gathers, one reduction on the last micro-batch. The
pipeline is 1F1B with blocking batched transfers. Ranks are ordered tp, dp, pp, the fastest first.

--profile adds one more step under the profiler: time of each class of kernels, how much of it ran beside a collective, and how
much of the collectives was exposed.
"""
import argparse
import bisect
import gc
import json
import statistics
import sys
import time
from datetime import date

import torch
import torch.distributed as dist

import decoder

GIB = 2**30
DEFAULTS = {"tp": 1, "pp": 1, "dp": 1, "sp": False, "zero": 0, "recompute": "none", "overlap": True, "steps": 6,
            "experts": 0, "topk": 0, "expert_ffn": 0, "shared_ffn": 0}


KERNEL_CLASSES = [("collective", ("nccl",)), ("matrix product", ("nvjet", "gemm", "cutlass")),
                  ("attention", ("sdpa", "compute_dot", "convert_dq", "flash", "fmha")),
                  ("swiglu", ("silu",)), ("rotary embedding", ("fused_add_cat",)), ("norm", ("layer_norm", "gammabeta")),
                  ("optimizer", ("fusedopti", "multi_tensor", "normtwo")),
                  ("gradient accumulation", ("unrolled_elementwise_kernel<at::native::cudafunctor_add<float>",)),
                  ("clipping", ("binaryfunctor<float, float, float",)),
                  ("routing", ("sort", "gather", "topk", "triton_red")), ("copy", ("memcpy", "copy", "cat", "split_with"))]


def kernel_class(name):
    lower = name.lower()
    for label, words in KERNEL_CLASSES:
        if any(word in lower for word in words):
            return label
    return "elementwise"


def overlap_of(job):
    """Milliseconds of one step per class of kernels, total and beside a collective; of the collectives, total and hidden."""
    from torch.profiler import ProfilerActivity, profile
    torch.cuda.synchronize()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        job.pipeline.step()
        torch.cuda.synchronize()
    kernels = []
    for event in profiler.events():
        span, name = event.time_range, event.name
        marker = name.startswith("nccl:") or "FSDP::" in name or "Optimizer.step" in name or "ProfilerStep" in name
        if event.device_type == torch.autograd.DeviceType.CUDA and span.end > span.start and not marker:
            kernels.append((span.start, span.end, kernel_class(name)))
    busy = []  # union of the collectives' spans
    for start, end, label in sorted(kernels):
        if label != "collective":
            continue
        if busy and start <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([start, end])
    starts = [span[0] for span in busy]

    def beside(start, end):
        total, i = 0.0, max(0, bisect.bisect_right(starts, start) - 1)
        while i < len(busy) and busy[i][0] < end:
            total += max(0.0, min(end, busy[i][1]) - max(start, busy[i][0]))
            i += 1
        return total

    classes = {}
    hidden, reached = 0.0, float("-inf")
    for start, end, label in sorted(kernels):
        if label == "collective":
            continue
        row = classes.setdefault(label, {"kernels": 0, "ms": 0.0, "beside_collective_ms": 0.0})
        row["kernels"] += 1
        row["ms"] += (end - start) / 1e3
        row["beside_collective_ms"] += beside(start, end) / 1e3
        hidden += beside(max(start, reached), end) / 1e3 if end > reached else 0.0
        reached = max(reached, end)
    return {"span_ms": (max(k[1] for k in kernels) - min(k[0] for k in kernels)) / 1e3,
            "collective_ms": sum(end - start for start, end in busy) / 1e3, "collective_hidden_ms": hidden, "classes": classes}


def measure(run, profile):
    """Median step time (slowest rank), memory of the fullest rank, and the overlap of one profiled step."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    job = decoder.Job(run)
    for _ in range(3):
        job.pipeline.step()
    times = []
    for _ in range(run["steps"]):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        job.pipeline.step()
        torch.cuda.synchronize()
        spent = torch.tensor([time.perf_counter() - start], device=decoder.DEVICE.device, dtype=torch.float64)
        dist.all_reduce(spent, op=dist.ReduceOp.MAX)
        times.append(spent.item())
    free, total = torch.cuda.mem_get_info()
    memory = torch.tensor([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free],
                          device=decoder.DEVICE.device, dtype=torch.float64)
    dist.all_reduce(memory, op=dist.ReduceOp.MAX)
    allocated, reserved, used = (round(x / GIB, 3) for x in memory.tolist())
    overlap = overlap_of(job) if profile else None
    job.release()
    return {"step_s": round(statistics.median(times), 5), "peak_mem_gib": allocated, "reserved_gib": reserved,
            "device_used_gib": used, "peak_mem_kind": "allocated"}, [round(t, 5) for t in times], overlap


def record(run, gpu, measured, times):
    """A run record of docs/accuracy-records.md."""
    gpus = run["tp"] * run["dp"] * run["pp"]
    experts = {"moe": {"experts": run["experts"], "top_k": run["topk"], "expert_ffn": run["expert_ffn"],
                       "shared_ffn": run["shared_ffn"]}} if run["experts"] else {"ffn_hidden": run["ffn"]}
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {
        "id": f"lab-{run['name']}",
        "source": f"own measurement, scripts/lab/train_steps.py, PyTorch {torch.__version__.split('+')[0]}, NCCL {nccl}, "
                  f"{torch.cuda.get_device_name()}, {date.today():%Y-%m}",
        "framework": "fsdp" if run["zero"] == 3 else "lab", "date": f"{date.today():%Y-%m}",
        "model": {"name": run.get("model", run["name"]), "layers": run["layers"], "hidden": run["hidden"],
                  "heads": run["heads"], "kv_heads": run["kv_heads"], **experts, "vocab": run["vocab"],
                  "gated_mlp": True, "tied_embeddings": False},
        "hardware": {"gpu": gpu, "gpus": gpus, "gpus_per_node": max(decoder.DEVICE.world, 2), "intra": "nvlink",
                     "inter_gbps_per_gpu": 400},
        "training": {"seq": run["seq"], "global_batch": run["gbs"], "micro_batch": run["mbs"], "precision": "bf16",
                     "recompute": run["recompute"], "flash_attention": True, "kernel": "cudnn attention",
                     "compile": "none", "loss": "plain",
                     "overlap": {"dp_grad": run["overlap"], "tp": False, "pp": False}},
        "layout": {"dp": run["dp"], "tp": run["tp"], "pp": run["pp"], "cp": 1, "ep": 1, "vpp": 1, "sp": run["sp"],
                   "zero": run["zero"], "schedule": "1f1b"},
        "measured": measured, "notes": f"seconds of each step: {times}" if times else "ran out of memory"}


def measure_all(runs, arguments):
    overlaps = {}
    with open(arguments.out, "a", encoding="utf-8") as out:
        for run in runs:
            try:
                measured, times, overlap = measure(run, arguments.profile)
            except torch.cuda.OutOfMemoryError as error:
                error.__traceback__ = None  # its frames keep the model alive
                measured, times, overlap = {"oom": True}, [], None
            gc.collect()
            torch.cuda.empty_cache()
            if decoder.DEVICE.rank == 0:
                print(json.dumps(record(run, arguments.gpu, measured, times)), file=out, flush=True)
                print(run["name"], measured, file=sys.stderr, flush=True)
                if overlap:
                    overlaps[run["name"]] = overlap
                    with open(arguments.profile, "w", encoding="utf-8") as file:
                        json.dump(overlaps, file, indent=1)


def check():
    """Trains a small model for three steps in fp32 in every layout of all processes and compares each loss with that of one
    process alone; fails if any differs by more than one part in a million."""
    small = {**DEFAULTS, "layers": 4, "hidden": 64, "heads": 8, "kv_heads": 4, "ffn": 128, "vocab": 256, "seq": 32, "mbs": 2,
             "gbs": 16}
    world, failures, layouts = decoder.DEVICE.world, 0, []
    for tp in (1, 2, 4):
        for pp in (1, 2, 4):
            dp = world // (tp * pp)
            if tp * pp * dp == world and dp >= 1:
                for zero in (0, 1) if dp > 1 else (0,):
                    for sp in (False, True) if tp > 1 else (False,):
                        layouts.append({"tp": tp, "pp": pp, "dp": dp, "zero": zero, "sp": sp})

    def losses(layout):
        run = {**small, **layout, "name": str(layout)}
        job = decoder.Job(run)
        result = []
        for _ in range(3):
            job.pipeline.step()
            loss = torch.as_tensor(job.pipeline.loss, dtype=torch.float64).reshape(1).clone() / job.pipeline.m
            if job.mesh.at["pp"] + 1 < run["pp"] or job.mesh.at["tp"] > 0:
                loss.zero_()
            if job.mesh.all is not None:
                dist.all_reduce(loss)
                loss /= run["dp"]
            result.append(loss.item())
        return result

    expected = losses({})
    for layout in layouts:
        got = losses(layout)
        worst = max(abs(a / b - 1) for a, b in zip(got, expected))
        if decoder.DEVICE.rank == 0:
            print(f"{'ok   ' if worst < 1e-6 else 'WRONG'} {layout} {got} against {expected}", flush=True)
        failures += worst >= 1e-6
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--gpu", default="h200-141gb-sxm", help="name in `tpplan gpus`")
    parser.add_argument("--profile", help="write overlap per class of kernels to this file")
    parser.add_argument("--check", action="store_true", help="compare the numerics of layouts on CPUs")
    arguments = parser.parse_args()
    if not arguments.check and not (arguments.runs and arguments.out):
        parser.error("RUNS.json and OUT.jsonl are needed")
    decoder.start(arguments.check)
    failures = 0
    if arguments.check:
        failures = check()
    else:
        with open(arguments.runs, encoding="utf-8") as file:
            runs = [{**DEFAULTS, **run} for run in json.load(file)]
        measure_all(runs, arguments)
    dist.destroy_process_group()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
