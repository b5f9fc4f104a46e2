#!/usr/bin/env python3
"""weir synth at the command line: --list tells what is written, the files follow the safetensors format read by other
code than ours, what works without a tokenizer works, and wrong use is refused in one line. Standard library only
(and the safetensors package when it is there). WEIR_BIN is the program (build/weir unless given).
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEIR = os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
SIZES = {"U8": 1, "U32": 4, "F16": 2, "BF16": 2, "F32": 4}
faults = []


def run(*args):
    return subprocess.run([WEIR, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)


def expect(condition, what):
    if not condition:
        faults.append(what)


def refused(status, words, *args):
    p = run(*args)
    said = p.stderr.decode()
    expect(p.returncode == status, f"{args}: exit status {p.returncode}, not {status}: {said}")
    expect(said.count("\n") == 1, f"{args}: not one line: {said!r}")
    for word in words:
        expect(word in said, f"{args}: {said!r} does not say {word}")


def wrong_use_is_refused(folder):
    out = os.path.join(folder, "c")
    refused(2, ["--list"], "synth")
    refused(2, ["-o"], "synth", "smollm2-135m")
    refused(1, ["nosuch", "llama-3.1-8b", "smollm2-135m"], "synth", "nosuch", "-o", out)
    refused(2, ["--quant", "q8"], "synth", "smollm2-135m", "--quant", "q8", "-o", out)
    refused(2, ["--quant none", "--bits"], "synth", "smollm2-135m", "--quant", "none", "--bits", "4", "-o", out)
    refused(2, ["7 bits"], "synth", "smollm2-135m", "--bits", "7", "-o", out)
    refused(2, ["mxfp4", "8 bits"], "synth", "smollm2-135m", "--quant", "mxfp4", "--bits", "8", "-o", out)
    refused(2, ["--dtype", "f8"], "synth", "smollm2-135m", "--dtype", "f8", "-o", out)
    refused(2, ["31", "30"], "synth", "smollm2-135m", "--layers", "31", "-o", out)
    refused(1, ["folder"], "synth", "smollm2-135m", "--layers", "1", "-o", os.path.join(folder, "no", "such"))
    expect(not os.listdir(folder), f"left over: {os.listdir(folder)}")


def check_file(path):
    """Names and bytes of the tensors of one file, which must fill it without holes."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    at = 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        size = SIZES[t["dtype"]]
        for d in t["shape"]:
            size *= d
        expect(begin == at and end - begin == size, f"{path}: {name} at {begin} to {end}, not {at} and {size} bytes")
        part = data[8 + length + begin:8 + length + min(end, begin + 4096)]
        expect(len(set(part)) > 1 or t["dtype"] == "U8", f"{path}: {name} is all {part[:1]!r}")
        expect(any(part), f"{path}: {name} is zeros")
        at = end
    expect(8 + length + at == len(data), f"{path}: {len(data)} bytes, {8 + length + at} used")
    try:
        from safetensors import safe_open
        with safe_open(path, "np") as f:
            expect(set(f.keys()) == set(header), f"{path}: the safetensors package sees other names")
    except ImportError:
        pass
    return header


def what_the_list_says_is_written(folder):
    for n, args in enumerate(([], ["--quant", "mxfp8"], ["--quant", "none", "--dtype", "f16"])):
        out = os.path.join(folder, f"c{n}")
        rows = [json.loads(line) for line in run("synth", "--list", "--json", *args).stdout.splitlines()]
        said = {row["preset"]: row for row in rows}
        expect(len(said) >= 6, f"--list: {rows}")
        p = run("synth", "smollm2-135m", "-o", out, "--json", *args)
        expect(p.returncode == 0, f"synth {args}: {p}")
        wrote = json.loads(p.stdout)
        names = sorted(os.listdir(out))
        expect(names == ["config.json", "model.safetensors"], f"{out}: {names}")
        size = os.path.getsize(os.path.join(out, "model.safetensors"))
        row = said["smollm2-135m"]
        expect(size == row["bytes"] == wrote["bytes"], f"{args}: {size} bytes; {row}; {wrote}")
        expect(row["parameters"] == wrote["parameters"] == 134515008, f"{args}: {row}; {wrote}")
        header = check_file(os.path.join(out, "model.safetensors"))
        expect(len(header) == wrote["tensors"], f"{args}: {len(header)} tensors; {wrote}")
        expect("lm_head.weight" not in header and "model.embed_tokens.weight" in header, f"{args}: a tied head")


def ids_work_and_text_is_refused(folder):
    out, ids = os.path.join(folder, "c"), os.path.join(folder, "ids")
    p = run("synth", "qwen3-0.6b", "--layers", "2", "--quant", "nvfp4", "-o", out)
    expect(p.returncode == 0, f"synth: {p}")
    Path(ids).write_text("[1,2,3,1000]")
    p = run("score", out, "--ids", ids, "--json")
    expect(p.returncode == 0 and len(p.stdout.splitlines()) == 4, f"score: {p}")
    p = run("bench", out, "-p", "8", "-n", "4", "-r", "1", "-c", "64", "--json")
    expect(p.returncode == 0 and len(p.stdout.splitlines()) == 2, f"bench: {p}")
    refused(1, ["no tokenizer", "weir bench"], "run", out, "-p", "x")
    refused(1, ["exists already", "--force"], "synth", "qwen3-0.6b", "--layers", "2", "-o", out)
    p = run("synth", "smollm2-135m", "--layers", "1", "--force", "-o", out)
    expect(p.returncode == 0 and sorted(os.listdir(folder)) == ["c", "ids"], f"--force: {p} {os.listdir(folder)}")


def main():
    if not os.path.exists(WEIR):
        print(f"no program at {WEIR}: build it, or set WEIR_BIN")
        return 1
    for test in (wrong_use_is_refused, what_the_list_says_is_written, ids_work_and_text_is_refused):
        before = len(faults)
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
        print(("FAIL " if len(faults) > before else "ok   ") + test.__name__)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
