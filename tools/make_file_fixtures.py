#!/usr/bin/env python3
"""Writes the small valid model files of tests/data/file/valid/, by the formats' own
libraries, with JSON files of what they hold as those libraries say.

    $(tools/python_env.py mlx) tools/make_file_fixtures.py [folder]
"""
import json
import shutil
import sys
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
import safetensors
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parent.parent
RANDOM = np.random.default_rng(7)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


# ---- safetensors: every dtype, as its library writes and reads it ----

def safetensors_file(folder):
    numpy_types = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
                   "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
                   "float64": "F64"}
    tensors = {}
    for i, name in enumerate(numpy_types):
        bits = RANDOM.integers(0, 2 if name == "bool" else 100, size=(2, 3 + i))
        tensors[f"t.{name}"] = bits.astype(name)
    tensors["t.scalar"] = np.array(2.5, dtype=np.float32)
    tensors["t.empty"] = np.zeros((0, 4), dtype=np.int16)
    tensors["t.four"] = RANDOM.standard_normal((2, 1, 3, 2)).astype(np.float32)
    save_file(tensors, folder / "dtypes.safetensors", metadata={"format": "pt", "note": "ä"})
    said = []
    with safetensors.safe_open(folder / "dtypes.safetensors", "np") as file:
        for name in file.keys():
            part = file.get_slice(name)
            said.append({"name": name, "dtype": part.get_dtype(), "shape": part.get_shape(),
                         "hex": file.get_tensor(name).tobytes().hex()})
    write_json(folder / "dtypes.json", said)
    # The dtypes that numpy lacks, by the library's own writer of raw bytes.
    buffer = np.arange(8, dtype=np.uint8)
    specs = {"f8": ("float8_e4m3fn", [3], 3), "bf16": ("bfloat16", [2, 2], 8)}
    safetensors.serialize_file({name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=buffer.ctypes.data,
                                                              data_len=n)
                                for name, (dtype, shape, n) in specs.items()}, folder / "raw.safetensors")


# ---- GGUF: every metadata type and every tensor type ----

