#!/usr/bin/env python3
"""weir grammar: what it says of files, texts and tokens, and how it refuses. Standard library only. WEIR_BIN is the
program (build/weir unless given). Needs SmolLM2-135M-Instruct in the store.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEIR = os.environ.get("WEIR_BIN") or str(ROOT / "build" / "weir")
faults = []


def run(*args):
    return subprocess.run([WEIR, "grammar", *map(str, args)], capture_output=True, timeout=120)


def says(words, *args, status=0):
    p = run(*args)
    said = (p.stdout if status == 0 else p.stderr).decode()
    if p.returncode != status or any(w not in said for w in words):
        faults.append(f"{args}: exit status {p.returncode}, {p.stdout.decode()!r} {p.stderr.decode()!r}; expected {status}, {words}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema, gbnf, regex, choices = (folder / n for n in ("s.json", "g.gbnf", "r.txt", "c.txt"))
        schema.write_text('{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}')
        gbnf.write_text('root ::= "a" [0-9]+\n')
        regex.write_text("[ab]{2}\n")
        choices.write_text("yes\nno\n")
        says(["compiled"], schema)
        says(["accepted"], schema, "-p", '{"ok": true}')
        says(["rejected: byte 6 of 8"], schema, "-p", '{"ok":1}')
        says(["incomplete"], schema, "-p", '{"ok":')
        says(['must go on with "ok":'], schema, "-p", '{"', "--max-whitespace", "-1", "--plain-strings")
        says(["accepted"], gbnf, "-p", "a12")
        says(["accepted"], regex, "-p", "ba")
        says(["rejected: byte 2 of 3"], regex, "-p", "bab")
        says(["accepted"], choices, "--kind", "choices", "-p", "no")
        (folder / "texts.json").write_text(json.dumps(['{"ok":false}', '{"ok":0}', ""]))
        p = run(schema, "--texts", folder / "texts.json", "--json")
        lines = [json.loads(line) for line in p.stdout.splitlines()]
        if [(x["accepted"], x["beginning"], x["fits"]) for x in lines] != [(True, True, 12), (False, False, 6), (False, True, 0)]:
            faults.append(f"--texts --json: {lines}")
        # Digits only: every token that may follow is made of them, or ends the text.
        p = run(gbnf, "--model", "SmolLM2-135M-Instruct", "-p", "a1", "--json")
        mask = json.loads(p.stdout or b"{}")
        if not mask or mask["count"] != len(mask["tokens"]) or mask["count"] < 11:
            faults.append(f"--model --json: {p.stdout[:200]!r} {p.stderr!r}")
        says(["may come next", "7"], gbnf, "--model", "SmolLM2-135M-Instruct", "-p", "a")
        says(["breaks the grammar at byte 0"], gbnf, "--model", "SmolLM2-135M-Instruct", "-p", "b", status=2)
        schema.write_text('{"properties":{"x":{"not":{}}}}')
        says(["/properties/x/not", "s.json"], schema, status=1)
        says(["no grammar named"], status=2)
        says(["--kind is"], regex, "--kind", "bnf", status=2)
        says(["missing.json"], folder / "missing.json", status=1)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
