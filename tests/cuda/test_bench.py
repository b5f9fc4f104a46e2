#!/usr/bin/env python3
"""tools/gpu_bench.py and the part ops of bench_cuda over the emulated driver: every op that the CUDA backend has kernels
for is measured, every line has its numbers, and the tables show them. WEIR_BUILD is the build's folder (build unless
given); without an emulated driver in it the test is skipped.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("WEIR_BUILD") or ROOT / "build").resolve()
TOOL = ROOT / "tools" / "gpu_bench.py"
# The user's own kernels have no table of ours; the parts of a fused one have no line each.
NOT_MEASURED = {"custom"}
TEXTS = ["op", "shape", "dtype", "row"]
POSITIVE = ["bytes", "us", "min_us", "max_us", "n", "calls"]
faults = []


def expect(condition, what):
    if not condition:
        faults.append(what)


def measured_ops():
    """Names of the ops that are neither element-wise nor views: these have kernels of their own."""
    table = (ROOT / "src" / "array" / "ops.def").read_text()
    rows = re.findall(r'^WR_OP\(\w+, "(\w+)", \d+, \w+, \w+, ([^,]+),', table, re.M)
    return {name for name, flags in rows if "WR_EW" not in flags and "WR_VIEW" not in flags} - NOT_MEASURED


def check_line(m):
    name = f"{m.get('op')} {m.get('shape')} {m.get('dtype')}"
    expect(m["bench"] == "ops" and m["kind"] == "kernel" and m["card"] == "emulated", f"{name}: {m}")
    expect(all(m.get(key, "") not in ("", "?") for key in TEXTS), f"{name}: a text is missing: {m}")
    expect(all(m.get(key, 0) > 0 for key in POSITIVE), f"{name}: a number is not positive: {m}")
    expect(m["min_us"] <= m["us"] <= m["max_us"], f"{name}: the median is not between the ends")
    expect(abs(m["gb_s"] - m["bytes"] / m["us"] * 1e-3) < 0.06 + 0.02 * m["gb_s"], f"{name}: GB/s are not bytes over time")
    expect(("tflops" in m) == (m["operations"] > 0), f"{name}: TFLOP/s and operations do not go together")


def main():
    if not all((BUILD / name).exists() for name in ("libcuda_emulated.so", "libweir-cuda.so")):
        print("no emulated driver was built")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        p = subprocess.run([sys.executable, str(TOOL), "--build", str(BUILD), "--emulated", "--quick", "--bench", "ops",
                            "--out", str(out)], capture_output=True, text=True, timeout=250)
        expect(p.returncode == 0, f"exit status {p.returncode}: {(p.stdout + p.stderr)[-2000:]}")
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for m in lines:
        check_line(m)
    missing = measured_ops() - {m["op"].split(",")[0] for m in lines}
    expect(not missing, f"without a line: {', '.join(sorted(missing))}")
    cases = [(m["op"], m["shape"], m["dtype"]) for m in lines]
    expect(len(set(cases)) == len(cases), "two lines have one name")
    for op, shape, dtype in cases:
        expect(re.search(rf"^  {re.escape(shape)} +{re.escape(dtype)}  ", p.stdout, re.M), f"no table shows {op} {shape}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
