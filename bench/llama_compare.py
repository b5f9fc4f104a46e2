#!/usr/bin/env python3
"""weir beside llama.cpp on the same GGUF files and the same machine, in one run. Standard library only.

    bench/build_llama.sh build/llama
    bench/llama_compare.py [--llama build/llama/bin] [--weir build/weir] [--threads 2] [--rounds 5] [MODEL ...]

Every figure is measured in rounds that alternate, weir, llama.cpp, weir, llama.cpp, so that whatever else the machine
does falls on both. One round is one process of each, which warms up by itself and then measures once. The figures:

    decode        64 tokens after a context of one token, one sequence      tokens/s
    prefill       a prompt of 512 tokens                                    tokens/s
    batch 8       eight sequences, 64 tokens each after one                 tokens/s of all together
    first token   start of the process to the first byte of the answer     ms
    memory        peak resident set of that same process                    MiB

llama.cpp's figures come from llama-bench, llama-batched-bench and llama-completion. A prompt given as text is the same
for both. Results go as JSON lines to bench/results/<date>-cpu-<cpu>.jsonl, one line a figure with the medians, the
samples and the ratio; the table is printed. --only llama measures one side alone (no ratio, nothing is compared).
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "qwen2.5-coder": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "gemma3": "gemma-3-270m-q4_k_m.gguf",
}
# The goals, weir / llama.cpp; of memory: peak / file.
GOALS = {
    "smollm2": {"decode": 1.5, "prefill": 2.0, "batch 8": 1.5},
    "qwen2.5-coder": {"decode": 1.15, "prefill": 1.5, "batch 8": 1.5},
    "gemma3": {"decode": 1.15, "prefill": 1.5, "batch 8": 1.5},
}
PROMPT = "The old lighthouse stood at the end of the stone pier, where the river met the sea."


def cpu_name():
    try:
        text = Path("/proc/cpuinfo").read_text()
        name = re.search(r"model name\s*: (.*)", text)[1]
        family = re.search(r"cpu family\s*: (\d+)", text)
        model = re.search(r"^model\s*: (\d+)", text, re.M)
        flags = re.search(r"flags\s*: (.*)", text)[1].split()
    except (OSError, TypeError):
        return platform.processor() or platform.machine(), []
    isa = [f for f in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni") if f in flags]
    return f"{name.strip()} (family {family[1]}, model {model[1]})", isa


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()[-800:]}")
    return done.stdout, done.stderr


def json_lines(text):
    lines = []
    for line in text.splitlines():
        if line.startswith("{"):
            lines.append(json.loads(line))
    return lines


def first_byte(command):
    """Milliseconds from start to the first byte on standard output, and the peak resident set in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    byte = os.read(process.stdout.fileno(), 1)
    elapsed = (time.perf_counter() - began) * 1e3
    while os.read(process.stdout.fileno(), 65536):
        pass
    # wait4 gives the peak of this very child; the object is told, so that it does not wait again.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0 or not byte:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}, output: {bool(byte)}")
    return elapsed, usage.ru_maxrss / 1024


class Weir:
    name = "weir"

    def __init__(self, args):
        self.program, self.threads = args.weir, str(args.threads)

    def bench(self, model, what, prompt, length, batch):
        command = [self.program, "bench", model, "-p", str(prompt), "-n", str(length), "-b", str(batch), "-r", "1"]
        out, _ = run([*command, "--threads", self.threads, "--json"])
        for line in json_lines(out):
            if line.get("what") == what and line["batch"] == batch and line["n_prompt"] == prompt:
                return line["tok_s"]  # Decode is measured after a prompt of one token, whatever -p says.
        raise RuntimeError(f"{' '.join(command)}: no line of {what}")

    def measure(self, figure, model):
        if figure == "decode":
            return self.bench(model, "decode", 1, 64, 1)
        if figure == "prefill":
            return self.bench(model, "prefill", 512, 8, 1)
        return self.bench(model, "decode", 1, 64, 8)

    def answer(self, model):
        return first_byte([self.program, "run", model, "--raw", "-p", PROMPT, "-n", "16", "-c", "512",
                           "--ignore-eos", "--threads", self.threads])


class Llama:
    name = "llama"

    def __init__(self, args):
        self.folder, self.threads = Path(args.llama), str(args.threads)

    def bench(self, model, prompt, length):
        command = [str(self.folder / "llama-bench"), "-m", model, "-t", self.threads, "-p", str(prompt), "-n",
                   str(length), "-r", "1", "-o", "jsonl"]
        return json_lines(run(command)[0])[0]["avg_ts"]

    def measure(self, figure, model):
        if figure == "decode":
            return self.bench(model, 0, 64)
        if figure == "prefill":
            return self.bench(model, 512, 0)
        command = [str(self.folder / "llama-batched-bench"), "-m", model, "-t", self.threads, "-c", "1024", "-npp",
                   "1", "-ntg", "64", "-npl", "8", "--output-format", "jsonl"]
        out, err = run(command)
        return [line for line in json_lines(out + "\n" + err) if "speed_tg" in line][0]["speed_tg"]

    def answer(self, model):
        return first_byte([str(self.folder / "llama-completion"), "-m", model, "-t", self.threads, "-p", PROMPT, "-n",
                           "16", "-c", "512", "--temp", "0", "--ignore-eos", "--no-display-prompt", "-no-cnv",
                           "--no-warmup"])


