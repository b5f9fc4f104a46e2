#!/usr/bin/env python3
"""The promise of sameness on a card, bit by bit: one prompt is scored whole, one row a step (every key and value then
written by decode kernels), in steps of 7 and 64 rows, and kernel by kernel instead of as graphs; every log-probability
and every best token must print the same, with all digits. For random checkpoints of real shapes in every quantisation
mode, and for the models that are named.

    tools/gpu_sameness.py [--weir build/weir] [--out FILE] [--commit COMMIT] [-j JOBS] [MODEL ...]

Standard library only. The last line is "N passed, N failed".
"""
import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODES = [("affine", 2, 64), ("affine", 3, 64), ("affine", 4, 32), ("affine", 4, 64), ("affine", 4, 128),
         ("affine", 5, 64), ("affine", 6, 64), ("affine", 8, 64), ("mxfp4", 0, 0), ("nvfp4", 0, 0), ("mxfp8", 0, 0),
         ("none", 0, 0)]
PRESETS = [("smollm2-135m", 3), ("llama-3.1-8b", 2), ("gemma-3-12b", 6)]
GEMMA_MODES = [("affine", 4, 64)]  # head size 256, windows
N_TOKENS, VOCAB, LIMIT_S = 700, 40000, 120
WAYS = [("whole", "2048", None), ("one row a step", "1", None), ("steps of 7", "7", None), ("steps of 64", "64", None),
        ("kernel by kernel", "64", "0")]


def score(weir, model, ids, rows, graphs):
    env = {**os.environ, "WEIR_DEVICE": "cuda"}
    if graphs:
        env["WEIR_CUDA_GRAPHS"] = graphs
    done = subprocess.run([weir, "score", model, "--ids", ids, "--top", "8", "--json", "--step-tokens", rows], env=env,
                          capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-300:] or f"exit code {done.returncode}")
    return done.stdout


def check(weir, name, model, ids):
    """(name, passed, what differs)"""
    try:
        first = score(weir, model, ids, *WAYS[0][1:])
        if "nan" in first.lower() or first.count("\n") < N_TOKENS - 1:
            return name, False, f"{first.count(chr(10))} lines, or numbers that are none"
        wrong = [way for way, rows, graphs in WAYS[1:] if score(weir, model, ids, rows, graphs) != first]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return name, False, str(error)
    return name, not wrong, ", ".join(wrong)


def synthesise(weir, folder, preset, layers, mode, bits, group):
    target = str(Path(folder) / f"{preset}-{mode}-{bits}-{group}")
    command = [weir, "synth", preset, "--layers", str(layers), "--quant", mode, "-o", target]
    command += ["--bits", str(bits), "--group-size", str(group)] if bits else []
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    return target


def main():
    parser = argparse.ArgumentParser(description="Sameness on a card.")
    parser.add_argument("--weir", default=str(ROOT / "build" / "weir"))
    parser.add_argument("--out")
    parser.add_argument("--commit", default="")
    parser.add_argument("-j", "--jobs", type=int, default=6)
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    pick = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        ids = str(Path(folder) / "ids.json")
        Path(ids).write_text(json.dumps([pick.randrange(VOCAB) for _ in range(N_TOKENS)]) + "\n")
        todo = [(model, lambda m=model: m) for model in options.models]
        for preset, layers in PRESETS:
            for mode in GEMMA_MODES if preset.startswith("gemma") else MODES:
                todo.append((" ".join(map(str, (preset, layers, *mode))),
                             lambda p=preset, n=layers, m=mode: synthesise(options.weir, folder, p, n, *m)))
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda item: check(options.weir, item[0], item[1](), ids), todo))
    lines = [{"test": "sameness", "model": name, "ways": [way[0] for way in WAYS], "tokens": N_TOKENS, "passed": passed,
              "differs": text, "commit": options.commit, "date": str(datetime.date.today())}
             for name, passed, text in results]
    if options.out:
        Path(options.out).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, passed, text in results:
        if not passed:
            print(f"FAILED {name}: {text}")
    n_passed = sum(passed for _, passed, _ in results)
    print(f"{n_passed} passed, {len(results) - n_passed} failed")
    return 0 if results and n_passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
