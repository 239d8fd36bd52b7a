"""Achieved memory bandwidth of the elementwise kernels that a Megatron-style layer fuses: RMS norm, rotary embedding
and bias + SwiGLU as one kernel each, forward and backward, compiled for static shapes; one GPU, large
tensors, so that no host time is in the figures. Writes one JSON object: {"gpu", "torch", "rows": [{"op", "tokens", "hidden", "bytes", "s", "tb_s"}]}.

python3 scripts/lab/fused_inventory.py OUT.json
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F

DEVICE = torch.device("cuda")
BF16 = torch.bfloat16


def rms_norm(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight)


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def bias_swiglu(u, bias):
    a, b = (u + bias).chunk(2, -1)
    return F.silu(a) * b


def seconds(run, repeats=20):
    """Median over nine batches of the time of one call, back to back on the GPU: the tensors are large enough that the
    host runs ahead."""
    for _ in range(3):
        run()
    times = []
    for _ in range(9):
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000 / repeats)
    return statistics.median(times)


def random(*shape, grad=False):
    return torch.randn(*shape, device=DEVICE, dtype=BF16, requires_grad=grad)


def measure(op, tokens, hidden):
    """Rows of one operation: useful bytes are every input and output once."""
    heads, size = hidden // 128, 128
    ffn = hidden * 7 // 2 // 128 * 128
    if op == "rms_norm":
        inputs = (random(tokens, hidden, grad=True), random(hidden, grad=True))
        forward_bytes, backward_bytes = 4 * tokens * hidden, 6 * tokens * hidden
        function = rms_norm
    elif op == "rotary":
        inputs = (random(tokens, heads, size, grad=True), random(tokens, 1, size // 2), random(tokens, 1, size // 2))
        forward_bytes = backward_bytes = 4 * tokens * hidden
        function = rotary
    else:
        inputs = (random(tokens, 2 * ffn, grad=True), random(2 * ffn, grad=True))
        forward_bytes, backward_bytes = 6 * tokens * ffn, 10 * tokens * ffn
        function = bias_swiglu
    compiled = torch.compile(function, dynamic=False)
    output = compiled(*inputs)
    gradient = torch.randn_like(output)
    wanted = [x for x in inputs if x.requires_grad]

    def forward():
        with torch.no_grad():
            compiled(*inputs)

    def backward():
        torch.autograd.grad(output, wanted, gradient, retain_graph=True)

    t_forward = seconds(forward)
    t_backward = seconds(backward)
    for name, moved, t in ((op + " forward", forward_bytes, t_forward), (op + " backward", backward_bytes, t_backward)):
        yield {"op": name, "tokens": tokens, "hidden": hidden, "bytes": moved, "s": t, "tb_s": moved / t / 1e12}


def main():
    rows = []
    for hidden in (4096, 8192):
        for tokens in (32768, 65536):
            for op in ("rms_norm", "rotary", "bias_swiglu"):
                rows += measure(op, tokens, hidden)
                print(f"{rows[-2]['op']:22} {tokens:6} {hidden:6} {rows[-2]['tb_s']:6.2f} TB/s   "
                      f"{rows[-1]['op']:22} {rows[-1]['tb_s']:6.2f} TB/s", flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
