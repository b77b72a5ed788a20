"""One decoder for all families. The names of parameters are those of Hugging Face, without `model.` at the front."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgecore_llm import operators  # noqa: F401  (registers the operators)
from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.rotary import rope_table

ops = torch.ops.edgecore_llm
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class Norm(nn.Module):
    """RMS normalization of the last dimension. The weight is the factor itself, for every family."""

    def __init__(self, size: int, eps: float, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, dtype=dtype, device=device), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Attention with a cache [1, kv_heads, rows, head_dim] of turned keys, and one of values."""

    def __init__(self, config: DecoderConfig, window: int, rows: int, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.config, self.window = config, window
        q_size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim

        def linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias, dtype=dtype, device=device).requires_grad_(False)

        self.q_proj = linear(config.hidden_size, q_size, config.qkv_bias)
        self.k_proj = linear(config.hidden_size, kv_size, config.qkv_bias)
        self.v_proj = linear(config.hidden_size, kv_size, config.qkv_bias)
        self.o_proj = linear(q_size, config.hidden_size, config.o_bias)
        if config.qk_norms:
            self.q_norm = Norm(config.head_dim, config.norm_eps, dtype, device)
            self.k_norm = Norm(config.head_dim, config.norm_eps, dtype, device)
        self.k_cache: Tensor
        self.v_cache: Tensor
        for name in ("k_cache", "v_cache"):
            self.register_buffer(name, torch.zeros(1, config.kv_heads, rows, config.head_dim, dtype=dtype))

    def forward(self, x: Tensor, positions: Tensor, table: Tensor | None) -> Tensor:
        config = self.config
        q = self.q_proj(x).unflatten(-1, (config.heads, config.head_dim))
        k = self.k_proj(x).unflatten(-1, (config.kv_heads, config.head_dim))
        v = self.v_proj(x).unflatten(-1, (config.kv_heads, config.head_dim))
        if config.qk_norms:
            q, k = self.q_norm(q), self.k_norm(k)
        if table is not None:
            q, k = ops.rope(q, table, positions), ops.rope(k, table, positions)
        ops.update_cache(self.k_cache, k, positions)
        ops.update_cache(self.v_cache, v, positions)
        heads = ops.attend(
            q, self.k_cache, self.v_cache, positions, None, self.window, 0,
            config.attention_scale, config.attention_softcap,
        )  # fmt: skip
        out: Tensor = self.o_proj(heads.flatten(-2))
        return out


class FeedForward(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, config: DecoderConfig, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[config.activation]
        inner, bias = config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(config.hidden_size, inner, bias, dtype=dtype, device=device)
        self.up_proj = nn.Linear(config.hidden_size, inner, bias, dtype=dtype, device=device)
        self.down_proj = nn.Linear(inner, config.hidden_size, bias, dtype=dtype, device=device)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))
        return out


class Block(nn.Module):
    """One layer: attention and feed-forward part, each with a residual sum."""

    def __init__(self, config: DecoderConfig, window: int, rows: int, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.config = config

        def norm() -> Norm:
            return Norm(config.hidden_size, config.norm_eps, dtype, device)

        self.self_attn = Attention(config, window, rows, dtype, device)
        self.mlp = FeedForward(config, dtype, device)
        self.input_layernorm, self.post_attention_layernorm = norm(), norm()
        if config.branch_norms:
            self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(), norm()

    def forward(self, x: Tensor, positions: Tensor, table: Tensor | None) -> Tensor:
        branch = self.self_attn(self.input_layernorm(x), positions, table)
        if self.config.branch_norms:
            x = self._add(x, self.post_attention_layernorm(branch))
            return self._add(x, self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x))))
        x = self._add(x, branch)
        return self._add(x, self.mlp(self.post_attention_layernorm(x)))

    def _add(self, x: Tensor, branch: Tensor) -> Tensor:
        factor = self.config.residual_multiplier
        return x + (branch if factor == 1 else branch * factor)


class Decoder(nn.Module):
    """A language model with its caches.

    Args:
        config: The facts about the model.
        context: How many positions a sequence may have.
        chunk: How many tokens a call may have. Layers with a window keep `window + chunk - 1` rows.
        dtype: The dtype of parameters and caches.
        device: The device of the parameters: "meta" for a decoder whose weights are put in later.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        context: int,
        chunk: int,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.config, self.context, self.chunk = config, context, chunk
        table = torch.empty(config.vocab_size, config.hidden_size, dtype=dtype, device=device)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, _weight=table, _freeze=True)
        self.layers = nn.ModuleList()
        for layer in config.layers:
            window = layer.window if layer.window < context else 0
            rows = min(context, window + chunk - 1) if window else context
            self.layers.append(Block(config, window, rows, dtype, device))
        self.norm = Norm(config.hidden_size, config.norm_eps, dtype, device)
        if not config.tied:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, False, dtype=dtype, device=device)
            self.lm_head.requires_grad_(False)
        for index, rope in enumerate(config.ropes):
            self.register_buffer(f"rope_{index}", rope_table(rope, context))

    def forward(self, tokens: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        """Compute the logits [R, vocab_size] of the tokens that `rows` [R] picks.

        Args:
            tokens: int64 [T], with T at most `chunk`.
            positions: int64 [T], below `context`; those before them have been computed by earlier calls.
            rows: int64 [R], indices into `tokens`.

        Raises:
            ValueError: There are more tokens than `chunk`: the rings of windows would lose rows that are still seen.
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
        x = self.norm(x.index_select(0, rows))
        logits: Tensor = F.linear(x, self.embed_tokens.weight) if config.tied else self.lm_head(x)
        if config.logit_divisor != 1:
            logits = logits / config.logit_divisor
        if config.logit_softcap:
            logits = config.logit_softcap * torch.tanh(logits / config.logit_softcap)
        return logits
