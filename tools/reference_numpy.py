"""A plain float64 forward pass of the four model families, in numpy.

It is the second, independent path beside mlx-lm: the scripts that make goldens run both and store how far they are
apart, which is the rounding noise of the reference. Written for clarity; the only economy is that weights are
fetched one at a time, so that a model of half a billion weights fits in memory as float64.

Needs numpy only.
"""

import math

import numpy as np


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rope_frequencies(head_dim, base, scaling):
    """Angle per position of each pair of elements, [head_dim / 2], and the factor on the rotated vector."""
    freq = base ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    kind = (scaling or {}).get("rope_type") or (scaling or {}).get("type") or "default"
    if kind == "default":
        return freq, 1.0
    factor = scaling["factor"]
    if kind == "linear":
        return freq / factor, 1.0
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = scaling["original_max_position_embeddings"] * freq / (2 * math.pi)
        share = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return freq * (share + (1 - share) / factor), 1.0
    if kind == "yarn":
        original = scaling["original_max_position_embeddings"]

        def dim_with(rotations):
            return head_dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(dim_with(scaling.get("beta_fast", 32))), 0)
        high = min(math.ceil(dim_with(scaling.get("beta_slow", 1))), head_dim - 1)
        ramp = np.clip((np.arange(head_dim // 2) - low) / max(high - low, 0.001), 0.0, 1.0)
        return freq * (1 - ramp) + freq / factor * ramp, 0.1 * math.log(factor) + 1.0
    raise ValueError(f"rope kind {kind} is not written here")


def rotate(x, freq, factor):
    """x is [heads, length, head_dim]; the pairs are elements i and i + head_dim / 2."""
    angle = np.arange(x.shape[1], dtype=np.float64)[:, None] * freq
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(config, fetch, ids, rows):
    """Logits [len(rows), vocab] after each context of the token list ids that ends with an index in rows.

    fetch(name) gives the float64 array of a Hugging Face tensor name, or None when the checkpoint has none.
    """
    gemma = config["model_type"] == "gemma3_text"
    hidden, eps = config["hidden_size"], config["rms_norm_eps"]
    n_heads = config["num_attention_heads"]
    n_kv_heads = config.get("num_key_value_heads") or n_heads
    head_dim = config.get("head_dim") or hidden // n_heads
    scale = (config["query_pre_attn_scalar"] if gemma else head_dim) ** -0.5
    length = len(ids)

    def norm(x, name):
        weight = fetch(name)
        return rms_norm(x, 1.0 + weight if gemma else weight, eps)

    def linear(x, name):
        y = x @ fetch(name + ".weight").T
        bias = fetch(name + ".bias")
        return y if bias is None else y + bias

    x = fetch("model.embed_tokens.weight")[np.array(ids)]
    if gemma:
        # mlx-lm and Hugging Face round this factor to bfloat16: 8 bits of mantissa.
        root = math.sqrt(hidden)
        step = 2.0 ** (math.floor(math.log2(root)) - 7)
        x = x * (round(root / step) * step)

    behind = np.arange(length)[:, None] - np.arange(length)[None, :]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        base, scaling, visible = config.get("rope_theta", 10000.0), config.get("rope_scaling"), behind >= 0
        if gemma and (i + 1) % config["sliding_window_pattern"] != 0:
            base, scaling = config["rope_local_base_freq"], None
            visible = visible & (behind < config["sliding_window"])
        freq, factor = rope_frequencies(head_dim, base, scaling)

        h = norm(x, layer + "input_layernorm.weight")
        q, k, v = (
            linear(h, f"{layer}self_attn.{name}_proj").reshape(length, -1, head_dim).transpose(1, 0, 2)
            for name in "qkv"
        )
        if fetch(layer + "self_attn.q_norm.weight") is not None:
            q = norm(q, layer + "self_attn.q_norm.weight")
            k = norm(k, layer + "self_attn.k_norm.weight")
        q, k = rotate(q, freq, factor), rotate(k, freq, factor)
        heads = []
        for head in range(n_heads):
            kv = head // (n_heads // n_kv_heads)
            heads.append(softmax(np.where(visible, q[head] @ k[kv].T * scale, -np.inf)) @ v[kv])
        h = linear(np.concatenate(heads, axis=-1), layer + "self_attn.o_proj")
        if gemma:
            x = x + norm(h, layer + "post_attention_layernorm.weight")
            h = norm(x, layer + "pre_feedforward_layernorm.weight")
        else:
            x = x + h
            h = norm(x, layer + "post_attention_layernorm.weight")
        gate, up = linear(h, layer + "mlp.gate_proj"), linear(h, layer + "mlp.up_proj")
        gate = gelu_tanh(gate) if gemma else gate / (1 + np.exp(-gate))
        h = linear(gate * up, layer + "mlp.down_proj")
        x = x + (norm(h, layer + "post_feedforward_layernorm.weight") if gemma else h)

    x = norm(x[np.array(rows)], "model.norm.weight")
    head = fetch("lm_head.weight")
    return x @ (fetch("model.embed_tokens.weight") if head is None else head).T
