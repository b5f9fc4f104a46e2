#!/usr/bin/env python3
"""Speed of masks beside llguidance and xgrammar: the same vocabulary, schemas and walks, turn by turn in one run.

    $(tools/python_env.py masks) tools/compare_grammar.py --model MODEL [--bench build/bench_grammar] [--rounds 3] [--walks 6] [--json OUT]

The walks: documents of ordinary schemas, as json.dumps writes them, cut into the longest tokens; and random walks over
llguidance's own masks. Each step's mask is timed, with cold caches at the beginning of each schema. All run on one
thread, and times are its processor time, because hosts are shared.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import grammar_cases as cases

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
closed = cases.closed


def names(n, rng):
    """n texts of one to three made-up words and a number, which share little."""
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randrange(4, 12))) for _ in range(n)]
    return [" ".join(rng.choices(words, k=rng.randrange(1, 4))) + f" {i}" for i in range(n)]


def ordinary():
    """Schemas as tools and extraction tasks have them; closed, so that all three agree on them."""
    yield "weather call", closed({"location": S, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": I})
    yield "person", closed({"name": S, "age": {"type": "integer", "minimum": 0, "maximum": 130}, "email": S, "phones": {"type": "array", "items": S}})
    yield "steps", closed({"steps": {"type": "array", "items": closed({"explanation": S, "output": S})}, "final_answer": S})
    yield "tree", cases.TREE
    yield "linked list", cases.LINKED
    yield "order", closed({"id": I, "customer": closed({"name": S, "vip": B}), "lines": {"type": "array", "items": closed({"sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, "quantity": {"type": "integer", "minimum": 1}, "price": N}), "minItems": 1}, "note": {"type": ["string", "null"]}})
    yield "30 fields", closed({f"field_{i}": [S, I, B, N][i % 4] for i in range(30)})
    yield "optional fields", closed({f"option_{i}": [S, I, B][i % 3] for i in range(12)}, ["option_0", "option_5"])
    yield "union", {"anyOf": [closed({"kind": {"const": "circle"}, "radius": N}), closed({"kind": {"const": "square"}, "side": N}), closed({"kind": {"const": "text"}, "value": S})]}
    yield "event", closed({"when": {"type": "string", "format": "date-time"}, "id": {"type": "string", "format": "uuid"}, "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 4}})
    yield "bounded strings", closed({"title": {"type": "string", "minLength": 1, "maxLength": 60}, "body": {"type": "string", "maxLength": 400}, "code": {"type": "string", "minLength": 3, "maxLength": 3}})
    yield "list of numbers", {"type": "array", "items": N}
    yield "open object", {"type": "object", "properties": {"name": S, "count": I}, "required": ["name"]}
    yield "map", {"type": "object", "additionalProperties": {"type": "array", "items": I}}
    yield "any json", {"type": "object"}
    yield "1,000 strings", closed({"name": {"enum": names(1000, random.Random(5))}})


class Vocabulary:
    def __init__(self, bench, model):
        data = json.loads(subprocess.run([bench, "vocab", model], capture_output=True, text=True, check=True).stdout)
        self.tokens = [bytes.fromhex(t) for t in data["tokens"]]
        special = set(data["special"])
        self.special, self.eos = sorted(special), data["eos"][0]
        self.longest = {}
        for i, t in enumerate(self.tokens):
            if t and i not in special:
                self.longest.setdefault(t, i)
        self.max_bytes = max(map(len, self.longest))
        # What llguidance's wrapper asks for.
        self.eos_token_id, self.bos_token_id, self.special_token_ids = self.eos, None, self.special

    def __call__(self, text):
        out, i = [], 0
        if isinstance(text, str):
            text = text.encode()
        while i < len(text):
            n = min(self.max_bytes, len(text) - i)
            while text[i:i + n] not in self.longest:
                n -= 1
            out.append(self.longest[text[i:i + n]])
            i += n
        return out


def in_order(schema, value, root=None):
    """Properties in the schema's order, which the other two demand."""
    root = root or schema
    if isinstance(schema, dict):
        schema = cases.merged_all_of(schema, root)
        branches = [b for b in schema.get("anyOf", []) if isinstance(value, dict) and ("properties" in b or "$ref" in b)]
        for b in branches:
            b = cases.merged_all_of(b, root)
            if set(value) <= set(b["properties"]):
                schema = b
    if isinstance(value, list):
        items = schema.get("items", {}) if isinstance(schema, dict) else {}
        return [in_order(items if isinstance(items, dict) else {}, v, root) for v in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    names = [n for n in properties if n in value] + [n for n in value if n not in properties]
    return {n: in_order(properties.get(n, {}), value[n], root) for n in names}


PROSE = ["The quick brown fox jumps over the lazy dog.", "Paris", "Call me at noon, please; the line is bad.", "x", "Ärger mit Umlauten", "user@example.com",
         "First add the numbers, then divide by two to get the mean.", "SELECT * FROM t WHERE id = 3", "", "日本語のテキスト", "a \"quoted\" word"]


def has_whole_float(value):
    """1.0 is an integer, but the other two want it written as 1."""
    if isinstance(value, float):
        return value == int(value) or "e" in repr(value)
    if isinstance(value, list):
        return any(map(has_whole_float, value))
    return isinstance(value, dict) and any(map(has_whole_float, value.values()))


def make_document(schema, rng):
    """A valid document with strings as people write them."""
    judge = cases.Judge(schema)
    for _ in range(3000):
        value = cases.draw(schema, schema, rng)
        value = replace_texts(value, rng)
        if not judge.valid(json.dumps(value)):
            value = cases.draw(schema, schema, rng)
        if judge.valid(json.dumps(value)) and not has_whole_float(value):
            return in_order(schema, value)
    return None


def replace_texts(value, rng):
    if isinstance(value, str) and value in cases.WORDS:
        return rng.choice(PROSE)
    if isinstance(value, list):
        return [replace_texts(v, rng) for v in value]
    if isinstance(value, dict):
        return {k: replace_texts(v, rng) for k, v in value.items()}
    return value


class Llguidance:
    name = "llguidance"

    def __init__(self, vocabulary):
        import llguidance
        import llguidance.numpy
        import numpy
        self.lib, self.numpy = llguidance, numpy
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary), n_vocab=len(vocabulary.tokens))
        self.mask = llguidance.numpy.allocate_token_bitmask(1, len(vocabulary.tokens))

    def compile(self, schema):
        grammar = self.lib.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled):
        compiled.reset()
        return compiled

    def fill(self, matcher):
        matcher.unsafe_compute_mask_ptr(self.mask.ctypes.data, self.mask.nbytes)

    def take(self, matcher, token):
        return matcher.consume_token(token)

    def allowed(self):
        bits = self.numpy.unpackbits(self.mask.view(self.numpy.uint8), bitorder="little")
        return self.numpy.nonzero(bits)[0]


