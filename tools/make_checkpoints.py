#!/usr/bin/env python3
"""Makes small random MLX checkpoints of the four families, and goldens of their logits.

    python=$(tools/python_env.py mlx)
    $python tools/make_checkpoints.py                 the set in the tree, tests/data/checkpoints
    $python tools/make_checkpoints.py --all DIR       every family, mode and kind of head (about 200 folders)
    $python tools/make_checkpoints.py --check         prints how far the stored goldens are from a fresh run

The folders are written by mlx-lm's own functions for quantising and saving. A golden is what mlx-lm's model of the
family says in float32 when the weights in the folder are dequantised to float32 first: so weir, which multiplies by
the quantised weights at nearly float32 accuracy, can be held to it closely. "noise" is the largest difference of a
logit between that and a float64 run (tools/reference_numpy.py) over weights that a second, separate dequantiser in
this file takes from the safetensors file.

The weights are drawn so that the result depends on every part: attention is far from uniform, the layers outweigh the
embedding, and the logits have a standard deviation near 2.5.
"""

import argparse
import contextlib
import io
import json
import math
import os
import shutil
import sys
import zlib
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.utils as lm
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

sys.path.insert(0, str(Path(__file__).parent))
import reference_numpy

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "checkpoints"
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3_text")
VOCAB = 157  # Not a multiple of anything that a kernel likes.
LENGTHS = {5: (1, 2, 3, 4, 5), 200: (16, 17, 18, 64, 65, 200), 1500: (257, 513, 1024, 1025, 1499, 1500)}
TOP = 32
AFFINE = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
GROUP = {"mxfp4": 32, "nvfp4": 16, "mxfp8": 32}
DTYPES = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}
HF_DTYPE = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
ROPES = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256},
}


def base_config(family, group, bits, dense):
    """Sizes: rows are multiples of the group; heads times head_dim differs from hidden where the family allows it."""
    if dense:
        hidden, heads, kv_heads, head_dim, inner, layers = 32, 2, 1, 16, 64, 2
    elif group == 128:
        hidden, heads, kv_heads, head_dim, inner, layers = 128, 4, 1, 32, 128, 2 if bits < 4 else 1
    else:
        hidden, heads, kv_heads, head_dim, inner, layers = 64, 4, 2, 16, 128 if bits < 5 else 64, 2
    config = {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-6,
        "vocab_size": VOCAB,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
    }
    if family == "qwen3":
        config["head_dim"] = head_dim * (1 if group == 128 or bits == 8 else 2)
        config["rope_theta"] = 1000000.0
    if family == "gemma3_text":
        # One global layer of two or three; the window is much shorter than the prompts.
        pattern = min(layers, 2)
        config.update(
            head_dim=head_dim * (1 if group == 128 else 2),
            num_hidden_layers=layers + (1 if dense else 0),
            query_pre_attn_scalar=24,
            sliding_window=16,
            sliding_window_pattern=pattern,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
        )
        if group not in (0, 128):
            config["num_attention_heads"], config["num_key_value_heads"] = 2, 1
    return config


def architecture(family):
    names = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3_text": "Gemma3"}
    return [names[family] + "ForCausalLM"]


def random_weights(model, config, tied, seed):
    """Fills the model with float32 numbers that depend on the seed and on each tensor's name only."""
    gemma = config["model_type"] == "gemma3_text"
    weights = []
    for name, old in tree_flatten(model.parameters()):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        w = rng.standard_normal(old.shape)
        fan_in = old.shape[-1]
        if name.endswith("norm.weight"):
            w = w * 0.2 + (0.0 if gemma else 1.0)
            if gemma and "post_" in name:
                w = w + (6.0 if tied else 1.5) * math.sqrt(config["hidden_size"]) / 8
        elif name.endswith(".bias"):
            w *= 0.4
        elif "embed_tokens" in name:
            w *= 2.5 / math.sqrt(fan_in) if tied else (1.0 / math.sqrt(fan_in) if gemma else 1.0)
        elif "lm_head" in name:
            w *= 2.5 / math.sqrt(fan_in)
        elif "q_proj" in name or "k_proj" in name:
            w *= 1.5 / math.sqrt(fan_in)
        else:
            w *= 1.4 / math.sqrt(fan_in)
        weights.append((name, mx.array(w.astype(np.float32))))
    model.load_weights(weights, strict=True)


