#!/usr/bin/env python3
"""Small random checkpoints of every family and every MLX layout say what mlx-lm says (tools/make_checkpoints.py).

Standard library only. The environment: WEIR or WEIR_BIN is the program (build/weir unless given), WEIR_CHECKPOINTS
another folder of checkpoints with its goldens.json (the generator makes many more than the tree holds),
WEIR_SCORE_ARGS more arguments for `weir score`. Arguments: names, or parts of names, of the checkpoints to run.
"""

import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import compare_logits


def main():
    weir = os.environ.get("WEIR") or os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
    folder = Path(os.environ.get("WEIR_CHECKPOINTS", ROOT / "tests" / "data" / "checkpoints"))
    extra = shlex.split(os.environ.get("WEIR_SCORE_ARGS", ""))
    only = sys.argv[1:]
    if not os.path.exists(weir):
        print(f"no program at {weir}: build it, or set WEIR")
        return 1
    goldens = compare_logits.load(folder / "goldens.json")
    faults, checked = [], 0
    print(compare_logits.HEAD)
    for name, golden in goldens["checkpoints"].items():
        if only and not any(part in name for part in only):
            continue
        prompts = [dict(part, ids=goldens["prompts"][part["prompt"]]) for part in golden["prompts"]]
        try:
            scores = compare_logits.run_score(weir, str(folder / name), [p["ids"] for p in prompts], extra)
        except RuntimeError as error:
            faults.append(f"{name}: {error}")
            continue
        checked += 1
        for row in compare_logits.compare(golden, scores, prompts):
            print(compare_logits.table_line(name, row), flush=True)
            faults += [f"{name}: {fault}" for fault in row["faults"]]
    for line in faults:
        print(f"FAILED: {line}")
    if not checked and not faults:
        print("FAILED: no checkpoint was compared")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
