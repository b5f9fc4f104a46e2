#!/usr/bin/env python3
"""The three real models say what an independent implementation says (tests/data/logits, tools/goldens_logits.py).

Standard library only. The environment: WEIR or WEIR_BIN is the program (build/weir unless given), WEIR_STORE the
folder of the model files, WEIR_SCORE_ARGS more arguments for `weir score`. Exit status 77 means skipped: a model file
is missing. SmolLM2 must be there; the other two may be missing, and the table says so.
"""

import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import compare_logits
from get_models import store_folder

REQUIRED = "smollm2"


def main():
    weir = os.environ.get("WEIR") or os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
    store = store_folder()
    extra = shlex.split(os.environ.get("WEIR_SCORE_ARGS", ""))
    only = sys.argv[1:]
    faults, skipped, checked = [], [], 0
    if not os.path.exists(weir):
        print(f"no program at {weir}: build it, or set WEIR")
        return 1
    print(compare_logits.HEAD)
    for path in sorted((ROOT / "tests" / "data" / "logits").glob("*.json")):
        if only and path.stem not in only:
            continue
        golden = compare_logits.load(path)
        model = os.path.join(store, golden["file"])
        if not os.path.exists(model):
            (faults if path.stem == REQUIRED else skipped).append(f"{path.stem}: {model} is missing")
            continue
        try:
            scores = compare_logits.run_score(weir, model, [p["ids"] for p in golden["prompts"]], extra)
        except RuntimeError as error:
            faults.append(f"{path.stem}: {error}")
            continue
        for row in compare_logits.compare(golden, scores):
            checked += 1
            print(compare_logits.table_line(path.stem, row), flush=True)
            faults += [f"{path.stem}: {fault}" for fault in row["faults"]]
    for line in skipped:
        print(f"skipped: {line}")
    for line in faults:
        print(f"FAILED: {line}")
    if faults or (not checked and not skipped):
        return 1
    return 0 if checked else 77


if __name__ == "__main__":
    sys.exit(main())
