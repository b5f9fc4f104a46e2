#!/usr/bin/env python3
"""tools/processes.py: what a program started does not outlive it when it is told to end, nor when it is killed, and what
runs out of time ends with all its children."""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True
from processes import DIES_WITH_US, ending, run  # noqa: E402

# Two at once and a third that waits for a place; each writes its number and that of its child.
STARTER = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[1])
from processes import run
def sleep(i):
    return run(["sh", "-c", f"sleep 60 & echo $$ $! >{sys.argv[2]}/{i}.part; mv {sys.argv[2]}/{i}.part {sys.argv[2]}/{i}; wait"], dict(os.environ), 60)
with ThreadPoolExecutor(2) as pool:
    for result in pool.map(sleep, range(3)):
        print(result)
"""
WAIT_S = 20


def is_running(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(holds):
    end = time.monotonic() + WAIT_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def ended_by(number, all_of_them):
    """What is wrong when the starter gets a signal, or None. all_of_them: children of what it started too."""
    with tempfile.TemporaryDirectory() as folder:
        starter = subprocess.Popen([sys.executable, "-c", STARTER, str(TOOLS), folder], stdout=subprocess.DEVNULL)
        try:
            if not until(lambda: all((Path(folder) / str(i)).is_file() for i in range(2))):
                return "the programs did not start"
            found = [list(map(int, (Path(folder) / str(i)).read_text().split())) for i in range(2)]
            starter.send_signal(number)
            code = starter.wait(WAIT_S)
            if code != (128 + number if all_of_them else -number):
                return f"the starter ended with {code}"
            left = [n for pair in found for n in (pair if all_of_them else pair[:1])]
            if not until(lambda: not any(map(is_running, left))):
                return f"{sum(map(is_running, left))} still run"
            return "another was started" if (Path(folder) / "2").exists() else None
        except subprocess.TimeoutExpired:
            return "the starter goes on"
        finally:
            starter.kill()
            for path in Path(folder).glob("[0-9]"):
                for process in map(int, path.read_text().split()):
                    if is_running(process):
                        os.kill(process, signal.SIGKILL)


def out_of_time():
    code, output, _, seconds = run(["sh", "-c", "sleep 60 & echo $!; wait"], dict(os.environ), 1)
    child = int(output)
    if code is not None or seconds > WAIT_S or ending(code, 1) != "did not end within 1 s":
        return f"code {code}, {seconds:.1f} s"
    return None if until(lambda: not is_running(child)) else "its child goes on"


def main():
    faults = {"told to end": ended_by(signal.SIGTERM, True), "interrupted": ended_by(signal.SIGINT, True),
              "out of time": out_of_time()}
    if DIES_WITH_US:
        faults["killed"] = ended_by(signal.SIGKILL, False)
    for what, fault in faults.items():
        if fault:
            print(f"FAILED: {what}: {fault}")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
