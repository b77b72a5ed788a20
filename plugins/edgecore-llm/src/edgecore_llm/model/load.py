"""Build a decoder and put the weights of a checkpoint in, one tensor at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import FAMILIES
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.decoder import Decoder

FUSED = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
}  # fmt: skip
"""Where the rows of a projection lie in a checkpoint with fused ones."""


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
    config: DecoderConfig, weights: Weights, *, context: int, chunk: int, dtype: torch.dtype = torch.float32
) -> Decoder:
    """Return a decoder with the weights of a checkpoint, in `dtype`.

    Besides the decoder, at most one tensor of the checkpoint is in memory.

    Raises:
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    decoder = Decoder(config, context=context, chunk=chunk, dtype=dtype, device="meta")
    for name, parameter in list(decoder.named_parameters()):
        value = read_parameter(config, weights, name, tuple(parameter.shape))
        owner, _, attribute = name.rpartition(".")
        # A copy: a tensor that is a view of a mapped file would keep the file open.
        setattr(decoder.get_submodule(owner), attribute, nn.Parameter(value.to(dtype, copy=True), requires_grad=False))
    return decoder.eval()


def read_parameter(config: DecoderConfig, weights: Weights, name: str, shape: tuple[int, ...]) -> Tensor:
    """Read a parameter of the decoder: a tensor of the checkpoint, or rows of a fused one.

    Raises:
        CheckpointError: The tensor is missing, or has another shape.
    """
    source, start, rows = _source(config, name, shape)
    if source not in weights.names():
        raise CheckpointError(f"the checkpoint has no tensor {source}")
    found = weights.shape(source)
    if found != (rows, *shape[1:]):
        raise CheckpointError(f"tensor {source} of the checkpoint has shape {list(found)}, not {[rows, *shape[1:]]}")
    value = weights.read(source, start, start + shape[0])
    if config.norm_offset and weights.has_norm_offset and name.endswith(("norm.weight", "layernorm.weight")):
        return value.float() + config.norm_offset
    return value


def _source(config: DecoderConfig, name: str, shape: tuple[int, ...]) -> tuple[str, int, int]:
    """Return the tensor that holds a parameter, the first row, and the number of rows of the tensor."""
    family = next(family for family in FAMILIES if family.name == config.family)
    projection = name.split(".")[-2]
    if not family.is_fused or projection not in FUSED:
        return name, 0, shape[0]
    q, kv, inner = config.heads * config.head_dim, config.kv_heads * config.head_dim, config.intermediate_size
    first, rows = {
        "q_proj": (0, q + 2 * kv),
        "k_proj": (q, q + 2 * kv),
        "v_proj": (q + kv, q + 2 * kv),
        "gate_proj": (0, 2 * inner),
        "up_proj": (inner, 2 * inner),
    }[projection]
    return name.replace(projection, FUSED[projection]), first, rows
