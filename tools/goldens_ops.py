#!/usr/bin/env python3
"""Expected values of array ops from NumPy and SciPy in float64, into tests/data/array/ops.bin.

    $(tools/python_env.py mlx) tools/goldens_ops.py [OUTPUT]

Nothing here is computed by weir. File: "WRGOLD1\\n", then records: u32 length and name, u32 number of arrays, and per
array u32 dtype (0 f32, 1 f64, 2 i32, 3 i64, 4 u32, 5 bool), u32 dimensions, i64 sizes, data. Little-endian. Inputs come
first, the expected result last.
"""
import struct
import sys

import numpy as np
from scipy import signal, special

rng = np.random.default_rng(20260101)
DTYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3, "uint32": 4, "bool": 5}
records = []


def record(name, *arrays):
    out = struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", len(arrays))
    for a in arrays:
        a = np.asarray(a, order="C")
        out += struct.pack("<II", DTYPES[a.dtype.name], a.ndim) + struct.pack(f"<{a.ndim}q", *a.shape) + a.tobytes()
    records.append(out)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- element-wise ----
x = np.concatenate([normal(200) * 3, np.float32([0, -0.0, 1, -1, 0.5, -0.5, 20, -20, 1e-8, -1e-8, 88, -88])])
positive = np.abs(x) + np.float32(1e-3)
d, p = x.astype(np.float64), positive.astype(np.float64)
with np.errstate(all="ignore"):
    for name, y in {
        "exp": np.exp(d), "expm1": np.expm1(d), "sin": np.sin(d), "cos": np.cos(d), "tanh": np.tanh(d),
        "erf": special.erf(d), "sigmoid": special.expit(d), "silu": d * special.expit(d),
        "gelu": d * 0.5 * special.erfc(-d / np.sqrt(2)),
        "gelu_tanh": 0.5 * d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3))),
        "square": d * d, "floor": np.floor(d), "ceil": np.ceil(d), "round": np.round(d), "relu": np.maximum(d, 0),
    }.items():
        record("unary " + name, x, y)
    for name, y in {"sqrt": np.sqrt(p), "rsqrt": 1 / np.sqrt(p), "reciprocal": 1 / p, "log": np.log(p),
                    "log1p": np.log1p(p), "log2": np.log2(p)}.items():
        record("unary " + name, positive, y)
    a, b = normal(60) * 5, normal(60) * 2
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    record("binary div", a, b, a64 / b64)
    record("binary remainder", a, b, np.mod(a64, b64))
    record("binary floor_div", a, b, np.floor_divide(a64, b64))
    record("binary pow", np.abs(a), b, np.abs(a64) ** b64)
    ia = rng.integers(-100, 100, 60).astype(np.int32)
    ib = rng.integers(1, 20, 60).astype(np.int32) * rng.choice([-1, 1], 60).astype(np.int32)
    record("binary floor_div", ia, ib, np.floor_divide(ia, ib))
    record("binary remainder", ia, ib, np.mod(ia, ib))

# ---- reductions, along an axis ----
x = normal(3, 17, 5) * 4
d = x.astype(np.float64)
axis = np.int32([1])
record("sum", x, axis, d.sum(1))
record("mean", x, axis, d.mean(1))
record("max", x, axis, d.max(1))
record("min", x, axis, d.min(1))
record("logsumexp", x, axis, special.logsumexp(d, axis=1))
record("argmax", x, axis, d.argmax(1).astype(np.int32))
record("softmax", x, axis, special.softmax(d, axis=1))
record("cumsum", x, axis, np.cumsum(d, 1))
ties = rng.integers(-3, 4, (4, 50)).astype(np.float32)
ties[0, 7] = ties[2, 3] = np.nan
record("argsort", ties, np.int32([1]), np.argsort(ties, 1, kind="stable").astype(np.int32))
record("sort", ties, np.int32([1]), np.sort(ties, 1, kind="stable").astype(np.float64))
clean = rng.permutation(60).reshape(3, 20).astype(np.float32)
record("top_k", clean, np.int32([1, 6]), -np.sort(-clean.astype(np.float64), 1)[:, :6])
record("arg_top_k", clean, np.int32([1, 6]), np.argsort(-clean, 1, kind="stable")[:, :6].astype(np.int32))
ids = rng.integers(-17, 17, (2, 3)).astype(np.int32)
record("take", x, ids, axis, np.take(d, ids, 1))
along = rng.integers(0, 17, (3, 4, 5)).astype(np.int64)
record("take_along", x, along, axis, np.take_along_axis(d, along, 1))
updates = normal(3, 4, 5)
added = d.copy()
for i in range(3):
    for k in range(4):
        for j in range(5):
            added[i, along[i, k, j], j] += float(updates[i, k, j])
