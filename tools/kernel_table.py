#!/usr/bin/env python3
"""docs/kernels.md out of a results file of tools/gpu_bench.py: a line for each measured shape of each op.

    tools/kernel_table.py bench/results/FILE.jsonl >docs/kernels.md
"""
import json
import sys
from pathlib import Path

HEAD = """# Kernels, measured

Every op of the CUDA backend on one {card} (driver {driver}, {date}), out of
[{name}](../bench/results/{name}) by
`tools/kernel_table.py`; `tools/gpu_bench.py --bench ops` measures it again.

us: the median of n replays of a graph with several calls; before each replay more memory is touched than L2 holds, and no
two calls share inputs. It holds a share of what a replay itself costs (about 8 us for all its calls). Bytes: each input
once as far as it is used, each output once; operations as the heads of `src/cuda/kernels/*.cu` count them. GB/s and TFLOP/s
are these a second. The row is the kernel's of the op's table; `ref` is the plain reference where no other row is needed or
there is none yet. An H200 reads 4,800 GB/s at most and does about 790 TFLOP/s in bf16.
"""


def number(x, digits):
    return f"{x:,.{digits}f}" if x else "-"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = Path(sys.argv[1])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [m for m in lines if m.get("kind") == "kernel" and m.get("bench") == "ops"]
    if not lines:
        sys.exit(f"{path}: no line of bench_cuda ops")
    print(HEAD.format(name=path.name, **{key: lines[0][key] for key in ("card", "driver", "date")}), end="")
    for op in dict.fromkeys(m["op"] for m in lines):
        print(f"\n## {op}\n\n| shape | dtype | row | us | n | spread | GB/s | TFLOP/s |")
        print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
        for m in (m for m in lines if m["op"] == op):
            spread = 100 * (m["max_us"] - m["min_us"]) / m["us"]
            flops = m.get("tflops")
            print(f"| {m['shape']} | {m['dtype']} | {m['row']} | {number(m['us'], 1)} | {m['n']} | {spread:.0f} % | "
                  f"{number(m.get('gb_s'), 0)} | {number(flops, 1 if (flops or 0) >= 0.1 else 3)} |")


if __name__ == "__main__":
    main()
