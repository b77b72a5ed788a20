"""GGUF files, written by the package of llama.cpp from models of transformers, as its converter does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

ARCHITECTURES = {
    "llama2": "llama", "llama3": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2",
    "gemma3": "gemma3", "phi4": "phi3", "smollm3": "smollm3", "granite": "granite",
}  # fmt: skip
_INTERLEAVED = {"llama", "smollm3", "granite"}
_PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
_WHOLE = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}


def tensor_name(name: str, has_branch_norms: bool) -> str:
    *path, kind = name.removeprefix("model.").split(".")
    if path[0] != "layers":
        return f"{_WHOLE[path[0]]}.{kind}"
    part = ".".join(path[2:])
    if part == "post_attention_layernorm":
        return f"blk.{path[1]}.{'post_attention_norm' if has_branch_norms else 'ffn_norm'}.{kind}"
    return f"blk.{path[1]}.{_PARTS[part]}.{kind}"


def write_gguf(
    path: Path,
    model: Any,
    architecture: str,
    quantize: Any = lambda name, value: (value, None),
    add: Any = lambda writer: None,
) -> None:
    """Write a model; `quantize` returns for a tensor its data and its type, None for the dtype of the data.

    `add` adds further metadata to the writer.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_context_length(config.max_position_embeddings)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for kind in ("short", "long"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], np.float32))
    if rope["rope_type"] == "llama3":
        from edgecore_llm.families import decoder_config

        divisors = decoder_config(config.to_dict()).ropes[0].divisors
        writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))
    if getattr(config, "sliding_window", None) and architecture in ("gemma2", "gemma3", "phi3"):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    writer.add_eos_token_id(2)
    add(writer)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        value = tensor.numpy()
        if architecture in _INTERLEAVED and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            value = value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            value = value + 1
        short = tensor_name(name, architecture.startswith("gemma"))
        data, kind = quantize(short, value)
        writer.add_tensor(short, np.ascontiguousarray(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