class Xgrammar:
    name = "xgrammar"

    def __init__(self, vocabulary):
        import torch
        import xgrammar
        torch.set_num_threads(1)
        self.lib = xgrammar
        info = xgrammar.TokenizerInfo(vocabulary.tokens, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(vocabulary.tokens),
                                      stop_token_ids=[vocabulary.eos])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, len(vocabulary.tokens))

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)

    def start(self, compiled):
        return self.lib.GrammarMatcher(compiled)

    def fill(self, matcher):
        matcher.fill_next_token_bitmask(self.mask)

    def take(self, matcher, token):
        return matcher.accept_token(token)


def random_walks(engine, vocabulary, schema, rng, n):
    """Token lists over llguidance's masks, which prefer to close what is open."""
    matcher, out = engine.compile(schema), []
    for _ in range(n):
        engine.start(matcher)
        walk = []
        for step in range(150):
            engine.fill(matcher)
            ids = engine.allowed()
            if vocabulary.eos in ids and rng.random() < 0.5:
                break
            ids = [int(i) for i in ids if i != vocabulary.eos and b"\\" not in vocabulary.tokens[i]]
            if not ids:
                break
            pick = rng.choice(ids)
            if rng.random() < 0.5:
                closing = [i for i in ids if vocabulary.tokens[i][-1:] in b'"}]' and len(vocabulary.tokens[i]) < 4]
                pick = rng.choice(closing) if closing else pick
            if not engine.take(matcher, pick):
                break
            walk.append(pick)
        out.append(walk)
    return out


