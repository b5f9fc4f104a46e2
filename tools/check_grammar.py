#!/usr/bin/env python3
"""Proof of constrained JSON against Python's jsonschema.

    $(tools/python_env.py) tools/check_grammar.py [--weir build/weir] [--bench build/bench_grammar] [--model MODEL]
                                                  [--random N] [--documents N] [--walks N] [--seed N]
    $(tools/python_env.py) tools/check_grammar.py --goldens       writes tests/data/text/grammar/schemas.json, which the tests replay

For every schema by hand and N random ones: documents that jsonschema calls valid must be accepted and others rejected;
random walks over the masks of MODEL's vocabulary must give documents that jsonschema calls valid.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import grammar_cases as cases


def all_schemas(n_random, seed):
    rng = random.Random(seed)
    return list(cases.by_hand()) + [cases.random_schema(rng) for _ in range(n_random)]


def write_goldens():
    out = []
    for i, schema in enumerate(all_schemas(60, 1)):
        docs = cases.documents(schema, random.Random(1000 + i), 24)
        out.append({"schema": schema, "accepted": [t for t, ok in docs if ok], "rejected": [t for t, ok in docs if not ok]})
    path = ROOT / "tests" / "data" / "text" / "grammar" / "schemas.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=True) for c in out) + "\n]\n")
    print(f"{len(out)} schemas, {sum(len(c['accepted']) for c in out)} accepted, {sum(len(c['rejected']) for c in out)} rejected")


def check_documents(weir, schemas, n, seed, folder):
    faults = accepted = rejected = refused = 0
    for i, schema in enumerate(schemas):
        docs = cases.documents(schema, random.Random(seed * 7919 + i), n)
        (folder / "schema.json").write_text(json.dumps(schema))
        (folder / "texts.json").write_text(json.dumps([t for t, _ in docs]))
        run = subprocess.run([weir, "grammar", folder / "schema.json", "--texts", folder / "texts.json", "--json", "--one-of-as-any-of"],
                             capture_output=True, text=True)
        if run.returncode:
            if any(ok for _, ok in docs) or "no text at all fits" not in run.stderr:
                print(f"schema {i} was refused: {json.dumps(schema)}: {run.stderr.strip()}")
                refused += 1
            continue
        for (text, ok), line in zip(docs, run.stdout.splitlines(), strict=True):
            accepted += ok
            rejected += not ok
            if json.loads(line)["accepted"] != ok:
                faults += 1
                if faults <= 20:
                    print(f"schema {i}: {json.dumps(schema)}\n  {'valid, but rejected' if ok else 'invalid, but accepted'}: {text!r} {line}")
    print(f"documents: {len(schemas)} schemas, {refused} refused; {accepted} valid, {rejected} invalid; {faults} wrong verdicts")
    return faults + refused


def check_walks(bench, model, schemas, n, seed, folder, exact):
    (folder / "schemas.json").write_text(json.dumps(schemas))
    command = [bench, "walk", model, folder / "schemas.json", str(n), str(seed)] + (["exact"] if exact else [])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        print(run.stderr)
        return 1
    faults = ended = cut = steps = 0
    judges = {}
    for line in run.stdout.splitlines():
        walk = json.loads(line)
        if "error" in walk:
            continue
        steps += len(walk["ids"])
        if not walk["ended"]:
            cut += 1
            continue
        ended += 1
        schema = schemas[walk["schema"]]
        text = bytes.fromhex(walk["text"])
        judge = judges.setdefault(walk["schema"], cases.Judge(schema))
        try:
            fine = judge.valid(text.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            fine = False
            print(error)
        if not fine:
            faults += 1
            if faults <= 20:
                print(f"walk gives an invalid document: {json.dumps(schema)}\n  {text!r}")
    print(f"walks: {ended} ended, {cut} cut at the step limit, {steps} steps; {faults} invalid documents"
          + ("; every mask equal to the one found byte by byte" if exact else ""))
    return faults


def main():
    parser = argparse.ArgumentParser(description="Constrained JSON against jsonschema.")
    parser.add_argument("--goldens", action="store_true")
    parser.add_argument("--weir", default=str(ROOT / "build" / "weir"))
    parser.add_argument("--bench", default=str(ROOT / "build" / "bench_grammar"))
    parser.add_argument("--model")
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--walks", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exact", action="store_true", help="walks: check every mask byte by byte (slow)")
    options = parser.parse_args()
    if options.goldens:
        return write_goldens()
    schemas = all_schemas(options.random, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        faults = check_documents(options.weir, schemas, options.documents, options.seed, Path(folder)) if options.documents else 0
        if options.model and options.walks:
            faults += check_walks(options.bench, options.model, schemas, options.walks, options.seed, Path(folder), options.exact)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
