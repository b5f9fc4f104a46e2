#!/usr/bin/env python3
"""The output parser on PyPI's canitoolcall: outputs of real models, with the parse that each should give.

    tools/conformance_output.py [--library build/libweir.so]

Names, arguments (as JSON), content and reasoning (without white space around them) must be those expected, whole and in
random pieces. Where an output is broken or cut off, no call may be called complete and valid. Cases that a text cannot
decide, or that weir decides otherwise on purpose, are listed with the reason.
"""
import argparse
import json
import random
import sys
import tempfile
import zipfile
from pathlib import Path

from get_models import download
from output_parser import Library

# Cases that differ, and why.
KNOWN = {
    "glm/glm47-missing-last-close-arg-value": "the value's closing marker is missing: it may go on",
    "kimi/k2i-vllm-noise-between-markers": "text between the markers is content, not dropped",
    "kimi/k3-control-marker-text-in-value": "a marker spelled out in a value is the marker",
    "llama/l4-truncated-missing-close-bracket": "the first of two calls is whole, only the second is cut",
}
FORMATS = {"gpt-oss": "gpt-oss", "glm": "glm", "mistral": "mistral", "qwen3-hermes": "hermes", "qwen3-xml": "qwen3-coder",
           "gemma4": "gemma4"}


def format_of(family, model):
    if family == "deepseek":
        return "deepseek-dsml" if "V3.2" in model or "V4" in model else "deepseek"
    if family == "kimi":
        return "kimi-k3" if "K3" in model else "kimi-k2"
    if family == "llama":
        return "pythonic" if "Llama-4" in model else "llama3"
    return FORMATS.get(family)


def plain(text):
    return (text or "").strip() or None


def differs(library, case, options):
    """What is wrong, or None."""
    raw = case["raw_output"].encode()
    result = library.parse(raw, **options)
    for seed in range(8):
        rnd = random.Random(seed)
        cuts = range(1, len(raw)) if seed == 0 else sorted(rnd.randrange(len(raw) + 1) for _ in range(rnd.randrange(1, 30)))
        if library.parse(raw, cuts=list(cuts), **options) != result:
            return f"differs when cut at {list(cuts)}"
    good = [{"name": call["name"].decode(), "arguments": json.loads(call["arguments"])}
            for call in result.calls if call["complete"] and call["valid"]]
    if "expected" not in case:
        return f"called complete: {good}" if good else None
    want = case["expected"]
    got = {"content": plain(result.content.decode()), "reasoning_content": plain(result.reasoning.decode()),
           "tool_calls": good}
    want = {**want, "content": plain(want["content"]), "reasoning_content": plain(want["reasoning_content"])}
    return None if got == want else f"got {got}\n  want {want}"


def check_all(fixtures, library):
    passed = failed = known = 0
    for path in sorted(fixtures.glob("*/*.jsonl")):
        models = json.loads((path.parent / "family.json").read_text())["reference_models"]
        prompts = {model["repo"]: model.get("default_generation_prompt") for model in models}
        for line in path.read_text().splitlines():
            case = json.loads(line)
            model = case["models"][0]
            prompt = case.get("generation_prompt")
            options = {"format": format_of(path.parent.name, model), "truncated": "truncated" in case["tags"],
                       "prompt": (prompts.get(model) or "") if prompt is None else prompt,
                       "tools": json.dumps(case["tools"]) if case["tools"] else None}
            wrong = differs(library, case, options)
            if wrong and case["id"] in KNOWN:
                print(f"{case['id']}: {KNOWN[case['id']]}")
                known += 1
            elif wrong:
                print(f"FAILED {case['id']}: {wrong}\n  raw {case['raw_output']!r}")
                failed += 1
            else:
                passed += 1
    print(f"{known} differ on purpose")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description="The output parser on canitoolcall's cases.")
    parser.add_argument("--library", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(download("canitoolcall", "0.1.1", Path(folder))) as wheel:
            wheel.extractall(folder)
        return check_all(Path(folder) / "canitoolcall" / "_data" / "fixtures", Library(options.library))


if __name__ == "__main__":
    sys.exit(main())
