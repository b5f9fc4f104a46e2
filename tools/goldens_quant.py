#!/usr/bin/env python3
"""Golden values of quantised formats for tests/cpu/test_ref_quant.c.

    $(tools/python_env.py mlx) tools/goldens_quant.py

Writes tests/data/cpu/quant_mlx.bin and quant_gguf.bin: records of
  int32 [8]: mode, group, bits, dtype (weir_dtype of w, scales, biases), rows, cols, n_sections, 0
  n_sections times: int64 bytes, then the bytes
MLX sections: w, data, scales, biases (empty where there are none), values (f32: dequantised from the numbers as f32),
rounded (mx.dequantize in the scales' own dtype, as f32).
GGUF sections: blocks, values (f32).
Modes and dtypes are numbered as in include/weir/dtype.h.
"""
import os
import struct
import sys

import gguf
import mlx.core as mx
import numpy as np

MODES = {"affine": 1, "mxfp4": 2, "nvfp4": 3, "mxfp8": 4}
GGUF = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
DTYPES = {"f16": (9, mx.float16), "bf16": (10, mx.bfloat16), "f32": (11, mx.float32)}
ROWS, COLS = 5, 128


def raw(array):
    mx.eval(array)
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def record(out, head, sections):
    out.write(struct.pack("<8i", *head, len(sections), 0))
    for section in sections:
        out.write(struct.pack("<q", len(section)))
        out.write(section)


def weights(rng):
    """Rows: normal, shifted so that a scale turns negative, all above zero, sparse and constant, large and tiny."""
    w = rng.standard_normal((ROWS, COLS)).astype(np.float32)
    w[1] = w[1] * 0.02 - 0.013
    w[2] = np.abs(w[2]) * 3 + 1
    w[3, :64] = 0
    w[3, 64:96] = 0.375
    w[4, :32] *= 3e3
    w[4, 32:64] *= 1e-5
    w[4, 64:] = np.tile(np.array([0.25, -0.75, 1.25, -1.75, 2.5, -3.5, 5, -6], np.float32), 8)
    return w


def write_mlx(path):
    rng = np.random.default_rng(20261)
    with open(path, "wb") as out:
        for mode, number in MODES.items():
            if mode == "affine":
                shapes = [(g, b) for b in (2, 3, 4, 5, 6, 8) for g in (32, 64, 128)]
            else:
                shapes = [{"mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}[mode]]
            for group, bits in shapes:
                for code, dtype in DTYPES.values():
                    w = mx.array(weights(rng)).astype(dtype)
                    parts = mx.quantize(w, group_size=group, bits=bits, mode=mode)
                    data, scales = parts[0], parts[1]
                    biases = parts[2] if len(parts) > 2 else None
                    options = dict(group_size=group, bits=bits, mode=mode)
                    if mode == "affine":
                        values = mx.dequantize(data, scales.astype(mx.float32), biases.astype(mx.float32), **options)
                        rounded = mx.dequantize(data, scales, biases, **options).astype(mx.float32)
                    else:
                        values = mx.dequantize(data, scales, dtype=mx.float32, **options)
                        rounded = mx.dequantize(data, scales, dtype=dtype, **options).astype(mx.float32)
                    record(out, (number, group, bits, code, ROWS, COLS),
                           [raw(w), raw(data), raw(scales), raw(biases) if biases is not None else b"",
                            raw(values), raw(rounded)])


def write_gguf(path):
    rng = np.random.default_rng(20262)
    with open(path, "wb") as out:
        for i, name in enumerate(GGUF):
            kind = gguf.GGMLQuantizationType[name]
            values_a_block, bytes_a_block = gguf.GGML_QUANT_SIZES[kind]
            n = 3 if values_a_block == 256 else 8
            blocks = rng.integers(0, 256, (n, bytes_a_block), dtype=np.uint8)
            # Every f16 of a block gets a finite value; the last block keeps subnormal ones.
            places = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
                      "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}[name]
            for place in places:
                scale = rng.standard_normal(n).astype(np.float16) * np.float16(0.1)
                scale[-1] = np.float16(3e-6)
                blocks[:, place:place + 2] = scale.astype(np.float16).view(np.uint8).reshape(n, 2)
            values = gguf.quants.dequantize(blocks.reshape(1, -1), kind).astype(np.float32)
            record(out, (5 + i, 0, 0, 11, 1, n * values_a_block), [blocks.tobytes(), values.tobytes()])


def main():
    mx.set_default_device(mx.cpu)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "cpu")
    os.makedirs(folder, exist_ok=True)
    write_mlx(os.path.join(folder, "quant_mlx.bin"))
    write_gguf(os.path.join(folder, "quant_gguf.bin"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
