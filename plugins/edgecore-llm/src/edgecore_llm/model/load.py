"""Build a decoder and put the weights of a checkpoint in, one matrix at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import FAMILIES
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.decoder import Decoder, round_up
from edgecore_llm.model.layers import Matrix, Norm, Precision, Projection
from edgecore_llm.operators import KEY_BLOCK

PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Projections of the decoder, and those of a checkpoint whose rows they hold."""


class Weights(Protocol):
    """The tensors of a checkpoint, under the names of Hugging Face without `model.` at the front."""

    has_norm_offset: bool
    """The weights of norms lack `DecoderConfig.norm_offset`."""

    def names(self) -> Sequence[str]:
        """Return the names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, of which no value is read."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        """Read a tensor, or some of its rows. Its dtype is that of the file, or float32 if the file's is quantized."""
        ...


def load_decoder(
    config: DecoderConfig, weights: Weights, *, context: int, chunk: int, precision: Precision = Precision()
) -> Decoder:
    """Return a decoder with the weights of a checkpoint.

    Besides the decoder, at most the tensors of one matrix are in memory.

    Raises:
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    decoder = Decoder(config, context=context, chunk=chunk, precision=precision)
    reader = _Reader(config, weights)
    for name, module in decoder.named_modules():
        if isinstance(module, Norm):
            module.weight = _constant(reader.norm(f"{name}.weight", module.weight.shape[0]))
        elif isinstance(module, Matrix) and not (config.tied and name == "lm_head"):
            module.put(reader.matrix(f"{name}.weight", module.columns))
            if isinstance(module, Projection) and module.bias is not None:
                module.bias = _constant(reader.matrix(f"{name}.bias", None))
    if config.tied:
        decoder.lm_head.value = decoder.embed_tokens.value
    return decoder.eval()


def _constant(value: Tensor) -> nn.Parameter:
    # A copy: a tensor that is a view of a mapped file would keep the file open.
    return nn.Parameter(value.to(torch.float32, copy=True), requires_grad=False)


class _Reader:
    """Reads parameters of a decoder from the tensors of a checkpoint."""

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        self._config, self._weights = config, weights
        self._names = set(weights.names())
        self._is_fused = next(family for family in FAMILIES if family.name == config.family).is_fused
        inner, q, kv = config.intermediate_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self._rows = {
            "q_proj": q, "k_proj": kv, "v_proj": kv, "gate_proj": inner, "up_proj": inner, "o_proj": config.hidden_size,
            "down_proj": config.hidden_size, "embed_tokens": config.vocab_size, "lm_head": config.vocab_size,
        }  # fmt: skip

    def norm(self, name: str, size: int) -> Tensor:
        """Read the factors of a norm."""
        offset = self._config.norm_offset if self._weights.has_norm_offset else 0.0
        return self._read(name, (size,), 0, size).float() + offset

    def matrix(self, name: str, columns: int | None) -> Tensor:
        """Read the weight of a matrix, or its bias if `columns` is None: rows of one tensor or of several."""
        owner, projection, attribute = ("." + name).rsplit(".", 2)
        owner = owner[1:] + "." if owner else ""
        if projection not in PARTS:
            if projection == "down_proj" and columns is not None:
                value = self._read_part(owner, projection, projection, attribute, self._config.intermediate_size)
                return F.pad(value, (0, columns - self._config.intermediate_size))
            return self._read_part(owner, projection, projection, attribute, columns)
        parts = [self._read_part(owner, projection, part, attribute, columns) for part in PARTS[projection]]
        return torch.cat(parts) if projection == "qkv_proj" else _alternate(*parts)

    def _read_part(self, owner: str, projection: str, part: str, attribute: str, columns: int | None) -> Tensor:
        rest = () if columns is None else (columns,)
        rows = self._rows[part]
        if not self._is_fused or projection not in PARTS:
            return self._read(f"{owner}{part}.{attribute}", (rows, *rest), 0, rows)
        parts = PARTS[projection]
        start = sum(self._rows[earlier] for earlier in parts[: parts.index(part)])
        all_rows = sum(self._rows[name] for name in parts)
        return self._read(f"{owner}{projection}.{attribute}", (all_rows, *rest), start, start + rows)

    def _read(self, name: str, shape: tuple[int, ...], start: int, stop: int) -> Tensor:
        if name not in self._names:
            raise CheckpointError(f"the checkpoint has no tensor {name}")
        found = self._weights.shape(name)
        if found != shape:
            raise CheckpointError(f"tensor {name} of the checkpoint has shape {list(found)}, not {list(shape)}")
        return self._weights.read(name, start, stop)


def _alternate(gates: Tensor, values: Tensor) -> Tensor:
    """Return the rows of both in turns of `KEY_BLOCK`, after zeros were added to fill the last turn."""
    missing = round_up(len(gates)) - len(gates)
    both = torch.stack(
        [F.pad(rows, (0, 0) * (rows.ndim - 1) + (0, missing)).unflatten(0, (-1, KEY_BLOCK)) for rows in (gates, values)], 1
    )
    return both.flatten(0, 2)
