#!/usr/bin/env python3
"""Random checkpoints of every GGUF block type (tools/make_gguf.py) load and score: finite log-probabilities that follow
the token, and the same bytes whole and in steps of 7 rows. Standard library only.

The environment: WEIR or WEIR_BIN is the program (build/weir unless given).
"""
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import make_gguf  # noqa: E402

IDS = [1 + i * 7 % 290 for i in range(24)]


def score(weir, model, ids, rows):
    command = [weir, "score", str(model), "--ids", str(ids), "--json", "--step-tokens", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()}"


def check(weir, folder, kind, ids):
    """What is wrong, or None."""
    model = folder / f"{kind}.gguf"
    make_gguf.write(model, "tiny", kind, 2, 300)
    whole, pieces = score(weir, model, ids, 64), score(weir, model, ids, 7)
    model.unlink()
    if whole.startswith("exit code") or whole != pieces:
        return whole[:300] if whole.startswith("exit code") else "steps of 7 rows give something else"
    found = [line["logprob"] for line in map(json.loads, whole.splitlines()) if "pos" in line]
    if len(found) != len(IDS) - 1 or not all(math.isfinite(x) and x < 0 for x in found) or len(set(found)) < 20:
        return f"{len(found)} log-probabilities, or numbers that are none: {found[:4]}"
    return None


def main():
    weir = os.environ.get("WEIR") or os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        ids = Path(folder) / "ids.json"
        ids.write_text(json.dumps(IDS) + "\n")
        for kind in make_gguf.TYPES:
            wrong = check(weir, Path(folder), kind, ids)
            faults += [f"{kind}: {wrong}"] if wrong else []
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
