"""Time of the products of several experts as one grouped product (torch._grouped_mm, bf16), forward and both gradients,
equally many rows each; one GPU. Writes one JSON object: {"gpu", "torch", "op", "rows": [{"k", "n", "experts", "tokens" of
each, "forward_s", "dgrad_s", "wgrad_s"}]}.

python3 scripts/lab/grouped_products.py OUT.json [GPU]
"""
import json
import sys

import torch

from fused_inventory import seconds

DEVICE, BF16 = torch.device("cuda"), torch.bfloat16
# Inputs and outputs of one expert: DeepSeek-V3, Qwen3-235B, Qwen3-30B, Mixtral, DeepSeek-V2-Lite.
SHAPES = [(7168, 4096), (2048, 7168), (4096, 3072), (1536, 4096), (2048, 1536), (768, 2048), (4096, 28672),
          (14336, 4096), (2048, 2816), (1408, 2048)]
EXPERTS = (2, 4, 8, 16, 32)
TOKENS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def measure(k, n, experts, tokens):
    x = torch.randn(experts * tokens, k, device=DEVICE, dtype=BF16)
    g = torch.randn(experts * tokens, n, device=DEVICE, dtype=BF16)
    w = torch.randn(experts, k, n, device=DEVICE, dtype=BF16).transpose(1, 2).contiguous().transpose(1, 2)
    ends = torch.arange(1, experts + 1, device=DEVICE, dtype=torch.int32) * tokens
    repeats = 5 if experts * tokens * k * n > 1e12 else 15
    return {"k": k, "n": n, "experts": experts, "tokens": tokens,
            "forward_s": seconds(lambda: torch._grouped_mm(x, w, offs=ends), repeats),
            "dgrad_s": seconds(lambda: torch._grouped_mm(g, w.transpose(1, 2), offs=ends), repeats),
            "wgrad_s": seconds(lambda: torch._grouped_mm(x.t(), g, offs=ends), repeats)}


def main():
    result = {"gpu": sys.argv[2] if len(sys.argv) > 2 else "h200-141gb-sxm", "torch": torch.__version__.split("+")[0],
              "op": "torch._grouped_mm, bf16", "rows": []}
    for k, n in SHAPES:
        for experts in EXPERTS:
            for tokens in TOKENS:
                if experts * tokens <= 65536 and experts * k * n * 2 <= 12e9:
                    result["rows"].append(measure(k, n, experts, tokens))
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
