#!/usr/bin/env python3
"""The output parser beside the parsers of the models' makers: OpenAI's openai-harmony (gpt-oss) and mistral-common.

    $(tools/python_env.py output) tools/compare_output.py [--cases N] [--seed N] [--library build/libweir.so]

Harmony: random turns, with heads as the library writes them and as the model does, whole and broken off, tokenised and
parsed by the library. Mistral: random messages that mistral-common encodes in each version of its format, and what its
decoder makes of them. Reasoning, content, names and arguments must be the same, whole and in random pieces.

Needs the ranks of o200k (tools/get_tokenizers.py --all).
"""
import argparse
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import get_tokenizers  # noqa: E402
from output_parser import Library  # noqa: E402

TEXTS = ["", "Hello", "Let me look.\n\nNow:", "a < b, x |> y", "{\"not\": \"a call\"}", "Größe: 3 µm 😀", "to=functions.f", "line\n  line\n", " lead", "tail ", "[1, 2]",
         "```json\n{}\n```", "<think>hm</think>", "<| >", "assistant", "日本語のテキスト", "[TOOL", "TOOL_CALLS]", "analysis"]
NAMES = ["get_weather", "f", "search.web", "a-b_c", "naïve"]


def random_text(rng):
    """Not of line breaks alone, which weir takes for no content."""
    text = "".join(rng.choice(TEXTS) + rng.choice(["", " ", "\n"]) for _ in range(rng.randrange(1, 4)))
    return text if text.strip("\n") or not text else text + "x"


def random_json(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind < 5:
        return [None, rng.random() < 0.5, rng.choice([0, -1, 3.5, 1e20, 12]), random_text(rng), "x"][kind]
    if kind == 5:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(3))]
    return random_arguments(rng, depth + 1)


def random_arguments(rng, depth=0):
    return {rng.choice(["a", "city", "", "q \"x\"", "é"]): random_json(rng, depth) for _ in range(rng.randrange(3))}


class Outcome:
    """What a turn holds: content, reasoning (texts), calls as (name, arguments), arguments as values where they are JSON."""

    def __init__(self, content, reasoning, calls):
        self.content, self.reasoning = content, reasoning
        self.calls = [(name, self.value(arguments)) for name, arguments in calls]

    @staticmethod
    def value(arguments):
        try:
            return json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return arguments.strip()

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return repr(vars(self))


class Comparison:
    def __init__(self, name, library, format):
        self.name, self.library, self.format, self.checks, self.count, self.left_out = name, library, format, 0, 0, 0

    def check(self, text, want, rng, truncated=False):
        raw = text.encode()
        whole = self.library.parse(raw, format=self.format, truncated=truncated)
        cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(1, 12)))
        got = Outcome(whole.content.decode(), whole.reasoning.decode(),
                      [(c["name"].decode(), c["arguments"].decode()) for c in whole.calls])
        self.checks += 1
        if got == want and self.library.parse(raw, format=self.format, truncated=truncated, cuts=cuts) == whole:
            return
        self.count += 1
        if self.count <= 5:
            print(f"{self.name}: {text!r}{' (cut)' if truncated else ''}\n   got {got}\n  want {want}")

    def report(self):
        print(f"{self.name}: {self.checks} outputs, {self.count} differences, {self.left_out} left out")
        return self.count + (self.checks == 0)


# ---- gpt-oss ------------------------------------------------------------------------------------


def turn(rng, harmony, encoding):
    """The text of a turn behind its <|start|>assistant."""
    out = []
    for _ in range(rng.randrange(1, 5)):
        channel, recipient, kind = rng.choice([("analysis", None, None), ("analysis", None, None), ("commentary", None, None), ("final", None, None),
                                               ("commentary", "functions." + rng.choice(NAMES), "json"), ("analysis", "browser.search", "code"),
                                               ("commentary", "functions." + rng.choice(NAMES), "<|constrain|>json"), ("analysis", "python", "code")])
        text = random_text(rng)
        if recipient:
            # What follows a whole object is content to weir, and text that is an object or begins with one is none.
            text = json.dumps(random_arguments(rng), ensure_ascii=False) if rng.random() < 0.85 else "x" + text + "{"
        end = "<|call|>" if recipient else rng.choice(["<|end|>", "<|end|>", "<|return|>"])
        if rng.random() < 0.4:
            message = harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, text).with_channel(channel)
            if recipient:
                message = message.with_recipient(recipient).with_content_type(kind)
            out.append(encoding.decode(encoding.render(message)))
            continue
        head = "<|start|>assistant"
        to = f" to={recipient}" if recipient else ""
        kind = (rng.choice([" ", ""]) if kind and kind[0] == "<" else " ") + kind if kind and rng.random() < 0.8 else ""
        if rng.random() < 0.5:
            head += f"{to}<|channel|>{channel}{kind}"
        else:
            head += f"<|channel|>{channel}{to}{kind}"
        out.append(f"{head}<|message|>{text}{end}")
    return "".join(out)[len("<|start|>assistant"):]


def outcome_of(messages):
    content, reasoning, calls = "", "", []
    for channel, recipient, text in messages:
        if recipient:
            calls.append((recipient.removeprefix("functions."), text))
        elif channel == "analysis":
            reasoning += text
        else:
            content += text
    return Outcome(content, reasoning, calls)


