#!/usr/bin/env python3
"""Make the golden files of tests/data/text from independent implementations.

    $(tools/python_env.py) tools/goldens_text.py [--store FOLDER]

Real vocabularies are read from the GGUF files of the model store with the `gguf`
package. Byte-level ones are given to the `tokenizers` library with the
pre-tokenizer that the model's family publishes; Gemma's to `sentencepiece`, as the
model file that its scores came from. The small tokenizers are trained here, on the
text below. Nothing is computed by weir.
"""
import argparse, copy, json, pathlib, random, sys

import jinja2
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as sp_model
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tokenizer_references as ref  # noqa: E402
from get_models import store_folder  # noqa: E402
from tokenizer_references import LLAMA3, QWEN, digits_then_bytes, split_then_bytes  # noqa: E402
from tokenizer_texts import BROKEN  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "text"

TEXTS = [
    "",
    " ",
    "a",
    "Hello world",
    " Hello  world ",
    "Hello, world! It's 2024, isn't it? I'LL SAY WE'VE.",
    "The quick brown fox jumps over the lazy dog.\nThe end.\n",
    "\n", "\n\n\n", "\r\n\r\n", "\t", "\t\tx\n\t y", " \n \n  \n", "a \n b", "x" + " " * 17 + "y", " " * 40, "\n" * 40,
    "tail   ", "tail\n", "\u00a0\u2003\u3000\u2028\u0085\u180e\u200b.",
    "0123456789", "3.14159e-10 1,000,000 0x1F ١٢٣ ½ ² Ⅷ 四",
    "café cafe\u0301 naïve Ångström \u212b \u01c4 ﬁ",
    "e\u0301\u0323 e\u0323\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323 \u0344 a\u0315\u0300\u05ae\u0300b",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글 각 \u0958 \u09c7\u09be",
    "Straße İstanbul ΣΊΣΥΦΟΣ ǅ ſ K'ſ",
    "你好，世界！今天天气很好。日本語のテキスト、カタカナ。한국어",
    "السلام عليكم ورحمة الله. مَرْحَبًا", "שָׁלוֹם עולם", "नमस्ते दुनिया क्ष", "สวัสดีชาวโลก", "Привет, мир! Ёлка",
    "😀😃 👨‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☺️", "ď\u0000x\u0001\u007f", "\ufeffBOM \ufffd \U0010ffff \ue000",
    "def f(x):\n    if x > 0:\n        return x ** 2  # square\n    else:\n\t\treturn -x\n",
    "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", a[i]->b); return 0; }\n",
    "{\"key\": [1, 2.5, null, true], \"k2\": \"v\\u00e9\"}",
    "<div class=\"a\">text</div>\n<!-- c --> https://example.org/path?q=1&r=%20#frag",
    "!!!???...---___***((()))[[[]]]{{{}}}~~~```", "$100 €50 £3 ¥7 + - = < > | ^ ` ~",
    "don't DON'T Don'T 'tis rock'n'roll y'all'd've", "snake_case camelCase PascalCase SCREAMING_CASE kebab-case",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ab" * 50, "Donaudampfschifffahrtsgesellschaft",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|endoftext|>b", "<|im_end|", "<<|im_end|>>",
    "<start_of_turn>user\nHi<end_of_turn>\n", "<bos>x<eos>", "<tool_call>{}</tool_call>", "<0x41><0xE2>", "<s>a</s> <unk>",
    "▁a ▁▁b", "Ġa ĊĠ", "x\u0301\u0301\u0301\u0301\u0301y", "mixed\tтаб और 混合 mix\u200dzwj",
    "  two  spaces   three    four\n     five", "line1\r\nline2\rline3\x0bline4\x0cline5",
    "I'm sure 'm 's 'S 'll 'LL 've 'd", "1 22 333 4444 55555", "A1b2C3", "٣٤٥ ४५६ 一二三",
]


