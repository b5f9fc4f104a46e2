#!/usr/bin/env python3
"""Measures kernels and models on a card and prints tables.

    tools/gpu_bench.py [--build build | gpu-pack] [--out FILE] [--commit ID]
                       [--bench NAME ...] [--models MODEL ...] [--folder FOLDER]
                       [--prompts N,N] [--lengths N] [--batches N,N] [--opens N]

Kernels: bench_cuda, all of it or the parts that --bench names ("none": not at
all). Models: `weir bench --device cuda` over each of --models: a path, or
PRESET[:MODE[:BITS[:GROUP]]] (llama-3.1-8b:affine:4:64), which `weir synth`
writes into --folder first unless it is there. --out gets JSON lines, one a
measurement; a program that fails makes the exit code 1.
"""
import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_common import Programs, Results, json_lines, machine, print_table, synthesise  # noqa: E402
from processes import ending, run  # noqa: E402

LIMIT_S = 570


def run_program(programs, name, arguments):
    """The JSON lines of a program; None when it failed."""
    if not programs.has(name):
        print(f"FAILED {name}: not in {programs.bin}")
        return None
    code, output, errors, seconds = run(programs.command(name, arguments), programs.env, LIMIT_S)
    found = json_lines(output)
    print(f"{'ok' if code == 0 else 'FAILED':7} {seconds:6.1f} s  {name} {' '.join(map(str, arguments))}", flush=True)
    if code != 0:
        print(f"{ending(code, LIMIT_S)}\n{(output + errors)[-3000:]}")
    return found if code == 0 or found else None


def synth_path(programs, spec, folder):
    """The folder of a random checkpoint, written when it is missing; a path as it is."""
    if Path(spec).exists():
        return spec
    preset, mode, bits, group = (spec.split(":") + ["", "", ""])[:4]
    path = Path(folder) / spec.replace(":", "-")
    if path.exists():
        return str(path)
    try:
        synthesise(programs, path, preset, mode, bits, group)
    except RuntimeError as error:
        print(f"FAILED {error}")
        return None
    return str(path)


def bench_models(programs, options, results):
    rows, good = [], True
    folder = options.folder or tempfile.mkdtemp(prefix="weir-synth-")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for spec in options.models:
        path = synth_path(programs, spec, folder)
        arguments = ["bench", path, "--device", options.device, "--json", "--prompts", options.prompts, "--lengths",
                     options.lengths, "--batches", options.batches, "--repetitions", options.repetitions]
        arguments += ["--context", options.context] if options.context else []
        arguments += ["--step-tokens", options.step_tokens] if options.step_tokens else []
        found = run_program(programs, "weir", arguments) if path else None
        good = good and found is not None
        if path and options.opens > 0:
            good = bench_open(programs, spec, path, options, results) and good
        for m in found or []:
            results.add({"kind": "model", "model": spec, **m})
            size = m["n_prompt"] if m["what"] == "prefill" else m["n_gen"]
            rows.append((spec, m["what"], size, m["batch"], m["tok_s"], m["min_tok_s"], m["max_tok_s"], m["n"],
                         f"{m['host_us']:.1f}" if "host_us" in m else ""))
    print_table("models, tokens a second; the host's own microseconds a decode step",
                ["model", "what", "tokens", "batch", "median", "min", "max", "n", "host us"], rows)
    return good


def bench_open(programs, spec, path, options, results):
    """Whole processes that open the model, take eight tokens and end, the files in the system's cache: seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        file.write(str(list(range(1, 9))) + "\n")
        file.flush()
        arguments = ["score", path, "--ids", file.name, "--top", 1, "--json", "--device", options.device]
        command, times = programs.command("weir", arguments), []
        for _ in range(1 + options.opens):
            code, output, errors, seconds = run(command, programs.env, LIMIT_S)
            times.append(seconds)
            if code != 0:
                print(f"FAILED {ending(code, LIMIT_S)}\n{(output + errors)[-3000:]}")
                return False
    times = sorted(times[1:])
    print(f"{spec}: from the process's start to its end with one step, {times[len(times) // 2]:.2f} s "
          f"({times[0]:.2f} to {times[-1]:.2f}, n {len(times)})")
    results.add({"kind": "model", "model": spec, "what": "open", "seconds": times[len(times) // 2], "min_s": times[0],
                 "max_s": times[-1], "n": len(times)})
    return True


def show_ops(lines):
    """The part ops: a table an op, in millions of bytes and of operations."""
    head = ["shape", "dtype", "kernel row", "MB", "Mop", "us", "min", "max", "n", "calls", "GB/s", "TFLOP/s"]
    for op in dict.fromkeys(m["op"] for m in lines):
        print_table(op, head, [(m["shape"], m["dtype"], m["row"], m["bytes"] / 1e6, m["operations"] / 1e6, m["us"],
                                m["min_us"], m["max_us"], m["n"], m["calls"], m["gb_s"],
                                f"{m['tflops']:.3g}" if "tflops" in m else "") for m in lines if m["op"] == op])


def show_kernels(found):
    """A table for each bench; its columns are what any of the lines has."""
    for bench in sorted({m.get("bench", "") for m in found}):
        lines = [m for m in found if m.get("bench", "") == bench]
        if bench == "ops":
            show_ops(lines)
            continue
        head = [key for key in dict.fromkeys(key for m in lines for key in m) if key != "bench"]
        print_table(bench, head, [tuple(m.get(key, "") for key in head) for m in lines])


def main():
    parser = argparse.ArgumentParser(description="Measure kernels and models on a card.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--quick", action="store_true", help="fewer cases and replays of bench_cuda")
    parser.add_argument("--emulated", action="store_true", help="over the emulated driver, to try this program out")
    parser.add_argument("--system", action="store_true", help="a pack's programs with the machine's own C library")
    parser.add_argument("--bench", nargs="*", default=[], help="parts of bench_cuda; none: not at all")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--folder", help="where random checkpoints are kept; a new temporary one")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", default="2048")
    parser.add_argument("--lengths", default="128")
    parser.add_argument("--batches", default="1,32,128")
    parser.add_argument("--repetitions", default="5")
    parser.add_argument("--opens", type=int, default=0,
                        help="processes whose time to open a model is taken, after one more")
    parser.add_argument("--context")
    parser.add_argument("--step-tokens")
    options = parser.parse_args()
    programs = Programs(options.build, options.emulated, options.system)
    results = Results(options.out, options.commit, machine(options.emulated))

    good, kernels = True, []
    if options.bench != ["none"]:
        found = run_program(programs, "bench_cuda", (["--quick"] if options.quick else []) + options.bench)
        good, kernels = found is not None, found or []
        for m in kernels:
            results.add({"kind": "kernel", **m})
    if options.models:
        good = bench_models(programs, options, results) and good
    show_kernels(kernels)
    print(f"\n{results.about['card']}, driver {results.about['driver']}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
