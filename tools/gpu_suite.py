#!/usr/bin/env python3
"""Runs the whole GPU suite on a machine with a card and prints what came of it.

    tools/gpu_suite.py [--build build | gpu-pack] [--out FILE] [--commit ID]
                       [-j N] [--quick] [--emulated] [--sanitizer] [WORD ...]

The suite: every cmocka program named test_<room>_device_*, and the programs of
tests/cuda/device (test_device_*), which prove exit, threads, waiting, variety,
sameness, large arrays and failures. Processes run in parallel, except those
that measure time or memory, or use all of it. Words choose the tests whose name
contains one.

--out: JSON lines, one a test ("kind": "test") and one a measurement ("kind":
"measurement"). The last line printed is "N passed, N failed"; the exit code is
1 when one failed or nothing ran. A test that skips for want of a card failed.
--emulated: over the build's emulated driver, to try this program out.
--sanitizer: instead, quick forms under each tool of compute-sanitizer: those that
take engine steps, over weights of several kinds, and those that run kernels of
the user's and all kinds of ops, or those that are named; a measurement for each
tool. --limit: seconds that each may take, 240.
"""
import argparse
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_gguf  # noqa: E402
from gpu_common import Programs, Results, json_lines, machine, print_table, synthesise  # noqa: E402
from processes import ending, run  # noqa: E402

ALONE = ["test_device_custom", "test_device_streams", "test_device_waiting", "test_device_memory", "test_device_variety",
         "test_device_failures", "test_device_large", "test_device_heap"]
# A block's barriers lie in memory whose size is known at launch: the tools would reckon with too few of them.
BARRIERS = ["--num-cuda-barriers", "128"]
# What a failing call of the driver means is the tests' to judge.
TOOLS = {"memcheck": ["--leak-check", "no", "--report-api-errors", "no"], "racecheck": BARRIERS, "initcheck": [],
         "synccheck": BARRIERS}
SANITIZED = ["test_device_sameness", "test_cuda_device_fuse", "test_device_custom", "test_device_large"]
# Of one layer, and of heads and rows that the fast kernels take: as gpu_common.synthesise and make_gguf.write have it.
SANITIZED_MODELS = [("smollm2-135m", "affine", 4, 64), ("smollm2-135m", "nvfp4"), ("smollm2-135m", "mxfp8"),
                    ("smollm2-135m", "none"), ("smollm2-135m", "q5_0"), ("tiny", "q4_k"), ("tiny", "q6_k")]
OP_TABLE, OP_TABLE_PARTS = "test_cuda_device_op_table", 8  # processes that share its ops
# Synccheck loses track of barriers that a block of a cluster completes for another, whatever the number above (the kernels
# of dense bf16 for 16 rows): its table overflows, and then the kernel fails under it.
NOT_FOLLOWED = {("test_device_sameness, smollm2-135m none", "synccheck")}
SLOW_TOOL = "racecheck"  # six times as slow as the others: over the first of these only
SANITIZERS = ["compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
              "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
FOUND_CODE = 99
LIMIT_S = 540
SHOWN_BYTES = 6000
TAP_LINE = re.compile(r"^(?P<not>not )?ok \d+(?: -)? (?P<skip># SKIP )?(?P<name>.+)$")
TAP_PLAN = re.compile(r"^1\.\.(\d+)$", re.M)
SUMMARY = re.compile(r"^=+ (?:RACECHECK SUMMARY: (\d+) hazard|ERROR SUMMARY: (\d+) error)", re.M)


class Test:
    """One program, what it said, and its results: (name, passed, skipped, text)."""

    limit_s = LIMIT_S

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.results, self.measurements, self.seconds = [], [], 0.0

    def execute(self, env):
        is_cmocka = not self.name.startswith("test_device_")
        code, output, errors, self.seconds = run(self.command, {**env, "CMOCKA_MESSAGE_OUTPUT": "TAP"}, self.limit_s)
        text = (output + errors)[-SHOWN_BYTES:]
        if is_cmocka:
            self.read_tap(code, output, text)
        else:
            self.measurements = json_lines(output)
            skipped = code == 77
            why = "" if code == 0 else f"{ending(code, self.limit_s)}\n{text}"
            self.results = [(self.name, code == 0, skipped, why)]
        self.read_more(output + errors)
        return self

    def read_more(self, text):
        pass

    def read_tap(self, code, output, text):
        seen, failed = 0, False
        for line in output.split("\n"):
            match = TAP_LINE.match(line)
            if not match:
                continue
            seen += 1
            bad = bool(match["not"])
            failed = failed or bad
            name = f"{self.name}: {match['name']}"
            self.results.append((name, not bad and not match["skip"], bool(match["skip"]), text if bad else ""))
        plan = TAP_PLAN.search(output)
        complete = plan and seen == int(plan.group(1)) and seen > 0
        if not complete or code != 0 and not failed:
            self.results.append((self.name, False, False, f"{ending(code, self.limit_s)}, {seen} results\n{text}"))


class Sanitized(Test):
    """A test under a tool of compute-sanitizer, which must say what it found: nothing."""

    def __init__(self, test, sanitizer, tool, limit_s):
        wrapper = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND_CODE), "--target-processes", "all"]
        super().__init__(f"{test.name} ({tool})", wrapper + TOOLS[tool] + test.command)
        self.tool, self.found, self.n_processes, self.limit_s = tool, 0, 0, limit_s

    def read_more(self, text):
        counts = [int(hazards or errors) for hazards, errors in SUMMARY.findall(text)]
        self.found, self.n_processes = sum(counts), len(counts)
        self.measurements = []  # times under a tool say nothing
        if not counts or self.found:
            said = "\n".join(line for line in text.split("\n") if line.startswith("==="))[:SHOWN_BYTES]
            why = f"{self.found} found by {self.tool}" if counts else f"{self.tool} gave no summary"
            self.results = [result for result in self.results if not result[1]]
            self.results.append((self.name, False, False, f"{why}\n{said}"))


