#!/usr/bin/env python3
"""Compares what `weir score` says with goldens that another implementation made. Standard library only.

    tools/compare_logits.py GOLDEN.json MODEL [--weir build/weir] [--bf16] [-- arguments passed on to weir]
    tools/compare_logits.py GOLDEN.json MODEL --scores FILE     reads the lines of `weir score --json` from a file

For each prompt of the golden: at how many kept positions the best token agrees (it must wherever the reference's gap
between its first and second exceeds the noise: the reference's own rounding, or, with --bf16, how far the reference
itself moves when the operands of its products are rounded to bf16, as on a GPU), the mean Kullback-Leibler divergence of weir
from the reference (over the reference's best tokens, each by itself, and everything else as one), and the largest
difference of a log-probability among the reference's best tokens and of the scored token. Exit status 0 when all
agree and every mean divergence is below the limit, else 1. The limit is 0.001, or, with --bf16, twice what that rounding
does to the reference where that is more.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

KL_LIMIT = 1e-3
TOP = 64


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_score(weir, model, prompts, extra=()):
    """Runs weir over all prompts at once. Returns {(seq, pos): line}."""
    with tempfile.NamedTemporaryFile("w", suffix=".ids", delete=False) as file:
        for ids in prompts:
            file.write(json.dumps(ids) + "\n")
    try:
        command = [weir, "score", model, "--ids", file.name, "--top", str(TOP), "--json", *extra]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        os.unlink(file.name)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return parse_scores(done.stdout.splitlines())


def parse_scores(lines):
    scores = {}
    for line in lines:
        line = line.strip()
        if line:
            entry = json.loads(line)
            if "pos" in entry:
                scores[entry["seq"], entry["pos"]] = entry
    return scores


def divergence(kept, line):
    """KL(reference || weir) in nats over the partition: each of the reference's best tokens, and all the rest.

    A token that weir does not list among its own best joins the rest on both sides. That makes the figure a little
    smaller, never larger; a token that matters is missing only if the top tokens disagree, which is checked apart.
    """
    mine = {token: lp for token, lp in line["top"]}
    mine[line["token"]] = line["logprob"]
    total, p_rest, q_rest = 0.0, math.exp(kept["rest"]) if kept["rest"] is not None else 0.0, 1.0
    for token, lp in kept["top"]:
        if token in mine:
            total += math.exp(lp) * (lp - mine[token])
            q_rest -= math.exp(mine[token])
        else:
            p_rest += math.exp(lp)
    # Below the digits that are stored, the mass of the rest is rounding and says nothing.
    if p_rest > 1e-6:
        total += p_rest * math.log(p_rest / max(q_rest, 1e-9))
    return total


def compare_prompt(prompt, seq, scores, bf16=False):
    """Returns one row of the table, with the list of what is wrong under "faults"."""
    noise = prompt["noise_parts"]["bf16"] if bf16 else prompt["noise"]
    row = {"length": prompt["length"], "positions": 0, "decided": 0, "agree": 0, "ties": 0, "kl": 0.0, "kl_max": 0.0,
           "delta": 0.0, "noise": noise, "faults": []}
    for kept in prompt["positions"]:
        pos = kept["pos"]
        line = scores.get((seq, pos))
        if line is None:
            row["faults"].append(f"prompt of {prompt['length']} tokens: weir printed nothing for position {pos}")
            continue
        numbers = [line["logprob"], *(lp for _, lp in line["top"])]
        finite = all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers)
        if line["token"] != kept["token"] or not line["top"] or not finite:
            row["faults"].append(f"position {pos}: unusable line {json.dumps(line)[:160]}")
            continue
        row["positions"] += 1
        gap = kept["top"][0][1] - kept["top"][1][1]
        if gap > noise:
            row["decided"] += 1
            if line["top"][0][0] == kept["top"][0][0]:
                row["agree"] += 1
            else:
                row["faults"].append(
                    f"position {pos}: best token is {line['top'][0][0]}, the reference says {kept['top'][0][0]} "
                    f"with a gap of {gap:.4f} (noise {noise:.6f})"
                )
        else:
            row["ties"] += 1
        kl = divergence(kept, line)
        row["kl"] += kl
        row["kl_max"] = max(row["kl_max"], kl)
        mine = dict(map(tuple, line["top"]))
        deltas = [abs(lp - mine[token]) for token, lp in kept["top"] if token in mine]
        row["delta"] = max([row["delta"], abs(kept["logprob"] - line["logprob"]), *deltas])
    row["kl"] /= max(row["positions"], 1)
    limit = max(KL_LIMIT, 2 * prompt["noise_parts"]["bf16_kl"]) if bf16 else KL_LIMIT
    if not row["kl"] < limit:
        row["faults"].append(f"prompt of {prompt['length']} tokens: mean KL {row['kl']:.2e} is not below {limit:g}")
    return row


def compare(golden, scores, prompts=None, bf16=False):
    return [compare_prompt(prompt, seq, scores, bf16) for seq, prompt in enumerate(prompts or golden["prompts"])]


HEAD = (f"{'model':<34} {'tokens':>6} {'kept':>5} {'agree':>9} {'ties':>4} {'mean KL':>9} {'max KL':>9} "
        f"{'max |dlogp|':>11} {'ref noise':>9}")


def table_line(name, row):
    agree = f"{row['agree']}/{row['decided']}"
    return (f"{name:<34} {row['length']:>6} {row['positions']:>5} {agree:>9} {row['ties']:>4} {row['kl']:>9.1e} "
            f"{row['kl_max']:>9.1e} {row['delta']:>11.5f} {row['noise']:>9.1e}")


def main():
    args = sys.argv[1:]
    extra = []
    if "--" in args:
        at = args.index("--")
        args, extra = args[:at], args[at + 1 :]
    parser = argparse.ArgumentParser()
    parser.add_argument("golden")
    parser.add_argument("model")
    parser.add_argument("--weir", default=os.environ.get("WEIR", "build/weir"))
    parser.add_argument("--scores")
    parser.add_argument("--bf16", action="store_true", help="products of bf16 operands, as on a GPU")
    args = parser.parse_args(args)
    golden = load(args.golden)
    prompts = golden["prompts"]
    if args.scores:
        with open(args.scores, encoding="utf-8") as file:
            scores = parse_scores(file)
    else:
        scores = run_score(args.weir, args.model, [p["ids"] for p in prompts], extra)
    rows = compare(golden, scores, bf16=args.bf16)
    print(HEAD)
    for row in rows:
        print(table_line(os.path.basename(args.golden), row))
    faults = [fault for row in rows for fault in row["faults"]]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
