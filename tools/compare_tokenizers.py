#!/usr/bin/env python3
"""Compares weir's tokenizers with the libraries that published models are used with.

    $(tools/python_env.py) tools/compare_tokenizers.py [--texts N] [--speed] [NAME ...]

Needs tools/get_tokenizers.py --all and tools/get_models.py --all (missing ones are
named and left out), and libweir.so in $WEIR_BUILD or build/. Over every text: ids
with special tokens found and with all text plain, places of the tokens, text of the
ids whole and streamed, added BOS and EOS. With --speed, encoding of a few megabytes
on one thread beside the tokenizers library, in turns, in processor time; megabytes that
cannot be cut; and opening the largest file.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent))
import get_tokenizers  # noqa: E402
import tokenizer_references as ref  # noqa: E402
import tokenizer_texts  # noqa: E402
import weir_tokenizer as weir  # noqa: E402
from get_models import store_folder  # noqa: E402
from tokenizers import BertWordPieceTokenizer, Tokenizer, normalizers  # noqa: E402

QUICK = ["deepseek", "moonshine", "cl100k", "smollm2"]


def made(name, make):
    """A tokenizer.json that is made from another format, once."""
    path = get_tokenizers.folder() / name / "tokenizer.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(make(), ensure_ascii=False))
        part.replace(path)
    return path


def huggingface(name):
    path = get_tokenizers.path_of(name)
    return [(path, [ref.HuggingFace(Tokenizer.from_file(str(path)))])]


def words(name, **config):
    """vocab.txt with a tokenizer_config.json that says what differs from BERT's usual ways."""
    folder = get_tokenizers.folder() / f"{name}-vocab-{'-'.join(f'{k}_{v}'.lower() for k, v in config.items()) or 'alone'}"
    path = folder / "vocab.txt"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        if config:
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **config}))
        ids = json.loads(get_tokenizers.path_of(name).read_text())["model"]["vocab"]
        part = path.with_suffix(".part")
        part.write_text("".join(f"{piece}\n" for piece in sorted(ids, key=ids.get)))
        part.replace(path)
    bert = BertWordPieceTokenizer(str(path), lowercase=config.get("do_lower_case", True), strip_accents=config.get("strip_accents"),
                                  handle_chinese_chars=config.get("tokenize_chinese_chars", True))
    return [(folder, [ref.HuggingFace(Tokenizer.from_str(bert.to_str()))])]


def pieces(name, converted=None):
    path = get_tokenizers.path_of(name)
    proto = ref.read_proto(path)
    yield path, [ref.SentencePiece(proto)]
    if converted:
        other = made(name + "-json", lambda: converted(proto))
        yield other, [ref.HuggingFace(Tokenizer.from_file(str(other)))]


def ranks(name, pattern, specials, form=None):
    path = get_tokenizers.path_of(name)
    table = ref.read_ranks(path)
    other = made(name + "-json", lambda: ref.json_of_ranks(table, pattern, 0, specials, form))
    both = [ref.Tiktoken(ref.tiktoken_encoding(name, table, pattern), 0, specials, form),
            ref.HuggingFace(Tokenizer.from_file(str(other)))]
    # The two have normal forms of different versions of Unicode, and weir that of the one whose file it reads.
    return [(path, both[:1] if form else both), (other, both[1:] if form else both)]


def tekken(name):
    path = get_tokenizers.path_of(name)
    table, pattern, shift = ref.read_tekken(path)
    names = OLD_TEKKEN_SPECIALS + [f"<SPECIAL_{i}>" for i in range(len(OLD_TEKKEN_SPECIALS), shift)]
    specials = {text: i for i, text in enumerate(names)}
    other = made(name + "-json", lambda: ref.json_of_ranks(table, pattern, shift, specials))
    both = [ref.Tiktoken(ref.tiktoken_encoding(name, table, pattern), shift, specials),
            ref.HuggingFace(Tokenizer.from_file(str(other)))]
    return [(path, both), (other, both)]


def gguf(file, make):
    path = store_folder() / file
    return [(path, [make(ref.GgufVocabulary(path))])]


OLD_TEKKEN_SPECIALS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                       "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]",
                       "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
QWEN_SPECIALS = {t: 151643 + i for i, t in
                 enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)])}
