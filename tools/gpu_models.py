#!/usr/bin/env python3
"""Real models on a card against what an independent implementation said (tests/data/logits, tools/goldens_logits.py):
the best token must agree wherever the reference's gap is above the noise of bf16 products.

    tools/gpu_models.py [--build build | gpu-pack] [--store STORE] [--out FILE] [--commit ID] [--need]
                        [--device cuda] [--emulated] [--system] [NAME ...]

NAME: smollm2, gemma3, qwen2.5-coder; all whose file is in the store. tools/gpu_carry.py brings files to a machine
without a network. --need: a missing file is a failure. --out: JSON lines, one a model and prompt. The last line printed
is "N passed, N failed", of prompts; the exit code is 1 when one failed or nothing ran.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare_logits  # noqa: E402
from get_models import store_folder  # noqa: E402
from gpu_common import Programs, Results, machine  # noqa: E402
from processes import ROOT, ending, run  # noqa: E402

LIMIT_S = 300


def score(programs, model, prompts, device):
    """{(prompt, position): line} and the seconds it took, opening included."""
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        file.writelines(json.dumps(prompt["ids"]) + "\n" for prompt in prompts)
        file.flush()
        arguments = ["score", model, "--ids", file.name, "--top", compare_logits.TOP, "--json", "--device", device]
        code, output, errors, seconds = run(programs.command("weir", arguments), programs.env, LIMIT_S)
    if code != 0:
        raise RuntimeError(f"{ending(code, LIMIT_S)}\n{errors[-2000:]}")
    return compare_logits.parse_scores(output.splitlines()), seconds


def main():
    parser = argparse.ArgumentParser(description="Real models on a card against a reference.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--store", type=Path, default=store_folder())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--need", action="store_true", help="a missing file is a failure")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--emulated", action="store_true", help="over the emulated driver")
    parser.add_argument("--system", action="store_true", help="a pack's programs with the machine's own C library")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    programs = Programs(options.build, options.emulated, options.system)
    results = Results(options.out, options.commit, machine(options.emulated))
    passed, faults = 0, []
    print(compare_logits.HEAD)
    for path in sorted((ROOT / "tests" / "data" / "logits").glob("*.json")):
        golden = compare_logits.load(path)
        model = options.store / golden["file"]
        if options.names and path.stem not in options.names:
            continue
        if not model.is_file():
            print(f"{path.stem}: {model} is missing")
            faults += [f"{path.stem} is missing"] if options.need else []
            continue
        try:
            scores, seconds = score(programs, model, golden["prompts"], options.device)
        except RuntimeError as error:
            faults.append(f"{path.stem}: {error}")
            continue
        for row in compare_logits.compare(golden, scores, bf16=True):
            print(compare_logits.table_line(path.stem, row), flush=True)
            wrong = row.pop("faults")
            results.add({"kind": "measurement", "test": "real model", "model": path.stem, "file": golden["file"], **row,
                         "seconds": round(seconds, 1), "passed": not wrong})
            passed += not wrong
            faults += ["; ".join(wrong)] if wrong else []
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"\n{results.about['card']}, driver {results.about['driver']}")
    print(f"{passed} passed, {len(faults)} failed")
    return 1 if faults or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