def sanitized(tests, limit_s):
    sanitizer = next((path for path in map(shutil.which, SANITIZERS) if path), None)
    if not sanitizer:
        sys.exit("compute-sanitizer is not in the PATH and not in /usr/local/cuda: install the CUDA toolkit's")
    first = next((test for test in tests if "sameness" in test.name), None)
    return [Sanitized(test, sanitizer, tool, limit_s) for test in tests for tool in TOOLS
            if (tool != SLOW_TOOL or test is first or "sameness" not in test.name)
            and (test.name, tool) not in NOT_FOLLOWED]


def tool_lines(tests):
    """One measurement a tool."""
    for tool in TOOLS:
        those = [test for test in tests if test.tool == tool]
        yield {"test": "sanitizer", "tool": tool, "programs": len(those),
               "processes": sum(test.n_processes for test in those), "found": sum(test.found for test in those),
               "seconds": round(sum(test.seconds for test in those), 1),
               "passed": bool(those) and all(result[1] for test in those for result in test.results)}


def make_models(programs, folder):
    """[(name, path)] of SANITIZED_MODELS"""
    found = []
    for shape, mode, *more in SANITIZED_MODELS:
        path = Path(folder) / f"{shape}-{mode}"
        if mode in make_gguf.TYPES:
            make_gguf.write(path, shape, mode, layers=1, vocab=2000)
        else:
            synthesise(programs, path, shape, mode, *more, layers=1)
        found.append((f"{shape} {mode}", path))
    return found


def collect(programs, options, models):
    tests = []
    for name in programs.matching("test_device_*", "test_*_device_*"):
        arguments = []
        if name == "test_device_sameness" and models:
            tests += [Test(f"{name}, {model}", programs.command(name, ["--few", "--model", path]))
                      for model, path in models]
            continue
        if name == OP_TABLE and not options.quick:
            tests += [Test(f"{name}, part {i + 1} of {OP_TABLE_PARTS}",
                           programs.command(name, ["--part", i, OP_TABLE_PARTS])) for i in range(OP_TABLE_PARTS)]
            continue
        if options.quick and (name.startswith("test_device_") or name == OP_TABLE):
            arguments.append("--quick")
        if name == "test_device_exit_cases" and options.exit_runs:
            arguments += ["--n", options.exit_runs]
        if name == "test_device_threads" and options.seconds:
            arguments += ["--seconds", options.seconds]
        tests.append(Test(name, programs.command(name, arguments)))
    words = options.words or (SANITIZED if options.sanitizer else [])
    if words:
        tests = [test for test in tests if any(word in test.name for word in words)]
    if options.sanitizer:
        tests.sort(key=lambda test: "sameness" not in test.name)  # what reaches most kernels comes first
        return sanitized(tests, options.limit)
    return tests


def report(test, results):
    for name, passed, skipped, text in test.results:
        results.add({"kind": "test", "name": name, "passed": passed, "skipped": skipped,
                     "seconds": round(test.seconds, 2), **({"output": text} if text else {})})
    for measurement in test.measurements:
        results.add({"kind": "measurement", "program": test.name, **measurement})
    bad = [r for r in test.results if not r[1]]
    word = "ok" if not bad else "skipped" if all(r[2] for r in bad) else "FAILED"
    print(f"{word:7} {test.seconds:6.1f} s  {test.name} ({len(test.results)})", flush=True)


