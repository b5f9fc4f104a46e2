"""The libraries that weir's tokenizers are compared with, behind one face.

A reference has encode(text, special) -> (ids, places or None) with places in bytes
(None for a token whose place it does not say), decode(ids, skip) -> text or None where it has no answer, and the special
tokens' ids. Nothing here is computed by weir.
"""
import base64
import json
import re
import unicodedata

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2 as sp_model
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UNUSED = "<|unused_"
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = CASED % ("*", "+") + "|" + CASED % ("+", "*") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


class HuggingFace:
    """The tokenizers library."""

    def __init__(self, tok, affix=((), ())):
        self.tok, self.affix = tok, affix
        tok.no_truncation()
        tok.no_padding()
        self.special = {i for i, t in tok.get_added_tokens_decoder().items() if t.special}
        names = ("<unk>", "[UNK]", "<|unk|>")
        self.unknown = {i for i, t in tok.get_added_tokens_decoder().items() if t.content in names}

    def encode(self, text, special):
        self.tok.encode_special_tokens = not special
        e = self.tok.encode(text, add_special_tokens=False)
        at = [0]
        for c in text:
            at.append(at[-1] + len(c.encode()))
        return e.ids, [(at[a], at[b]) for a, b in e.offsets]

    def with_special(self, text):
        self.tok.encode_special_tokens = False
        return self.tok.encode(text, add_special_tokens=True).ids

    def decode(self, ids, skip):
        return self.tok.decode(ids, skip_special_tokens=skip)


class Tiktoken:
    """form: the normal form that the model's own program gives the text first."""

    def __init__(self, encoding, shift=0, specials=None, form=None):
        self.e, self.shift, self.specials, self.form = encoding, shift, specials or {}, form
        self.special, self.unknown = set(self.specials.values()), set()
        self.names = {i: t for t, i in self.specials.items()}
        self.pattern = re.compile("|".join(re.escape(t) for t in sorted(self.specials, key=len, reverse=True)) or "(?!)")

    def encode(self, text, special):
        ids, at = [], 0
        text = unicodedata.normalize(self.form, text) if self.form else text
        for hit in self.pattern.finditer(text) if special else []:
            ids += [i + self.shift for i in self.e.encode_ordinary(text[at:hit.start()])] + [self.specials[hit.group()]]
            at = hit.end()
        return ids + [i + self.shift for i in self.e.encode_ordinary(text[at:])], None

    def decode(self, ids, skip):
        out = b""
        for i in ids:
            if i in self.special:
                out += b"" if skip else self.names[i].encode()
            else:
                out += self.e.decode_single_token_bytes(i - self.shift)
        return out.decode("utf-8", "replace")


class SentencePiece:
    """Control pieces, which the library does not read in text, are split off here."""

    def __init__(self, proto):
        self.sp = sentencepiece.SentencePieceProcessor()
        self.sp.LoadFromSerializedProto(proto.SerializeToString())
        self.proto = proto
        self.controls = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (2, 3)}
        self.special = set(self.controls.values())
        self.unknown = {i for i, p in enumerate(proto.pieces) if p.type == 2}
        self.bytes = {i for i, p in enumerate(proto.pieces) if p.type == 6}
        self.pattern = re.compile("|".join(re.escape(t) for t in sorted(self.controls, key=len, reverse=True)) or "(?!)")

    def part(self, text, base):
        ids, places = [], []
        for piece in self.sp.encode(text, return_type="proto").pieces if text else []:
            ids.append(piece.id)
            places.append(None if piece.id in self.bytes else (base + piece.begin, base + piece.end))
        return ids, places

    def encode(self, text, special):
        ids, places, at = [], [], 0
        for hit in self.pattern.finditer(text) if special else []:
            begin, end = (len(text[:i].encode()) for i in hit.span())
            more, where = self.part(text[at:hit.start()], len(text[:at].encode()))
            ids += more + [self.controls[hit.group()]]
            places += where + [(begin, end)]
            at = hit.end()
        more, where = self.part(text[at:], len(text[:at].encode()))
        return ids + more, places + where

    def decode(self, ids, skip):
        """Without special ids: the library leaves control pieces out and writes unknown ones in its own way."""
        return None if self.special & set(ids) else self.sp.decode(ids)


def read_proto(path):
    proto = sp_model.ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def read_ranks(path):
    """token bytes -> rank of a tiktoken file."""
    lines = path.read_bytes().split(b"\n")
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line.strip())}


def read_tekken(path):
    data = json.loads(path.read_text())
    n_special = data["config"]["default_num_special_tokens"]
    n = data["config"]["default_vocab_size"] - n_special
    return {base64.b64decode(t["token_bytes"]): t["rank"] for t in data["vocab"][:n]}, data["config"]["pattern"], n_special


def letters():
    """Byte -> letter of the byte-level alphabet."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(0x100 + i) for i, b in enumerate(rest)}


def last_pair(token, ranks):
    """The two tokens that merging by rank joins last into this one; None if it does not come to that."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best = min(((ranks.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1)))
        if best[0] == 1 << 30:
            return None
        parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
    return parts


