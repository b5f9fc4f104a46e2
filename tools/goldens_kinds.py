#!/usr/bin/env python3
"""Make tests/data/text/kinds.golden.json and the small model files beside it.

    $(tools/python_env.py) tools/goldens_kinds.py

Small tokenizers of every kind of model, trained here on the text below, and each step
that is not in steps.golden.json, put into one of them. Expected values come from the
`tokenizers`, `sentencepiece` and `tiktoken` packages; nothing is computed by weir.
"""
import base64
import copy
import json
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tokenizer_references as ref  # noqa: E402

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "text"

CORPUS = ["Hello world, this is a small text about words and pieces of words.", "The quick brown fox jumps over the lazy dog.",
          "café naïve Ångström straße", "don't can't we've I'm it's", "snake_case camelCase 12345 67.89", "你好 世界 日本語 テキスト",
          "Привет мир", "unbelievable unhappiness happily happier", "words wordy wordless sword"] * 6

TEXTS = ["", " ", "Hello, world! It's 2024.", "  a  b\t\nc ", "unhappy words  of the sword", "café cafe\u0301 ÅNGSTRÖM ﬁ ǅ", "日本語テキスト 世界。", "x\u00a0y\u3000z\u200b\ufeff!",
         "a\x01b\x7fc\ufffdd", "Привет, МИР", "a-b--c", "😀 👍🏽 x", "don't do not 's 've . , ! ?", "e\u0301\u0323 x\u0323\u0307", "word" * 30, "12 345 ½ ٣", "abc αβγ абв かな カナー 한글 ok",
         "x [CLS] hi [SEP] y", "tail   ", "▁a ▁▁b", "zq zq zqzq", "  lead"]

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def spans(text, offsets):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[a], at[b]] for a, b in offsets]


def decoded(tok, ids, skip):
    """None where the library panics, as it does when Strip has less to take than it may."""
    try:
        return tok.decode(ids, skip_special_tokens=skip)
    except BaseException:
        return None


class Cases:
    def __init__(self):
        self.bases, self.cases = {}, []

    def base(self, name, tok):
        self.bases[name] = json.loads(tok.to_str())

    def add(self, name, base, model=None, spans_differ=False, decode=True, **patch):
        data = copy.deepcopy(self.bases[base])
        data.update(patch)
        data["model"].update(model or {})
        tok = Tokenizer.from_str(json.dumps(data))
        case = {"name": name, "base": base, "patch": patch, "ids": [], "bare": []}
        if model:
            case["model"] = model
        case.update({} if spans_differ else {"spans": []}, **({"all": [], "skip": []} if decode else {}))
        for text in TEXTS:
            bare = tok.encode(text, add_special_tokens=False)
            ids = tok.encode(text).ids
            case["ids"].append(ids)
            case["bare"].append(bare.ids)
            if not spans_differ:
                case["spans"].append(spans(text, bare.offsets))
            if decode:
                case["all"].append(decoded(tok, ids, False))
                case["skip"].append(decoded(tok, ids, True))
        self.cases.append(case)


def train_pieces(kind, **more):
    """A SentencePiece model with a few rules of its own."""
    rules = [("ﬁ", "fi"), ("Å", "A"), ("e\u0301", "é"), ("\t", " "), ("\n", " "), ("\u00a0", " "), ("\u3000", " "), ("\u200b", ""), ("\x01", "")]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.tsv").write_text("".join(
            " ".join(f"{ord(c):x}" for c in a) + "\t" + " ".join(f"{ord(c):x}" for c in b) + "\n" for a, b in rules))
        (Path(folder) / "corpus.txt").write_text("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=f"{folder}/corpus.txt", model_prefix=f"{folder}/m", model_type=kind, hard_vocab_limit=False, minloglevel=2,
            normalization_rule_tsv=f"{folder}/rules.tsv", user_defined_symbols=["<user>", "zq"], **more)
        return Path(f"{folder}/m.model").read_bytes()


def bases(cases):
    word = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    word.normalizer, word.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    word.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=260, special_tokens=SPECIALS, show_progress=False))
    data = json.loads(word.to_str())
    data["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    data["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    cases.base("wordpiece", Tokenizer.from_str(json.dumps(data)))

    level = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    level.pre_tokenizer = pre_tokenizers.Whitespace()
    level.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=60, special_tokens=SPECIALS, show_progress=False))
    cases.base("wordlevel", level)

    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    data = json.loads(unigram.to_str())
    data["decoder"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    cases.base("unigram", Tokenizer.from_str(json.dumps(data)))

    suffix = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    suffix.normalizer, suffix.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    suffix.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=220, special_tokens=SPECIALS, end_of_word_suffix="</w>", show_progress=False))
    data = json.loads(suffix.to_str())
    data["decoder"] = {"type": "BPEDecoder", "suffix": "</w>"}
    cases.base("suffix", Tokenizer.from_str(json.dumps(data)))

    level = pre_tokenizers.ByteLevel(add_prefix_space=True)
    byte = Tokenizer(models.BPE())
    byte.pre_tokenizer, byte.decoder = level, decoders.ByteLevel()
    byte.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], initial_alphabet=level.alphabet(), show_progress=False))
    cases.base("bytes", byte)

    prefix = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="@@"))
    prefix.pre_tokenizer = pre_tokenizers.Whitespace()
    prefix.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=220, special_tokens=SPECIALS, continuing_subword_prefix="@@", show_progress=False))
    data = json.loads(prefix.to_str())
    data["decoder"] = {"type": "WordPiece", "prefix": "@@", "cleanup": False}
    cases.base("prefix", Tokenizer.from_str(json.dumps(data)))