record("scatter_add", x, along, updates, axis, added)

# ---- products ----
a, b = normal(3, 1, 9, 65), normal(2, 65, 11)
record("matmul", a, b, a.astype(np.float64) @ b.astype(np.float64))
for groups, stride, dilation, bias in ((6, 1, 1, True), (1, 2, 1, False), (2, 1, 3, True)):
    x, w, c = normal(2, 20, 6), normal(6, 4, 6 // groups), normal(6)
    low, high = 3, 2
    padded = np.pad(x.astype(np.float64), ((0, 0), (low, high), (0, 0)))
    length = (padded.shape[1] - dilation * 3 - 1) // stride + 1
    y = np.zeros((2, length, 6))
    per = 6 // groups
    for o in range(6):
        g = o // per
        for i in range(per):
            kernel = np.zeros(dilation * 3 + 1)
            kernel[::dilation] = w[o, :, i]
            for n in range(2):
                y[n, :, o] += signal.correlate(padded[n, :, g * per + i], kernel, "valid")[::stride]
    record("conv1d", x, w, c if bias else np.zeros(0, np.float32), np.int64([stride, dilation, groups, low, high]),
           y + (c.astype(np.float64) if bias else 0))

# ---- norms ----
x, w, b = normal(7, 96) * 3, normal(96), normal(96)
d = x.astype(np.float64)
eps = np.float32([1e-5])
record("rms_norm", x, w, eps, d / np.sqrt((d * d).mean(-1, keepdims=True) + float(eps[0])) * w)
mean, var = d.mean(-1, keepdims=True), d.var(-1, keepdims=True)
record("layer_norm", x, w, b, eps, (d - mean) / np.sqrt(var + float(eps[0])) * w.astype(np.float64) + b)


# ---- attention ----
def attention(q, k, v, scale, causal, window, softcap, mask, sinks):
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ k.swapaxes(-1, -2) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    length, keys = scores.shape[-2:]
    seen = np.ones((length, keys), bool)
    at = np.arange(length)[:, None] + keys - length
    if causal:
        seen &= np.arange(keys)[None] <= at
    if window:
        seen &= np.arange(keys)[None] > at - window
        seen &= np.arange(keys)[None] <= at
    seen = np.broadcast_to(seen, scores.shape)
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask.astype(np.float64)
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(sinks.astype(np.float64)[None, :, None, None], scores.shape[:-1] + (1,))
        scores = np.concatenate([scores, column], -1)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1), 0)
    return weights[..., :keys] @ v


none = np.zeros(0, np.float32)
for h, g, length, keys, dim, causal, window, softcap, mask_kind, with_sinks in (
    (2, 2, 9, 9, 32, 1, 0, 0, 0, 0), (4, 2, 5, 40, 64, 1, 0, 0, 0, 0), (2, 1, 40, 40, 17, 1, 7, 0, 0, 0),
    (4, 1, 3, 20, 80, 0, 0, 30, 1, 0), (4, 2, 6, 25, 48, 0, 0, 0, 2, 0), (4, 2, 1, 70, 64, 1, 16, 0, 0, 1),
    (2, 1, 4, 19, 256, 1, 0, 50, 1, 1), (1, 1, 2, 12, 512, 1, 0, 0, 0, 0),
):
    q, k, v = normal(1, h, length, dim), normal(1, g, keys, dim), normal(1, g, keys, dim)
    mask = (rng.random((1, 1, length, keys)) < 0.6, normal(h, length, keys))[mask_kind - 1] if mask_kind else None
    if mask_kind == 1:
        mask[0, 0, 0] = False  # a query that sees nothing
    sinks = normal(h) if with_sinks else None
    options = np.float32([dim**-0.5, causal, window, softcap, mask_kind, with_sinks])
    y = attention(q, k, v, float(options[0]), causal, window, softcap, mask, sinks)
    record("attention", q, k, v, none if mask is None else mask, none if sinks is None else sinks, options, y)