def spread(samples):
    return (max(samples) - min(samples)) / statistics.median(samples)


def main():
    store = os.environ.get("WEIR_STORE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "store"
    )
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", help="names: " + ", ".join(MODELS))
    parser.add_argument("--llama", default=str(ROOT / "build" / "llama" / "bin"))
    parser.add_argument("--weir", default=os.environ.get("WEIR") or str(ROOT / "build" / "weir"))
    parser.add_argument("--store", default=store)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("weir", "llama"))
    parser.add_argument("--figures", default="decode,prefill,batch 8,first token")
    parser.add_argument("--out", help="file of JSON lines; '-' writes none")
    args = parser.parse_args()
    sides = [s(args) for s in (Weir, Llama) if args.only in (None, s.name)]
    cpu, isa = cpu_name()
    now = datetime.datetime.now(datetime.timezone.utc)
    short = re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")
    out = Path(args.out or ROOT / "bench" / "results" / f"{now:%Y-%m-%d}-cpu-{short}.jsonl")
    records = []
    print(f"{cpu}, {' '.join(isa)}, {args.threads} threads, {args.rounds} rounds, load before "
          f"{os.getloadavg()[0]:.2f}, {now:%Y-%m-%d %H:%M} UTC")
    print(f"{'model':<14} {'figure':<12} {'unit':>6} {'weir':>9} {'spread':>7} {'llama':>9} {'spread':>7} {'ratio':>6} "
          f"{'goal':>6}")
    for model in args.models or MODELS:
        path = os.path.join(args.store, MODELS[model])
        if not os.path.exists(path):
            print(f"{model}: {path} is missing")
            continue
        size = os.path.getsize(path) / 2**20
        for figure in args.figures.split(","):
            samples = {side.name: [] for side in sides}
            memory = {side.name: [] for side in sides}
            failed = None
            for _ in range(args.rounds):
                for side in sides:
                    try:
                        if figure == "first token":
                            ms, mib = side.answer(path)
                            samples[side.name].append(ms)
                            memory[side.name].append(mib)
                        else:
                            samples[side.name].append(side.measure(figure, path))
                    except (RuntimeError, OSError, IndexError, KeyError) as error:
                        failed = str(error)
                if failed:
                    break
            if failed:
                print(f"{model:<14} {figure:<12} failed: {failed}")
                continue
            tables = [(figure, "ms" if figure == "first token" else "tok/s", samples)]
            if figure == "first token":
                tables.append(("memory", "MiB", memory))
            for name, unit, values in tables:
                records.append(report(model, name, unit, values, size, args, cpu, isa, now))
    if records and str(out) != "-":
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a") as file:
            for record in records:
                file.write(json.dumps(record) + "\n")
        print(f"written to {out}")
    return 0


def report(model, figure, unit, values, size, args, cpu, isa, now):
    record = {"date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "cpu": cpu, "isa": isa, "threads": args.threads, "model": model,
              "figure": figure, "unit": unit, "n": args.rounds, "load": round(os.getloadavg()[0], 2)}
    cells = []
    for side in ("weir", "llama"):
        if side not in values:
            cells.append(f"{'-':>9} {'-':>7}")
            continue
        median = statistics.median(values[side])
        record[side] = {"median": round(median, 2), "samples": [round(x, 2) for x in values[side]]}
        cells.append(f"{median:>9.1f} {spread(values[side]) * 100:>6.1f}%")
    ratio = goal = ""
    if "weir" in record and "llama" in record:
        # More is better for a speed; less is better for a time or for memory.
        record["ratio"] = round(record["weir"]["median"] / record["llama"]["median"], 3)
        ratio = f"{record['ratio']:.2f}"
    if figure in GOALS.get(model, {}):
        record["goal"] = GOALS[model][figure]
        goal = f"{record['goal']:.2f}"
    if figure == "memory":
        record["file_mib"] = round(size, 1)
        if "weir" in record:
            goal = f"{record['weir']['median'] / size:.2f}*file"
    print(f"{model:<14} {figure:<12} {unit:>6} {' '.join(cells)} {ratio:>6} {goal:>6}", flush=True)
    return record


if __name__ == "__main__":
    sys.exit(main())
