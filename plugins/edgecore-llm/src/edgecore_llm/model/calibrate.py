"""Round the linear layers of a decoder by samples of their inputs, with one decoder layer at a time in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgecore.sdk import track
from edgecore_llm.errors import CheckpointError, ConfigError
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.decoder import Block, round_up
from edgecore_llm.model.layers import Precision, Projection
from edgecore_llm.model.load import Reader, Weights, fill
from edgecore_llm.model.rotary import rope_table
from edgecore_llm.quantize.gptq import loss, quantize_by_inputs
from edgecore_llm.quantize.packed import pack
from edgecore_llm.quantize.rounding import quantize

SEQUENCE = 256
"""Number of calibration tokens per sequence."""


@dataclass(frozen=True)
class RoundedMatrix:
    """A weight matrix that was rounded with calibration (GPTQ).

    Attributes:
        name: Name of the matrix in the decoder, such as "layers.0.mlp.down_proj".
        value: The rounded matrix in packed form.
        loss: Sum of the squared errors of products with the calibration inputs, relative to the sum of the exact
            products' squares.
        nearest_loss: The loss if each weight were rounded to nearest.
    """

    name: str
    value: Tensor
    loss: float
    nearest_loss: float


def calibrate(
    config: DecoderConfig, weights: Weights, tokens: Sequence[int], context: int, precision: Precision
) -> Iterator[RoundedMatrix]:
    """Round all linear layers except the output layer, in order of computation, by samples of their inputs.

    The samples of a layer are its inputs when the decoder computes `tokens` with all earlier layers already rounded.

    Raises:
        ConfigError: There are no tokens, one is outside of the vocabulary, or `precision` does not round linear layers.
        CheckpointError: A tensor is missing, has another shape, or values that are not finite.
    """
    bits = precision.linear
    if bits is None:
        raise ConfigError("the linear layers stay in float32, so there is nothing to calibrate")
    if not tokens or not all(0 <= token < config.vocab_size for token in tokens):
        raise ConfigError("calibration needs tokens of the model's vocabulary")
    reader = Reader(config, weights)
    reader.check("embed_tokens.weight", config.hidden_size)
    length = min(SEQUENCE, context)
    xs = [
        torch.cat([weights.read("embed_tokens.weight", token, token + 1) for token in tokens[start : start + length]])
        .float()
        .mul(config.embedding_multiplier)
        for start in range(0, len(tokens), length)
    ]
    tables = [rope_table(rope, context) for rope in config.ropes]
    for index, layer in enumerate(track(config.layers, "calibrating layers")):
        window, sinks = (layer.window, layer.sinks) if layer.window + layer.sinks < length else (0, 0)
        block = Block(config, window, sinks, round_up(length), Precision())
        fill(block, f"layers.{index}.", reader)
        table = None if layer.rope is None else tables[layer.rope]
        products = _products(block, xs, table)
        for name, module in block.named_modules():
            if not isinstance(module, Projection):
                continue
            if not module.value.isfinite().all() or not products[name].isfinite().all():
                raise CheckpointError(f"the matrix layers.{index}.{name} or its inputs have values that are not finite")
            nearest = quantize(module.value, bits, precision.group).dequantize()
            rounded = quantize_by_inputs(module.value, products[name], bits, precision.group)
            losses = [loss(module.value, value, products[name]) for value in (rounded.dequantize(), nearest)]
            yield RoundedMatrix(f"layers.{index}.{name}", pack(rounded), *losses)
            module.value = rounded.dequantize()
        xs = [block(x, torch.arange(len(x)), table) for x in xs]


def _products(block: Block, xs: list[Tensor], table: Tensor | None) -> dict[str, Tensor]:
    """Return, for each projection of a decoder layer, the sum of x x^T over the projection's inputs x."""
    products: dict[str, Tensor] = {}

    def hook(name: str) -> object:
        def add(module: nn.Module, inputs: tuple[Tensor], options: dict[str, object]) -> None:
            x, norm = inputs[0], options.get("norm")
            x = norm(x) if isinstance(norm, nn.Module) else x
            products[name] = products.get(name, torch.zeros(())) + x.T @ x

        return add

    handles = [
        module.register_forward_pre_hook(hook(name), with_kwargs=True)  # type: ignore[arg-type]
        for name, module in block.named_modules()
        if isinstance(module, Projection)
    ]
    for x in xs:
        block(x, torch.arange(len(x)), table)
    for handle in handles:
        handle.remove()
    return products
