#!/usr/bin/env python3
"""Writes a random GGUF checkpoint whose matrices are all of one block type, in the shapes of a real model.

    tools/make_gguf.py SHAPE TYPE FILE [--layers N] [--vocab N] [--seed N]

SHAPE: one of those below. TYPE: q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k or q6_k. (MLX's modes and dense
weights: `weir synth`.) Codes are drawn uniformly; each block has a scale of its own, so that the values have a variance
near 1 / columns and a mean near 0. There is no tokenizer: ids in, ids out. Standard library only.

The layouts are those of ggml's blocks (ggml-common.h); what else is in the file: the GGUF specification.
"""
import argparse
import math
import random
import struct
import sys
from pathlib import Path

ALIGN = 32
PIECE_BLOCKS = 1 << 16  # drawn at once

# number in the file, values and bytes a block; where its scale lies and the root of the mean square of what it
# multiplies; where its offset (or the scale of its offsets) lies and how many scales that is, so that the mean is 0.
TYPES = {
    "q4_0": (2, 32, 18, 0, 4.64, None, 0), "q4_1": (3, 32, 20, 0, 4.61, 2, -7.5),
    "q5_0": (6, 32, 22, 0, 9.25, None, 0), "q5_1": (7, 32, 24, 0, 9.23, 2, -15.5),
    "q8_0": (8, 32, 34, 0, 73.9, None, 0), "q2_k": (10, 256, 84, 80, 13.9, 82, 1.5),
    "q3_k": (11, 256, 110, 108, 43.3, None, 0), "q4_k": (12, 256, 144, 0, 258.0, 2, 7.5),
    "q5_k": (13, 256, 176, 0, 527.0, 2, 15.5), "q6_k": (14, 256, 210, 208, 1366.0, None, 0),
}
F32 = 0

# architecture, hidden, inner, heads, KV heads, head size, rope base, window
SHAPES = {
    "llama-3.1-8b": ("llama", 4096, 14336, 32, 8, 128, 500000.0, 0),
    "qwen3-8b": ("qwen3", 4096, 12288, 32, 8, 128, 1000000.0, 0),
    "smollm2-135m": ("llama", 576, 1536, 9, 3, 64, 100000.0, 0),
    "gemma-3-12b": ("gemma3", 3840, 15360, 16, 8, 256, 1000000.0, 1024),
    "tiny": ("llama", 256, 256, 4, 2, 64, 10000.0, 0),  # of no real model: for quick tests
}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def metadata(shape, layers, vocab):
    """(count, bytes) of the key-value pairs."""
    arch, hidden, inner, heads, kv_heads, head_dim, base, window = SHAPES[shape]
    numbers = {"embedding_length": hidden, "block_count": layers, "feed_forward_length": inner,
               "attention.head_count": heads, "attention.head_count_kv": kv_heads, "attention.key_length": head_dim,
               "attention.value_length": head_dim, "context_length": 8192, "vocab_size": vocab}
    if window:
        numbers["attention.sliding_window"] = window
    floats = {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": base}
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    pairs += [text(f"{arch}.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    pairs += [text(f"{arch}.{key}") + struct.pack("<If", 6, value) for key, value in floats.items()]
    return len(pairs), b"".join(pairs)


def tensors(shape, layers, vocab):
    """[(name, rows, cols)]; rows 0: a vector of cols. Without a head of its own: the embedding serves."""
    arch, hidden, inner, heads, kv_heads, head_dim, _, _ = SHAPES[shape]
    listed = [("token_embd", vocab, hidden), ("output_norm", 0, hidden)]
    for i in range(layers):
        q, kv = heads * head_dim, kv_heads * head_dim
        names = [("attn_norm", 0, hidden), ("attn_q", q, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                 ("attn_output", hidden, q), ("ffn_norm", 0, hidden), ("ffn_gate", inner, hidden),
                 ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)]
        if arch in ("qwen3", "gemma3"):
            names += [("attn_q_norm", 0, head_dim), ("attn_k_norm", 0, head_dim)]
        if arch == "gemma3":
            names += [("post_attention_norm", 0, hidden), ("post_ffw_norm", 0, hidden)]
        listed += [(f"blk.{i}.{name}", rows, cols) for name, rows, cols in names]
    return [(name + ".weight", rows, cols) for name, rows, cols in listed]


def scale_bytes(value_of):
    """Two tables of 256 bytes: low and high byte of the f16 that stands for a byte drawn."""
    codes = [struct.pack("<e", value_of(i)) for i in range(256)]
    return bytes(c[0] for c in codes), bytes(c[1] for c in codes)


def write_matrix(file, pick, kind, rows, cols):
    _, values, size, at, root, at_offset, offset = TYPES[kind]
    scale = 1 / (math.sqrt(cols) * root)
    tables = [(at, scale_bytes(lambda i: scale * (0.75 + i / 512)))]
    if at_offset is not None:
        tables.append((at_offset, scale_bytes(lambda i: offset * scale * (0.75 + i / 512))))
    left = rows * cols // values
    while left:
        n = min(left, PIECE_BLOCKS)
        piece, drawn = bytearray(pick.randbytes(n * size)), pick.randbytes(n)
        for place, (low, high) in tables:
            piece[place::size] = drawn.translate(low)
            piece[place + 1::size] = drawn.translate(high)
        file.write(piece)
        left -= n


def padding(n):
    return b"\0" * (-n % ALIGN)


def write(path, shape, kind, layers=2, vocab=32000, seed=0):
    number, values, size = TYPES[kind][:3]
    listed = tensors(shape, layers, vocab)
    for name, rows, cols in listed:
        if rows and cols % values:
            raise ValueError(f"{name} has rows of {cols} values; {kind} needs a multiple of {values}")
    n_pairs, pairs = metadata(shape, layers, vocab)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), n_pairs) + pairs
    at = 0
    for name, rows, cols in listed:
        dims = (cols, rows) if rows else (cols,)
        head += text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        head += struct.pack("<IQ", number if rows else F32, at)
        at += rows * cols // values * size if rows else 4 * cols
        at += -at % ALIGN
    pick = random.Random(seed)
    with open(path, "wb") as file:
        file.write(head + padding(len(head)))
        for _, rows, cols in listed:
            if rows:
                write_matrix(file, pick, kind, rows, cols)
            else:
                file.write(struct.pack(f"<{cols}f", *(1 + 0.2 * (pick.random() - 0.5) for _ in range(cols))))
            file.write(padding(rows * cols // values * size if rows else 4 * cols))


def main():
    parser = argparse.ArgumentParser(description="Write a random GGUF checkpoint.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        write(options.file, options.shape, options.type, options.layers, options.vocab, options.seed)
    except (OSError, ValueError) as error:
        print(f"make_gguf: {error}", file=sys.stderr)
        return 1
    print(f"{options.file}: {options.file.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
