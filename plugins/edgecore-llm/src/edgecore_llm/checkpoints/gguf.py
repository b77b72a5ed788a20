"""Checkpoints in a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgecore_llm.checkpoints.gguf_blocks import decode_rows
from edgecore_llm.checkpoints.gguf_file import GgufFile
from edgecore_llm.checkpoints.row_order import interleaved_rows
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import FAMILIES, Family, decoder_config
from edgecore_llm.model.config import DecoderConfig

_NAMES = {
    "token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_NAMES_BRANCH_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_KEYS = {
    "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping", "context_length": "max_position_embeddings",
    "embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling", "rope.freq_base": "rope_theta",
}  # fmt: skip
"""GGUF metadata keys without the architecture's prefix, and the equivalent keys of a `config.json`."""
_ROOT_OF_WIDTH = {("gemma2", 46), ("gemma3", 62)}
"""(architecture, layers) of models whose scores are divided by sqrt(hidden size / heads) instead of sqrt(head_dim)."""


class GgufCheckpoint:
    """A checkpoint in a GGUF file, as llama.cpp writes it.

    Raises:
        CheckpointError: The file is damaged, or its architecture is unknown.
    """

    has_norm_offset = False

    def __init__(self, path: Path) -> None:
        self.file = GgufFile(path)
        self.family = self._family()
        self._tensors = {self._name(name): name for name in self.file.tensors}

    @cached_property
    def config(self) -> DecoderConfig:
        """The model's configuration."""
        return decoder_config(self._values())

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids of the tokens that end a text."""
        keys = [f"tokenizer.ggml.{key}_token_id" for key in ("eos", "eot", "eom")]
        tokens = (self.file.metadata.get(key) for key in keys)
        return tuple(dict.fromkeys(token for token in tokens if isinstance(token, int)))

    @property
    def chat_template(self) -> str | None:
        """The model's chat template in Jinja; None if the file has none."""
        template = self.file.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.file.tensors[self._tensors[name]].shape

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        tensor, rows = self.file.tensors[self._tensors[name]], self.file.raw(self._tensors[name])
        projection = re.search(r"self_attn\.([qk])_proj", name) if self.family.is_interleaved else None
        # In GGUF, a bias or the weight of a norm is a one-dimensional tensor, stored as a single row of values.
        if len(tensor.shape) == 1:
            values = decode_rows(tensor.type, rows)[0]
            return torch.from_numpy(values[self._order(projection[1])] if projection else values)[start:stop]
        rows = rows[self._order(projection[1])[start:stop]] if projection else rows[start:stop]
        return torch.from_numpy(decode_rows(tensor.type, rows))

    def _order(self, projection: str) -> Any:
        heads = self.config.heads if projection == "q" else self.config.kv_heads
        return interleaved_rows(heads, self.config.head_dim)

    def _family(self) -> Family:
        architecture = self.file.metadata.get("general.architecture")
        for family in FAMILIES:
            if architecture in family.architectures:
                return family
        known = ", ".join(name for family in FAMILIES for name in family.architectures)
        raise CheckpointError(f"{self.file.path} has architecture {architecture!r}; these are supported: {known}")

    def _name(self, name: str) -> str:
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
        if match is None:
            return name
        layer, part, kind = match.groups()
        names = {**_NAMES, **_NAMES_BRANCH_NORMS} if self.family.branch_norms else _NAMES
        if part == "ffn_up" and self.family.is_fused:
            part = "mlp.gate_up_proj"
        return f"{'' if layer is None else f'layers.{layer}.'}{names.get(part, part)}.{kind}"

    def _values(self) -> dict[str, Any]:
        """Translate the metadata of the GGUF file to the keys of Hugging Face's `config.json`."""
        metadata, architecture = self.file.metadata, self.family.architectures[0]
        values: dict[str, Any] = {"model_type": self.family.model_types[0]}
        for key, name in _KEYS.items():
            value = metadata.get(f"{architecture}.{key}")
            if isinstance(value, list):
                if len(set(value)) != 1:
                    raise CheckpointError(f"{self.file.path} has layers that differ in {key}, which is not supported")
                value = value[0]
            if value is not None:
                values[name] = value
        if "embed_tokens.weight" not in self._tensors:
            raise CheckpointError(f"{self.file.path} has no tensor token_embd.weight")
        values["vocab_size"] = self.shape("embed_tokens.weight")[0]
        values["tie_word_embeddings"] = "lm_head.weight" not in self._tensors
        values["attention_bias"] = "layers.0.self_attn.q_proj.bias" in self._tensors
        values["mlp_bias"] = "layers.0.mlp.up_proj.bias" in self._tensors
        hidden, heads = (self._count(values, name) for name in ("hidden_size", "num_attention_heads"))
        values.setdefault("head_dim", hidden // heads)
        head_dim = self._count(values, "head_dim")
        if self.family.scales_embeddings:
            is_root_of_width = (architecture, values.get("num_hidden_layers")) in _ROOT_OF_WIDTH
            values["query_pre_attn_scalar"] = hidden / heads if is_root_of_width else head_dim
        dims = {"dims": metadata.get(f"{architecture}.rope.dimension_count", head_dim)}
        values["partial_rotary_factor"] = self._count(dims, "dims") / head_dim
        values["rope_scaling"] = self._rope_scaling(architecture)
        return values

    def _count(self, values: dict[str, Any], name: str) -> int:
        value = values.get(name)
        if not isinstance(value, int) or value < 1:
            raise CheckpointError(f"the metadata of {self.file.path} gives {value!r} for {name}")
        return value

    def _rope_scaling(self, architecture: str) -> dict[str, Any] | None:
        if "rope_freqs.weight" in self._tensors:
            return {"rope_type": "divisors", "divisors": self._list("rope_freqs.weight")}
        scaling = f"{architecture}.rope.scaling"
        if "rope_factors_long.weight" in self._tensors and "rope_factors_short.weight" in self._tensors:
            return {
                "rope_type": "longrope",
                "short_factor": self._list("rope_factors_short.weight"),
                "long_factor": self._list("rope_factors_long.weight"),
                "original_max_position_embeddings": self.file.metadata.get(f"{scaling}.original_context_length"),
                "attention_factor": self.file.metadata.get(f"{scaling}.attn_factor"),
            }
        kind = self.file.metadata.get(f"{scaling}.type", "none")
        if kind == "none":
            return None
        return {"rope_type": kind, "factor": self.file.metadata.get(f"{scaling}.factor")}

    def _list(self, name: str) -> list[float]:
        return [float(value) for value in self.read(name)]
