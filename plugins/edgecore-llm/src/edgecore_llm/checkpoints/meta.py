"""Checkpoints of Meta: `params.json` and a `.pth` file."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgecore_llm.checkpoints.json_files import read_json
from edgecore_llm.checkpoints.row_order import interleaved_rows
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.config import DecoderConfig

_SAME_KEYS = (
    "partial_rotary_factor", "residual_multiplier", "attention_multiplier", "logits_scaling", "no_rope_layer_interval",
    "original_max_position_embeddings", "final_logit_softcapping", "attn_logit_softcapping",
)  # fmt: skip
"""Parameters that a `config.json` has under the same names."""
_NAMES = {
    "tok_embeddings": "embed_tokens", "norm": "norm", "output": "lm_head", "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
    "attention.q_norm_fn": "self_attn.q_norm", "attention.k_norm_fn": "self_attn.k_norm",
    "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj",
}  # fmt: skip


class MetaCheckpoint:
    """A `params.json` with a `.pth` file, which is mapped and not unpickled beyond tensors.

    With the parameters that executorch adds they describe other families, too: Qwen by `attention_qkv_bias` and
    `use_qk_norm`, Phi 4-mini by the factors of longrope, SmolLM3 by `no_rope_layer_interval`, Granite by its multipliers.

    Raises:
        CheckpointError: A file is missing or damaged.
    """

    has_norm_offset = True

    def __init__(self, params: Path, checkpoint: Path) -> None:
        self.params, self.path = read_json(params), checkpoint
        try:
            state = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)
        except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise CheckpointError(f"{checkpoint} is truncated or no checkpoint of PyTorch") from error
        state = state.get("model", state) if isinstance(state, dict) else None
        if state is None or not all(isinstance(value, Tensor) for value in state.values()):
            raise CheckpointError(f"{checkpoint} holds no tensors by name")
        self._tensors: dict[str, Tensor] = {_name(name): value for name, value in state.items()}
        self.eos_ids: tuple[int, ...] = ()
        self.chat_template: str | None = None

    @cached_property
    def config(self) -> DecoderConfig:
        """The facts about the model."""
        return decoder_config(self._values())

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        projection = re.search(r"self_attn\.([qk])_proj", name)
        if projection is None or self.params.get("use_hf_rope", False):
            return self._tensors[name][start:stop]
        heads = self.config.heads if projection[1] == "q" else self.config.kv_heads
        return self._tensors[name][torch.from_numpy(interleaved_rows(heads, self.config.head_dim))[start:stop]]

    def _values(self) -> dict[str, Any]:
        """Return the parameters as a `config.json`."""
        params = self.params
        for key in ("dim", "n_layers", "n_heads"):
            if not isinstance(params.get(key), int):
                raise CheckpointError(f"the parameters of {self.path} have no {key}")
        for name in ("embed_tokens.weight", "layers.0.mlp.gate_proj.weight"):
            if name not in self._tensors:
                raise CheckpointError(f"the checkpoint {self.path} has no tensor {name}")
        values = {
            "model_type": self._model_type(),
            "hidden_size": params["dim"],
            "num_hidden_layers": params["n_layers"],
            "num_attention_heads": params["n_heads"],
            "num_key_value_heads": params.get("n_kv_heads"),
            "head_dim": params.get("head_dim") or params["dim"] // max(params["n_heads"], 1),
            # Those of the parameters are rounded, and -1 for the vocabulary of Llama 2.
            "vocab_size": self.shape("embed_tokens.weight")[0],
            "intermediate_size": self.shape("layers.0.mlp.gate_proj.weight")[0],
            "rms_norm_eps": params.get("norm_eps", 1e-5),
            "rope_theta": params.get("rope_theta") or params.get("rope_freq_base") or 10000.0,
            "max_position_embeddings": params.get("max_position_embeddings")
            or (131072 if params.get("use_scaled_rope") else 2048),
            "tie_word_embeddings": "lm_head.weight" not in self._tensors,
            "embedding_multiplier": params.get("embedding_scale_factor", 1.0),
            "rope_scaling": self._rope_scaling(),
        }
        return values | {key: params[key] for key in _SAME_KEYS if params.get(key) is not None}

    def _model_type(self) -> str:
        params = self.params
        if params.get("use_qk_norm"):
            if not params.get("qk_norm_before_rope"):
                raise CheckpointError(f"{self.path} normalizes q and k after they are turned, which is not supported")
            return "qwen3"
        if params.get("no_rope_layer_interval"):
            return "smollm3"
        return "qwen2" if params.get("attention_qkv_bias") else "llama"

    def _rope_scaling(self) -> dict[str, Any] | None:
        params = self.params
        if params.get("rope_scaling_long_factor"):
            return {
                "rope_type": "longrope",
                "short_factor": params.get("rope_scaling_short_factor"),
                "long_factor": params["rope_scaling_long_factor"],
                "attention_factor": params.get("rope_scaling_attention_factor"),
            }
        if not params.get("use_scaled_rope"):
            return None
        return {
            "rope_type": "llama3",
            "factor": params.get("rope_scale_factor", 8),
            "low_freq_factor": 1.0,
            "high_freq_factor": params.get("high_freq_factor", 4),
            "original_max_position_embeddings": 8192,
        }


def _name(name: str) -> str:
    match = re.fullmatch(r"(layers\.\d+\.)?([\w.]+)\.(weight|bias)", name)
    if match is None:
        return name
    return f"{match[1] or ''}{_NAMES.get(match[2], match[2])}.{match[3]}"