def print_figures(measurements):
    rows = [(m["case"], m["work"], m["expected"], f"{m['right']} of {m['runs']}") for m in measurements
            if m.get("test") == "exit"]
    print_table("exit", ["case", "work", "code", "right"], rows)
    rows = [(m["threads"], m["seconds"], m["devices"], m["evaluations"], m["program_runs"], m["custom_kernels"],
             m["compiled"], m["engines"], m["tokens"], m["passed"]) for m in measurements if m.get("test") == "threads"]
    print_table("threads", ["threads", "s", "devices", "evaluations", "program runs", "custom kernels", "compiled",
                            "engines", "tokens", "passed"], rows)
    rows = [(m["work_us"], m["way"], m["device_us"], m["late_us"], m["p10_us"], m["p90_us"], m["extra_us"],
             100.0 * m["cpu_share"], m["passed"]) for m in measurements if m.get("test") == "waiting"]
    print_table("waiting", ["work us", "way", "device us", "late us", "p10", "p90", "extra us", "CPU %", "passed"], rows)
    rows = [(m["seconds"], m["cpu_ms"], m["passed"]) for m in measurements if m.get("test") == "idle"]
    print_table("idle", ["s", "CPU ms", "passed"], rows)
    rows = [(m["test"], m["shapes"], m["seconds"], m["programs_built"], m["host_growth_bytes"],
             m["device_growth_bytes"], m["passed"])
            for m in measurements if m.get("test", "").startswith("variety")]
    print_table("variety", ["what", "shapes", "s", "programs built", "host growth", "device growth", "passed"], rows)
    rows = [(m["way"], m["requests"], m["results"], m["steps"], m["preemptions"], m["seconds"], m["passed"])
            for m in measurements if m.get("test") == "sameness"]
    print_table("sameness", ["way", "requests", "results", "steps", "preemptions", "s", "passed"], rows)
    rows = [(m["case"], m.get("elements", 0), m.get("seconds", 0.0), m.get("skipped", m.get("passed")))
            for m in measurements if m.get("test") == "large"]
    print_table("arrays of more than 2^31 elements", ["case", "elements", "s", "passed"], rows)
    rows = [(m["tool"], m["programs"], m["processes"], m["found"], m["seconds"], m["passed"])
            for m in measurements if m.get("test") == "sanitizer"]
    print_table("compute-sanitizer", ["tool", "programs", "processes", "found", "s", "passed"], rows)


def run_suite(programs, options, results, folder):
    tests = collect(programs, options, make_models(programs, folder) if options.sanitizer else [])
    alone = [test for test in tests if test.name in ALONE]
    together = [test for test in tests if test not in alone]
    together.sort(key=lambda test: test.name != "test_device_threads")  # the longest first

    def execute(test):
        return test.execute(programs.env)

    for test in alone:
        report(execute(test), results)
    with ThreadPoolExecutor(options.jobs) as pool:
        for test in pool.map(execute, together):
            report(test, results)

    measurements = [m for test in tests for m in test.measurements]
    if options.sanitizer:
        measurements = list(tool_lines(tests))
        for line in measurements:
            results.add({"kind": "measurement", **line})
    every = [result for test in tests for result in test.results]
    failed = [result for result in every if not result[1]]
    for name, _, skipped, text in failed:
        print(f"\n{'SKIPPED' if skipped else 'FAILED'} {name}\n{text}")
    print_figures(measurements)
    print(f"\n{results.about['card']}, driver {results.about['driver']}")
    print(f"{len(every) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not every else 0


def main():
    parser = argparse.ArgumentParser(description="Run the GPU suite.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("-j", "--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--quick", action="store_true", help="the small form of the programs")
    parser.add_argument("--emulated", action="store_true", help="over the emulated driver, small")
    parser.add_argument("--sanitizer", action="store_true", help="under compute-sanitizer")
    parser.add_argument("--limit", type=int, default=240, help="seconds a test may take under the sanitizer")
    parser.add_argument("--system", action="store_true", help="a pack's programs with the machine's own C library")
    parser.add_argument("--seconds", type=int, help="of the threads test, 60")
    parser.add_argument("--exit-runs", type=int, help="of each exit case, 50")
    parser.add_argument("words", nargs="*", help="run only tests whose name contains one of these")
    options = parser.parse_args()
    options.quick = options.quick or options.emulated or options.sanitizer
    programs = Programs(options.build, options.emulated, options.system or options.sanitizer)
    results = Results(options.out, options.commit, machine(options.emulated))
    with tempfile.TemporaryDirectory(prefix="weir-suite-") as folder:
        return run_suite(programs, options, results, folder)


if __name__ == "__main__":
    sys.exit(main())
