"""Build a decoder, and load its weights from a checkpoint, one matrix at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import edgecore
from edgecore_llm.errors import CheckpointError
from edgecore_llm.families import FAMILIES
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.decoder import Decoder, round_up
from edgecore_llm.model.layers import Adapter, Matrix, Norm, Precision, Projection
from edgecore_llm.operators import KEY_BLOCK
from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix

PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Fused projections of the decoder, and the checkpoint's projections whose rows they contain."""
PART_ELEMENTS = 1 << 18
"""Approximate number of elements per read, so that a part stays in the processor's cache while it is packed."""


class Weights(Protocol):
    """The tensors of a checkpoint, by Hugging Face's names without the prefix `model.`."""

    has_norm_offset: bool
    """True if the stored weights of norms lack `DecoderConfig.norm_offset`, which must be added."""

    def names(self) -> Sequence[str]:
        """Return the names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading its values."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        """Read a tensor, or its rows from `start` to `stop`, in the file's dtype; quantized values become float32."""
        ...


@runtime_checkable
class QuantizedWeights(Weights, Protocol):
    """A checkpoint with quantized matrices: integers with scales. `read` returns a matrix dequantized.

    A matrix may have a LoRA adapter: the tensors `NAME.adaptor.A.weight` [rank, inputs] and `NAME.adaptor.B.weight`
    [outputs, rank], whose product is added to `NAME.weight`.
    """

    precision: Precision | None
    """The bits of the quantized matrices; None if all matrices are floats."""

    def bits(self, name: str) -> Literal[4, 8] | None:
        """Return the bits of a quantized matrix; None if the matrix is stored as floats."""
        ...

    def read_quantized(self, name: str, start: int, stop: int) -> QuantizedMatrix:
        """Read rows of a quantized matrix, for which `bits` is not None, without dequantizing them."""
        ...


Part = Tensor | QuantizedMatrix
"""Consecutive rows of a matrix: floats, or integers with scales."""


def load_decoder(
    config: DecoderConfig,
    weights: Weights,
    *,
    context: int,
    chunk: int,
    precision: Precision = Precision(),
    is_lazy: bool = False,
    rounded: Mapping[str, Tensor] = MappingProxyType({}),
) -> Decoder:
    """Return a decoder with the weights of a checkpoint.

    Args:
        config: The model's configuration.
        weights: The tensors of the checkpoint.
        context: Maximum number of positions of a sequence.
        chunk: Maximum number of tokens per call.
        precision: The bits of the weights and caches.
        is_lazy: Make matrices lazy constants of edgecore, which `compile` reads one by one; the decoder cannot run.
        rounded: Packed matrices by name, which replace matrices of the checkpoint.

    Raises:
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    decoder = Decoder(config, context=context, chunk=chunk, precision=precision)
    fill(decoder, "", Reader(config, weights), is_lazy, rounded)
    if config.tied:
        decoder.lm_head.value = decoder.embed_tokens.value
    return decoder.eval()


def fill(
    root: nn.Module,
    prefix: str,
    reader: Reader,
    is_lazy: bool = False,
    rounded: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Load all norms, matrices and adapters of module `root` from the tensors whose names begin with `prefix`."""
    for name, module in root.named_modules(prefix=prefix.removesuffix(".")):
        if isinstance(module, Norm):
            module.weight = _constant(reader.norm(f"{name}.weight", module.weight.shape[0]))
        elif isinstance(module, Matrix) and not (reader.config.tied and name == "lm_head"):
            module.value = _value(reader, name, module, is_lazy, rounded.get(name))
            if isinstance(module, Projection) and module.bias is not None:
                module.bias = _constant(reader.bias(name))
        elif isinstance(module, Adapter):
            module.a, module.b = reader.adapter(name, module)


def _value(reader: Reader, name: str, module: Matrix, is_lazy: bool, rounded: Tensor | None) -> Tensor:
    reader.check(f"{name}.weight", module.columns)

    def parts() -> Iterator[Tensor]:
        if rounded is not None:
            return iter([rounded])
        return module.stored(reader.rows(f"{name}.weight", module.columns, module.bits))

    if not is_lazy:
        return torch.cat(list(parts()))
    return edgecore.lazy_constant(
        module.value.shape, module.value.dtype, lambda: (part.numpy().data for part in parts())
    )


def _constant(value: Tensor) -> nn.Parameter:
    # Copy the values: a view of a memory-mapped file would keep the file open.
    return nn.Parameter(value.to(torch.float32, copy=True), requires_grad=False)


