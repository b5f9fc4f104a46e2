#!/usr/bin/env python3
"""Compares weir's rendering of chat templates with jinja2's, as `transformers` sets it up (jinja_reference.py).

    $(tools/python_env.py) tools/compare_templates.py [--random FIRST:END] [--published FOLDER [--most N]]
                                                      [--program build/jinja_lines]

--published renders every template of a folder (tools/get_templates.py fetches them) over the conversations below, with
and without tools and switches. --random renders the numbered templates and variables of jinja_random.py. Where jinja2
gives a text, weir must give the same bytes; where a template raises, the same words; where jinja2 or Python fails, weir
must fail too. What weir refuses by design (status "not supported") is counted apart. Exit
code 1 when anything differs.
"""
import argparse
import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import jinja_random  # noqa: E402
import jinja_reference  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
UNSUPPORTED, LIMIT = 5, 7
RAISED = "the chat template says: "

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place, \"now\" & later.",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City, like Z\u00fcrich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14},
        "list": {"type": "array", "items": {"type": "number"}},
        "nested": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}},
        "required": ["location"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}}]
DOCUMENTS = [{"title": "A", "text": "The first.", "contents": "The first."}, {"title": "B", "text": "Second\nline", "contents": "x"}]


def call(name, arguments, number="call12345"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "What is 1 < 2 & \u4f60\u597d \U0001f600?\n"}
CONVERSATIONS = {
    "user": [USER],
    "system": [{"role": "system", "content": "  Be brief.\n"}, USER],
    "turns": [USER, {"role": "assistant", "content": " Yes. "}, {"role": "user", "content": "Sure?"}],
    "long": [{"role": "system", "content": "S"}] + [m for i in range(6) for m in (
        {"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"a{i}"})],
    "ends with assistant": [USER, {"role": "assistant", "content": "I think"}],
    "thinking": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes.", "reasoning_content": "hm",
                        "thinking": "hm"}, {"role": "user", "content": "More"}],
    "reasoning": [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "Let me\nthink.", "reasoning": "x"},
                  {"role": "user", "content": "More"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "what?"}]}],
    "image url": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}},
                                               {"type": "text", "text": "what?"}, {"type": "video"}, {"type": "audio"}]}],
    "all parts": [{"role": r, "content": [{"type": "text", "text": t}]} for r, t in (("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "V"))],
    "tool call": [USER, {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"location": "Z\u00fcrich", "days": 3})]},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"t\": 21.5}"},
                  {"role": "assistant", "content": "21.5 degrees."}, {"role": "user", "content": "Thanks"}],
    "no content": [USER, {"role": "assistant", "tool_calls": [call("get_weather", {"location": "Paris", "list": [1, 2.5], "nested": {"deep": True}})]},
                   {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": "ok"}],
    "text arguments": [USER, {"role": "assistant", "content": None, "tool_calls": [call("get_weather", "{\"location\": \"Paris\"}")]},
                       {"role": "tool", "tool_call_id": "call12345", "content": [{"type": "text", "text": "fine"}]}],
    "two calls": [USER, {"role": "assistant", "content": "Let me see.", "reasoning_content": "Two.", "tool_calls": [
        call("get_weather", {"location": "A"}, "abcdef123"), call("noop", {}, "abcdef124")]},
        {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "1"},
        {"role": "tool", "tool_call_id": "abcdef124", "name": "noop", "content": "2"}],
    "developer": [{"role": "developer", "content": "D"}, USER],
    "odd role": [{"role": "narrator", "content": "N"}, USER],
    "wrong order": [USER, USER],
    "empty": [],
    "empty text": [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
    "weight": [{"role": "system", "content": "S", "weight": 0}, USER, {"role": "assistant", "content": "x", "weight": 1, "training": False}],
}
SWITCHES = {
    "": {"add_generation_prompt": True},
    "no prompt": {"add_generation_prompt": False},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "tools no thinking": {"add_generation_prompt": True, "tools": TOOLS, "enable_thinking": False, "thinking": False},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True, "thinking": True, "reasoning_effort": "high",
                 "documents": DOCUMENTS, "builtin_tools": ["browser", "python"], "custom_tools": None, "date_string": "1 Jan 2026"},
    "flat tools": {"add_generation_prompt": True, "tools": [t["function"] for t in TOOLS], "documents": DOCUMENTS,
                   "preserve_thinking": True, "clear_thinking": False, "controls": {"length": "medium"}},
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def published_cases(folder, most):
    for path in sorted(Path(folder).rglob("*.jinja"))[:most]:
        template = path.read_bytes().decode()
        for conversation, messages in CONVERSATIONS.items():
            for switch, values in SWITCHES.items():
                variables = {"messages": messages, "tools": None, "documents": None, **SPECIAL, **values}
                yield f"{path.name}, {conversation}, {switch}", template, variables


def random_cases(first, end):
    for number in range(first, end):
        template, variables = jinja_random.case(number)
        yield f"random {number}", template, variables


def verdict(expected, got):
    """What kind of case it is, and whether both agree."""
    if "text" in expected:
        if got.get("status") in (UNSUPPORTED, LIMIT):
            return "refused", True
        return "text", got.get("text") == expected["text"]
    if "raised" in expected:
        return "raised", got.get("error", "") == (RAISED + expected["raised"])[:1023]
    return "failed", "error" in got


def compare(cases, program, shown=10):
    """Counts of (kind, agree), and the descriptions of the first differences and refusals."""
    process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    counts, differences, refused = Counter(), [], Counter()
    for name, template, variables in cases:
        process.stdin.write(json.dumps({"template": template, "variables": variables, "now": jinja_reference.NOW}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name}: {program} died on {template!r} with {variables!r}")
        got, expected = json.loads(line), jinja_reference.render(template, variables)
        kind, same = verdict(expected, got)
        counts[kind, same] += 1
        if kind == "refused":
            refused[got["error"].split(":", 1)[-1][:100]] += 1
        if not same and len(differences) < shown:
            differences.append(f"{name}\n  jinja2: {json.dumps(expected)[:2000]}\n  weir:   {json.dumps(got)[:2000]}")
    process.stdin.close()
    process.wait()
    return counts, differences, refused


def report(what, counts, differences, refused):
    total, bad = sum(counts.values()), sum(n for (_, same), n in counts.items() if not same)
    kinds = ", ".join(f"{sum(n for (k, _), n in counts.items() if k == kind)} {kind}" for kind in ("text", "raised", "failed", "refused"))
    print(f"{what}: {total} cases ({kinds}), {bad} differences")
    for message, n in refused.most_common():
        print(f"  refused {n} times: {message}")
    for text in differences:
        print(f"DIFFERENT {text}")
    return bad


def main():
    parser = argparse.ArgumentParser(description="Compare chat templates with jinja2.")
    parser.add_argument("--random", metavar="FIRST:END")
    parser.add_argument("--published", type=Path)
    parser.add_argument("--most", type=int, help="only so many of the published templates")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "jinja_lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # jinja2's compiler on odd templates
    bad = 0
    if options.published:
        bad += report("published templates", *compare(published_cases(options.published, options.most), options.program))
    if options.random:
        first, end = map(int, options.random.split(":"))
        bad += report(f"random templates {first} to {end}", *compare(random_cases(first, end), options.program))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
