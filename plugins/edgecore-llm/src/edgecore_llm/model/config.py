"""Define the configuration of a language model, from which its decoder is built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class Rope:
    """A rotary embedding (RoPE): it rotates values i and i + dims / 2 of a head by position x frequency i.

    All supported kinds of RoPE scaling are expressed as divisors of the frequencies.

    Attributes:
        theta: The base of the frequencies `theta ** (-2 i / dims)`.
        dims: How many values at the start of each head are rotated.
        divisors: One divisor per frequency; () if all divisors are 1.
        long_divisors: The divisors for contexts longer than `original_context`; () unless the scaling is longrope.
        original_context: The context of the original training; 0 if the scaling does not depend on the context.
        amplitude: Factor by which cosines and sines are multiplied.
    """

    theta: float
    dims: int
    divisors: tuple[float, ...] = ()
    long_divisors: tuple[float, ...] = ()
    original_context: int = 0
    amplitude: float = 1.0

    def divisors_for(self, context: int) -> tuple[float, ...]:
        """Return the divisors of the frequencies for a decoder with this context, one per pair of values."""
        is_long = self.long_divisors and context > self.original_context
        return (self.long_divisors if is_long else self.divisors) or (1.0,) * (self.dims // 2)


@dataclass(frozen=True)
class Layer:
    """The configuration of one decoder layer.

    Attributes:
        rope: Index of the layer's rotary embedding in `DecoderConfig.ropes`; None for a layer without one.
        window: How many positions a token sees, including its own; 0 for all.
        sinks: How many of the first positions each token also sees, if the layer has a window.
    """

    rope: int | None = 0
    window: int = 0
    sinks: int = 0


@dataclass(frozen=True)
class DecoderConfig:
    """The configuration of a decoder-only language model.

    Attributes:
        family: The name of the model's family, a row of `edgecore_llm.families`.
        norm_offset: Constant to add to stored weights of norms: 1 for Gemma, else 0.
        qk_norms: Normalize each head of q and k before the rotary embedding.
        branch_norms: Normalize the results of attention and of the feed-forward network before they are added to the
            residual.
        attention_scale: Factor of the attention scores.
        attention_softcap: Attention scores s become `cap * tanh(s / cap)`; 0 leaves them unchanged.
        logit_softcap: Logits become `cap * tanh(logits / cap)`; 0 leaves them unchanged.
        logit_divisor: Number by which logits are divided.
        tied: The output layer uses the embedding table as its weight.
        max_context: The longest context that the model supports, in positions.
        rotates_inner: Multiply the inputs of `down_proj` by a Hadamard matrix (SpinQuant).
        adapter_rank: The rank of the LoRA adapter of each matrix of a layer; 0 for none.
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
    """Return Llama 3.1's divisors of RoPE frequencies: `factor` for long wavelengths to 1 for short ones."""
    divisors = []
    for pair in range(dims // 2):
        waves = original_context * theta ** (-2 * pair / dims) / (2 * math.pi)  # wavelengths per context
        share = min(max((waves - low) / (high - low), 0.0), 1.0)
        divisors.append(1 / ((1 - share) / factor + share))
    return tuple(divisors)