def every_kind(cases):
    charsmap = ref.sp_model.ModelProto.FromString(train_pieces("unigram", vocab_size=150)).normalizer_spec.precompiled_charsmap
    rules = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    for base in cases.bases:
        cases.add(base, base)
    for options in ((False, True, None, True), (True, False, None, True), (True, True, False, True), (True, True, True, False), (True, True, None, False)):
        keys = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        cases.add(f"BertNormalizer {options}", "wordpiece", normalizer={"type": "BertNormalizer", **dict(zip(keys, options))})
    cases.add("long words", "wordpiece", model={"max_input_chars_per_word": 4})
    for step in ({"type": "StripAccents"}, {"type": "Nmt"}, {"type": "NFD"}, {"type": "NFC"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"},
                 {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": True}]},
                 {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Prepend", "prepend": "zq"}):
        cases.add(f"normalizer {step}", "unigram", normalizer=step)
    cases.add("normalizer Precompiled", "unigram", normalizer=rules, spans_differ=True)
    cases.add("normalizer ByteLevel", "unigram", normalizer={"type": "ByteLevel"}, decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, decode=False)
    for step in ({"type": "CharDelimiterSplit", "delimiter": "-"}, {"type": "FixedLength", "length": 3}, {"type": "UnicodeScripts"}, {"type": "BertPreTokenizer"},
                 {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, {"type": "FixedLength", "length": 2}]},
                 {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}):
        cases.add(f"pre_tokenizer {step}", "unigram", pre_tokenizer=step)
    byte = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    cases.add("trimmed spans", "bytes", pre_tokenizer=byte, post_processor=byte)
    cases.add("trimmed spans, no space in front", "bytes", pre_tokenizer={**byte, "add_prefix_space": False}, post_processor={**byte, "add_prefix_space": False})
    cases.add("RobertaProcessing trims", "bytes", pre_tokenizer=byte, post_processor={"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True})
    fuse, strip = {"type": "Fuse"}, {"type": "Strip", "content": "o", "start": 1, "stop": 0}
    for decoder in ({"type": "WordPiece", "prefix": "##", "cleanup": False}, {"type": "CTC", "pad_token": "[PAD]", "word_delimiter_token": "##e", "cleanup": True},
                    {"type": "CTC", "pad_token": "w", "word_delimiter_token": "|", "cleanup": False}, strip, {**strip, "start": 0, "stop": 2},
                    {"type": "Sequence", "decoders": [fuse, {"type": "Strip", "content": "s", "start": 0, "stop": 2}]},
                    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "<>"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}]},
                    {"type": "Sequence", "decoders": [fuse, {"type": "Replace", "pattern": {"String": "#"}, "content": "··"}, {"type": "Strip", "content": "·", "start": 3, "stop": 0}]}, None):
        cases.add(f"decoder {decoder}", "wordpiece", decoder=decoder)


def piece_files(out):
    files = []
    for name, kind, options in (("pieces_bpe", "bpe", {"vocab_size": 420, "byte_fallback": True}), ("pieces_unigram", "unigram", {"vocab_size": 150}),
                                ("pieces_bytes", "unigram", {"vocab_size": 420, "byte_fallback": True, "remove_extra_whitespaces": False}),
                                ("pieces_plain", "bpe", {"vocab_size": 160, "add_dummy_prefix": False, "remove_extra_whitespaces": False})):
        blob = train_pieces(kind, **options)
        if name == "pieces_bpe":  # some pieces that merging makes but that are not given out
            proto = ref.sp_model.ModelProto.FromString(blob)
            normal = [p for p in proto.pieces if p.type == 1 and len(p.piece) > 1]
            for piece in normal[::3]:
                piece.type = 5
            blob = proto.SerializeToString()
        (out / f"{name}.model").write_bytes(blob)
        sp = ref.SentencePiece(ref.sp_model.ModelProto.FromString(blob))
        encoded = [sp.encode(text, False) for text in TEXTS]
        files.append({"file": f"{name}.model", "ids": [ids for ids, _ in encoded],
                      "decoded": [None if sp.special & set(ids) else sp.decode(ids, False) for ids, _ in encoded]})
    return files


def rank_files(out):
    """The first tokens of a byte-level vocabulary of its own, as Mistral's file has them."""
    import tiktoken
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    bytes_of = {letter: byte for byte, letter in ref.letters().items()}
    tokens = sorted(tok.get_vocab().items(), key=lambda item: item[1])
    table = {bytes(bytes_of[c] for c in text): rank for text, rank in tokens}
    pattern = ref.LLAMA3
    data = {"config": {"pattern": pattern, "num_vocab_tokens": len(table), "default_vocab_size": len(table) + 30 - 10, "default_num_special_tokens": 30, "version": "v3"},
            "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in table.items()]}
    (out / "tekken_small.json").write_text(json.dumps(data) + "\n")
    used = {token: rank for token, rank in table.items() if rank < len(table) - 10}
    e = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=used, special_tokens={})
    return [{"file": "tekken_small.json", "ids": [[i + 30 for i in e.encode_ordinary(t)] for t in TEXTS], "decoded": TEXTS}]


def main():
    cases = Cases()
    bases(cases)
    every_kind(cases)
    data = {"texts": TEXTS, "bases": cases.bases, "cases": cases.cases, "files": piece_files(OUT) + rank_files(OUT)}
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    text = text.replace('{"name"', '\n{"name"').replace('{"file"', '\n{"file"')
    (OUT / "kinds.golden.json").write_text(text + "\n")
    print(f"kinds.golden.json: {len(text)} bytes, {len(cases.cases)} cases")


if __name__ == "__main__":
    main()