def json_of_ranks(ranks, pattern, shift, specials, form=None):
    """tokenizer.json with the same meaning as tiktoken's ranks."""
    alphabet = letters()
    spell = {token: "".join(alphabet[b] for b in token) for token in ranks}
    merges = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        pair = last_pair(token, ranks) if len(token) > 1 else None
        if pair and pair[0] in ranks and pair[1] in ranks:
            merges.append([spell[pair[0]], spell[pair[1]]])
    # The library numbers added tokens without gaps, whatever the file says.
    names = {i: t for t, i in specials.items()}
    filled = range(0 if shift else len(ranks), max(names, default=0) + 1)
    added = [{"id": i, "content": names.get(i, f"{UNUSED}{i}|>"), "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i in filled]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": form} if form else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, byte_level]},
            "post_processor": {**byte_level, "trim_offsets": False}, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                      "vocab": {spell[token]: rank + shift for token, rank in ranks.items()} | (specials if shift else {}),
                      "merges": merges}}


def json_of_unigram(proto):
    """tokenizer.json of a Unigram model, as the usual conversion makes it."""
    tok = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces],
                                   next(i for i, p in enumerate(proto.pieces) if p.type == 2),
                                   proto.trainer_spec.byte_fallback))
    steps = [normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)]
    tok.normalizer = normalizers.Sequence(steps)
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="never", split=False)
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.add_special_tokens([AddedToken(p.piece, special=True, normalized=False) for p in proto.pieces if p.type in (2, 3)][:200])
    return json.loads(tok.to_str())


def json_of_bpe(proto):
    """tokenizer.json of a BPE model with byte fallback, as the usual conversion makes it."""
    ids = {p.piece: i for i, p in enumerate(proto.pieces)}
    pairs = []
    for piece, i in ids.items():
        pairs += [(i, ids[piece[:k]], ids[piece[k:]], piece[:k], piece[k:]) for k in range(1, len(piece))
                  if piece[:k] in ids and piece[k:] in ids and proto.pieces[i].type == 1]
    pairs.sort(key=lambda p: (-proto.pieces[p[0]].score, p[1], p[2]))
    tok = Tokenizer(models.BPE(ids, [(p[3], p[4]) for p in pairs], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens([AddedToken(p.piece, special=True, normalized=False) for p in proto.pieces if p.type in (2, 3)])
    return json.loads(tok.to_str())


def sentencepiece_model(tokens, scores, types, unk, dummy_prefix):
    """Model of sentencepiece with the pieces that a GGUF file lists."""
    proto = sp_model.ModelProto()
    for i, (text, score, kind) in enumerate(zip(tokens, scores, types)):
        piece = proto.pieces.add()
        piece.piece, piece.score = text.replace(" ", "\u2581"), score
        piece.type = 2 if i == unk else 3 if kind == 2 else kind
    trainer = proto.trainer_spec
    trainer.model_type, trainer.byte_fallback, trainer.unk_piece = 2, True, tokens[unk]
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = unk, -1, -1, -1
    n = proto.normalizer_spec
    n.name, n.add_dummy_prefix, n.remove_extra_whitespaces, n.escape_whitespaces = "identity", dummy_prefix, False, True
    return proto


class GgufVocabulary:
    """Arrays of tokenizer.ggml.* of one file."""

    def __init__(self, path):
        from gguf import GGUFReader
        reader = GGUFReader(path)
        strings = lambda key: [bytes(f.parts[i]).decode() for i in f.data] if (f := reader.fields.get(key)) else []
        numbers = lambda key: [f.parts[i][0].item() for i in f.data] if (f := reader.fields.get(key)) else []
        self.tokens = strings("tokenizer.ggml.tokens")
        self.merges = [tuple(m.split(" ")) for m in strings("tokenizer.ggml.merges")]
        self.types = numbers("tokenizer.ggml.token_type")
        self.scores = numbers("tokenizer.ggml.scores")
        self.template = f.contents() if (f := reader.fields.get("tokenizer.chat_template")) else None

    def byte_level(self, pre_tokenizer, normalizer=None):
        tok = Tokenizer(models.BPE({t: i for i, t in enumerate(self.tokens)}, self.merges))
        if normalizer:
            tok.normalizer = normalizer
        tok.pre_tokenizer, tok.decoder = pre_tokenizer, decoders.ByteLevel()
        for text, kind in zip(self.tokens, self.types):
            if kind == 3:
                tok.add_special_tokens([AddedToken(text, special=True, normalized=False)])
            elif kind == 4:
                tok.add_tokens([AddedToken(text, special=False, normalized=False)])
        return tok

    def sentencepiece(self, unk, dummy_prefix):
        return sentencepiece_model(self.tokens, self.scores, self.types, unk, dummy_prefix)


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def digits_then_bytes():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


def tiktoken_encoding(name, ranks, pattern):
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
