"""Checkpoints in Meta's format (`params.json` and a `.pth` file), including ExecuTorch's extensions."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from edgecore_llm.checkpoints.json_files import read_json
from edgecore_llm.checkpoints.row_order import interleaved_rows
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import decoder_config
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.layers import Precision
from edgecore_llm.operators import KEY_BLOCK
from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix
from edgecore_llm.quantize.rounding import to_half

QuantizationMethod = Literal["spinquant", "qat"]
"""SpinQuant, whose matrices expect rotated inputs, or quantization-aware training, whose matrices do not."""
_LARGEST_RANK = 4096
_SAME_KEYS = (
    "partial_rotary_factor", "residual_multiplier", "attention_multiplier", "logits_scaling", "no_rope_layer_interval",
    "original_max_position_embeddings", "final_logit_softcapping", "attn_logit_softcapping",
)  # fmt: skip
"""Parameters whose names equal the keys of Hugging Face's `config.json`."""
_NAMES = {
    "tok_embeddings": "embed_tokens", "norm": "norm", "output": "lm_head", "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
    "attention.q_norm_fn": "self_attn.q_norm", "attention.k_norm_fn": "self_attn.k_norm",
    "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj",
}  # fmt: skip


class MetaCheckpoint:
    """A checkpoint of `params.json` and a `.pth` file, which is memory-mapped; only tensors are unpickled.

    ExecuTorch extends the parameters to further families: Qwen by `attention_qkv_bias` and `use_qk_norm`, Phi 4-mini by
    the factors of longrope, SmolLM3 by `no_rope_layer_interval`, Granite by its multipliers.

    The SpinQuant and QAT checkpoints of Llama 3.2 store int8 matrices. A tensor `scales` beside each matrix has one
    scale per row or per group of columns. `lora_args` in the parameters describes adapters.

    Args:
        params: The file with the parameters.
        checkpoint: The file with the tensors.
        method: How the checkpoint was quantized; None if it is not quantized, or if `params.json` tells the method.

    Attributes:
        precision: The bits of a quantized checkpoint; None if it is not quantized.

    Raises:
        CheckpointError: A file is missing or damaged, or the method of a quantized checkpoint is not known.
    """

    has_norm_offset = True

    def __init__(self, params: Path, checkpoint: Path, method: QuantizationMethod | None = None) -> None:
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
        self.precision = self._precision()
        self._adapter_rank, self._adapter_scale = self._adapter()
        self._is_spinquant = self._has_rotation(method)

    @cached_property
    def config(self) -> DecoderConfig:
        """The model's configuration."""
        config = decoder_config(self._values())
        inner = config.intermediate_size
        if self._is_spinquant and (inner & (inner - 1) or inner < KEY_BLOCK):
            raise CheckpointError(
                f"{self.path} needs a rotation of {inner} values, and rotations are supported for powers of two from "
                f"{KEY_BLOCK} on"
            )
        return replace(config, rotates_inner=self._is_spinquant, adapter_rank=self._adapter_rank)

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        if self.bits(name) is not None:
            return self.read_quantized(name, start, self.shape(name)[0] if stop is None else stop).dequantize()
        rows = self._rows(name, name, start, stop)
        return rows.float() * self._adapter_scale if name.endswith(".adaptor.B.weight") else rows

    def bits(self, name: str) -> Literal[4, 8] | None:
        """Return the bits of a quantized matrix, 4 or 8; None if the matrix is stored as floats."""
        scales = self._tensors.get(_beside(name, "scales"))
        if scales is None:
            return None
        # A linear layer has a scale per column group (4 bits) or per row (8 bits). Embedding tables have 8 bits.
        return 4 if scales.numel() > len(scales) and name != "embed_tokens.weight" else 8

    def read_quantized(self, name: str, start: int, stop: int) -> QuantizedMatrix:
        """Read rows of a quantized matrix: the integers as the file has them, and the scales converted to float16."""
        bits, values = self.bits(name), self._rows(name, name, start, stop)
        scales = self._rows(name, _beside(name, "scales"), start, stop).reshape(len(values), -1).float()
        zeros = _beside(name, "zeros")
        if zeros in self._tensors and self._rows(name, zeros, start, stop).any():
            raise CheckpointError(f"{name} of {self.path} has zero points other than 0, which are not supported")
        if not scales.isfinite().all():
            raise CheckpointError(f"{name} of {self.path} has scales that are not finite")
        if bits == 4 and (values.min() < -8 or values.max() > 7):
            raise CheckpointError(f"{name} of {self.path} has values beyond 4 bits and scales of groups")
        groups = -(-values.shape[1] // GROUP)
        repeated = to_half(scales).repeat_interleave(groups // scales.shape[1], 1)
        return QuantizedMatrix(values, repeated, 4 if bits == 4 else 8)

    def _rows(self, name: str, source: str, start: int, stop: int | None) -> Tensor:
        """Return rows of tensor `source` (a matrix, its scales or bias), ordered as in Hugging Face's matrix `name`."""
        projection = re.search(r"self_attn\.([qk])_proj\.", name)
        is_first = ".adaptor.A." in name  # keep the order of rows in a LoRA matrix A: they are not outputs
        if projection is None or is_first or self.params.get("use_hf_rope", False):
            return self._tensors[source][start:stop]
        heads = self.config.heads if projection[1] == "q" else self.config.kv_heads
        return self._tensors[source][torch.from_numpy(interleaved_rows(heads, self.config.head_dim))[start:stop]]

    def _precision(self) -> Precision | None:
        """Check that the tensors of a quantized checkpoint are consistent; return its `Precision`, or None."""
        stored: dict[str, set[Literal[4, 8]]] = {"linear": set(), "embedding": set(), "output": set()}
        group = GROUP
        for name, value in self._tensors.items():
            scales = self._tensors.get(_beside(name, "scales"))
            if not name.endswith(".weight") or (scales is None and value.dtype != torch.int8):
                continue
            if scales is None:
                raise CheckpointError(f"{name} of {self.path} has integers without {_beside(name, 'scales')}")
            is_matrix = value.dtype == torch.int8 and value.ndim == 2 and value.numel() > 0
            has_scales = scales.is_floating_point() and scales.shape[:1] == value.shape[:1] and scales.numel() > 0
            if not is_matrix or not has_scales:
                raise CheckpointError(f"{name} of {self.path} is no matrix of int8 with scales for its rows")
            zeros = self._tensors.get(_beside(name, "zeros"), scales)
            if zeros.shape[:1] != value.shape[:1]:
                raise CheckpointError(f"{name} of {self.path} has zero points that are not those of its rows")
            count = scales.numel() // len(scales)
            if count > 1:
                group = value.shape[1] // count
                if value.shape[1] % count or group % GROUP:
                    raise CheckpointError(
                        f"{name} of {self.path} has groups of other than a multiple of {GROUP} columns"
                    )
            kind = {"embed_tokens.weight": "embedding", "lm_head.weight": "output"}.get(name, "linear")
            stored[kind].add(self.bits(name) or 8)
        if not any(stored.values()):
            return None
        linear, embedding, output = (max(bits, default=None) for bits in stored.values())
        return Precision(linear, embedding, output, group)

    def _has_rotation(self, method: QuantizationMethod | None) -> bool:
        if self.precision is None:
            if method is not None:
                raise CheckpointError(f"{self.path} is not quantized, so {method} is no method of it")
            return False
        arguments = self.params.get("quantization_args")
        arguments = arguments if isinstance(arguments, dict) else {}
        if method is None and self._adapter_rank == 0 and arguments.get("spinquant") is None:
            raise CheckpointError(
                f"{self.path} is quantized, and its parameters do not say how; export with --quantized-by spinquant, "
                "whose values are rotated at run time, or with --quantized-by qat"
            )
        if method == "qat" and arguments.get("spinquant"):
            raise CheckpointError(f"the parameters of {self.path} name SpinQuant as the method, not qat")
        has_rotation = method == "spinquant" or bool(arguments.get("spinquant"))
        if has_rotation and self._adapter_rank > 0:
            raise CheckpointError(
                f"the parameters of {self.path} describe adapters, which checkpoints of SpinQuant do not have; is it "
                "of the method qat?"
            )
        return has_rotation

    def _adapter(self) -> tuple[int, float]:
        """Return the rank of the LoRA adapters (0 for none), and the factor by which their products are scaled."""
        arguments = self.params.get("lora_args") or {"rank": 0}
        rank, scale = (arguments.get(key, 2.0) for key in ("rank", "scale")) if isinstance(arguments, dict) else (-1, 0)
        if not isinstance(rank, int) or not 0 <= rank <= _LARGEST_RANK or not isinstance(scale, int | float):
            raise CheckpointError(
                f"lora_args {arguments!r} of the parameters of {self.path} have no possible rank and scale"
            )
        adapters = {name for name in self._tensors if ".adaptor." in name}
        if adapters and not rank:
            raise CheckpointError(f"{self.path} has adapters, and its parameters lack lora_args with their rank")
        if other := sorted(name for name in adapters if not re.match(r"layers\.\d+\.(self_attn|mlp)\.", name)):
            raise CheckpointError(f"{self.path} has the adapter {other[0]}; adapters belong to matrices of layers")
        return rank, float(scale)

    def _values(self) -> dict[str, Any]:
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
            # Read sizes from the tensors: `params.json` has rounded sizes, and for Llama 2 a vocabulary of -1.
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
    match = re.fullmatch(r"(layers\.\d+\.)?([\w.]+?)\.(weight|bias|scales|zeros|adaptor\.[AB]\.weight)", name)
    if match is None:
        return name
    return f"{match[1] or ''}{_NAMES.get(match[2], match[2])}.{match[3]}"


def _beside(name: str, kind: str) -> str:
    """Return the name of the tensor that belongs to a matrix by its `kind`: "x.weight", "scales" -> "x.scales"."""
    return f"{name.removesuffix('weight')}{kind}"