# ---- rotary embedding: published scalings ----
def rope_tables(kind, dims, base, factor, original, low, high, fast, slow, mscale, mscale_all, given, length, plain_range,
                factors):
    i = np.arange(0, dims, 2, dtype=np.float64)
    attention_factor = 1.0
    if kind == 2:
        length = max(length, original)
        base = base * ((factor * length / original) - (factor - 1)) ** (dims / (dims - 2))
    freq = 1.0 / base ** (i / dims)
    if kind == 1:
        freq = freq / factor
    if kind == 3:
        def correction(rotations):
            return dims * np.log(original / (rotations * 2 * np.pi)) / (2 * np.log(base))

        first, last = correction(fast), correction(slow)
        if not plain_range:
            first, last = np.floor(first), np.ceil(last)
        first, last = max(first, 0), min(last, dims - 1)
        if first == last:
            last += 0.001
        extrapolate = 1 - np.clip((np.arange(dims // 2) - first) / (last - first), 0, 1)
        freq = freq / factor * (1 - extrapolate) + freq * extrapolate

        def magnitude(s, m):
            return 1.0 if s <= 1 else 0.1 * m * np.log(s) + 1.0

        if given:
            attention_factor = given
        elif mscale and mscale_all:
            attention_factor = magnitude(factor, mscale) / magnitude(factor, mscale_all)
        else:
            attention_factor = magnitude(factor, 1)
    if kind == 4:
        wave = 2 * np.pi / freq
        smooth = (original / wave - low) / (high - low)
        middle = (1 - smooth) * freq / factor + smooth * freq
        freq = np.where(wave > original / low, freq / factor, np.where(wave < original / high, freq, middle))
    if kind == 5:
        freq = 1.0 / (np.asarray(factors) * base ** (i / dims))
        attention_factor = given or (np.sqrt(1 + np.log(factor) / np.log(original)) if factor > 1 else 1.0)
    return freq, attention_factor


positions = np.int64([0, 1, 2, 77, 4095, 32767, 131071, 524287, 1048575, 1048576])
factors = 1 + np.arange(32) / 3.0
for options in (
    # kind dims base factor original low high fast slow mscale all given length plain_range
    (0, 64, 10000, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), (0, 128, 1e6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    (1, 64, 10000, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), (2, 64, 10000, 4, 2048, 0, 0, 0, 0, 0, 0, 0, 8192, 0),
    (2, 64, 10000, 4, 2048, 0, 0, 0, 0, 0, 0, 0, 100, 0), (3, 64, 10000, 16, 4096, 0, 0, 32, 1, 0, 0, 0, 0, 0),
    (3, 64, 10000, 40, 4096, 0, 0, 32, 1, 1.0, 0.707, 0, 0, 0), (3, 128, 150000, 32, 4096, 0, 0, 32, 1, 0, 0, 0, 0, 1),
    (3, 64, 10000, 4, 4096, 0, 0, 32, 1, 0, 0, 1.25, 0, 0), (4, 128, 500000, 8, 8192, 1, 4, 0, 0, 0, 0, 0, 0, 0),
    (4, 64, 500000, 32, 8192, 1, 4, 0, 0, 0, 0, 0, 0, 0), (5, 64, 10000, 32, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    (5, 64, 10000, 32, 4096, 0, 0, 0, 0, 0, 0, 1.19, 0, 0),
):
    freq, attention_factor = rope_tables(*options, factors)
    angle = positions[:, None].astype(np.float64) * freq[None]
    record("rope", positions, np.float64(options), np.float64(factors),
           np.stack([np.cos(angle), np.sin(angle)], 1) * attention_factor)


# ---- Philox4x32-10 (Salmon et al. 2011), checked against the authors' known answers ----
def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


F = 0xFFFFFFFF
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([F] * 4, [F] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
    0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
for seed, counter in ((0, 0), (1, 5), (0x123456789ABCDEF0, 0xFEDCBA9876543210), (7, 0xFFFFFFFF)):
    words = []
    for block in range(6):
        at = (counter + block) & 0xFFFFFFFFFFFFFFFF
        words += philox([at & F, at >> 32, 0, 0], [seed & F, seed >> 32])
    words = np.array(words[:23], np.uint32)
    halves = np.array([seed & F, seed >> 32, counter & F, counter >> 32], np.uint32)
    record("random_bits", halves, words)
    record("random_uniform", halves, (words >> 8).astype(np.float64) * 2.0**-24)

path = sys.argv[1] if len(sys.argv) > 1 else "tests/data/array/ops.bin"
with open(path, "wb") as f:
    f.write(b"WRGOLD1\n" + b"".join(records))
print(f"{path}: {len(records)} records, {sum(map(len, records))} bytes")
