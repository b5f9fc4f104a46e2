"""Running programs: each in a process group of its own and within a time, and none outlives the program that started it
(a test that goes on would hold the card)."""
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where nothing can be done any more, on SIGKILL, the kernel ends at least the program itself.
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
if not shutil.which("setpriv") or subprocess.run(DIES_WITH_US + ["true"], stderr=subprocess.DEVNULL).returncode:
    DIES_WITH_US = []
groups = set()  # process groups that run now
is_ending = False


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end(number, _):
    """Told to end: what runs ends too, threads start nothing more, and temporary files are removed on the way out."""
    global is_ending
    is_ending = True
    for group in list(groups):
        kill(group)
    sys.exit(128 + number)


signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)


def run(command, env, limit_s, stderr=subprocess.PIPE):
    """Exit code (None: out of time), output, errors, seconds. stderr=subprocess.STDOUT: errors are part of the output."""
    if is_ending:
        raise RuntimeError("not started: told to end")
    start = time.monotonic()
    process = subprocess.Popen(DIES_WITH_US + command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)
    groups.add(process.pid)
    try:
        output, errors = process.communicate(timeout=limit_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        kill(process.pid)
        output, errors = process.communicate()
        code = None
    finally:
        groups.discard(process.pid)
    output, errors = output.decode("utf-8", "replace"), (errors or b"").decode("utf-8", "replace")
    return code, output, errors, time.monotonic() - start


def ending(code, limit_s):
    if code is None:
        return f"did not end within {limit_s} s"
    return f"ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
