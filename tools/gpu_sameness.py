#!/usr/bin/env python3
"""The promise of sameness on a card, bit by bit (tests/cuda/device/sameness.c): requests alone and in batches, prompts
whole and in chunks, keys written by decoding and by prefill, few rows behind many keys, preempted, without graphs. For
random checkpoints of real shapes in every quantisation mode of MLX (`weir synth`) and of GGUF (tools/make_gguf.py), and
for models that are named.

    tools/gpu_sameness.py [--build build | gpu-pack] [--out FILE] [--commit ID] [-j JOBS] [--only WORD ...]
                          [--brief [--full NAME ...]] [--within SECONDS] [--quick] [--emulated] [--system]
                          [MODEL ...]

--brief: every way, in a quarter of the steps, but for the checkpoints of these names, which come first. --within: none
is begun later, and ends later; those not begun are failures. --quick: tiny checkpoints and few requests, as --emulated
needs them. --out: JSON lines, one for each model and way. The last line printed is "N passed, N failed", of models; the
exit code is 1 when one failed or nothing ran.
"""
import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_gguf  # noqa: E402
from gpu_common import Programs, Results, json_lines, machine, print_table, synthesise  # noqa: E402
from processes import ending, run  # noqa: E402

MLX = [("affine", 2, 64), ("affine", 3, 64), ("affine", 4, 32), ("affine", 4, 64), ("affine", 4, 128),
       ("affine", 5, 64), ("affine", 6, 64), ("affine", 8, 64), ("mxfp4", 0, 0), ("nvfp4", 0, 0), ("mxfp8", 0, 0),
       ("none", 0, 0)]
SMALL_BLOCKS = [kind for kind, row in make_gguf.TYPES.items() if row[1] == 32]  # SmolLM2's rows are no multiple of 256
LAYERS = {"smollm2-135m": 3, "llama-3.1-8b": 2, "gemma-3-12b": 6, "tiny": 2}  # Gemma: one layer of six has no window
LIMIT_S = 300


def wanted(options):
    """[(name, function that makes the checkpoint at a path; None: the name is a path)]"""
    if options.quick:
        shapes = [("tiny", [], make_gguf.TYPES)]
    else:
        shapes = [("smollm2-135m", MLX, SMALL_BLOCKS), ("llama-3.1-8b", MLX, make_gguf.TYPES),
                  ("gemma-3-12b", [("affine", 4, 64)], ["q4_k"])]  # head size 256, windows
    found = [(model, None) for model in options.models]
    for shape, modes, types in shapes:
        for mode in modes:
            name = " ".join(str(part) for part in (shape, *mode) if part)
            found.append((name, lambda programs, path, s=shape, m=mode: synthesise(programs, path, s, *m, LAYERS[s])))
        for kind in types:
            vocab = 300 if shape == "tiny" else 32000
            found.append((f"{shape} {kind}",
                          lambda _, path, s=shape, k=kind, v=vocab: make_gguf.write(path, s, k, LAYERS[s], v)))
    words = options.only or [""]
    found = [item for item in found if any(word in item[0] for word in words)]
    return sorted(found, key=lambda item: (item[0] not in options.full, "smollm2" in item[0]))  # the longest first


def check(programs, name, make, folder, options, end):
    """(name, lines of the program, what is wrong or "", seconds)"""
    path = Path(folder) / name.replace(" ", "-") if make else Path(name)
    form = ["--quick"] if options.quick else ["--brief"] if options.brief and name not in options.full else []
    limit_s = LIMIT_S
    if time.monotonic() > end:
        return name, [], "not begun within the time", 0.0
    try:
        if make:
            make(programs, path)
        limit_s = max(1, min(limit_s, int(end - time.monotonic()) if end < float("inf") else limit_s))
        command = programs.command("test_device_sameness", ["--model", path] + form)
        code, output, errors, seconds = run(command, programs.env, limit_s)
    except (RuntimeError, OSError) as error:
        return name, [], str(error), 0.0
    finally:
        if make and path.is_dir():
            shutil.rmtree(path)
        elif make:
            path.unlink(missing_ok=True)
    return name, json_lines(output), "" if code == 0 else f"{ending(code, limit_s)}\n{errors[-2000:]}", seconds


def main():
    parser = argparse.ArgumentParser(description="Sameness on a card.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("-j", "--jobs", type=int, default=6)
    parser.add_argument("--only", nargs="+", help="checkpoints whose name contains one of these words")
    parser.add_argument("--brief", action="store_true", help="every way in a quarter of the steps")
    parser.add_argument("--full", nargs="+", default=[], help="checkpoints of these names are not done in brief")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds for all of it")
    parser.add_argument("--quick", action="store_true", help="tiny checkpoints, few requests")
    parser.add_argument("--emulated", action="store_true", help="over the emulated driver, quick")
    parser.add_argument("--system", action="store_true", help="a pack's programs with the machine's own C library")
    parser.add_argument("models", nargs="*", help="further models, by path")
    options = parser.parse_args()
    options.quick = options.quick or options.emulated
    programs = Programs(options.build, options.emulated, options.system)
    results = Results(options.out, options.commit, machine(options.emulated))
    rows, failed, end = [], 0, time.monotonic() + options.within
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        checks = pool.map(lambda item: check(programs, *item, folder, options, end), wanted(options))
        for name, lines, wrong, seconds in checks:
            for line in lines:
                results.add({"kind": "measurement", "model": name, **line})
            bad = [line["way"] for line in lines if not line["passed"]]
            if not lines or bad or wrong:
                failed += 1
                print(f"FAILED {name}: {', '.join(bad)}\n{wrong}", flush=True)
            rows.append((name, len(lines), sum(line["results"] for line in lines),
                         sum(line["preemptions"] for line in lines), seconds, "yes" if not (bad or wrong) else "NO"))
    print_table("sameness", ["model", "ways", "results", "preemptions", "s", "same"], rows)
    print(f"\n{results.about['card']}, driver {results.about['driver']}")
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
