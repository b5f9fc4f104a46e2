#!/usr/bin/env python3
"""Writes the malformed model files of tests/data/file/hostile/ and cases.json, the
table of what weir must say about each.

    tools/make_hostile.py [folder]

A case is a file or folder, how it is opened, what is asked of it then, the status,
and a part of the message that no other case's message has. The bytes are put
together by hand here, because no library writes files as wrong as these.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = []


def case(path, opened, status, says, **ask):
    CASES.append({"path": path, "open": opened, "status": status, "says": says, **ask})


# ---- safetensors ----

def header(text, data=b"", claim=None):
    raw = text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode()
    return struct.pack("<Q", len(raw) if claim is None else claim) + raw + data


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def safetensors_cases(folder):
    def add(name, content, status, says):
        path = f"{name}.safetensors"
        (folder / path).write_bytes(content)
        case(path, "safetensors", status, says)

    def entry(name, key, value, says, status="FORMAT", data=bytes(16)):
        add(name, header({key: value}, data), status, says)

    four = tensor("F32", [4], 0, 16)
    good = json.dumps({"w": four})
    add("empty", b"", "FORMAT", "empty.safetensors is empty")
    add("seven-bytes", b"\x02\0\0\0\0\0\0", "FORMAT", "has only 7 bytes")
    add("header-longer-than-file", header(good, claim=4096), "FORMAT", "claims 4096 bytes, the file has")
    add("header-huge", header(good, claim=1 << 63), "FORMAT", "claims 9223372036854775808 bytes; at most")
    add("header-over-limit", header(good, claim=100000001), "FORMAT", "claims 100000001 bytes; at most")
    add("header-empty", header("", bytes(16)), "FORMAT", "a header of 0 bytes")
    add("header-is-list", header("[1, 2]"), "FORMAT", "header-is-list.safetensors: the header does not begin")
    add("header-binary", header(b"\x80\x04\x95\x00\x01"), "FORMAT", "header-binary.safetensors: the header does not")
    add("json-truncated", header(good[:-1]), "FORMAT", "line 1, column 61: '}' expected near end of file")
    add("json-garbage", header("{\"w\": nonsense}"), "FORMAT", "invalid token near 'nonsense'")
    add("json-two-objects", header("{}{}"), "FORMAT", "end of file expected near '{'")
    add("json-deep", header('{"w":' + "[" * 4000 + "]" * 4000 + "}"), "FORMAT", "nested deeper than 64 at byte 68")
    add("json-bad-utf8", header(b'{"w\xff": 1}'), "FORMAT", "unable to decode byte 0xff")
    add("json-nul-in-name", header('{"a\\u0000b": 1}'), "FORMAT", "NUL byte in object key")
    add("json-huge-number", header('{"w": {"dtype": "F32", "shape": [99999999999999999999], "data_offsets": [0, 16]}}'),
        "FORMAT", "too big integer")
    add("json-real-overflow", header('{"w": 1e999}'), "FORMAT", "real number overflow")
    add("name-twice", header(f'{{"w": {json.dumps(four)}, "w": {json.dumps(four)}}}', bytes(16)), "FORMAT",
        "duplicate object key near '\"w\"'")
    add("name-empty", header({"w": four, "": tensor("F32", [0], 16, 16)}, bytes(16)), "FORMAT",
        "the name of tensor 1 is empty")
    add("name-with-escape", header({"\x1b[31mred": four}, bytes(16)), "FORMAT", "the name of tensor 0 is empty")
    entry("entry-is-number", "entry.number", 7, "the entry of tensor 'entry.number' is not an object")
    entry("metadata-is-text", "__metadata__", "x", "__metadata__ is not an object")
    entry("dtype-unknown", "odd", tensor("F4", [4], 0, 16), 'the unknown dtype "F4"', "UNSUPPORTED")
    entry("dtype-lower-case", "odd", tensor("f32", [4], 0, 16), 'the unknown dtype "f32"', "UNSUPPORTED")
    entry("dtype-is-number", "dtype.number", tensor(7, [4], 0, 16), "'dtype.number' has no dtype")
    entry("dtype-missing", "dtype.missing", {"shape": [4], "data_offsets": [0, 16]}, "'dtype.missing' has no dtype")
    entry("shape-missing", "shape.missing", {"dtype": "F32", "data_offsets": [0, 16]}, "'shape.missing' has no shape")
    entry("shape-is-number", "shape.number", tensor("F32", 4, 0, 16), "'shape.number' has no shape")
    entry("shape-negative", "w", tensor("F32", [1, -4], 0, 16), "dimension 1 is -4")
    entry("shape-fraction", "w", tensor("F32", [2.5], 0, 16), "dimension 0 is 2.5")
    entry("shape-text", "w", tensor("F32", ["8"], 0, 16), 'dimension 0 is "8"')
    entry("shape-overflow", "product", tensor("F32", [1 << 31, 1 << 31, 16], 0, 16), "'product': the product of")
    entry("shape-overflow-to-zero", "wrap", tensor("F32", [1 << 62, 4], 0, 0), "'wrap': the product of")
    entry("shape-overflow-behind-zero", "hidden", tensor("F32", [0, 1 << 62, 16], 0, 0), "'hidden': the product of")
    entry("shape-nine-dimensions", "w", tensor("F32", [1] * 8 + [4], 0, 16), "has 9 dimensions", "UNSUPPORTED")
    entry("offsets-missing", "offsets.missing", {"dtype": "F32", "shape": [4]}, "'offsets.missing': data_offsets is not")
    entry("offsets-three", "offsets.three", {"dtype": "F32", "shape": [4], "data_offsets": [0, 8, 16]},
          "'offsets.three': data_offsets is not")
    entry("offsets-text", "offsets.text", tensor("F32", [4], "0", "16"), "'offsets.text': data_offsets is not")
    entry("offsets-reversed", "w", tensor("F32", [4], 16, 0), "data_offsets [16, 0] are reversed")
    entry("offsets-negative", "w", tensor("F32", [4], -16, 0), "data_offsets [-16, 0] are reversed")
    entry("offsets-beyond-file", "w", tensor("F32", [250], 0, 1000), "ends at byte 1000, but the file has only 16")
    entry("offsets-far-beyond-file", "w", tensor("F32", [1 << 59], 0, 1 << 61), "ends at byte 2305843009213693952")
    entry("offsets-against-shape", "w", tensor("F32", [4], 0, 8), "make 16 bytes, its data_offsets 8")
    entry("file-cut-by-a-byte", "w", four, "ends at byte 16, but the file has only 15", data=bytes(15))
    add("overlap", header({"a": four, "b": tensor("F32", [4], 8, 24)}, bytes(24)), "FORMAT", "'a' and 'b' overlap")
    add("overlap-same-place", header({"c": four, "d": four}, bytes(16)), "FORMAT", "'c' and 'd' overlap")
    add("overlap-inside", header({"outer": tensor("F32", [8], 0, 32), "inner": tensor("U8", [1], 9, 10)}, bytes(32)),
        "FORMAT", "'outer' and 'inner' overlap")
    add("hole", header({"a": four, "b": tensor("F32", [4], 24, 40)}, bytes(40)), "FORMAT",
        "8 bytes between 'a' and 'b' belong to no tensor")
    add("hole-at-start", header({"a": tensor("F32", [4], 4, 20)}, bytes(20)), "FORMAT",
        "4 bytes between 'the header' and 'a'")


# ---- GGUF ----

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def text(value):
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, raw):
    return text(key) + struct.pack("<I", kind) + raw


def info(name, dims, kind, offset):
    return text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack(
        "<IQ", kind, offset)


def gguf(pairs=(), tensors=(), data=b"", version=3, n_pairs=None, n_tensors=None, align=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                 len(pairs) if n_pairs is None else n_pairs)
    head += b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % align) + data


ARCHITECTURE = pair("general.architecture", STRING, text("llama"))


def gguf_cases(folder):
    def add(name, content, says, status="FORMAT", opened="gguf"):
        path = f"{name}.gguf"
        (folder / path).write_bytes(content)
        case(path, opened, status, says)

    def meta(name, raw, says, status="FORMAT"):
        add(name, gguf([raw]), says, status)

    def one(name, raw, says, status="FORMAT", data=bytes(64)):
        add(name, gguf([ARCHITECTURE], [raw], data), says, status)

    add("empty", b"", "empty.gguf is empty")
    add("three-bytes", b"GGU", "the file ends inside the magic")
    add("magic", b"GGML" + bytes(20), "does not begin with 'GGUF'")
    add("version-1", gguf(version=1), "GGUF version 1;", "UNSUPPORTED")
    add("version-4", gguf(version=4), "GGUF version 4;", "UNSUPPORTED")
    add("big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian", "UNSUPPORTED")
    add("no-counts", b"GGUF" + struct.pack("<IQ", 3, 0), "the file ends inside the number of metadata keys")
    add("keys-2-60", gguf(n_pairs=1 << 60), "1152921504606846976 metadata keys are announced")
    add("keys-more-than-bytes", gguf([ARCHITECTURE], n_pairs=500), "500 metadata keys are announced")
    add("tensors-2-63", gguf([ARCHITECTURE], n_tensors=1 << 63), "9223372036854775808 tensors are announced")
    add("tensors-more-than-bytes", gguf([ARCHITECTURE], n_tensors=700), "700 tensors are announced")
    meta("key-too-long", pair("k" * 65536, U8, b"\0"), "a metadata key at byte 24 is 65536 bytes long")
    add("key-length-lies", gguf([struct.pack("<Q", 60000) + bytes(40)]), "the file ends inside a metadata key")
    meta("key-empty", pair("", U8, b"\0"), "the metadata key at byte 24 is empty")
    add("key-with-escape", gguf([ARCHITECTURE, pair("a\x1bb", U8, b"\0")]), "the metadata key at byte 69 is empty")
    add("key-twice", gguf([pair("a.b", U8, b"\0"), pair("a.b", U8, b"\0")]), "metadata key 'a.b' appears twice")
    meta("value-type-unknown", pair("odd.type", 99, bytes(8)), "key 'odd.type': unknown metadata type 99")
    add("value-cut", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair("long.number", U64, bytes(4)),
        "the file ends inside a metadata value")
    meta("string-length-lies", pair("text", STRING, struct.pack("<Q", 1 << 62)), "plus 4611686018427387904 is beyond")
    meta("string-length-wraps", pair("text", STRING, struct.pack("<Q", (1 << 64) - 8) + bytes(16)),
         "plus 18446744073709551608 is beyond")
    meta("array-type-unknown", pair("odd.array", ARRAY, struct.pack("<IQ", 77, 1) + bytes(8)),
         "'odd.array': unknown array type 77")
    meta("array-count-lies", pair("bytes", ARRAY, struct.pack("<IQ", U8, 1 << 61)),
         "'bytes': an array of 2305843009213693952 elements")
    meta("array-count-wraps", pair("words", ARRAY, struct.pack("<IQ", U64, (1 << 61) + 1) + bytes(8)),
         "'words': an array of 2305843009213693953 elements")
    meta("array-of-a-billion-strings", pair("tokens", ARRAY, struct.pack("<IQ", STRING, 10**9) + bytes(64)),
         "'tokens': an array of 1000000000 elements")
    meta("array-string-lies", pair("tokens", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") +
         struct.pack("<Q", 1 << 40) + bytes(8)), "string 1 of 2 is 1099511627776 bytes long")
    add("array-string-missing", gguf([pair("tokens", ARRAY, struct.pack("<IQ", STRING, 3) + text("a" * 23) + text(""))],
        align=1), "the file ends inside an array of 3 strings")
    nested = struct.pack("<IQ", U8, 1) + b"\0"
    for _ in range(6):
        nested = struct.pack("<IQ", ARRAY, 1) + nested
    meta("array-nested", pair("nest", ARRAY, nested), "'nest': arrays nested deeper than 4")
    meta("array-nested-count-lies", pair("nest", ARRAY, struct.pack("<IQ", ARRAY, 1 << 33) + bytes(64)),
         "'nest': an array of 8589934592 elements")
    meta("alignment-zero", pair("general.alignment", U32, struct.pack("<I", 0)), "general.alignment is 0;")
    meta("alignment-24", pair("general.alignment", U32, struct.pack("<I", 24)), "general.alignment is 24;")
    meta("alignment-huge", pair("general.alignment", U32, struct.pack("<I", 1 << 31)),
         "general.alignment is 2147483648;")
    meta("alignment-negative", pair("general.alignment", I32, struct.pack("<i", -32)), "general.alignment is -32;")
    meta("alignment-is-text", pair("general.alignment", STRING, text("32")), "general.alignment is not an integer")
    meta("split-in-two", pair("split.count", U16, struct.pack("<H", 2)), "split over 2 files", "UNSUPPORTED")
    one("tensor-name-empty", info("", [8], 0, 0), "the tensor name at byte 69 is empty")
    one("tensor-name-long", info("n" * 300, [8], 0, 0), "a tensor's name at byte 69 is 300 bytes long")
    one("tensor-name-length-lies", struct.pack("<Q", 200) + bytes(16), "the file ends inside a tensor's name",
        data=b"")
    one("tensor-no-dimensions", info("scalar", [], 0, 0), "'scalar' has 0 dimensions")
    one("tensor-five-dimensions", info("five", [1] * 5, 0, 0), "'five' has 5 dimensions")
    one("tensor-dimensions-lie", text("many") + struct.pack("<I", 0xffffffff) + bytes(24), "'many' has 4294967295")
    one("tensor-dimension-zero", info("w", [8, 0], 0, 0), "'w': dimension 1 is 0")
    one("tensor-dimension-negative", info("w", [(1 << 64) - 1], 0, 0), "'w': dimension 0 is 18446744073709551615")
    one("tensor-shape-overflow", info("w", [1 << 40, 1 << 40], 0, 0), "'w': the product of its dimensions overflows")
    one("tensor-bytes-overflow", info("wide", [1 << 31, 1 << 31], 0, 0),
        "overflows; tensor 'wide'", "LIMIT")
    one("tensor-type-unknown", info("w", [8], 77, 0), "has the unknown type 77", "UNSUPPORTED")
    one("tensor-type-removed", info("w", [8], 31, 0), "has the unknown type 31", "UNSUPPORTED")
    one("tensor-type-iq4-xs", info("w", [256], 23, 0), "type 23 (IQ4_XS)", "UNSUPPORTED")
    one("tensor-type-q8-1", info("w", [32], 9, 0), "type 9 (Q8_1)", "UNSUPPORTED")
    one("tensor-type-f64", info("w", [8], 28, 0), "type 28 (F64)", "UNSUPPORTED")
    one("tensor-row-of-31", info("w", [31], 2, 0), "a row of 31 values is not a multiple of 32")
    one("tensor-row-of-288", info("w", [288, 2], 12, 0), "a row of 288 values is not a multiple of 256")
    one("tensor-offset-odd", info("w", [8], 0, 4), "offset 4 is not a multiple of the alignment 32")
    one("tensor-offset-beyond", info("w", [8], 0, 128), "'w' lies at 128 and is 32 bytes long")
    one("tensor-offset-wraps", info("w", [8], 0, (1 << 64) - 32), "'w' lies at 18446744073709551584")
    one("tensor-larger-than-file", info("w", [1 << 40], 0, 0), "is 4398046511104 bytes long, but the file has only 64")
    one("tensor-data-cut", info("w", [16], 0, 0), "is 64 bytes long, but the file has only 63", data=bytes(63))
    one("tensor-data-missing", info("w", [8], 0, 0), "is 32 bytes long, but the file has only 0", data=b"")
    add("tensor-twice", gguf([ARCHITECTURE], [info("w", [8], 0, 0), info("w", [8], 0, 32)], bytes(64)),
        "tensor 'w' appears twice")
    add("tensors-overlap", gguf([ARCHITECTURE], [info("x", [16], 0, 0), info("y", [8], 0, 32)], bytes(64)),
        "tensors 'x' and 'y' overlap")
    add("tensors-at-same-place", gguf([ARCHITECTURE], [info("p", [8], 0, 0), info("q", [8], 0, 0)], bytes(64)),
        "tensors 'p' and 'q' overlap")
    add("tensor-table-cut", gguf([ARCHITECTURE], [info("w", [8], 0, 0)[:-9]], align=1), "inside a tensor's type")
    add("no-architecture", gguf([pair("general.name", STRING, text("x"))]), "has no general.architecture",
        opened="checkpoint")
    add("architecture-unknown", gguf([pair("general.architecture", STRING, text("rwkv6"))]),
        'the architecture "rwkv6" is not supported', "UNSUPPORTED", "checkpoint")
    add("two-names-for-one-tensor", gguf([ARCHITECTURE], [info("output.weight", [8, 1], 0, 0),
        info("lm_head.weight", [8, 1], 0, 32)], bytes(64)), "'output.weight' and 'lm_head.weight' are the same",
        opened="checkpoint")


# ---- checkpoints: configuration, index, shards, quantisation ----

def pack(tensors):
    """A safetensors file of zeros."""
    head, at = {}, 0
    size = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U8": 1, "F64": 8}
    for name, (dtype, shape) in tensors.items():
        n = size[dtype]
        for d in shape:
            n *= d
        head[name] = tensor(dtype, shape, at, at + n)
        at += n
    raw = json.dumps(head)
    raw += " " * (-len(raw) % 8)
    return header(raw, bytes(at))


DENSE = {"m.weight": ("F32", [2, 4])}
CONFIG = {"model_type": "llama", "hidden_size": 64}


def checkpoint_cases(folder):
    def add(name, says, status="FORMAT", config=CONFIG, files=None, **ask):
        place = folder / name
        place.mkdir()
        if config is not None:
            raw = config if isinstance(config, bytes) else json.dumps(config).encode()
            (place / "config.json").write_bytes(raw)
        for file, content in (files if files is not None else {"model.safetensors": pack(DENSE)}).items():
            (place / file).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        case(name, "checkpoint", status, says, **ask)

    def settings(name, quantization, says, status="UNSUPPORTED", **ask):
        add(name, says, status, {**CONFIG, "quantization": quantization}, **ask)

    def stored(name, tensors, says, status="FORMAT", ask=("m", 1, 4, 64), **more):
        add(name, says, status, {**CONFIG, "quantization": {"group_size": 64, "bits": 4}},
            {"model.safetensors": pack(tensors)}, weight=list(ask), **more)

    add("config-missing", "config-missing/config.json does not exist", "NOT_FOUND", None)
    add("config-empty", "config-empty/config.json is empty", config=b"")
    add("config-is-list", "is not a JSON object", config=b"[]")
    add("config-cut", "premature end of input", config=b'{"hidden_size": "')
    add("config-key-twice", "duplicate object key near '\"hidden_size\"'", config=b'{"hidden_size": 1, "hidden_size": 2}')
    add("config-deep", "nested deeper than 64 at byte 320", config=b'{"a":' * 3000 + b"1" + b"}" * 3000)
    add("config-nan", "invalid token near 'NaN'", config=b'{"rms_norm_eps": NaN}')
    add("config-text-config-is-list", "text_config is not an object", config={**CONFIG, "text_config": [1]})
    limits = ["hidden_size", 1, 1 << 20]
    add("config-size-absurd", "hidden_size is 1000000000000; it must be an integer from 1 to 1048576",
        config={"hidden_size": 10**12}, int=limits)
    add("config-size-negative", "hidden_size is -64;", config={"hidden_size": -64}, int=limits)
    add("config-size-zero", "hidden_size is 0;", config={"hidden_size": 0}, int=limits)
    add("config-size-text", 'hidden_size is "64";', config={"hidden_size": "64"}, int=limits)
    add("config-size-fraction", "hidden_size is 64.5;", config={"hidden_size": 64.5}, int=limits)
    add("config-size-true", "hidden_size is true;", config={"hidden_size": True}, int=limits)
    add("config-size-list", "hidden_size is a list of 2;", config={"hidden_size": [64, 64]}, int=limits)
    add("config-size-null", "has no 'hidden_size'", config={"hidden_size": None}, int=limits)
    add("config-size-in-text-config-wins", "hidden_size is 1e+15;",
        config={"hidden_size": 64, "text_config": {"hidden_size": 1e15}}, int=limits)
    add("config-other-quantiser", 'quant_method "awq"', "UNSUPPORTED",
        {**CONFIG, "quantization_config": {"quant_method": "awq", "bits": 4}})
    settings("quantization-is-text", "q4", "quantization is not an object", "FORMAT")
    settings("quantization-bits-7", {"bits": 7}, "affine with group_size 64 and bits 7 does not exist")
    settings("quantization-bits-huge", {"bits": 10**9}, "bits is 1000000000", "FORMAT")
    settings("quantization-group-text", {"group_size": "64"}, 'group_size is "64"', "FORMAT")
    settings("quantization-group-48", {"group_size": 48}, "group_size 48 and bits 4 does not exist")
    settings("quantization-mode-unknown", {"mode": "int3"}, 'of the model: the mode "int3" is unknown')
    settings("quantization-mxfp4-group-64", {"mode": "mxfp4", "group_size": 64}, "mxfp4 with group_size 64")
    settings("quantization-module-mode-unknown", {"bits": 4, "lm_head": {"mode": "q9"}},
             'of lm_head: the mode "q9" is unknown')
    settings("quantization-keys-contradict", {"bits": 4, "model.layers.0.mlp.up_proj": False,
             "language_model.model.layers.0.mlp.up_proj": {"bits": 8}}, "contradicts another key", "FORMAT")
    index = "model.safetensors.index.json"
    weights = {"model.safetensors": pack(DENSE)}

    def indexed(name, content, says, status="FORMAT", more=None):
        add(name, says, status, files={**weights, index: content, **(more or {})})

    indexed("index-cut", b'{"weight_map": {', "index.json: line 1, column 16")
    indexed("index-without-map", {"metadata": {}}, "index-without-map/model.safetensors.index.json has no")
    indexed("index-map-is-list", {"weight_map": ["a"]}, "index-map-is-list/model.safetensors.index.json has no")
    indexed("index-leaves-folder", {"weight_map": {"w": "../../secret.safetensors"}},
            'weight_map names "../../secret.safetensors"')
    indexed("index-absolute", {"weight_map": {"w": "/etc/passwd"}}, 'weight_map names "/etc/passwd"')
    indexed("index-names-number", {"weight_map": {"w": 3}}, "weight_map names 3,")
    indexed("index-names-pickle", {"weight_map": {"w": "model.bin"}}, "names model.bin; only .safetensors",
            "UNSUPPORTED")
    indexed("index-names-missing-shard", {"weight_map": {"w": "model-00002-of-00002.safetensors"}},
            "missing-shard/model-00002-of-00002.safetensors is missing", "NOT_FOUND")
    indexed("index-names-empty-shard", {"weight_map": {"w": "model-b.safetensors"}},
            "model-b.safetensors is empty", more={"model-b.safetensors": b""})
    add("shard-two-missing", "shard-two-missing/model-00002-of-00002.safetensors is missing", "NOT_FOUND",
        files={"model-00001-of-00002.safetensors": pack(DENSE)})
    add("shard-empty", "shard-empty/model.safetensors is empty", files={"model.safetensors": b""})
    add("shard-of-a-million", "claims to be one of 1000000 files",
        files={"model-00001-of-1000000.safetensors": pack(DENSE)})
    add("download-unfinished", "download of this model is not finished",
        files={"model-00001-of-00001.safetensors": pack(DENSE), "abc.incomplete": b""})
    add("weights-missing", "holds no weights", "NOT_FOUND", files={})
    add("tensor-in-two-shards", "tensor 'm.weight' is in both",
        files={"model-a.safetensors": pack(DENSE), "model-b.safetensors": pack(DENSE)})
    add("tensor-by-two-prefixes", "'language_model.lm_head.weight' and 'lm_head.weight' are the same tensor",
        files={"model.safetensors": pack({"language_model.lm_head.weight": ("F32", [2, 4]),
                                          "lm_head.weight": ("F32", [2, 4])})})
    words, scales = ("U32", [4, 8]), ("BF16", [4, 1])
    stored("scales-without-weight", {"m.scales": scales}, "'m.scales' is there, but 'm.weight' is missing")
    stored("packed-without-scales", {"m.weight": words}, "'m.weight' is packed (u32), but 'm.scales' is missing")
    stored("biases-without-scales", {"m.weight": ("BF16", [4, 64]), "m.biases": scales},
           "'m.biases' is there without 'm.scales'")
    stored("scales-beside-dense", {"m.weight": ("BF16", [4, 64]), "m.scales": scales, "m.biases": scales},
           "'m.weight' has scales, but is bf16 [4, 64]")
    stored("scales-of-other-rows", {"m.weight": words, "m.scales": ("BF16", [3, 1]), "m.biases": ("BF16", [3, 1])},
           "'m.scales' is bf16 [3, 1] and does not match")
    stored("biases-of-other-shape", {"m.weight": words, "m.scales": scales, "m.biases": ("BF16", [4, 2])},
           "'m.biases' is bf16 [4, 2] and does not match")
    stored("biases-of-other-dtype", {"m.weight": words, "m.scales": scales, "m.biases": ("F16", [4, 1])},
           "'m.biases' is f16, its scales are bf16")
    stored("scales-are-integers", {"m.weight": words, "m.scales": ("I32", [4, 1]), "m.biases": ("I32", [4, 1])},
           "'m.scales' is i32 [4, 1]; scales are")
    stored("float-scales-without-biases", {"m.weight": words, "m.scales": scales}, "float scales and no biases")
    stored("byte-scales-with-biases", {"m.weight": words, "m.scales": ("U8", [4, 2]), "m.biases": ("U8", [4, 2])},
           "u8 scales and biases")
    stored("geometry-of-no-mode", {"m.weight": ("U32", [4, 9]), "m.scales": scales, "m.biases": scales},
           "9 words and 1 scales a row make no row of 64 values in any affine mode")
    stored("geometry-of-no-block-mode", {"m.weight": ("U32", [4, 9]), "m.scales": ("U8", [4, 2])},
           "9 words and 2 scales a row make no row of 64 values in any block-float mode")
    stored("global-scale-of-affine", {"m.weight": words, "m.scales": scales, "m.biases": scales,
           "m.global_scale": ("F32", [1])}, "only nvfp4 has a global scale")
    stored("weight-of-integers", {"m.weight": ("I32", [4, 64])}, "'m.weight' is i32; weights are read as",
           "UNSUPPORTED")
    stored("weight-of-f64", {"m.weight": ("F64", [4, 64])}, "'m.weight' is f64; weights are read as", "UNSUPPORTED")
    stored("weight-missing", {"other.weight": ("BF16", [4, 64])}, "weight-missing: tensor 'm.weight' is missing",
           "NOT_FOUND")
    stored("weight-of-other-rows", {"m.weight": ("BF16", [5, 64])}, "is bf16 [5, 64]; the model needs [4, 64]")
    stored("weight-of-one-dimension", {"m.weight": ("BF16", [256])}, "is bf16 [256]; a matrix is needed")
    stored("weight-without-experts", {"m.weight": ("BF16", [4, 64])}, "the model needs [8, 4, 64]", ask=("m", 8, 4, 64))
    add("vector-of-other-length", "is f32 [3]; the model needs 4 elements",
        files={"model.safetensors": pack({"norm.weight": ("F32", [3])})}, vector=["model.norm.weight", 4])
    add("vector-missing", "tensor 'model.norm.weight' is missing", "NOT_FOUND", vector=["model.norm.weight", 4])
    add("tensor-unknown", "1 tensors do not belong to this kind of model: 'm.weight_scale_2'",
        files={"model.safetensors": pack({**DENSE, "m.weight_scale_2": ("F32", [1])})}, weight=["m", 1, 2, 4],
        all_used=True)
    add("eos-is-text", 'eos_token_id[0] is "</s>"', config={**CONFIG, "eos_token_id": "</s>"}, eos=True)
    add("eos-out-of-range", "eos_token_id[1] is 4294967296",
        config={**CONFIG, "eos_token_id": [2, 1 << 32]}, eos=True)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/file/hostile"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    safetensors_cases(folder)
    gguf_cases(folder)
    checkpoint_cases(folder)
    lines = ",\n".join(json.dumps(c) for c in CASES)
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(CASES)} cases in {folder}")


if __name__ == "__main__":
    main()
