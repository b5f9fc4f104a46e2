#!/usr/bin/env python3
"""The bits of a log-probability do not depend on how the work was cut: the promise, checked at the command.

Standard library only. For SmolLM2 and one small checkpoint of each family, `weir score` prints every position's
log-probability and best tokens with all their digits. The bytes must be equal whether the prompt goes in whole or in
chunks of 1, 7, 11 or 64 tokens, on one thread or several, and when it is run twice. `weir run` at temperature 0 must give
one answer for each of these too. (A batch beside a lone sequence and smaller chunks are tests of the engine; the
command has one sequence.)

The environment: WEIR or WEIR_BIN is the program (build/weir unless given), WEIR_STORE the folder of the model files.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
from get_models import store_folder  # noqa: E402

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")
CUTS = [
    ("again", ["--threads", "2"]),
    ("one thread", ["--threads", "1"]),
    ("three threads", ["--threads", "3"]),
    # A step holds a token of each of the eight sequences that the engine is opened for, so 8 is the least.
    ("chunks of 1", ["--threads", "2", "--step-tokens", "1"]),
    ("chunks of 7", ["--threads", "2", "--step-tokens", "7"]),
    ("chunks of 11", ["--threads", "2", "--step-tokens", "11"]),
    ("chunks of 64", ["--threads", "2", "--step-tokens", "64"]),
]


def output(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0 or not done.stdout:
        message = done.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}, {message}")
    return done.stdout


def first_difference(a, b):
    for x, y in zip(a.splitlines(), b.splitlines()):
        if x != y:
            return f"{x[:120].decode(errors='replace')} / {y[:120].decode(errors='replace')}"
    return f"{len(a)} and {len(b)} bytes"


def check(name, command, cuts, faults):
    whole = output([*command, "--threads", "2"])
    for cut, arguments in cuts:
        other = output([*command, *arguments])
        if other != whole:
            faults.append(f"{name}, {cut}: {first_difference(whole, other)}")
    print(f"{name}: {len(cuts)} ways of cutting, {len(whole)} bytes of output", flush=True)


def main():
    weir = os.environ.get("WEIR") or os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
    store = store_folder()
    folder = ROOT / "tests" / "data" / "checkpoints"
    goldens = json.loads((folder / "goldens.json").read_text())
    faults = []
    with tempfile.TemporaryDirectory() as temporary:
        ids = Path(temporary) / "small.ids"
        ids.write_text(json.dumps(goldens["prompts"]["200"]) + "\n")
        for family in FAMILIES:
            name = next(n for n in goldens["checkpoints"] if n.startswith(family + "-affine"))
            command = [weir, "score", str(folder / name), "--ids", str(ids), "--top", "16", "--json"]
            check(f"score {name}", command, CUTS, faults)
        real = json.loads((ROOT / "tests" / "data" / "logits" / "smollm2.json").read_text())
        ids.write_text(json.dumps(real["prompts"][1]["ids"]) + "\n")
        model = str(store / SMOLLM2)
        check("score smollm2", [weir, "score", model, "--ids", str(ids), "--top", "16", "--json"], CUTS, faults)
        prompt = (ROOT / "tests" / "data" / "logits" / "text.txt").read_text()[:400]
        check("run smollm2", [weir, "run", model, "--raw", "-p", prompt, "-n", "24", "-t", "0"], CUTS, faults)
    for line in faults:
        print(f"FAILED: {line}")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, StopIteration) as error:
        print(f"FAILED: {error}")
        sys.exit(1)