def make(folder, spec):
    config = base_config(spec["family"], spec.get("group", 0), spec.get("bits", 16), spec["mode"] in DTYPES)
    config.update(spec.get("config", {}))
    config["architectures"] = architecture(spec["family"])
    config["tie_word_embeddings"] = spec["tied"]
    dtype = spec["mode"] if spec["mode"] in DTYPES else spec.get("dtype", "bf16")
    config["torch_dtype"] = HF_DTYPE[dtype]
    model_class, args_class = lm._get_classes(config)
    model = model_class(args_class.from_dict(config))
    if spec["tied"] and "lm_head" in model:
        model.sanitize({})  # Gemma decides by the weights that it is given.
    random_weights(model, config, spec["tied"], zlib.crc32(spec["name"].encode()))
    model.update(tree_unflatten([(k, v.astype(DTYPES[dtype])) for k, v in tree_flatten(model.parameters())]))
    if spec["mode"] not in DTYPES:
        overrides = spec.get("overrides", {})
        predicate = lambda path, module: overrides.get(path, True)
        model, config = lm.quantize_model(
            model, config, spec["group"], spec["bits"], mode=spec["mode"], quant_predicate=predicate
        )
    shutil.rmtree(folder, ignore_errors=True)
    whole = lm.make_shards
    if spec.get("shards"):
        lm.make_shards = lambda weights: halves(weights)
    try:
        lm.save_model(folder, model)
    finally:
        lm.make_shards = whole
    lm.save_config(config, folder / "config.json")
    if not spec.get("shards"):
        (folder / "model.safetensors.index.json").unlink()  # Optional, and the larger part of a small folder.


def halves(weights):
    names = sorted(weights)
    return [{n: weights[n] for n in names[i::2]} for i in range(2)]