def write(name, value, indent=None):
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), indent=indent)
    if indent is None:  # one case a line, so that a change can be read
        text = text.replace('},{"text"', '},\n{"text"').replace('},{"hex"', '},\n{"hex"').replace('},{"name"', '},\n{"name"').replace('},{"ids"', '},\n{"ids"')
    (OUT / name).write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def encodings(tok):
    """Every text with special tokens parsed ("ids") and as plain text ("plain", where it differs)."""
    cases = []
    for t in TEXTS + [b.decode("utf-8", "replace") for b in BROKEN]:
        tok.encode_special_tokens = False
        e = tok.encode(t, add_special_tokens=False)
        tok.encode_special_tokens = True
        plain = tok.encode(t, add_special_tokens=False).ids
        case = {"text": t, "ids": e.ids}
        if plain != e.ids:
            case["plain"] = plain
        cases.append(case)
    tok.encode_special_tokens = False
    for c, b in zip(cases[len(TEXTS):], BROKEN):
        del c["text"]
        c["hex"] = b.hex()
    return [{k: c[k] for k in ("hex", "text", "ids", "plain") if k in c} for c in cases]


def decodings(tok, size, seed, texts=TEXTS, random_ids=True):
    """The reference turns an added token that is not ASCII back as if it were spelled in the byte-level
    alphabet, and so loses it; weir gives its text. Such lists are left out."""
    rng = random.Random(seed)
    lists = [tok.encode(t, add_special_tokens=False).ids for t in texts[::3]]
    if random_ids:
        lists += [[rng.randrange(size) for _ in range(n)] for n in (1, 2, 3, 5, 8, 13, 21, 34)]
        lists += [[rng.randrange(min(size, 300)) for _ in range(n)] for n in (1, 2, 3, 5, 8, 13, 21, 34) for _ in range(3)]
    lost = tok.token_to_id("caf\u00e9")
    lists = [ids for ids in lists if lost not in ids]
    return [{"ids": ids, "all": tok.decode(ids, skip_special_tokens=False), "skip": tok.decode(ids, skip_special_tokens=True)} for ids in lists]


GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def real_byte_level(store):
    m = ref.GgufVocabulary(store / "SmolLM2-135M-Instruct.Q4_1.gguf")
    tok = m.byte_level(digits_then_bytes())
    write("real_smollm2.json", {"encode": encodings(tok), "decode": decodings(tok, len(m.tokens), 1)})
    q = ref.GgufVocabulary(store / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    tok = q.byte_level(split_then_bytes(QWEN), normalizers.NFC())
    write("real_qwen2.json", {"encode": encodings(tok), "decode": decodings(tok, 151665, 2)})
    # The other split rules, on SmolLM2's pieces: the rule is what differs.
    rules = []
    for pre, step, norm, ignore in [
            ("gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False), None, False),
            ("default", pre_tokenizers.ByteLevel(add_prefix_space=False), None, False),
            ("command-r", digits_then_bytes(), normalizers.NFC(), False),
            ("llama-bpe", split_then_bytes(LLAMA3), None, True),
            ("gpt-4o", split_then_bytes(GPT4O), None, False),
            ("tekken", split_then_bytes(TEKKEN), None, True)]:
        tok = m.byte_level(step, norm)
        tok.model.ignore_merges = ignore
        rules.append({"name": pre, "ids": [tok.encode(t, add_special_tokens=False).ids for t in TEXTS]})
    write("real_rules.json", {"texts": TEXTS, "rules": rules})
    return m, q


def sp_cases(sp, control):
    """control: pieces of control tokens, which sentencepiece does not read in text; split there by hand."""
    cases = []
    for raw in [t.encode() for t in TEXTS] + BROKEN:
        t = raw.decode("utf-8", "replace")
        plain, ids, rest = sp.encode(t), [], t
        while rest:
            hits = [(rest.find(c), -len(c), c) for c in control if c in rest]
            if not hits:
                ids += sp.encode(rest)
                break
            at, _, c = min(hits)
            ids += (sp.encode(rest[:at]) if at else []) + [sp.piece_to_id(c)]
            rest = rest[at + len(c):]
        case = {"text": t} if raw == t.encode() else {"hex": raw.hex()}
        case["ids"] = ids
        if plain != ids:
            case["plain"] = plain
        cases.append(case)
    return cases


def real_gemma(store):
    m = ref.GgufVocabulary(store / "gemma-3-270m-q4_k_m.gguf")
    sp = ref.SentencePiece(m.sentencepiece(3, False)).sp
    control = [t for t, k in zip(m.tokens, m.types) if k == 3]
    decode = []
    for t in TEXTS[::3]:
        ids = sp.encode(t)
        if sp.decode(ids) == t:  # text in, same text out: nothing to doubt
            decode.append({"ids": ids, "all": t, "skip": t})
    write("real_gemma3.json", {"encode": sp_cases(sp, control), "decode": decode})


CORPUS = [t for t in TEXTS if t] * 3 + ["the cat sat on the mat and the dog ran to the house"] * 20


def tiny_byte_level():
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = split_then_bytes(QWEN)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, special_tokens=["<|bos|>", "<|end|>"],
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens([AddedToken("<|im_start|>", special=True, normalized=False), AddedToken("<|im_end|>", special=True, normalized=False)])
    tok.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken(" <l> ", normalized=False),
                    AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
                    AddedToken("word", single_word=True, normalized=False), AddedToken("caf\u00e9", normalized=True)])
    tok.post_processor = processors.TemplateProcessing(single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[("<|bos|>", tok.token_to_id("<|bos|>"))])
    return tok


