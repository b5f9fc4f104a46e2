#!/usr/bin/env python3
"""The command under wrong use: one clear line that says what is wrong, the exit status that is promised, and output
that is whole or reported. Standard library only. WEIR_BIN is the program (build/weir unless given); WEIR_STORE as
for the program. Needs SmolLM2-135M-Instruct in the store, for what needs text.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEIR = os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
SMALL = str(ROOT / "tests" / "data" / "checkpoints" / "llama-f16-untied")
TEXT = "SmolLM2-135M-Instruct"
faults = []


def run(*args, stdin=b"", stdout=subprocess.PIPE, **env):
    return subprocess.run([WEIR, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=120,
                          env={**os.environ, "WEIR_HISTORY": "", **env})


def expect(condition, what):
    if not condition:
        faults.append(what)


def refused(status, words, *args, **more):
    """One line on standard error with these words, nothing on standard output, this exit status."""
    p = run(*args, **more)
    said = p.stderr.decode()
    expect(p.returncode == status, f"{args}: exit status {p.returncode}, not {status}: {said}")
    expect(said.count("\n") == 1, f"{args}: not one line: {said!r}")
    expect(not p.stdout, f"{args}: wrote {p.stdout[:80]!r}")
    for word in words:
        expect(word in said, f"{args}: {said!r} does not say {word}")


def wrong_command_lines(folder):
    refused(2, ["bogus", "weir help"], "bogus")
    refused(2, ["no model named"], "run")
    refused(2, ["extra"], "inspect", SMALL, "extra")
    refused(2, ["--contxt", "did you mean --context"], "inspect", SMALL, "--contxt=400")
    refused(2, ["--max-tokens", "needs a value"], "run", SMALL, "--max-tokens")
    refused(2, ["--max-tokens", "abc", "whole number"], "run", SMALL, "-n", "abc")
    refused(2, ["--max-tokens", "99999999999999999999"], "run", SMALL, "-n", "99999999999999999999")
    refused(2, ["--temperature", "nan"], "run", SMALL, "-t", "nan")
    for text in ("1 ", "nan", "-1", "x", "2X", "1GB"):
        refused(2, ["--kv-bytes", text], "inspect", SMALL, "--kv-bytes", text)
    refused(2, ["--kv-dtype", "q8"], "inspect", SMALL, "--kv-dtype", "q8")
    refused(2, ["WEIR_THREADS", "many"], "inspect", SMALL, WEIR_THREADS="many")
    refused(2, ["WEIR_CPU", "bogus"], "version", WEIR_CPU="bogus")
    refused(2, ["--format", "pdf"], "help", "--format", "pdf")
    refused(2, ["-p", "-f"], "tokenize", TEXT, "-p", "x", "-f", "y")
    refused(1, ["3000", "2048"], "inspect", SMALL, "-c", "3000")
    refused(1, ["cuda"], "inspect", SMALL, "--device", "cuda")
    refused(2, ["--prompts", "4611686018427387905", "2047"], "bench", SMALL, "-p", "4611686018427387905")
    refused(2, ["--lengths", "5000", "2046"], "bench", SMALL, "-p", "0", "-n", "5000")


def wrong_files(folder):
    refused(1, ["/nosuch"], "inspect", "/nosuch")
    refused(1, ["config.json"], "inspect", folder)
    refused(1, ["no tokenizer"], "run", SMALL, "-p", "x")
    ids = os.path.join(folder, "ids")
    for text, words in (("[1,2,3]x", ["line 1"]), ("[1.5]", ["line 1", "entry 0"]), ("", ["no list"])):
        Path(ids).write_text(text)
        refused(1, [ids, *words], "score", SMALL, "--ids", ids)
    Path(ids).write_text("[1,157]")
    refused(2, ["157", "156", "line 1"], "score", SMALL, "--ids", ids)
    zero = os.path.join(folder, "zero")
    Path(zero).write_bytes(b"a\0b")
    refused(2, ["byte 1", "--raw"], "run", TEXT, "-f", zero)
    cut = os.path.join(folder, "cut.gguf")
    with open(store_file(), "rb") as f:
        Path(cut).write_bytes(f.read(3000000))
    refused(1, ["cut.gguf", "complete"], "inspect", cut)


def store_file():
    for line in run("list", "--json").stdout.splitlines():
        entry = json.loads(line)
        if entry["name"].startswith(TEXT):
            return entry["path"]
    sys.exit(f"{TEXT} is not in the store")


def lost_output_is_reported(folder):
    for args in (["help"], ["run", "--help"], ["version", "--json"], ["inspect", SMALL], ["inspect", SMALL, "--json"],
                 ["run", TEXT, "-p", "hi", "-n", "2", "--json"], ["tokenize", TEXT, "-p", "hi"]):
        with open("/dev/full", "wb") as full:
            p = run(*args, stdout=full)
        expect(p.returncode == 1 and b"writing standard output" in p.stderr, f"{args} to /dev/full: {p}")


def json_is_json(folder):
    odd = os.path.join(os.fsencode(folder), b"m\xff")
    os.symlink(SMALL, odd)
    for args in (["inspect", odd, "--json"], ["version", "--json"], ["tokenize", TEXT, "-p", "ď \U0001f600", "--json"],
                 ["run", TEXT, "-p", "hi", "-n", "3", "--json", "--logprobs", "--top", "2"]):
        p = run(*args)
        lines = [json.loads(line) for line in p.stdout.splitlines()]
        expect(p.returncode == 0 and lines, f"{args}: {p}")


def a_full_context_is_told(folder):
    p = run("run", TEXT, "-p", "Tell a long story.", "-c", "48", "--ignore-eos")
    expect(p.returncode == 0 and b"context is full" in p.stderr, f"full context: {p}")
    p = run("run", TEXT, "-p", "Tell a long story.", "-n", "3")
    expect(p.returncode == 0 and not p.stderr, f"max-tokens is no full context: {p}")


def a_chat_takes_utf8_and_commands(folder):
    history = os.path.join(folder, "history")
    pid, terminal = pty.fork()
    if pid == 0:
        env = {**os.environ, "TERM": "xterm", "LC_ALL": "C", "WEIR_HISTORY": history}
        os.execve(WEIR, [WEIR, "run", TEXT, "-n", "2"], env)
    seen = b""
    deadline = time.monotonic() + 60

    def wait_for_prompts(n):
        nonlocal seen
        while seen.count(b"> ") < n and time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                return

    wait_for_prompts(1)
    for n, line in enumerate(("grüße \U0001f600", "/clear", ""), 2):
        os.write(terminal, line.encode() + b"\r")
        wait_for_prompts(n)
    os.write(terminal, b"/exit\r")
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            expect(os.waitstatus_to_exitcode(status) == 0, f"the chat ended with {status}: {seen[-300:]!r}")
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        expect(False, f"the chat did not end: {seen[-300:]!r}")
    os.close(terminal)
    expect("grüße" in Path(history).read_text(), "the chat lost letters beyond ASCII")


def main():
    if not os.path.exists(WEIR):
        print(f"no program at {WEIR}: build it, or set WEIR_BIN")
        return 1
    for test in (wrong_command_lines, wrong_files, lost_output_is_reported, json_is_json, a_full_context_is_told,
                 a_chat_takes_utf8_and_commands):
        before = len(faults)
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
        print(("FAIL " if len(faults) > before else "ok   ") + test.__name__)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