@dataclass(frozen=True)
class _Source:
    """Rows `start` to `stop` of a checkpoint's tensor, and the shape that the whole tensor must have."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Reader:
    """Reads the parameters of a decoder from a checkpoint; splits, joins and pads its tensors as the decoder needs."""

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        self.config, self._weights = config, weights
        self._names = set(weights.names())
        self._is_fused = next(family for family in FAMILIES if family.name == config.family).is_fused
        inner, q, kv = config.intermediate_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self._rows = {
            "q_proj": q, "k_proj": kv, "v_proj": kv, "gate_proj": inner, "up_proj": inner, "o_proj": config.hidden_size,
            "down_proj": config.hidden_size, "embed_tokens": config.vocab_size, "lm_head": config.vocab_size,
        }  # fmt: skip

    def norm(self, name: str, size: int) -> Tensor:
        """Read the weight of a norm, with the family's offset added."""
        offset = self.config.norm_offset if self._weights.has_norm_offset else 0.0
        source = _Source(name, (size,), 0, size)
        self._check(source)
        return self._weights.read(name).float() + offset

    def check(self, name: str, columns: int | None) -> None:
        """Check that the checkpoint has the tensors of a matrix of the decoder, with the right shapes."""
        for source in self._sources(name, columns):
            self._check(source)

    def rows(self, name: str, columns: int, bits: Literal[4, 8] | None) -> Iterator[Part]:
        """Read a matrix of the decoder some rows at a time; rows quantized to at most `bits` bits stay integers."""
        sources = self._sources(name, columns)
        for source in sources:
            self._check(source)
        step = max(1, PART_ELEMENTS // columns // KEY_BLOCK) * KEY_BLOCK
        if ".gate_up_proj." in name:
            gates, values = (self._parts(source, step, bits) for source in sources)
            for pair in zip(gates, values, strict=True):
                yield _alternate(*pair)
            return
        for source in sources:
            for part in self._parts(source, step, bits):
                yield _widen(part, columns)

    def bias(self, name: str) -> Tensor:
        """Read the bias of a linear layer of the decoder."""
        sources = self._sources(f"{name}.bias", None)
        for source in sources:
            self._check(source)
        parts = [self._weights.read(source.name, source.start, source.stop) for source in sources]
        return _alternate_rows(*parts) if name.endswith("gate_up_proj") else torch.cat(parts)

    def adapter(self, name: str, adapter: Adapter) -> tuple[nn.Parameter, nn.Parameter]:
        """Read the matrices A and B of a LoRA adapter; for a fused projection, join the adapters of its parts."""
        owner, projection, _ = name.rsplit(".", 2)
        parts, rank, columns = PARTS.get(projection, (projection,)), self.config.adapter_rank, adapter.a.shape[1]
        inputs = self.config.intermediate_size if projection == "down_proj" else columns
        firsts, seconds = [], []
        for index, part in enumerate(parts):
            shapes = {"A": (rank, inputs), "B": (self._rows[part], rank)}
            both = []
            for letter, shape in shapes.items():
                source = _Source(f"{owner}.{part}.adaptor.{letter}.weight", shape, 0, shape[0])
                self._check(source)
                both.append(self._weights.read(source.name).float())
            firsts.append(_widen_rows(both[0], columns))
            seconds.append(F.pad(both[1], (index * rank, (len(parts) - 1 - index) * rank)))
        b = _alternate_rows(*seconds) if projection == "gate_up_proj" else torch.cat(seconds)
        return _constant(torch.cat(firsts)), _constant(b)

    def _parts(self, source: _Source, step: int, bits: Literal[4, 8] | None) -> Iterator[Part]:
        for start in range(source.start, source.stop, step):
            yield self._part(source.name, start, min(start + step, source.stop), bits)

    def _part(self, name: str, start: int, stop: int, bits: Literal[4, 8] | None) -> Part:
        weights = self._weights
        if bits is not None and isinstance(weights, QuantizedWeights):
            stored = weights.bits(name)
            if stored is not None and stored <= bits:
                return replace(weights.read_quantized(name, start, stop), bits=bits)
        return weights.read(name, start, stop)

    def _sources(self, name: str, columns: int | None) -> list[_Source]:
        *owner, projection, attribute = name.split(".")
        rest: tuple[int, ...] = () if columns is None else (columns,)
        if projection == "down_proj" and columns is not None:
            rest = (self.config.intermediate_size,)
        parts = PARTS.get(projection, (projection,))
        counts = [self._rows[part] for part in parts]
        if self._is_fused:
            full = ".".join([*owner, projection, attribute])
            shape = (sum(counts), *rest)
            starts = [sum(counts[:index]) for index in range(len(counts))]
            return [_Source(full, shape, start, start + count) for start, count in zip(starts, counts, strict=True)]
        names = [".".join([*owner, part, attribute]) for part in parts]
        return [_Source(part, (count, *rest), 0, count) for part, count in zip(names, counts, strict=True)]

    def _check(self, source: _Source) -> None:
        if source.name not in self._names:
            raise CheckpointError(f"the checkpoint has no tensor {source.name}")
        shape = self._weights.shape(source.name)
        if shape != source.shape:
            raise CheckpointError(
                f"tensor {source.name} of the checkpoint has shape {list(shape)}, not {list(source.shape)}"
            )


def _widen(part: Part, columns: int) -> Part:
    """Pad rows with zeros to `columns`, because the decoder rounds the inputs of `down_proj` up to a multiple of 16."""
    if isinstance(part, QuantizedMatrix):
        scales = _widen_rows(part.scales, -(-columns // GROUP))
        return QuantizedMatrix(_widen_rows(part.values, columns), scales, part.bits)
    return _widen_rows(part, columns)


def _widen_rows(rows: Tensor, columns: int) -> Tensor:
    missing = columns - rows.shape[1]
    return F.pad(rows, (0, missing)) if missing else rows


def _alternate(gates: Part, values: Part) -> Part:
    if isinstance(gates, QuantizedMatrix) and isinstance(values, QuantizedMatrix):
        scales = _alternate_rows(gates.scales, values.scales)
        return QuantizedMatrix(_alternate_rows(gates.values, values.values), scales, gates.bits)
    gates, values = (part.dequantize() if isinstance(part, QuantizedMatrix) else part for part in (gates, values))
    return _alternate_rows(gates, values)


def _alternate_rows(gates: Tensor, values: Tensor) -> Tensor:
    """Pad gates and values with zero rows to a multiple of `KEY_BLOCK`; interleave their blocks of `KEY_BLOCK` rows."""
    padding = (0, 0) * (gates.ndim - 1) + (0, round_up(len(gates)) - len(gates))
    turns = [F.pad(rows, padding).reshape(-1, KEY_BLOCK, *rows.shape[1:]) for rows in (gates, values)]
    return torch.stack(turns, 1).flatten(0, 2)
