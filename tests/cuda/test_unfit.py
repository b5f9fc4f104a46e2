#!/usr/bin/env python3
"""The command where a GPU is there and cannot be used, over the emulated driver: --device cuda is one line and exit
status 1, --device auto is one line and the CPU's result. WEIR_BIN is the program (build/weir unless given), beside
which the driver and the backend's library lie; without them the test is skipped.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEIR = Path(os.environ.get("WEIR_BIN") or ROOT / "build" / "weir").resolve()
MODEL = str(ROOT / "tests" / "data" / "checkpoints" / "llama-affine-b4g64-untied")
DRIVER, LIBRARY = WEIR.parent / "libcuda_emulated.so", WEIR.parent / "libweir-cuda.so"
HERE = {"WEIR_CUDA_DRIVER": str(DRIVER), "WEIR_CUDA_LIBRARY": str(LIBRARY)}
KINDS = [80, 86, 87, 89, 90, 100, 103, 110, 120, 121]
faults = []


def expect(condition, what):
    if not condition:
        faults.append(what)


def score(ids, device, **env):
    return subprocess.run([str(WEIR), "score", MODEL, "--ids", ids, "--json", "--device", device], capture_output=True,
                          text=True, timeout=120, env={**os.environ, **HERE, **env})


def unfit(name, ids, words, wanted, **env):
    """With these settings the GPU cannot be used, and the line on standard error says these words."""
    p = score(ids, "cuda", **env)
    expect(p.returncode == 1, f"{name}, cuda: exit status {p.returncode}")
    expect(not p.stdout and p.stderr.count("\n") == 1, f"{name}, cuda: {p}")
    expect(all(word in p.stderr for word in words), f"{name}, cuda: {p.stderr!r} does not say all of {words}")
    p = score(ids, "auto", **env)
    expect(p.returncode == 0 and p.stdout == wanted, f"{name}, auto: {p}")
    expect(p.stderr.count("\n") == 1, f"{name}, auto: {p.stderr!r}")
    expect(all(word in p.stderr for word in [*words, "using the CPU"]),
           f"{name}, auto: {p.stderr!r} does not say all of {words} and using the CPU")


def runs_on(kind, built):
    """Does code built for this run on that kind of card?"""
    number = built.removeprefix("sm_")
    if number.endswith("a"):
        return int(number[:-1]) == kind
    return int(number) // 10 == kind // 10 and int(number) <= kind


def main():
    if not DRIVER.exists() or not LIBRARY.exists():
        print("no emulated driver was built")
        return 77
    p = subprocess.run([str(WEIR), "version", "--devices", "--json"], capture_output=True, text=True,
                       env={**os.environ, **HERE})
    built_for = json.loads(p.stdout)["built_for"]
    built = next(kind for kind in KINDS if any(runs_on(kind, b) for b in built_for))
    missing = next((kind for kind in KINDS if not any(runs_on(kind, b) for b in built_for)), None)
    fits = {"WR_EMULATE_ARCH": str(built)}
    with tempfile.TemporaryDirectory() as folder:
        ids = os.path.join(folder, "ids")
        Path(ids).write_text("[1, 5, 7, 9, 11, 2, 4]\n")
        p = score(ids, "cpu")
        expect(p.returncode == 0 and not p.stderr and len(p.stdout.splitlines()) == 7, f"on the CPU: {p}")
        wanted = p.stdout
        for device in ("cuda", "auto"):
            p = score(ids, device, **fits)
            expect(p.returncode == 0 and not p.stderr and p.stdout != wanted, f"a GPU that fits, {device}: {p}")
            p = score(ids, device, WR_EMULATE_VERSION="12040", WR_EMULATE_IMAGES="1", **fits)
            expect(p.returncode == 0 and not p.stderr and p.stdout != wanted, f"the oldest driver, {device}: {p}")
        unfit("a driver too old", ids, ["driver is for CUDA 12.3", "12.4 or later"], wanted,
              WR_EMULATE_VERSION="12030", **fits)
        # Any library that lacks the driver's functions stands for one that lacks the newer of them.
        unfit("a driver without a function", ids, ["driver is too old", "it has no cu", "12.4 or later"], wanted,
              WEIR_CUDA_DRIVER=str(WEIR.parent / "libnvrtc_fake.so"), **fits)
        unfit("a card too old", ids, ["7.5", "8.0 or later"], wanted, WR_EMULATE_ARCH="75")
        if missing:  # a build for all kinds has none
            unfit("an architecture that was not built", ids, [f"sm_{missing}", *built_for, "-DWEIR_CUDA_ARCHS"], wanted,
                  WR_EMULATE_ARCH=str(missing), WR_EMULATE_IMAGES="1")
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