def reference_model(folder):
    """mlx-lm's model of the folder, every weight dequantised to float32."""
    model, config = lm.load_model(folder)
    replaced = []
    for name, module in model.named_modules():
        if not isinstance(module, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
            continue
        scales, biases = module.scales, module.get("biases")
        if module.mode == "affine":
            scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
        w = mx.dequantize(
            module.weight, scales, biases, module.group_size, module.bits, mode=module.mode, dtype=mx.float32
        )
        if isinstance(module, nn.QuantizedLinear):
            dense = nn.Linear(w.shape[1], w.shape[0], bias="bias" in module)
            if "bias" in module:
                dense.bias = module.bias
        else:
            dense = nn.Embedding(*w.shape)
        dense.weight = w
        replaced.append((name, dense))
    model.update_modules(tree_unflatten(replaced))
    model.update(tree_unflatten([(k, v.astype(mx.float32)) for k, v in tree_flatten(model.parameters())]))
    mx.eval(model.parameters())
    return model, config


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def e4m3(byte):
    byte = byte.astype(np.int64)
    sign, exponent, mantissa = 1 - 2 * (byte >> 7), (byte >> 3) & 15, byte & 7
    return sign * np.where(exponent == 0, mantissa / 512, (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def unpack(words, bits):
    """uint32 [rows, n] as a little-endian stream of bits, to integers [rows, n * 32 / bits]."""
    stream = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    stream = stream.reshape(words.shape[0], -1, bits).astype(np.int64)
    return (stream << np.arange(bits)).sum(axis=-1)


def exact_weights(folder, config):
    """Every tensor of the folder as float64 by its dense name, by this file's own reading of the formats."""
    raw = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                kind = {"BF16": "<u2", "F16": "<f2", "F32": "<f4", "U32": "<u4", "U8": "u1"}[entry["dtype"]]
                value = np.frombuffer(data[start + begin : start + end], kind).reshape(entry["shape"])
                if entry["dtype"] == "BF16":
                    value = (value.astype(np.uint32) << 16).view(np.float32)
                raw[name] = value if kind in ("<u4", "u1") else value.astype(np.float64)
    settings = config.get("quantization", {})
    weights = {}
    for name, value in raw.items():
        base, last = name.rsplit(".", 1)
        if last in ("scales", "biases"):
            continue
        if base + ".scales" not in raw or last != "weight":
            weights[name] = value
            continue
        own = {**{k: v for k, v in settings.items() if not isinstance(v, dict)}, **settings.get(base, {})}
        codes, scales = unpack(value, own["bits"]), raw[base + ".scales"]
        groups = codes.reshape(codes.shape[0], -1, own["group_size"])
        mode = own.get("mode", "affine")
        if mode == "affine":
            w = scales[..., None] * groups + raw[base + ".biases"][..., None]
        else:
            scale = e4m3(scales) if mode == "nvfp4" else 2.0 ** (scales.astype(np.float64) - 127)
            w = scale[..., None] * (e4m3(groups) if mode == "mxfp8" else E2M1[groups])
        weights[name] = w.reshape(codes.shape)
    return weights


def prompts():
    """One list of ids a length, random but for a stretch that repeats, so that attention finds something."""
    lists = {}
    for n in LENGTHS:
        ids = np.random.default_rng(n).integers(0, VOCAB, n + 1)
        ids[n // 2 : n // 2 + n // 4] = ids[: n // 4]
        lists[str(n)] = [int(i) for i in ids]
    return lists


def golden(folder, lists):
    model, config = reference_model(folder)
    weights = exact_weights(folder, config)
    parts = []
    for n, positions in LENGTHS.items():
        ids = lists[str(n)]
        rows = [p - 1 for p in positions]
        logits = np.array(model(mx.array([ids[:n]]))[0, mx.array(rows)]).astype(np.float64)
        exact = reference_numpy.logits(config, weights.get, ids[:n], rows)
        noise = float(np.abs(logits - exact).max())
        lp = logits - logits.max(axis=-1, keepdims=True)
        lp = lp - np.log(np.exp(lp).sum(axis=-1, keepdims=True))
        kept = []
        for row, pos in zip(lp, positions):
            best = np.argsort(-row, kind="stable")[:TOP]
            kept.append(
                {
                    "pos": pos,
                    "token": ids[pos],
                    "logprob": round(float(row[ids[pos]]), 5),
                    "top": [[int(i), round(float(row[i]), 5)] for i in best],
                    "rest": round(float(np.log(np.exp(np.delete(row, best)).sum())), 5),
                }
            )
        parts.append({"prompt": str(n), "length": n, "noise": noise, "positions": kept})
        repeats = sum(k["top"][0][0] == ids[k["pos"] - 1] for k in kept)
        entropy = float(-(np.exp(lp) * lp).sum(axis=-1).mean())
        gap = min(k["top"][0][1] - k["top"][1][1] for k in kept)
        print(f"    {n:>5} tokens: noise {noise:.1e}, entropy {entropy:.2f}, smallest gap {gap:.4f}, "
              f"best is the last token {repeats}/{len(kept)}, std {logits.std():.2f}")
    return {"prompts": parts}


def spec(family, mode, tied, group=0, bits=16, tag="", **more):
    kind = {"gemma3_text": "gemma3"}.get(family, family)
    form = f"{mode}-b{bits}g{group}" if mode == "affine" else mode
    name = "-".join(x for x in (kind, form, more.get("dtype", ""), "tied" if tied else "untied", tag) if x)
    return {"name": name, "family": family, "mode": mode, "tied": tied, "group": group, "bits": bits, **more}


def tree_set():
    """What the tree holds: every mode, every family, both heads, each at least once, and not the whole product."""
    specs = []
    # Left out for their size; --all makes them too.
    large = {(3, 128), (5, 128), (6, 128), (8, 128), (8, 32)}
    for i, (bits, group) in enumerate(AFFINE):
        if (bits, group) in large:
            continue
        specs.append(spec(FAMILIES[(i + i // 4) % 4], "affine", i % 2 == 0 or group == 128, group, bits))
    specs.append(spec("llama", "affine", False, 64, 4, dtype="f16"))
    specs.append(spec("gemma3_text", "affine", True, 32, 4, dtype="f32"))
    for i, mode in enumerate(GROUP):
        for j in range(2):
            bits = 8 if mode == "mxfp8" else 4
            specs.append(spec(FAMILIES[(2 * j + i) % 4], mode, j == 0, GROUP[mode], bits))
    for family, mode, tied in (("llama", "bf16", True), ("llama", "f16", False), ("qwen2", "bf16", False),
                               ("qwen3", "f16", False), ("gemma3_text", "f16", True)):
        specs.append(spec(family, mode, tied))
    specs.append(spec("llama", "f32", True))
    for kind, scaling in ROPES.items():
        specs.append(spec("llama", "bf16", True, tag="rope-" + kind, config={"rope_scaling": scaling}))
    specs.append(spec("gemma3_text", "bf16", True, tag="rope-linear", config={"rope_scaling": ROPES["linear"]}))
    specs.append(
        spec("llama", "bf16", False, tag="biases", config={"attention_bias": True, "mlp_bias": True})
    )
    specs.append(
        spec(
            "qwen3", "affine", False, 64, 4, tag="overrides",
            overrides={
                "lm_head": {"group_size": 32, "bits": 6, "mode": "affine"},
                "model.layers.0.self_attn.v_proj": {"group_size": 64, "bits": 8, "mode": "affine"},
                "model.layers.1.mlp.down_proj": {"group_size": 128, "bits": 3, "mode": "affine"},
                "model.layers.1.mlp.gate_proj": False,
            },
        )
    )
    specs.append(
        spec(
            "llama", "mxfp4", True, 32, 4, tag="overrides",
            overrides={
                "model.embed_tokens": {"group_size": 64, "bits": 8, "mode": "affine"},
                "model.layers.0.self_attn.q_proj": {"group_size": 32, "bits": 8, "mode": "mxfp8"},
                "model.layers.0.mlp.up_proj": {"group_size": 16, "bits": 4, "mode": "nvfp4"},
                "model.layers.1.self_attn.o_proj": False,
            },
        )
    )
    specs.append(spec("qwen2", "affine", True, 64, 4, tag="sharded", shards=True))
    return specs


def full_set():
    specs = []
    for family in FAMILIES:
        for tied in (True, False):
            specs += [spec(family, "affine", tied, group, bits) for bits, group in AFFINE]
            specs += [spec(family, mode, tied, group, 8 if mode == "mxfp8" else 4) for mode, group in GROUP.items()]
            specs += [spec(family, mode, tied) for mode in DTYPES]
    return specs


def write_goldens(path, lists, goldens):
    compact = lambda x: json.dumps(x, separators=(",", ":"))
    lines = []
    for name, value in goldens.items():
        parts = []
        for part in value["prompts"]:
            rest = compact({k: v for k, v in part.items() if k != "positions"})[:-1]
            parts.append(rest + ',"positions":[\n' + ",\n".join(compact(p) for p in part["positions"]) + "]}")
        lines.append(f'"{name}":{{"prompts":[' + ",\n".join(parts) + "]}")
    path.write_text('{"reference":"mlx-lm on mlx-cpu, float32, weights dequantised to float32",\n"prompts":'
                    + compact(lists) + ',\n"checkpoints":{\n' + ",\n".join(lines) + "}}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", metavar="DIR", help="write the whole product there")
    parser.add_argument("--check", action="store_true", help="compare the folders in the tree with their goldens")
    parser.add_argument("--only", default="", help="part of the names to make (goldens of the others are kept)")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    out = Path(args.all) if args.all else OUT
    out.mkdir(parents=True, exist_ok=True)
    lists, goldens = prompts(), {}
    stored = out / "goldens.json"
    if stored.exists() and (args.only or args.check):
        goldens = json.loads(stored.read_text())["checkpoints"]
    worst = 0.0
    for one in full_set() if args.all else tree_set():
        if args.only not in one["name"]:
            continue
        folder = out / one["name"]
        if not args.check:
            with contextlib.redirect_stdout(io.StringIO()):
                make(folder, one)
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{one['name']}: {size} bytes")
        fresh = golden(folder, lists)
        if args.check:
            for a, b in zip(goldens[one["name"]]["prompts"], fresh["prompts"]):
                for x, y in zip(a["positions"], b["positions"]):
                    worst = max(worst, *(abs(x["top"][i][1] - y["top"][i][1]) for i in range(TOP)))
        else:
            goldens[one["name"]] = fresh
    if args.check:
        print(f"largest difference of a stored log-probability: {worst:.6f}")
        return
    order = [s["name"] for s in (full_set() if args.all else tree_set())]
    write_goldens(stored, lists, {n: goldens[n] for n in order if n in goldens})
    total = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{len(goldens)} checkpoints, {total} bytes in all")


if __name__ == "__main__":
    main()
