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
    refused(1, ["/nosuch"], "inspect", SMALL, "--device", "cuda", WEIR_CUDA_LIBRARY="/nosuch")
    refused(1, ["abacus", "cuda:N"], "inspect", SMALL, "--device", "abacus")
    refused(2, ["cuda:x", "number"], "inspect", SMALL, "--device", "cuda:x")
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
    cut = os.path.join(folder, "cut.gguf")
    with open(store_file(), "rb") as f:
        Path(cut).write_bytes(f.read(3000000))
    refused(1, ["cut.gguf", "complete"], "inspect", cut)


def templates_are_rendered(folder):
    def render(*args, stdin=b""):
        p = run("template", *args, stdin=stdin)
        expect(p.returncode == 0 and not p.stderr, f"template {args}: {p}")
        return p.stdout

    tools = str(ROOT / "tests" / "data" / "file" / "valid" / "mlx")  # templates "default" and "tool_use"
    expect(render(tools, "--list") == b"tool_use\ndefault\n", "template --list")
    expect(render(tools, "-p", "x") == b"plain" and render(tools, "-p", "x", "--name", "tool_use") == b"tools", "--name")
    request = json.dumps({"messages": [{"role": "user", "content": "a\u00e9"}], "tools": [{}]}).encode()
    expect(render(tools, stdin=request) == b"tools", "the tools of a request")
    own, listed = os.path.join(folder, "own.jinja"), os.path.join(folder, "list.json")
    Path(own).write_text("{{ messages[-1].content }}|{{ tools }}|{{ documents | tojson }}|{{ a }}{{ b }}|{{ add_generation_prompt }}")
    Path(listed).write_text('[{"x": 1}]')
    seen = render(SMALL, "--template", own, "--documents", listed, "--tools", listed, "--arg", "a=false", "--arg", "b=x=y",
                  "--no-generation-prompt", stdin=request)
    expect(seen == "a\u00e9|[{'x': 1}]|[{\"x\": 1}]|Falsex=y|False".encode(), f"everything given: {seen}")
    chat = render(TEXT, "-p", "Hi", "-s", "Be brief.")
    expect(chat == b"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", f"{chat}")
    expect(json.loads(render(TEXT, "-p", "Hi", "-s", "Be brief.", "--json")) == {"text": chat.decode()}, "template --json")
    refused(1, ["no chat template", "--raw"], "template", SMALL, "-p", "x")
    refused(1, ["nope", "tool_use, default"], "template", tools, "-p", "x", "--name", "nope")
    refused(2, ["--arg", "K=V"], "template", TEXT, "-p", "x", "--arg", "x")
    refused(2, ["message 0"], "template", TEXT, stdin=b"[1]")
    refused(1, ["standard input", "line 1"], "template", TEXT, stdin=b"[")
    refused(1, ["messages"], "template", TEXT, stdin=b"{}")
    Path(own).write_text("{{ raise_exception('Not \\'that\\' way') }}")
    refused(2, ["the chat template says: Not 'that' way"], "template", SMALL, "--template", own, "-p", "x")
    Path(own).write_text("a\n{% if %}")
    refused(1, ["own.jinja", "line 2"], "template", SMALL, "--template", own, "-p", "x")
    # A prompt may hold any bytes: a 0, and what is no UTF-8.
    odd = os.path.join(folder, "odd")
    Path(odd).write_bytes(b"a\0b\xff")
    expect(run("run", TEXT, "-f", odd, "-n", "1").returncode == 0, "a prompt of any bytes")


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
    for args in (["inspect", odd, "--json"], ["version", "--json"], ["version", "--devices", "--json"],
                 ["tokenize", TEXT, "-p", "ď \U0001f600", "--json"],
                 ["run", TEXT, "-p", "hi", "-n", "3", "--json", "--logprobs", "--top", "2"]):
        p = run(*args)
        lines = [json.loads(line) for line in p.stdout.splitlines()]
        expect(p.returncode == 0 and lines, f"{args}: {p}")


def a_tokenizer_needs_no_model(folder):
    """A tokenizer's file, and a folder that holds one, are enough to show tokens."""
    data = Path(__file__).resolve().parent.parent / "data" / "text"
    os.symlink(data / "pieces_bpe.model", os.path.join(folder, "tokenizer.model"))
    for model in (folder, data / "pieces_bpe.model", data / "tekken_small.json", data / "tiny_bytes.tokenizer.json"):
        p = run("tokenize", str(model), "-p", "words\nof", "--json")
        lines = [json.loads(line) for line in p.stdout.splitlines()]
        expect(p.returncode == 0 and len(lines) > 2 and lines[-1] == {"count": len(lines) - 1}, f"tokenize {model}: {p}")
        expect(all(0 <= t["begin"] <= t["end"] <= 8 and t["piece"] for t in lines[:-1]), f"tokenize {model}: {lines}")
    p = run("tokenize", str(data / "chat.golden.json"), "-p", "x")
    expect(p.returncode == 1 and b"chat.golden.json" in p.stderr, f"tokenize of another file: {p}")


