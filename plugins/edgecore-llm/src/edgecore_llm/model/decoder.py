"""Build the decoder of every model family from one implementation, with edgecore's own operators."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.layers import Norm, Precision, Projection, Table
from edgecore_llm.model.rotary import rope_table
from edgecore_llm.operators import KEY_BLOCK

CACHE_DTYPES = {8: torch.int8, 16: torch.float16, 32: torch.float32}
ops = torch.ops.edgecore_llm


def round_up(count: int) -> int:
    """Round up to a multiple of `KEY_BLOCK` (16), the number of positions in a block of the key cache."""
    return -(-count // KEY_BLOCK) * KEY_BLOCK


class Attention(nn.Module):
    """Attention with a cache of keys (after the rotary embedding) and values, laid out as in `edgecore_llm.operators`.

    The weight `qkv_proj` has the rows of all query heads, then of the key heads, then of the value heads.
    """

    def __init__(self, config: DecoderConfig, window: int, sinks: int, rows: int, precision: Precision) -> None:
        super().__init__()
        self.config, self.window, self.sinks = config, window, sinks
        q_size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim
        bits, group, rank = precision.linear, precision.group, config.adapter_rank
        self.qkv_proj = Projection(q_size + 2 * kv_size, config.hidden_size, config.qkv_bias, bits, group, 3 * rank)
        self.o_proj = Projection(config.hidden_size, q_size, config.o_bias, bits, group, rank)
        self.q_norm = Norm(config.head_dim, config.norm_eps) if config.qk_norms else None
        self.k_norm = Norm(config.head_dim, config.norm_eps) if config.qk_norms else None
        self.k_cache: Tensor
        self.v_cache: Tensor
        self.k_scales: Tensor | None
        self.v_scales: Tensor | None
        heads, size, dtype = config.kv_heads, config.head_dim, CACHE_DTYPES[precision.cache]
        self.register_buffer("k_cache", torch.zeros(1, heads, rows // KEY_BLOCK, size, KEY_BLOCK, dtype=dtype))
        self.register_buffer("v_cache", torch.zeros(1, heads, rows, size, dtype=dtype))
        for name in ("k_scales", "v_scales"):
            self.register_buffer(name, torch.zeros(1, heads, rows) if precision.cache == 8 else None)

    def forward(
        self, x: Tensor, positions: Tensor, table: Tensor | None, norm: Norm, residual: Tensor | None
    ) -> Tensor:
        config = self.config
        q = ops.rope_update_cache(
            self.k_cache, self.v_cache, self.qkv_proj(x, norm=norm), table, positions, None, config.heads, self.sinks,
            None if self.q_norm is None else self.q_norm.weight, None if self.k_norm is None else self.k_norm.weight,
            config.norm_eps, self.k_scales, self.v_scales,
        )  # fmt: skip
        heads = ops.attend(
            q, self.k_cache, self.v_cache, positions, None, self.window, self.sinks,
            config.attention_scale, config.attention_softcap, self.k_scales, self.v_scales,
        )  # fmt: skip
        out: Tensor = self.o_proj(heads, residual=residual)
        return out


class FeedForward(nn.Module):
    """The gated feed-forward network; in `gate_up_proj`, blocks of 16 gate rows and of 16 value rows alternate."""

    def __init__(self, config: DecoderConfig, precision: Precision) -> None:
        super().__init__()
        self.activation, self.rotates = config.activation, config.rotates_inner
        inner, bits, group = round_up(config.intermediate_size), precision.linear, precision.group
        rank = config.adapter_rank
        self.gate_up_proj = Projection(2 * inner, config.hidden_size, config.mlp_bias, bits, group, 2 * rank)
        self.down_proj = Projection(config.hidden_size, inner, config.mlp_bias, bits, group, rank)

    def forward(self, x: Tensor, norm: Norm, residual: Tensor | None) -> Tensor:
        inner = self.gate_up_proj(x, norm=norm, activation=self.activation)
        out: Tensor = self.down_proj(ops.rotate(inner) if self.rotates else inner, residual=residual)
        return out


class Block(nn.Module):
    """One decoder layer: attention and feed-forward network, each with a residual connection."""

    def __init__(self, config: DecoderConfig, window: int, sinks: int, rows: int, precision: Precision) -> None:
        super().__init__()
        self.config = config
        # A projection adds the residual itself if no norm or factor is between projection and addition.
        self.adds_at_once = not config.branch_norms and config.residual_multiplier == 1
        self.self_attn = Attention(config, window, sinks, rows, precision)
        self.mlp = FeedForward(config, precision)
        self.input_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.norm_eps)
        if config.branch_norms:
            self.pre_feedforward_layernorm = Norm(config.hidden_size, config.norm_eps)
            self.post_feedforward_layernorm = Norm(config.hidden_size, config.norm_eps)

    def forward(self, x: Tensor, positions: Tensor, table: Tensor | None) -> Tensor:
        if self.adds_at_once:
            x = self.self_attn(x, positions, table, self.input_layernorm, x)
            out: Tensor = self.mlp(x, self.post_attention_layernorm, x)
            return out
        branch = self.self_attn(x, positions, table, self.input_layernorm, None)
        if self.config.branch_norms:
            x = self._add(x, self.post_attention_layernorm(branch))
            return self._add(x, self.post_feedforward_layernorm(self.mlp(x, self.pre_feedforward_layernorm, None)))
        x = self._add(x, branch)
        return self._add(x, self.mlp(x, self.post_attention_layernorm, None))

    def _add(self, x: Tensor, branch: Tensor) -> Tensor:
        factor = self.config.residual_multiplier
        return x + (branch if factor == 1 else branch * factor)


class Decoder(nn.Module):
    """A language model with its key-value caches.

    Args:
        config: The model's configuration.
        context: Maximum number of positions of a sequence.
        chunk: Maximum number of tokens per call. Layers with a window cache `sinks + window + chunk - 1` rows.
        precision: The bits of the weights.

    Attributes:
        rewindable: How many of the last positions may be removed from the sequence; None for all. In the ring buffer of
            a layer with a window, each new position overwrites an older one, which a shortened sequence may need again.
    """

    def __init__(self, config: DecoderConfig, *, context: int, chunk: int, precision: Precision = Precision()) -> None:
        super().__init__()
        self.config, self.context, self.chunk, self.precision = config, context, chunk, precision
        size, vocabulary = config.hidden_size, config.vocab_size
        group = precision.group if precision.embedding_group is None else precision.embedding_group
        self.embed_tokens = Table(vocabulary, size, precision.embedding, group)
        self.layers = nn.ModuleList()
        spare = []
        for layer in config.layers:
            # A window over the whole context hides nothing, so drop it: the cache then needs no ring buffer.
            window, sinks = (layer.window, layer.sinks) if layer.window + layer.sinks < context else (0, 0)
            rows = round_up(min(context, sinks + window + chunk - 1) if window else context)
            self.layers.append(Block(config, window, sinks, rows, precision))
            if window:
                spare.append(rows - sinks - window)
        self.rewindable: int | None = min(spare, default=None)
        self.norm = Norm(size, config.norm_eps)
        bits = precision.embedding if config.tied else precision.output
        self.lm_head = Projection(vocabulary, size, False, bits, precision.group)
        if config.tied:
            self.lm_head.value = self.embed_tokens.value
        for index, rope in enumerate(config.ropes):
            self.register_buffer(f"rope_{index}", rope_table(rope, context))

    def forward(self, tokens: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        """Compute the logits [R, vocab_size] of those tokens that `rows` [R] selects.

        Args:
            tokens: int64 [T], with T at most `chunk`.
            positions: int64 [T], below `context`. Earlier calls must have computed all earlier positions.
            rows: int64 [R], indices into `tokens`.

        Raises:
            ValueError: More tokens than `chunk`: the ring buffers would overwrite rows that the call still needs.
        """
        if tokens.shape[0] > self.chunk:
            raise ValueError(f"a call has {tokens.shape[0]} tokens, but the decoder was made for {self.chunk}")
        config = self.config
        x = self.embed_tokens(tokens)
        if config.embedding_multiplier != 1:
            x = x * config.embedding_multiplier
        for layer, block in zip(config.layers, self.layers, strict=True):
            table = None if layer.rope is None else self.get_buffer(f"rope_{layer.rope}")
            x = block(x, positions, table)
        logits: Tensor = self.lm_head(x.index_select(0, rows), norm=self.norm)
        if config.logit_divisor != 1:
            logits = logits / config.logit_divisor
        if config.logit_softcap:
            logits = config.logit_softcap * torch.tanh(logits / config.logit_softcap)
        return logits