def compare_harmony(library, options):
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(get_tokenizers.path_of("o200k").parent)
    import openai_harmony as harmony
    encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    comparison = Comparison("openai-harmony", library, "gpt-oss")
    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        text = turn(rng, harmony, encoding)
        tokens = encoding.encode(text, allowed_special="all")
        cut = rng.random() < 0.4
        if cut:
            tokens = tokens[:rng.randrange(1, len(tokens) + 1)]
        parser = harmony.StreamableParser(encoding, harmony.Role.ASSISTANT)
        try:
            for token in tokens:
                parser.process(token)
        except harmony.HarmonyError:
            comparison.left_out += 1
            continue
        messages = [(m.channel, m.recipient, m.content[0].text) for m in parser.messages]
        if parser.state == harmony.StreamState.CONTENT:
            messages.append((parser.current_channel, parser.current_recipient, parser.current_content))
        try:
            text = encoding.decode_utf8(tokens)
        except harmony.HarmonyError:  # cut within a character
            comparison.left_out += 1
            continue
        comparison.check(text, outcome_of(messages), rng, truncated=cut)
    return comparison.report()


# ---- Mistral ------------------------------------------------------------------------------------

SPECIALS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]",
            "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
NEWER = ["[CALL_ID]", "[ARGS]", "[THINK]", "[/THINK]"]


def tekken_file(folder, version):
    """The ranks that the package has, under a later version of the format, which has more special tokens."""
    data = json.loads(get_tokenizers.path_of("tekken-240911").read_text())
    data["config"]["version"] = version
    data.pop("multimodal", None)
    n = data["config"]["default_num_special_tokens"]
    names = SPECIALS + NEWER
    names += [f"<SPECIAL_{i}>" for i in range(len(names), n)]
    data["special_tokens"] = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)]
    path = folder / f"tekken_{version}.json"
    path.write_text(json.dumps(data))
    return path


def compare_mistral(library, options, version, path):
    from mistral_common.experimental.tools import _decode_tool_calls, _split_content_and_tool_calls
    from mistral_common.protocol.instruct.chunk import TextChunk, ThinkChunk
    from mistral_common.protocol.instruct.messages import AssistantMessage
    from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    instruct = MistralTokenizer.from_file(str(path)).instruct_tokenizer
    comparison = Comparison(f"mistral-common {version} ({path.suffix == '.json' and 'tekken' or 'sentencepiece'})", library, "mistral")
    number = int(version.removeprefix("v"))
    names = {instruct.tokenizer.get_special_token(name): name for name in ["[TOOL_CALLS]"] + (NEWER if number >= 11 else [])}

    def plain(tokens):
        return instruct.decode(tokens, special_token_policy=SpecialTokenPolicy.IGNORE) if tokens else ""

    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        calls = [ToolCall(id="".join(rng.choices("abcXYZ019", k=9)),
                          function=FunctionCall(name=rng.choice(NAMES[:4]), arguments=json.dumps(random_arguments(rng), ensure_ascii=False)))
                 for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        content = random_text(rng) if not calls or (number >= 7 and rng.random() < 0.5) else None
        thought = random_text(rng) if number >= 13 and rng.random() < 0.4 else None
        chunks = ([ThinkChunk(thinking=thought)] if thought else []) + ([TextChunk(text=content)] if content else [])
        message = AssistantMessage(content=chunks if thought else content, tool_calls=calls or None)
        if not content and not calls:
            comparison.left_out += 1
            continue
        tokens = instruct.encode_assistant_message(message, False)
        while tokens and tokens[-1] == instruct.tokenizer.eos_id:
            tokens.pop()
        text = "".join(plain(list(run)) if not control else "".join(map(names.get, run))
                       for control, run in itertools.groupby(tokens, names.__contains__))
        # What the library itself reads out of these tokens.
        before, sections = _split_content_and_tool_calls(tokens, instruct.tokenizer.get_special_token("[TOOL_CALLS]"))
        read = _decode_tool_calls(sections, instruct.tokenizer) if sections else []
        if thought:
            end = before.index(instruct.END_THINK)
            thought = plain(before[1:end])
            before = before[end + 1:]
        want = Outcome(plain(before), thought or "", [(c.function.name.strip(), c.function.arguments) for c in read])
        if "[TOOL_CALLS]" in (content or "") or want.content.lstrip().startswith("<think>"):
            comparison.left_out += 1  # text that is a marker; and <think> is one in every format of weir's
            continue
        comparison.check(text, want, rng)
    return comparison.report()


def main():
    parser = argparse.ArgumentParser(description="The output parser beside openai-harmony and mistral-common.")
    parser.add_argument("--library", type=Path)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    library = Library(options.library)
    failed = compare_harmony(library, options)
    with tempfile.TemporaryDirectory() as folder:
        for version in ("v2", "v3", "v7"):
            path = Path(folder) / f"tokenizer.model.{version}"  # its name tells the library the version
            shutil.copy(get_tokenizers.path_of(f"mistral-{version}"), path)
            failed += compare_mistral(library, options, version, path)
        for version in ("v3", "v7", "v11", "v13"):
            failed += compare_mistral(library, options, version, tekken_file(Path(folder), version))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