def devices(**env):
    p = run("version", "--devices", "--json", **env)
    expect(p.returncode == 0 and not p.stderr, f"version --devices: {p}")
    return json.loads(p.stdout)


def planned_on(name, said, *args, **env):
    """weir inspect plans for this device, with these words in its one line on standard error; none: no line."""
    p = run("inspect", SMALL, *args, **env)
    error = p.stderr.decode()
    expect(p.returncode == 0, f"inspect {args} {env}: {p}")
    expect(f"memory plan on {name} ".encode() in p.stdout, f"inspect {args} {env} is not for {name}: {p}")
    expect(error.count("\n") == (1 if said else 0), f"inspect {args} {env}: {error!r}")
    for word in said:
        expect(word in error, f"inspect {args} {env}: {error!r} does not say {word}")
    return p.stdout.decode()


def devices_are_listed_and_chosen(folder):
    found = devices()
    expect(found["devices"][0]["name"] == "cpu" and found["devices"][0]["units"] > 0, f"no CPU: {found}")
    expect(len(found["devices"]) > 1 or found["cuda_problem"], f"no GPU, and no reason: {found}")
    lines = run("version", "--devices").stdout.decode().splitlines()
    expect(lines[0].startswith("weir ") and lines[1].startswith("cpu: ") and lines[-1].startswith("cuda: "),
           f"version --devices: {lines}")
    expect(len(lines) == 2 + len(found["devices"]), f"not a line a device: {lines}")
    without = devices(WEIR_CUDA_LIBRARY="/nosuch")
    expect(len(without["devices"]) == 1 and "/nosuch" in without["cuda_problem"], f"without a library: {without}")

    planned_on("cpu", [], WEIR_DEVICE="cpu")
    planned_on("cpu", ["/nosuch", "using the CPU"], WEIR_DEVICE="auto", WEIR_CUDA_LIBRARY="/nosuch")
    planned_on("cpu", [], "--device", "cpu", WEIR_DEVICE="cuda")
    usable = [device["name"] for device in found["devices"][1:] if not device["problem"]]
    if usable:
        planned_on(usable[0], [], "--device", "auto")
    elif len(found["devices"]) == 1:
        planned_on("cpu", [], "--device", "auto")


def a_gpu_is_planned_for(folder):
    """Over the emulated driver, where the build has one."""
    build = Path(WEIR).resolve().parent
    driver, library = build / "libcuda_emulated.so", build / "libweir-cuda.so"
    if not driver.exists() or not library.exists():
        return
    here = {"WEIR_CUDA_DRIVER": str(driver), "WEIR_CUDA_LIBRARY": str(library)}
    built_for = devices(**here)["built_for"]
    arch = {**here, "WR_EMULATE_ARCH": built_for[0].strip("sm_a")}
    gpu = devices(**arch)["devices"][1]
    expect(gpu["name"] == "cuda:0" and gpu["problem"] is None and 0 < gpu["free"] <= gpu["memory"], f"{gpu}")
    old = {**here, "WR_EMULATE_ARCH": "75"}
    expect("8.0" in devices(**old)["devices"][1]["problem"], f"an old card: {devices(**old)}")
    no_driver = {**here, "WEIR_CUDA_DRIVER": "/nosuch"}
    expect("/nosuch" in devices(**no_driver)["cuda_problem"], f"no driver: {devices(**no_driver)}")

    planned_on("cuda:0", [], "--device", "auto", **arch)
    planned_on("cuda:0", [], "--device", "cuda", **arch)
    planned_on("cpu", ["7.5", "using the CPU"], "--device", "auto", **old)
    planned_on("cpu", ["/nosuch", "using the CPU"], "--device", "auto", **no_driver)
    refused(1, ["7.5"], "inspect", SMALL, "--device", "cuda", **old)
    refused(1, ["/nosuch"], "inspect", SMALL, "--device", "cuda", **no_driver)
    refused(1, ["cuda:1"], "inspect", SMALL, "--device", "cuda:1", **arch)

    tight = {**arch, "WR_EMULATE_MEMORY_MIB": "1"}
    expect("does not fit" in planned_on("cuda:0", [], "--device", "cuda", **tight), "a plan that does not fit")
    refused(1, ["does not fit", "keys and values", "of 1048576 are free"], "bench", SMALL, "--device", "cuda", **tight)
    plan = json.loads(run("inspect", SMALL, "--json", "--device", "cuda", **arch).stdout)["plan"]
    expect(all(plan[part] > 0 for part in ("weights", "kv", "activations", "inputs", "sampler", "free")), f"{plan}")


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
    for test in (wrong_command_lines, wrong_files, templates_are_rendered, lost_output_is_reported, json_is_json,
                 a_tokenizer_needs_no_model,
                 devices_are_listed_and_chosen, a_gpu_is_planned_for, a_full_context_is_told,
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