def tiny_fallback():
    """As Llama 2 and Mistral are published: a prefix and spaces by the normaliser, bytes for the rest."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
        limit_alphabet=60, max_token_length=16, show_progress=False))
    data = json.loads(tok.to_str())
    # The byte pieces came in as special tokens so that the trainer keeps them; in
    # published files they are plain pieces.
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    data["post_processor"] = {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {s: {"id": s, "ids": [data["model"]["vocab"][s]], "tokens": [s]} for s in ("<s>", "</s>")}}
    return Tokenizer.from_str(json.dumps(data))


EXTRA = ["a <l> b", "a  <lr>  b", "<lr><lr> <lr>", "word words sword word-word wordword word", "caf\u00e9 cafe\u0301 xcafe\u0301x", "<|bos|>hi<|end|>",
         "<|im_start|><|im_start|>", "<tool_call", "<s>hi</s>", "<s> hi </s> there", " <l>", "x<l> y"]


def with_texts(texts, make):
    global TEXTS
    old, TEXTS = TEXTS, texts
    try:
        return make()
    finally:
        TEXTS = old


def tiny_files():
    byte, fallback = tiny_byte_level(), tiny_fallback()
    texts = TEXTS + EXTRA
    for name, tok in (("tiny_bytes", byte), ("tiny_fallback", fallback)):
        data = json.loads(tok.to_str())
        write(name + ".tokenizer.json", data)
        cases = with_texts(texts, lambda: encodings(tok))
        for c in cases:
            t = c["text"] if "text" in c else bytes.fromhex(c["hex"]).decode("utf-8", "replace")
            c["added"] = tok.encode(t).ids
            if "\u0301" not in t and "\u0323" not in t and "text" in c and name == "tiny_bytes" and t.isascii():
                c["offsets"] = [list(o) for o in tok.encode(t, add_special_tokens=False).offsets]
        write(name + ".golden.json", {"encode": cases, "decode": decodings(tok, tok.get_vocab_size(), 3, texts, name == "tiny_bytes")})
    # The same merges written the older way, as "left right".
    data = json.loads(byte.to_str())
    data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    data["version"] = "1.0"
    write("tiny_bytes_old.tokenizer.json", data)
    return byte, fallback


def step_goldens(byte, fallback):
    """Every normaliser, pre-tokeniser and decoder that is supported, put into a tiny file."""
    B, F = json.loads(byte.to_str()), json.loads(fallback.to_str())
    texts = ["Hello, world! It's 2024.", "  a  b\t\nc ", "12 345,6-7 ½²x9", "ŒUVRE Straße İI ǅ", "cafe\u0301 ﬁ Å x\u0323\u0307", "a--b..c !! ", "\u00a0x\u3000y\u180ez\u200d",
             "", " ", "-", "don't snake_case ١٢ \u24b6\u0301", "a▁b ▁c", "日本語 テキスト。", "x<|im_end|> y <tool_call>z", "A\nB\r\n\nC"]
    cases = []

    def add(name, base, **patch):
        data = copy.deepcopy(base)
        model = patch.pop("model", {})
        data.update(patch)
        data["model"].update(model)
        tok = Tokenizer.from_str(json.dumps(data))
        ids = [tok.encode(t, add_special_tokens=True).ids for t in texts]
        entry = {"name": name, "base": "tiny_bytes" if base is B else "tiny_fallback", "patch": patch, "ids": ids}
        if model:
            entry["model"] = model
        if "decoder" in patch or base is F:
            entry["decoded"] = [tok.decode(i, skip_special_tokens=True) for i in ids]
        cases.append(entry)

    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    for rule in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            for kind, pattern in (("Regex", r"\s+|\p{P}"), ("String", "-"), ("Regex", r"(?=\d)")):
                if rule != "Isolated" and kind == "String" and invert:
                    continue
                split = {"type": "Split", "pattern": {kind: pattern}, "behavior": rule, "invert": invert}
                add(f"split {rule} {kind} {pattern} {invert}", B, pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]})
    for step in ({"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
                 {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Punctuation", "behavior": "Contiguous"},
                 {"type": "Whitespace"}, {"type": "WhitespaceSplit"}):
        add(f"step {step}", B, pre_tokenizer={"type": "Sequence", "pretokenizers": [step, level]})
        add(f"step {step} by characters", F, normalizer=None, pre_tokenizer=step)
    for prefix in (False, True):
        for regex in (False, True):
            add(f"ByteLevel {prefix} {regex}", B, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex})
    for pattern in (r"\w+", r"\d{1,3}", r"[\s\d]+", r"(?<!\w)\w", r"\h+", r"[[:upper:]]+", r"^.|.$", r"(?i)STRA", r"[^\S\n]+", r"\p{Han}+|[\u3040-\u30ff]+", r"\bx|\W+", r"a{,2}b", r"x{2"):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        add(f"expression {pattern}", B, pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]})
    for norm in [{"type": k} for k in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")] + [
            {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Prepend", "prepend": "> "}, {"type": "Replace", "pattern": {"String": "a"}, "content": "xyz"},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"},
            {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Replace", "pattern": {"Regex": r"\p{Mn}"}, "content": ""}, {"type": "Lowercase"}]}]:
        add(f"normalizer {norm}", B, normalizer=norm)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
            add(f"Metaspace {scheme} {split}", F, normalizer=None, pre_tokenizer=meta,
                decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split})
    add("no decoder", F, decoder=None)
    add("no fallback, unknown fused", F, model={"byte_fallback": False, "fuse_unk": True})
    add("no fallback, unknown apart", F, model={"byte_fallback": False, "fuse_unk": False})
    add("no unknown token", F, model={"byte_fallback": False, "unk_token": None})
    add("ignore_merges", B, model={"ignore_merges": True})
    add("Gemma's decoder", F, normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]})
    b = B["model"]["vocab"]
    add("RobertaProcessing", B, post_processor={"type": "RobertaProcessing", "sep": ["<|end|>", b["<|end|>"]], "cls": ["<|bos|>", b["<|bos|>"]], "trim_offsets": True, "add_prefix_space": False})
    add("post Sequence", B, post_processor={"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, B["post_processor"]]})
    write("steps.golden.json", {"texts": texts, "cases": cases})


def tiny_scores():
    """A SentencePiece BPE model as GGUF carries it, with and without the space in front."""
    path = OUT / "tmp_sp"
    (OUT / "tmp_corpus.txt").write_text("\n".join(t.replace("\n", " ").replace("\r", " ").replace("\0", " ") for t in CORPUS))
    sentencepiece.SentencePieceTrainer.train(input=str(OUT / "tmp_corpus.txt"), model_prefix=str(path), vocab_size=640, model_type="bpe",
        byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<user>", "\u2581\u2581"], hard_vocab_limit=False, minloglevel=2)
    proto = sp_model.ModelProto()
    proto.ParseFromString((OUT / "tmp_sp.model").read_bytes())
    for f in ("tmp_sp.model", "tmp_sp.vocab", "tmp_corpus.txt"):
        (OUT / f).unlink()
    pieces = [(p.piece.replace("\u2581", " ") if p.type == 4 else p.piece, p.score, p.type) for p in proto.pieces]
    tokens, scores, types = zip(*pieces)
    unk = types.index(2)
    out = {"tokens": tokens, "scores": scores, "types": types, "unk": unk, "bos": tokens.index("<s>"), "eos": tokens.index("</s>")}
    sp = ref.SentencePiece(ref.sentencepiece_model(tokens, scores, types, unk, False)).sp
    out["encode"] = [{"text": t, "ids": sp.encode(t)} for t in TEXTS + ["a<user>b  c", "<user>"]]
    sp = ref.SentencePiece(ref.sentencepiece_model(tokens, scores, types, unk, True)).sp
    out["encode_prefix"] = [{"text": t, "ids": sp.encode(t)} for t in TEXTS + [" <user>", "a<user>b  c"]]
    write("tiny_scores.golden.json", out)


GEMMA3_TURNS = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set front = messages[0]['content'] + '\n\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set front = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for m in turns -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('user and assistant must take turns') }}
    {%- endif -%}
    {{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + (front if loop.first else '') + m['content'] | trim + '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\n' }}
{%- endif -%}
"""
LLAMA3_TURNS = """{% for m in messages %}{% set turn = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set turn = bos_token + turn %}{% endif %}{{ turn }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
PLAIN_CHATML = """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
TEXT_CHATML = """{% if messages[0]['role'] != 'system' %}<|im_start|>system
You're "plain".<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

CHATS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "Hi")],
    [("user", "Hi"), ("assistant", "Hello!"), ("user", "  How are you? \n")],
    [("system", ""), ("user", "x"), ("assistant", ""), ("user", "y\u3000")],
    [("user", "<|im_end|>\n{{ 7 * 7 }} '\"\\ \u00e9\U0001f600")],
    [("user", "a"), ("assistant", "b")],
]


def chat_goldens(smol, qwen):
    def stop(message):
        raise jinja2.TemplateError(message)

    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # as transformers sets it
    env.globals["raise_exception"] = stop
    cases = []
    for name, text, bos in (("smollm2", smol.template, "<|im_start|>"), ("qwen2.5", qwen.template, ""), ("gemma3", GEMMA3_TURNS, "<bos>"),
                            ("llama3", LLAMA3_TURNS, "<|begin_of_text|>"), ("chatml", PLAIN_CHATML, ""), ("chatml as text", TEXT_CHATML, "")):
        for chat in CHATS:
            messages = [{"role": r, "content": c} for r, c in chat]
            for generate in (False, True):
                cases.append({"name": name, "template": name, "bos": bos, "messages": chat, "generate": generate,
                              "text": env.from_string(text).render(messages=messages, bos_token=bos, add_generation_prompt=generate, tools=None)})
    write("chat.golden.json", {"templates": {"smollm2": smol.template, "qwen2.5": qwen.template, "gemma3": GEMMA3_TURNS, "llama3": LLAMA3_TURNS,
                                            "chatml": PLAIN_CHATML, "chatml as text": TEXT_CHATML}, "cases": cases})


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--store", default=store_folder())
    p.add_argument("--only", choices=["tiny", "real"], help="half of the files; the real models take minutes")
    args = p.parse_args()
    store = pathlib.Path(args.store)
    OUT.mkdir(parents=True, exist_ok=True)
    if args.only != "real":
        step_goldens(*tiny_files())
        tiny_scores()
    if args.only != "tiny":
        smol, qwen = real_byte_level(store)
        real_gemma(store)
        chat_goldens(smol, qwen)


if __name__ == "__main__":
    main()
