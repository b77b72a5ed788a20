"""The facts about one model from which its decoder is built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class Rope:
    """Rotary positions of some layers: value i and i + dims / 2 of a head are turned by position x frequency i.

    Every scaling in use comes down to numbers by which the frequencies are divided.

    Attributes:
        theta: The base of the frequencies `theta ** (-2 i / dims)`.
        dims: How many values at the start of each head are turned.
        divisors: A divisor for each frequency; empty for ones.
        long_divisors: The divisors of a decoder for a longer context than `original_context`, where the family has two
            lists.
        original_context: The context of the training before it was extended; 0 if that does not matter.
        amplitude: A factor of cosine and sine.
    """

    theta: float
    dims: int
    divisors: tuple[float, ...] = ()
    long_divisors: tuple[float, ...] = ()
    original_context: int = 0
    amplitude: float = 1.0

    def divisors_for(self, context: int) -> tuple[float, ...]:
        """Return the divisors of a decoder for this context."""
        is_long = self.long_divisors and context > self.original_context
        return (self.long_divisors if is_long else self.divisors) or (1.0,) * (self.dims // 2)


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        rope: The index of its rotary positions in `DecoderConfig.ropes`; None for a layer without positions.
        window: How many positions a token sees, with its own; 0 for all.
        sinks: How many of the first positions each token of a layer with a window sees, too.
    """

    rope: int | None = 0
    window: int = 0
    sinks: int = 0


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder-only model.

    Attributes:
        family: The name of its row in `edgecore_llm.families`.
        norm_offset: A number that the checkpoint leaves out of the weights of norms: 1 for Gemma.
        qk_norms: Each head of q and k is normalized before it is turned.
        branch_norms: The results of attention and of the feed-forward part are normalized before they are added.
        attention_scale: The factor of the scores.
        attention_softcap: Scores s become `cap * tanh(s / cap)`; 0 for none.
        logit_softcap: The same for logits.
        logit_divisor: Logits are divided by it.
        tied: The output layer uses the embedding table.
        max_context: The longest context that the model was made for.
        rotates_inner: The inputs of the last matrix of the feed-forward part are rotated (SpinQuant).
        adapter_rank: The rank of the adapter (LoRA) beside each matrix of a layer; 0 for none.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: tuple[Layer, ...]
    ropes: tuple[Rope, ...]
    norm_eps: float = 1e-6
    norm_offset: float = 0.0
    qk_norms: bool = False
    branch_norms: bool = False
    activation: Activation = "silu"
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    attention_scale: float = 1.0
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    logit_divisor: float = 1.0
    tied: bool = False
    max_context: int = 2048
    rotates_inner: bool = False
    adapter_rank: int = 0


def llama3_divisors(
    theta: float, dims: int, *, factor: float, low: float, high: float, original_context: int
) -> tuple[float, ...]:
    """Return the divisors of Llama 3.1: `factor` for long waves, 1 for short ones, and between them a mixture."""
    divisors = []
    for pair in range(dims // 2):
        waves = original_context * theta ** (-2 * pair / dims) / (2 * math.pi)  # in the original context
        share = min(max((waves - low) / (high - low), 0.0), 1.0)
        divisors.append(1 / ((1 - share) / factor + share))
    return tuple(divisors)