def measure(engine, todo):
    """(compile ms, [mask us], walks refused) of every case."""
    out = []
    for case in todo:
        start = time.thread_time()
        try:
            compiled = engine.compile(case["schema"])
        except Exception as error:
            out.append((None, [], str(error)[:60]))
            continue
        ms, times, refused = (time.thread_time() - start) * 1e3, [], 0
        for walk in case["walks"]:
            matcher = engine.start(compiled)
            for token in walk:
                start = time.thread_time()
                engine.fill(matcher)
                times.append((time.thread_time() - start) * 1e6)
                if not engine.take(matcher, token):
                    refused += 1
                    break
        out.append((ms, times, refused))
    return out


def measure_weir(bench, model, todo, folder):
    path = folder / "cases.json"
    path.write_text(json.dumps(todo))
    run = subprocess.run([bench, "time", model, path], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    refusals = [l for l in run.stderr.splitlines() if l.startswith("case")]
    if refusals and not folder.joinpath("said").exists():
        folder.joinpath("said").touch()
        print(f"weir takes {len(refusals)} walks not whole; the first: {refusals[0]}")
    return [(c["compile_ms"], c["mask_us"], 0) for c in map(json.loads, run.stdout.splitlines())]


def line(name, ms, times):
    times = sorted(times)
    return (f"{name:<12} compile median {statistics.median(ms):7.2f} max {max(ms):8.2f} ms   mask mean {statistics.mean(times):7.2f} "
            f"median {times[len(times) // 2]:7.2f} p99 {times[len(times) * 99 // 100]:8.2f} max {times[-1]:8.1f} us   {len(times)} masks")


def main():
    parser = argparse.ArgumentParser(description="Masks beside llguidance and xgrammar.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--bench", default=str(ROOT / "build" / "bench_grammar"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--walks", type=int, default=6)
    parser.add_argument("--json")
    options = parser.parse_args()
    vocabulary = Vocabulary(options.bench, options.model)
    engines = [Llguidance(vocabulary), Xgrammar(vocabulary)]
    rng = random.Random(3)
    todo = {"documents": [], "random walks": []}
    for name, schema in ordinary():
        docs = [d for d in (make_document(schema, rng) for _ in range(options.walks)) if d is not None]
        todo["documents"].append({"name": name, "schema": schema, "walks": [vocabulary(json.dumps(d, ensure_ascii=False)) for d in docs]})
        todo["random walks"].append({"name": name, "schema": schema, "walks": random_walks(engines[0], vocabulary, schema, rng, options.walks)})
    print(f"{len(vocabulary.tokens)} tokens, {len(todo['documents'])} schemas, {options.walks} walks each, {options.rounds} rounds")
    record = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, list_ in todo.items():
            results = {"weir": [], "llguidance": [], "xgrammar": []}
            for _ in range(options.rounds):
                results["weir"].append(measure_weir(options.bench, options.model, list_, Path(folder)))
                for engine in engines:
                    results[engine.name].append(measure(engine, list_))
            print(f"\n{kind}")
            for name, rounds in results.items():
                ms = [c[0] for r in rounds for c in r if c[0] is not None]
                times = [t for r in rounds for c in r for t in c[1]]
                means = [statistics.mean(t for c in r for t in c[1]) for r in rounds]
                refused = sum(c[2] for c in rounds[0] if isinstance(c[2], int))
                print(line(name, ms, times) + f"   mean by round {' '.join(f'{m:.2f}' for m in means)}"
                      + (f"   refused {refused} walks of its own" if refused else ""))
                record.setdefault(kind, {})[name] = {"compile_ms": ms, "mask_us_mean_by_round": means}
            print("mean mask us by schema: weir / llguidance / xgrammar")
            for i, case in enumerate(list_):
                row = [statistics.mean(t for r in rounds for t in r[i][1]) if rounds[0][i][1] else float("nan") for rounds in results.values()]
                comp = [statistics.median([r[i][0] for r in rounds if r[i][0] is not None] or [float("nan")]) for rounds in results.values()]
                print(f"  {case['name']:<18} {row[0]:8.2f} {row[1]:8.2f} {row[2]:8.2f}     compile ms {comp[0]:7.2f} {comp[1]:7.2f} {comp[2]:8.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
