#!/usr/bin/env python3
"""Runs the test suite and prints what failed, what was skipped, and the count.

What there is to run: the programs listed in tests.tsv of the build folder (one
cmocka program per test file, fuzz corpus replays, examples, the device
programs over the emulated driver), the scripts
tests/*/test_*.py and test_*.sh (exit code 77 is a skip), and the checks of
tools/. With --sanitized, the quick programs of a second build too. A program
named test_<room>_slow_* is not quick.

    tools/run_tests.py [--build build] [--sanitized build-asan] [WORD ...]

Words choose the tests whose name contains one of them. The last line is
"N passed, N failed"; the exit code is 1 when one failed or nothing ran. Where
the build has no CUDA backend a line before it says so; that is no failure.
"""
import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from get_models import MODELS, store_folder  # noqa: E402
from processes import ROOT, ending, run  # noqa: E402

SKIP_CODE = 77
SHOWN_LINES = 60
FAST_LIMIT_S, SLOW_LIMIT_S = 300, 1200
CHECKS = ["check_style", "check_rooms", "check_headers"]

# "ok 1 - name", "not ok 2 - name", "ok 3 # SKIP name"
TAP_LINE = re.compile(r"^(?P<not>not )?ok (?P<number>\d+)(?: -)? (?P<skip># SKIP )?(?P<name>.+)$")
TAP_PLAN = re.compile(r"^1\.\.(\d+)$", re.M)


class Job:
    """One process to run, and what came of it."""

    def __init__(self, kind, name, command, limit_s, env=None):
        self.kind, self.name, self.command, self.limit_s = kind, name, command, limit_s
        self.env = dict(env or {})
        self.passed, self.failed, self.skipped = 0, [], []  # failed, skipped: (name, text)
        self.seconds = 0.0


def cut(text):
    """The end of a long output; its start too, where the first error is."""
    lines = text.rstrip().split("\n")
    if len(lines) <= 2 * SHOWN_LINES:
        return "\n".join(lines)
    left_out = len(lines) - 2 * SHOWN_LINES
    return "\n".join(lines[:SHOWN_LINES] + [f"... {left_out} lines left out ..."] + lines[-SHOWN_LINES:])


def execute(job, extra_env=None):
    """Exit code (None: out of time) and output of the job's process."""
    # The user's own settings of weir must not change what is tested, except
    # where the models lie and which instructions are used.
    outer = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_") or k in ("WEIR_STORE", "WEIR_CPU")}
    outer["WEIR_DEVICE"] = "cpu"  # what is not said to be elsewhere
    env = {**outer, **job.env, **(extra_env or {})}
    code, output, _, _ = run(job.command, env, job.limit_s, stderr=subprocess.STDOUT)
    return code, output


def read_cmocka(job, code, output):
    """Fill in the results of a cmocka program that wrote TAP."""
    plan = TAP_PLAN.search(output)
    seen = 0
    before = []  # lines since the last result: the reason of a skip
    for line in output.split("\n"):
        match = TAP_LINE.match(line)
        if not match:
            before.append(line)
            continue
        seen += 1
        name = f"{job.name}: {match['name']}"
        if match["skip"]:
            reason = " ".join(text.strip() for text in before if text.strip() and not TAP_PLAN.match(text))
            job.skipped.append((name, reason or "no reason given"))
        elif match["not"]:
            job.failed.append((name, None))
        else:
            job.passed += 1
        before = []
    if job.failed:
        job.failed[-1] = (job.failed[-1][0], cut(output))
    complete = plan and seen == int(plan.group(1)) and seen > 0
    if code != 0 and (code is None or not job.failed) or not complete and not job.failed:
        # It crashed, or said too little: once more in the form that names each test as it starts.
        text = output
        if code is not None:
            text += "\n-- again, test by test --\n" + execute(job, {"CMOCKA_MESSAGE_OUTPUT": "STDOUT"})[1]
        job.failed.append((job.name, f"{ending(code, job.limit_s)}, {seen} results read\n{cut(text)}"))


def run_job(job):
    start = time.monotonic()
    if job.command[0].endswith(".missing"):
        job.failed.append((job.name, "was not built"))
    elif job.kind == "cmocka":
        code, output = execute(job, {"CMOCKA_MESSAGE_OUTPUT": "TAP"})
        read_cmocka(job, code, output)
    else:
        code, output = execute(job)
        expected = job.env.get("EXPECTED_OUTPUT")
        if code == SKIP_CODE and job.kind == "script":
            job.skipped.append((job.name, output.strip().split("\n")[-1] or "no reason given"))
        elif code != 0:
            job.failed.append((job.name, f"{ending(code, job.limit_s)}\n{cut(output)}"))
        elif job.kind == "example" and not output.strip():
            job.failed.append((job.name, "printed nothing"))
        elif expected is not None and output != expected:
            job.failed.append((job.name, f"expected:\n{cut(expected)}\nprinted:\n{cut(output)}"))
        else:
            job.passed = 1
    job.seconds = time.monotonic() - start
    return job


