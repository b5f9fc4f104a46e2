#!/usr/bin/env python3
"""Makes tests/data/logits/<model>.json: what an independent implementation says about the three real models.

    $(tools/python_env.py mlx) tools/goldens_logits.py [--store DIR] [--only NAME] [--no-float64 | --add-bf16]

Each GGUF file is dequantised by the gguf package to float32 and put into mlx-lm's model of the family, which runs in
float32 on the CPU over three token lists (5, 200 and 1,500 tokens of context; the text is tests/data/logits/text.txt,
tokenised by the tokenizers or sentencepiece library from the vocabulary in the file). Of chosen positions the best 32
tokens with their natural log-probabilities are kept and the log of the mass of all others.

How far the reference itself can be trusted is measured, not assumed. "noise" is the largest difference of a logit,
over all kept positions and the whole vocabulary, between the reference and (a) itself with the prompt fed in chunks of
64 through its own cache, (b) a separate float64 implementation, tools/reference_numpy.py. "bf16" in its parts is no
noise of the reference but of arithmetic on GPUs: how far the gap between a kept position's best two tokens moves at
most when both operands of every product are rounded to bf16 and summed in float32; and "bf16_kl", how far the kept
positions then diverge on average. --add-bf16 measures only these, for goldens that are there.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from gguf import GGUFReader, dequantize
from mlx_lm.models import gemma3_text, llama, qwen2
from mlx_lm.models.cache import make_prompt_cache

sys.path.insert(0, str(Path(__file__).parent))
import compare_logits
import reference_numpy

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "data" / "logits"
TOP = 32
FILES = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "qwen2.5-coder": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "gemma3": "gemma-3-270m-q4_k_m.gguf",
}
FAMILIES = {"llama": llama, "qwen2": qwen2, "gemma3": gemma3_text}

TENSORS = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.bias": "self_attn.v_proj.bias",
    "attn_output.weight": "self_attn.o_proj.weight",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
}


def hf_name(name, arch):
    fixed = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in fixed:
        return fixed[name]
    if name == "output.weight":
        return "lm_head.weight"
    _, layer, rest = name.split(".", 2)
    if arch == "gemma3" and rest == "ffn_norm.weight":
        return f"model.layers.{layer}.pre_feedforward_layernorm.weight"
    return f"model.layers.{layer}.{TENSORS[rest]}"


class Gguf:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.arch = self.field("general.architecture")

    def field(self, key, default=None):
        field = self.reader.fields.get(key.replace("*", self.arch) if "*" in key else key)
        return default if field is None else field.contents()

    def config(self):
        n_heads, hidden = self.field("*.attention.head_count"), self.field("*.embedding_length")
        config = {
            "model_type": {"gemma3": "gemma3_text"}.get(self.arch, self.arch),
            "hidden_size": hidden,
            "num_hidden_layers": self.field("*.block_count"),
            "intermediate_size": self.field("*.feed_forward_length"),
            "num_attention_heads": n_heads,
            "num_key_value_heads": self.field("*.attention.head_count_kv"),
            "head_dim": self.field("*.attention.key_length", hidden // n_heads),
            "rms_norm_eps": self.field("*.attention.layer_norm_rms_epsilon"),
            "vocab_size": len(self.field("tokenizer.ggml.tokens")),
            "max_position_embeddings": self.field("*.context_length"),
            "rope_theta": self.field("*.rope.freq_base", 10000.0),
            "tie_word_embeddings": not any(t.name == "output.weight" for t in self.reader.tensors),
        }
        if self.arch == "gemma3":
            # The file says the window and the global base; the rest is fixed for Gemma 3 (270M to 12B).
            config["sliding_window"] = self.field("*.attention.sliding_window")
            config["sliding_window_pattern"] = 6
            config["rope_local_base_freq"] = 10000.0
            config["query_pre_attn_scalar"] = config["head_dim"]
        return config

    def weights(self, config):
        weights = {}
        for tensor in self.reader.tensors:
            if tensor.name in ("rope_freqs.weight",):
                raise SystemExit(f"{tensor.name}: rope factors are not handled here")
            w = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            w = w.reshape([int(n) for n in tensor.shape][::-1])
            if self.arch == "llama" and tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
                # llama.cpp keeps the two halves of each head interleaved; put them back side by side.
                n = config["num_attention_heads" if "attn_q" in tensor.name else "num_key_value_heads"]
                w = w.reshape(n, w.shape[0] // n // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
            if self.arch == "gemma3" and tensor.name.endswith("norm.weight"):
                # llama.cpp stores the factor itself, Hugging Face the factor minus one.
                w = w - np.float32(1.0)
            weights[hf_name(tensor.name, self.arch)] = np.ascontiguousarray(w)
        return weights

    def tokenize(self, text):
        tokens, kinds = self.field("tokenizer.ggml.tokens"), self.field("tokenizer.ggml.token_type")
        if self.field("tokenizer.ggml.model") == "llama":
            import sentencepiece
            from sentencepiece import sentencepiece_model_pb2 as pb

            proto = pb.ModelProto()
            proto.trainer_spec.model_type = pb.TrainerSpec.BPE
            proto.trainer_spec.byte_fallback = True
            proto.trainer_spec.unk_id = self.field("tokenizer.ggml.unknown_token_id", 3)
            proto.normalizer_spec.add_dummy_prefix = bool(self.field("tokenizer.ggml.add_space_prefix", True))
            proto.normalizer_spec.remove_extra_whitespaces = False
            proto.normalizer_spec.name = "identity"
            for token, score, kind in zip(tokens, self.field("tokenizer.ggml.scores"), kinds):
                proto.pieces.add(piece=token, score=score, type=kind)
            processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
            add_bos = self.field("tokenizer.ggml.add_bos_token", True)
            return [self.field("tokenizer.ggml.bos_token_id")] * bool(add_bos) + processor.encode(text)
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        merges = [tuple(m.split(" ")) for m in self.field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
        qwen = self.field("tokenizer.ggml.pre") == "qwen2"
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not qwen)
        if qwen:
            words = (
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+"
            )
            first = pre_tokenizers.Split(Regex(words), "isolated")
        else:
            first = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
        return tokenizer.encode(text, add_special_tokens=False).ids


def kept_positions(n):
    """Positions to keep, each the number of tokens of context before the token that it scores."""
    if n <= 5:
        return list(range(1, n + 1))
    if n <= 200:
        return sorted({1, 2, 3, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 129, 150, *range(n - 7, n + 1)})
    around = {1, 7, 63, 64, 65, 127, 200, 255, 256, 257, 320, 384, 448, 510, 511, 512, 513, 514, 515, 576, 640, 700,
              768, 832, 900, 1000, 1023, 1024, 1025, 1100, 1200, 1300, 1400}
    return sorted(around | set(range(n - 7, n + 1)))


def rows_whole(model, ids, rows):
    hidden = model.model(mx.array([ids]))
    return head(model, hidden[0, mx.array(rows)])


def rows_chunked(model, ids, rows, chunk):
    # Gemma's rotating cache forgets by design; a plain one with the window as a mask says the same.
    cache = make_prompt_cache(model)
    parts = []
    for start in range(0, len(ids), chunk):
        parts.append(model.model(mx.array([ids[start : start + chunk]]), cache=cache))
        mx.eval(parts[-1])
    return head(model, mx.concatenate(parts, axis=1)[0, mx.array(rows)])


def rounded(x):
    return x.astype(mx.bfloat16).astype(mx.float32)


def noise_of_bf16(model, family, ids, kept):
    """Parts of the noise, with the operands of every product rounded to bf16: of linear layers, and of attention over
    its keys and values."""
    linear, as_linear, attention = nn.Linear.__call__, nn.Embedding.as_linear, family.scaled_dot_product_attention

    def rounded_linear(self, x):
        y = rounded(x) @ rounded(self.weight).T
        return y + self.bias if "bias" in self else y

    def rounded_attention(queries, keys, values, *args, **options):
        return attention(rounded(queries), rounded(keys), rounded(values), *args, **options)

    nn.Linear.__call__, family.scaled_dot_product_attention = rounded_linear, rounded_attention
    nn.Embedding.as_linear = lambda self, x: rounded(x) @ rounded(self.weight).T
    try:
        logits = rows_whole(model, ids, [position["pos"] - 1 for position in kept])
    finally:
        nn.Linear.__call__, nn.Embedding.as_linear = linear, as_linear
        family.scaled_dot_product_attention = attention
    moved, kl = 0.0, 0.0
    for row, position in zip(log_softmax(logits), kept):
        (first, best), (second, next_best) = position["top"][:2]
        moved = max(moved, abs((row[first] - row[second]) - (best - next_best)))
        line = golden_rows(row[None], ids + [position["token"]], [position["pos"]], compare_logits.TOP)[0]
        kl += compare_logits.divergence(position, line) / len(kept)
    return {"bf16": round(float(moved), 5), "bf16_kl": float(f"{kl:.3g}")}


def head(model, x):
    tied = "lm_head" not in model
    return np.array(model.model.embed_tokens.as_linear(x) if tied else model.lm_head(x)).astype(np.float64)


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def golden_rows(logits, ids, positions, top=TOP, digits=5):
    """The stored form of each kept position."""
    lp = log_softmax(logits)
    kept = []
    for row, pos in zip(lp, positions):
        best = np.argsort(-row, kind="stable")[:top]
        rest = np.delete(row, best)
        kept.append(
            {
                "pos": pos,
                "token": ids[pos],
                "logprob": round(float(row[ids[pos]]), digits),
                "top": [[int(i), round(float(row[i]), digits)] for i in best],
                "rest": round(float(np.log(np.exp(rest).sum())), digits) if len(rest) else None,
            }
        )
    return kept


def write_golden(path, golden):
    """One kept position a line: small, and a change can be read."""
    compact = lambda x: json.dumps(x, separators=(",", ":"))
    lines = [f'"{k}":{compact(v)}' for k, v in golden.items() if k != "prompts"]
    prompts = []
    for prompt in golden["prompts"]:
        positions = ",\n".join(compact(p) for p in prompt["positions"])
        rest = compact({k: v for k, v in prompt.items() if k != "positions"})[:-1]
        prompts.append(f'{rest},"positions":[\n{positions}]}}')
    path.write_text("{" + ",\n".join(lines) + ',\n"prompts":[\n' + ",\n".join(prompts) + "]}\n")


def add_bf16(path, model, family):
    golden = json.loads(path.read_text())
    for prompt in golden["prompts"]:
        noise = noise_of_bf16(model, family, prompt["ids"][: prompt["length"]], prompt["positions"])
        prompt["noise_parts"].update(noise)
        print(f"{path.stem}: {prompt['length']} tokens, bf16 moves a gap by up to {noise['bf16']}, "
              f"mean divergence {noise['bf16_kl']}", flush=True)
    write_golden(path, golden)


def main():
    store = os.environ.get("WEIR_STORE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "store"
    )
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default=store)
    parser.add_argument("--only")
    parser.add_argument("--no-float64", action="store_true", help="skip the slow float64 run")
    parser.add_argument("--add-bf16", action="store_true", help="only measure bf16's noise for goldens that are there")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    text = (OUT / "text.txt").read_text()
    for name, file in FILES.items():
        if args.only and args.only != name:
            continue
        began = time.time()
        gguf = Gguf(os.path.join(args.store, file))
        config = gguf.config()
        weights = gguf.weights(config)
        family = FAMILIES[gguf.arch]
        model = family.Model(family.ModelArgs.from_dict(config))
        mlx_weights = {k: mx.array(v) for k, v in weights.items()}
        if hasattr(model, "sanitize"):
            mlx_weights = model.sanitize(mlx_weights)
        model.load_weights(list(mlx_weights.items()), strict=True)
        model.eval()
        mx.eval(model.parameters())
        print(f"{name}: {config}", flush=True)
        if args.add_bf16:
            add_bf16(OUT / f"{name}.json", model, family)
            continue

        bos = gguf.tokenize("")
        stream = gguf.tokenize(text)
        starts = {5: "Water is a strange substance", 200: "The function above keeps", 1500: ""}
        golden = {"file": file, "config": config, "reference": "mlx-lm on mlx-cpu, float32", "prompts": []}
        for n, start in starts.items():
            ids = gguf.tokenize(text[text.index(start) :])[: n + 1]
            if len(ids) < n + 1:
                ids += stream[len(bos) :][: n + 1 - len(ids)]
            positions = kept_positions(n)
            rows = [p - 1 for p in positions]
            # The last id is only scored; feeding it would cost nothing but says nothing.
            whole = rows_whole(model, ids[:n], rows)
            noise = {"chunks": float(np.abs(rows_chunked(model, ids[:n], rows, 64) - whole).max())}
            kept = golden_rows(whole, ids, positions)
            noise.update(noise_of_bf16(model, family, ids[:n], kept))
            if not args.no_float64:
                fetch = lambda key: None if key not in weights else weights[key].astype(np.float64)
                exact = reference_numpy.logits(config, fetch, ids[:n], rows)
                noise["float64"] = float(np.abs(exact - whole).max())
                noise["float64_kl"] = float(
                    np.mean(np.sum(np.exp(log_softmax(exact)) * (log_softmax(exact) - log_softmax(whole)), axis=-1))
                )
            prompt = {
                "length": n,
                "ids": ids,
                "noise": max(v for k, v in noise.items() if k not in ("float64_kl", "bf16", "bf16_kl")),
                "noise_parts": noise,
                "positions": kept,
            }
            golden["prompts"].append(prompt)
            print(f"{name}: {n} tokens, noise {noise}, {time.time() - began:.0f} s", flush=True)
        write_golden(OUT / f"{name}.json", golden)


if __name__ == "__main__":
    main()