QWEN36_SPECIALS = {"<|endoftext|>": 248044, "<|im_start|>": 248045, "<|im_end|>": 248046, "<think>": 248068,
                   "</think>": 248069}
CL100K_SPECIALS = {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259,
                   "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}
LLAMA3_SPECIALS = {"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|start_header_id|>": 128006,
                   "<|end_header_id|>": 128007, "<|eom_id|>": 128008, "<|eot_id|>": 128009, "<|python_tag|>": 128010}

SOURCES = {
    "minilm": lambda: huggingface("minilm"),
    "minilm-vocab": lambda: [*words("minilm"), *words("minilm", do_lower_case=False),
                             *words("minilm", strip_accents=False, tokenize_chinese_chars=False),
                             *words("minilm", do_lower_case=False, strip_accents=True)],
    "anthropic": lambda: huggingface("anthropic"),
    "deepseek": lambda: huggingface("deepseek"),
    "llama3": lambda: huggingface("llama3"),
    "moonshine": lambda: huggingface("moonshine"),
    "jurassic": lambda: pieces("jurassic", ref.json_of_unigram),
    "mistral-v1": lambda: pieces("mistral-v1", ref.json_of_bpe),
    "mistral-v2": lambda: pieces("mistral-v2"),
    "mistral-v3": lambda: pieces("mistral-v3"),
    "mistral-v7": lambda: pieces("mistral-v7"),
    "llama3-ranks": lambda: ranks("llama3-ranks", ref.LLAMA3, LLAMA3_SPECIALS),
    "cl100k": lambda: ranks("cl100k", ref.LLAMA3, CL100K_SPECIALS),
    "o200k": lambda: ranks("o200k", ref.O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "qwen": lambda: ranks("qwen", ref.QWEN, QWEN_SPECIALS, "NFC"),
    "qwen36": lambda: ranks("qwen36", ref.QWEN35, QWEN36_SPECIALS, "NFC"),
    "tekken-240718": lambda: tekken("tekken-240718"),
    "tekken-240911": lambda: tekken("tekken-240911"),
    "smollm2": lambda: gguf("SmolLM2-135M-Instruct.Q4_1.gguf",
                            lambda v: ref.HuggingFace(v.byte_level(ref.digits_then_bytes()))),
    "qwen2.5": lambda: gguf("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", lambda v: ref.HuggingFace(
        v.byte_level(ref.split_then_bytes(ref.QWEN), normalizers.NFC()))),
    "gemma3": lambda: gguf("gemma-3-270m-q4_k_m.gguf", lambda v: ref.SentencePiece(v.sentencepiece(3, False))),
}


class Differences:
    def __init__(self, name, shown):
        self.name, self.shown, self.count, self.checks = name, shown, 0, 0

    def check(self, what, data, got, want):
        self.checks += 1
        if got == want:
            return
        self.count += 1
        if self.count <= self.shown:
            print(f"{self.name}: {what} of {data[:300]!r}\n    got {str(got)[:700]}\n   want {str(want)[:700]}", flush=True)


# Where byte tokens make no character, the libraries write one U+FFFD a byte, and for a whole run of them; weir, which
# gives out characters as soon as they are whole, one for each maximal invalid part. Such results are left out.


def compare_text(tok, reference, data, differences, places_agree):
    text = data.decode("utf-8", "replace")
    valid = text.encode() == data
    for special in (True, False):
        want, places = reference.encode(text, special)
        got, spans = tok.encode(data, weir.PARSE_SPECIAL if special else 0, spans=True)
        if not special and reference.special & set(want) - reference.unknown:
            # The library's model itself found a control token in plain text. weir's never does.
            differences.check("control tokens of plain text", data, reference.special & set(got) - reference.unknown, set())
            continue
        differences.check(f"ids, special {special}", data, got, want)
        if got == want and places is not None and valid and places_agree(text):
            known = [span if place else None for span, place in zip(spans, places)]
            differences.check(f"places, special {special}", data, known, places)
    ids, _ = reference.encode(text, True)
    for skip in (True, False):
        want = reference.decode(ids, skip)
        parts = tok.stream(ids, weir.SKIP_SPECIAL if skip else 0)
        whole = tok.decode(ids, weir.SKIP_SPECIAL if skip else 0)
        if want is not None and not (valid and "\ufffd" in want and "\ufffd" not in text):
            differences.check(f"decode, skip {skip}", data, whole, want.encode())
        differences.check("stream", data, b"".join(parts), whole)
        differences.check("parts", data, [p.decode("utf-8", "replace").encode() for p in parts], parts)


def compare_affixes(tok, reference, data, differences):
    """Exactly one BOS and EOS: as the library adds them, unless the text has them already."""
    text = data.decode("utf-8", "replace")
    bare, _ = reference.encode(text, True)
    letter, _ = reference.encode("a", True)
    full = reference.with_special("a")
    at = next(i for i in range(len(full)) if full[i:i + len(letter)] == letter)
    front, back = full[:at], full[at + len(letter):]
    differences.check("the library's own", data, reference.with_special(text), front + bare + back)
    want = ([] if front and bare[:len(front)] == front else front) + bare
    want += [] if back and len(bare) >= len(back) and bare[-len(back):] == back else back
    differences.check("added tokens", data, tok.encode(data, weir.ADD_SPECIAL | weir.PARSE_SPECIAL), want)


def compare_random_ids(tok, reference, count, differences):
    """Lists of any ids."""
    rng = random.Random(5)
    for _ in range(count):
        ids = [rng.randrange(tok.size) for _ in range(rng.choice([1, 2, 3, 5, 8, 20]))]
        try:
            want = reference.decode(ids, False)
        except (KeyError, IndexError, OverflowError):
            continue
        if want is None or ref.UNUSED in want:  # a filler of ours, in the converted file only
            continue
        got = tok.decode(ids, 0)
        if "\ufffd" not in want or b"\xef\xbf\xbd" not in got:
            differences.check("random ids", repr(ids).encode(), got, want.encode())
        differences.check("random ids, streamed", repr(ids).encode(), b"".join(tok.stream(ids, 0)), got)


def agree_everywhere(text):
    return True


def agree_where_nothing_moves(text):
    """Behind characters that the rules make longer, join or drop, the library's places are off by what was missed; and
    of the pieces of one character SentencePiece gives the place to the last only."""
    plain = all(unicodedata.category(c)[0] != "C" or c in "\t\n\r" for c in text)
    return plain and all(ord(c) < 0x250 or 0x370 <= ord(c) < 0x500 for c in text) and \
        unicodedata.normalize("NFKC", text) == text


def compare(name, texts, options):
    total = 0
    for path, references in SOURCES[name]():
        start = time.thread_time()
        tok = weir.Tokenizer(path)
        opened = time.thread_time() - start
        for reference in references:
            differences = Differences(name, options.shown)
            agree = agree_where_nothing_moves if name == "jurassic" else agree_everywhere
            specials = [t.encode() for t in special_texts(reference, path)]
            for data in texts + specials:
                compare_text(tok, reference, data, differences, agree)
                if hasattr(reference, "with_special") and path.name != "tekken.json" and (path.suffix == ".json" or path.is_dir()):
                    compare_affixes(tok, reference, data, differences)
            compare_random_ids(tok, reference, len(texts) // 4, differences)
            size = (path / "vocab.txt" if path.is_dir() else path).stat().st_size
            print(f"{name} {path.name} ({size / 1e6:.1f} MB, opened in {opened * 1e3:.0f} ms) against "
                  f"{type(reference).__name__}: {len(texts) + len(specials)} texts, {differences.checks} checks, "
                  f"{differences.count} differences", flush=True)
            total += differences.count
        tok.close()
    return total


def special_texts(reference, path):
    """Texts with this vocabulary's own special tokens inside."""
    if isinstance(reference, ref.HuggingFace):
        names = [t.content for t in reference.tok.get_added_tokens_decoder().values()
                 if not t.content.startswith(ref.UNUSED)]
    else:
        names = list(getattr(reference, "controls", None) or reference.specials)
    rng = random.Random(3)
    out = []
    for i in range(200 if names else 0):
        parts = [rng.choice(["", "a", " ", "Hello ", "\n", "字", " x ", "<", "the end."]) + rng.choice(names)
                 for _ in range(rng.randint(1, 4))]
        out.append("".join(parts) + rng.choice(["", " tail", "\n", "z"]))
    return out


def speed(name, options, corpus):
    """Processor time of encoding the same texts, one after the other and in turns."""
    path, references = list(SOURCES[name]())[-1]
    reference = next((r for r in references if isinstance(r, ref.HuggingFace)), None)
    if not reference:
        return
    tok = weir.Tokenizer(path)
    reference.tok.encode_special_tokens = False
    strings = [data.decode() for data in corpus]
    size = sum(map(len, corpus)) / 1e6
    ours, theirs = [], []
    for _ in range(options.rounds):
        start = time.thread_time()
        for data in corpus:
            tok.count(data, weir.PARSE_SPECIAL)
        middle = time.thread_time()
        for text in strings:
            reference.tok.encode(text, add_special_tokens=False)
        ours.append(size / (middle - start))
        theirs.append(size / (time.thread_time() - middle))
    ratio = [a / b for a, b in zip(ours, theirs)]
    print(f"{name}: weir {spread(ours)} MB/s, tokenizers {statistics.median(theirs):.2f} ({min(theirs):.2f}-{max(theirs):.2f}) MB/s, "
          f"ratio {spread(ratio)}, n {len(ours)}", flush=True)
    tok.close()


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def speed_of_long_words(name):
    """Processor time of a megabyte without a place to cut it, in ms; the slowest text of some kinds."""
    path, _ = list(SOURCES[name]())[-1]
    tok = weir.Tokenizer(path)
    rng = random.Random(7)
    kinds = {"letter": "a", "spaces": " ", "newlines": "\n", "digits": "0123456789", "han": "字", "emoji": "👩‍👩‍👧", "words": "word ",
             "random letters": "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20)), "punctuation": "-", "bytes": "\xff"}
    times = {}
    for kind, text in kinds.items():
        part = text.encode("latin-1") if kind == "bytes" else text.encode()
        data = (part * ((1 << 20) // len(part) + 1))[:1 << 20]
        start = time.thread_time()
        tok.count(data, 0)
        times[kind] = (time.thread_time() - start) * 1e3
    tok.close()
    slowest = max(times, key=times.get)
    print(f"{name}: 1 MB at most {times[slowest]:.0f} ms ({slowest}), median of kinds {statistics.median(times.values()):.0f} ms", flush=True)


def speed_of_opening(rounds):
    """The largest tokenizer.json there is, indented and with its merges as pairs, as the library writes it."""
    data = json.loads(get_tokenizers.path_of("llama3").read_text())
    data["model"]["merges"] = [merge.split(" ") if isinstance(merge, str) else merge for merge in data["model"]["merges"]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(json.dumps(data, indent=2, ensure_ascii=False))
        ours, theirs = [], []
        for _ in range(rounds):
            start = time.thread_time()
            weir.Tokenizer(path).close()
            middle = time.thread_time()
            Tokenizer.from_file(str(path))
            ours.append((middle - start) * 1e3)
            theirs.append((time.thread_time() - middle) * 1e3)
        print(f"opening {path.stat().st_size / 1e6:.1f} MB: weir {spread(ours)} ms, tokenizers {spread(theirs)} ms, n {rounds}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Compare weir's tokenizers with the published libraries.")
    parser.add_argument("--texts", type=int, default=20000)
    parser.add_argument("--shown", type=int, default=5, help="differences shown for each tokenizer")
    parser.add_argument("--quick", action="store_true", help="a few tokenizers and texts")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or (QUICK if options.quick else list(SOURCES))
    languages = get_tokenizers.path_of("texts")
    texts = tokenizer_texts.make(1500 if options.quick else options.texts, languages)
    failed = 0
    for name in names:
        try:
            if options.speed:
                long = [b"\n".join(texts[i:i + 40]) for i in range(0, len(texts), 40)]
                speed(name, options, [d for d in long if d.decode("utf-8", "replace").encode() == d][:200])
                speed_of_long_words(name)
            else:
                failed += compare(name, texts, options)
        except FileNotFoundError as error:
            print(f"{name}: left out, {error}", flush=True)
    if options.speed and not options.names:
        speed_of_opening(options.rounds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