def gguf_file(folder):
    path = folder / "types.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.LITTLE)
    writer.add_custom_alignment(64)
    scalars = [("k.u8", "uint8", 250), ("k.i8", "int8", -100), ("k.u16", "uint16", 65000), ("k.i16", "int16", -30000),
               ("k.u32", "uint32", 4000000000), ("k.i32", "int32", -2000000000), ("k.u64", "uint64", 1 << 62),
               ("k.i64", "int64", -(1 << 62)), ("k.f32", "float32", 0.15625), ("k.f64", "float64", 1e-300),
               ("k.true", "bool", True), ("k.false", "bool", False), ("k.text", "string", "grüß 世界"),
               ("k.blank", "string", "")]
    for key, kind, value in scalars:
        getattr(writer, f"add_{kind}")(key, value)
    arrays = [("a.ints", [1, -2, 3]), ("a.floats", [0.5, -0.25]), ("a.texts", ["a", "", "hello", "ß"]),
              ("a.bools", [True, False])]
    for key, value in arrays:
        writer.add_array(key, value)
    types = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
    for name in types:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        cols, rows = max(block, 8), 3
        raw = RANDOM.integers(0, 256, size=(rows, cols // block * size)).astype(np.uint8)
        writer.add_tensor(f"w.{name.lower()}", raw, raw_shape=raw.shape, raw_dtype=kind)
    writer.add_tensor("w.experts", RANDOM.standard_normal((2, 3, 8)).astype(np.float32))
    writer.add_tensor("w.vector", np.arange(5, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = gguf.GGUFReader(path)
    tensors = [{"name": t.name, "type": t.tensor_type.name.lower(), "shape": [int(d) for d in reversed(t.shape)],
                "bytes": int(t.n_bytes), "head": bytes(t.data.tobytes()[:8]).hex(),
                "tail": bytes(t.data.tobytes()[-8:]).hex()} for t in reader.tensors]
    values = {key: reader.fields[key].contents() for key in reader.fields if key[:2] in ("k.", "a.")}
    write_json(folder / "types.json", {"tensors": tensors, "values": values})
    # Version 2 differs in the number alone.
    raw = bytearray(path.read_bytes())
    raw[4] = 2
    (folder / "version2.gguf").write_bytes(raw)


# ---- GGUF: names and configuration of the four architectures ----

def gguf_models(folder):
    hf_modules = ["model.embed_tokens", "model.norm", "lm_head"] + [
        f"model.layers.0.{m}" for m in
        ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
         "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm",
         "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]]
    absent = {"llama": ["pre_feed", "post_feed", "q_norm", "k_norm"], "qwen2": ["pre_feed", "post_feed", "q_norm",
              "k_norm"], "qwen3": ["pre_feed", "post_feed"], "gemma3": ["lm_head"]}
    said = []
    for name, arch in [("llama", gguf.MODEL_ARCH.LLAMA), ("qwen2", gguf.MODEL_ARCH.QWEN2),
                       ("qwen3", gguf.MODEL_ARCH.QWEN3), ("gemma3", gguf.MODEL_ARCH.GEMMA3)]:
        names = gguf.get_tensor_name_map(arch, 1)
        writer = gguf.GGUFWriter(folder / f"{name}.gguf", name)
        writer.add_block_count(1)
        writer.add_context_length(4096)
        writer.add_embedding_length(16)
        writer.add_feed_forward_length(24)
        writer.add_head_count(4)
        writer.add_head_count_kv(2)
        writer.add_layer_norm_rms_eps(0.03125)
        writer.add_rope_freq_base(50000.0)
        if name == "qwen3":
            writer.add_key_length(8)
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(4.0)
            writer.add_rope_scaling_orig_ctx_len(1024)
        if name == "gemma3":
            writer.add_key_length(8)
            writer.add_sliding_window(512)
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(8.0)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(["a", "b", "<|im_end|>", "<eos>", "<turn>"])
        writer.add_token_types([1, 1, 3, 3, 3])
        writer.add_eos_token_id(3)
        writer.add_eot_token_id(4)
        writer.add_chat_template("{{ messages }}")
        for module in hf_modules:
            if any(part in module for part in absent[name]):
                continue
            stored = names.get_name(module)
            suffixes = ["weight"] + (["bias"] if name == "qwen2" and module[-6:] in ("q_proj", "k_proj", "v_proj")
                                     else [])
            for suffix in suffixes:
                writer.add_tensor(f"{stored}.{suffix}", np.zeros((2, 4), dtype=np.float32))
                said.append({"model": name, "stored": f"{stored}.{suffix}", "name": f"{module}.{suffix}"})
        if name == "llama":
            writer.add_tensor("rope_freqs.weight", np.ones(2, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    write_json(folder / "names.json", said)


# ---- MLX: every quantisation layout, and the ways its configuration is written ----

def decode_nvfp4(words, scales):
    lut = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
    packed = np.array(words).view(np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
    s = np.array(scales).astype(int)
    e, m = (s >> 3) & 15, s & 7
    scale = np.where(e == 0, m * 2.0 ** -9, (1 + m / 8) * 2.0 ** (e - 7.0))
    return lut[nibbles & 7] * np.where(nibbles & 8, -1, 1) * np.repeat(scale, 16, -1)


def mlx_folder(folder):
    place = folder / "mlx"
    place.mkdir()
    tensors, said = {}, []
    quantization = {"group_size": 64, "bits": 4}

    def add(module, rows=2, cols=128, experts=None, mode="affine", group=None, bits=None, dtype=mx.bfloat16, key=None,
            stored=None, setting=None, factor=False):
        shape = (rows, cols) if experts is None else (experts, rows, cols)
        w = mx.random.normal(shape).astype(dtype)
        stored = stored or module
        entry = {"module": module, "mode": mode, "experts": experts or 1, "rows": rows, "cols": cols}
        if mode == "none":
            tensors[f"{stored}.weight"] = w
            entry["dtype"] = str(dtype).split(".")[-1]
        else:
            extra = {}
            if factor:
                extra["global_scale"] = mx.max(mx.abs(w)).astype(mx.float32)
                tensors[f"{stored}.global_scale"] = extra["global_scale"]
            # nvfp4 scales beyond E4M3's range need f32 input on the CPU.
            parts = mx.quantize(w.astype(mx.float32) if factor else w, group_size=group, bits=bits, mode=mode,
                                **extra)
            for part, array in zip(["weight", "scales", "biases"], parts):
                tensors[f"{stored}.{part}"] = array
            defaults = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}[mode]
            entry["group"], entry["bits"] = group or defaults[0], bits or defaults[1]
            if mode == "affine":
                entry["dtype"] = str(dtype).split(".")[-1]
            if factor:
                back = np.array(mx.dequantize(*parts, mode=mode, **extra).astype(mx.float32), dtype=np.float64)
                plain = decode_nvfp4(parts[0], parts[1])
                entry["factor"] = float(np.median(back[plain != 0] / plain[plain != 0]))
        if setting is not None:
            quantization[key or module] = setting
        said.append(entry)

    add("model.embed_tokens", rows=6)
    add("lm_head", rows=6, mode="none")  # a head without scales in a quantised model
    for group in (32, 64, 128):
        for bits in (2, 3, 4, 5, 6, 8):
            module = f"model.layers.0.affine_{group}_{bits}"
            add(module, group=group, bits=bits, setting={"group_size": group, "bits": bits},
                key=module if bits % 2 else module[len("model."):])
    add("model.layers.1.f16", dtype=mx.float16, stored="language_model.model.layers.1.f16")
    add("model.layers.1.f32", dtype=mx.float32, stored="model.language_model.layers.1.f32")
    add("model.layers.1.six", bits=6, key="language_model.model.layers.1.six", setting={"bits": 6})
    add("model.layers.1.as_global", setting=True)
    for mode in ("mxfp4", "nvfp4", "mxfp8"):
        add(f"model.layers.2.{mode}", mode=mode, setting={"mode": mode})
        add(f"model.layers.2.{mode}_experts", mode=mode, experts=3, setting={"mode": mode})
        add(f"model.layers.2.{mode}_unlisted", mode=mode)
    add("model.layers.2.scaled", mode="nvfp4", factor=True, setting={"mode": "nvfp4"})
    add("model.layers.3.experts", experts=3, rows=4)
    add("model.layers.3.listed_but_dense", mode="none", setting={"group_size": 64, "bits": 8})
    add("model.layers.3.false_but_packed", setting=False)
    add("model.layers.3.false_and_dense", mode="none", setting=False, dtype=mx.float16)
    add("model.layers.3.says_8_is_4", setting={"group_size": 64, "bits": 8})
    add("model.layers.3.says_mxfp4_is_affine", bits=8, group=32, setting={"mode": "mxfp4"})
    said[-1]["needs_cols"] = True  # 256 bits a group are also 64 of 4 bits, the default
    add("model.layers.3.dense_f32", mode="none", dtype=mx.float32)
    mx.save_safetensors(str(place / "model.safetensors"), tensors)
    write_json(place / "config.json", {"model_type": "llama", "hidden_size": 128, "eos_token_id": [3, 4],
                                       "quantization": quantization, "quantization_config": quantization})
    write_json(place / "generation_config.json", {"eos_token_id": [4, 5]})
    write_json(place / "tokenizer_config.json", {
        "eos_token": {"content": "<end>"}, "added_tokens_decoder": {"9": {"content": "<end>"}},
        "chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]})
    write_json(folder / "mlx.json", said)


def sharded_folder(folder):
    place = folder / "sharded"
    place.mkdir()
    parts = {f"model-0000{i}-of-00003.safetensors": {f"model.layers.{i}.w.weight": np.full((2, 2), i, np.float32)}
             for i in (1, 2, 3)}
    for name, tensors in parts.items():
        save_file(tensors, place / name)
    # Stale: it names a tensor that is gone, and lacks the third shard.
    index = {t: name for name, tensors in parts.items() for t in tensors}
    index.pop("model.layers.3.w.weight")
    index["model.layers.9.gone.weight"] = "model-00002-of-00003.safetensors"
    write_json(place / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})
    write_json(place / "config.json", {"model_type": "llama", "eos_token_id": 2, "text_config": {"hidden_size": 2}})
    (place / "chat_template.jinja").write_text("from jinja")
    write_json(place / "tokenizer_config.json", {"eos_token": "</s>", "chat_template": "from json"})
    write_json(place / "tokenizer.json", {"added_tokens": [{"id": 7, "content": "</s>"}]})


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/file/valid"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mx.random.seed(7)
    mx.set_default_device(mx.cpu)
    safetensors_file(folder)
    gguf_file(folder)
    gguf_models(folder)
    mlx_folder(folder)
    sharded_folder(folder)
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # the library writes them for the owner alone


if __name__ == "__main__":
    main()