def read_manifest(build, env, label, quick_only):
    """Jobs of one build folder."""
    path = build / "tests.tsv"
    if not path.is_file():
        sys.exit(f"{path} is missing: build first (make)")
    factor = 3 if quick_only else 1  # sanitized programs are slower
    model = store_folder() / MODELS[0][0]
    for line in path.read_text().splitlines():
        kind, name, file = line.split("\t")
        if quick_only and kind in ("slow", "example", "device"):
            continue
        command = [file if Path(file).is_file() else file + ".missing"]
        limit_s = SLOW_LIMIT_S if kind == "slow" else FAST_LIMIT_S * factor
        if kind == "replay":
            command.append("fuzz/corpus/" + name.removeprefix("fuzz_replay_"))
            yield Job("script", name + label, command, limit_s, env)
        elif kind == "device":
            emulated = {"WEIR_CUDA_DRIVER": str(build / "libcuda_emulated.so"),
                        "WEIR_CUDA_LIBRARY": str(build / "libweir-cuda.so")}
            yield Job("script", name + label, command + ["--quick"], limit_s, {**env, **emulated})
        elif kind == "example":
            yield example_job(name, command, limit_s, env, model)
        else:
            yield Job("cmocka", name + label, command, limit_s, env)


def example_job(name, command, limit_s, env, model):
    """An example whose head comment says "Arguments: MODEL" gets one; what it
    prints must be as in examples/<name>.expected, where there is one."""
    stem = name.removeprefix("example_")
    source = (ROOT / "examples" / f"{stem}.c").read_text()
    if re.search(r"Arguments:.*MODEL", source):
        command = command + [str(model)]
    job = Job("example", name, command, limit_s, env)
    expected = ROOT / "examples" / f"{stem}.expected"
    if expected.is_file():
        job.env["EXPECTED_OUTPUT"] = expected.read_text()
    return job


def script_jobs(env):
    for path in sorted((ROOT / "tests").glob("*/test_*")):
        if path.suffix not in (".py", ".sh"):
            continue
        command = [sys.executable if path.suffix == ".py" else "bash", str(path)]
        limit_s = SLOW_LIMIT_S if path.name.startswith("test_slow_") else FAST_LIMIT_S
        yield Job("script", f"{path.parent.name}/{path.name}", command, limit_s, env)
    for check in CHECKS:
        yield Job("script", check, [sys.executable, str(ROOT / "tools" / f"{check}.py")], FAST_LIMIT_S, env)


def cuda_note(build):
    """A line where the tests of the CUDA backend are no part of this build, and why; else None."""
    cache = build / "CMakeCache.txt"
    text = cache.read_text() if cache.is_file() else ""
    found = {name: value for name, value in re.findall(r"^(WEIR_NVCC|WEIR_CUDA_INCLUDE):\w+=(.*)$", text, re.M)
             if not value.endswith("-NOTFOUND")}
    if any(line.split("\t")[1].startswith("test_cuda_") for line in (build / "tests.tsv").read_text().splitlines()):
        return None
    if "WEIR_NVCC" not in found:
        return "CUDA: not built (nvcc was not found); its tests did not run"
    if "WEIR_CUDA_INCLUDE" not in found:
        return "CUDA: not built (cuda.h was not found); its tests did not run"
    return "CUDA: its tests did not run: they were not built (they need a C++ compiler, cmocka and x86-64)"


def sanitizer_env():
    """Findings end the program; a big reservation is a NULL, as without sanitizers."""
    return {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "allocator_may_return_null=1:halt_on_error=1"}


def main():
    parser = argparse.ArgumentParser(description="Run the test suite.")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--sanitized", type=Path, help="second build folder, whose quick programs are run too")
    parser.add_argument("--only-c", action="store_true", help="quick programs of --build only: no scripts, no checks")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("words", nargs="*", help="run only tests whose name contains one of these")
    options = parser.parse_args()
    build = options.build.resolve()
    env = {"WEIR_BUILD": str(build), "WEIR_BIN": str(build / "weir"), **sanitizer_env()}

    jobs = list(read_manifest(build, env, "", options.only_c))
    if not options.only_c:
        jobs += script_jobs(env)
    if options.sanitized:
        sanitized = options.sanitized.resolve()
        second = {**env, "WEIR_BUILD": str(sanitized), "WEIR_BIN": str(sanitized / "weir")}
        jobs += read_manifest(sanitized, second, " (sanitized)", True)
    if options.words:
        jobs = [job for job in jobs if any(word in job.name for word in options.words)]
    jobs.sort(key=lambda job: -job.limit_s)  # the long ones first

    start = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, job in enumerate(pool.map(run_job, jobs), 1):
            word = "FAILED" if job.failed else "ok" if job.passed else "skipped"
            print(f"[{number:3}/{len(jobs)}] {word:7} {job.seconds:6.1f} s  {job.name}"
                  f"{f' ({job.passed})' if job.passed > 1 else ''}", flush=True)

    failed = [entry for job in jobs for entry in job.failed]
    skipped = [entry for job in jobs for entry in job.skipped]
    passed = sum(job.passed for job in jobs)
    for name, text in failed:
        print(f"\nFAILED {name}" + (f"\n{text}" if text else ""))
    if skipped:
        print()
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    note = cuda_note(build)
    if note:
        print(f"\n{note}")
    print(f"\n{len(skipped)} skipped; {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
