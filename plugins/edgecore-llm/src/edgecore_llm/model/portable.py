"""Build the decoder of every model family from operators that ExecuTorch and the backends support."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgecore_llm.model.config import DecoderConfig
from edgecore_llm.model.layers import Adapter, Norm, Precision
from edgecore_llm.model.load import Part, Reader, Weights
from edgecore_llm.model.portable_layers import PortableLinear, PortableMatrix, PortableTable
from edgecore_llm.model.rotary import rope_table
from edgecore_llm.operators import KEY_BLOCK
from edgecore_llm.quantize.hadamard import factors, transform
from edgecore_llm.quantize.packed import QuantizedMatrix

Form = Literal["llama", "aten", "products"]
"""How attention is written: with `llama::update_cache` and `llama::custom_sdpa`, with `scaled_dot_product_attention`,
or with two matrix products and a softmax."""


class Step:
    """The values that all layers share in one run of the decoder: positions and masks.

    Attributes:
        start: The position of the first token.
        positions: int64 [T].
    """

    def __init__(self, input_pos: Tensor, tokens: int, context: int, form: Form) -> None:
        self.context, self.start = context, 0
        if form == "llama":
            start: Any = input_pos[0].item()  # the position as an integer, or as a symbol of torch.export
            torch._check(start >= 0)  # type: ignore[no-untyped-call]
            torch._check(start + tokens <= context)  # type: ignore[no-untyped-call]
            self.start = start
        self.positions = torch.arange(tokens) + input_pos
        self._masks: dict[int, Tensor] = {}

    def mask(self, window: int) -> Tensor:
        """Return the attention mask, float32 [T, context]: 0 at positions that a token sees, -infinity elsewhere."""
        if window not in self._masks:
            places, own = torch.arange(self.context), self.positions[:, None]
            seen = places <= own
            if window:
                seen = seen & (places > own - window)
            self._masks[window] = torch.where(seen, 0.0, -float("inf"))
        return self._masks[window]


class PortableAttention(nn.Module):
    """Attention with a key-value cache for the whole context. `form` selects the operators, see `Form`.

    The caches have the shape [1, context, heads, size] for the form "llama", otherwise [1, heads, context, size].
    """

    def __init__(self, config: DecoderConfig, window: int, context: int, form: Form, precision: Precision) -> None:
        super().__init__()
        self.config, self.window = config, window
        # `llama::custom_sdpa` has no soft cap of the attention scores, so models with one use the form "aten".
        self.form: Form = "aten" if config.attention_softcap else form
        self.sizes = [config.heads * config.head_dim, *[config.kv_heads * config.head_dim] * 2]
        bits, group, rank = precision.linear, precision.group, config.adapter_rank
        self.qkv_proj = PortableLinear(sum(self.sizes), config.hidden_size, config.qkv_bias, bits, group, 3 * rank)
        self.o_proj = PortableLinear(config.hidden_size, self.sizes[0], config.o_bias, bits, group, rank)
        self.q_norm = Norm(config.head_dim, config.norm_eps) if config.qk_norms else None
        self.k_norm = Norm(config.head_dim, config.norm_eps) if config.qk_norms else None
        places = (context, config.kv_heads) if self.form == "llama" else (config.kv_heads, context)
        self.register_buffer("k_cache", torch.zeros(1, *places, config.head_dim))
        self.register_buffer("v_cache", torch.zeros(1, *places, config.head_dim))
        self.k_cache: Tensor
        self.v_cache: Tensor

    def forward(self, x: Tensor, step: Step, turns: tuple[Tensor, Tensor] | None) -> Tensor:
        heads = self.qkv_proj(x).split(self.sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, self.config.head_dim)) for part in heads)  # [1, T, heads, size]
        q = q if self.q_norm is None else self.q_norm(q)
        k = k if self.k_norm is None else self.k_norm(k)
        if turns is not None:
            q, k = turn(q, *turns), turn(k, *turns)
        attended = self._by_operator(q, k, v, step) if self.form == "llama" else self._plain(q, k, v, step)
        out: Tensor = self.o_proj(attended.flatten(2))
        return out

    def _by_operator(self, q: Tensor, k: Tensor, v: Tensor, step: Step) -> Tensor:
        llama: Any = torch.ops.llama
        llama.update_cache(k, self.k_cache, step.start)
        llama.update_cache(v, self.v_cache, step.start)
        mask = step.mask(self.window) if self.window else None
        out: Tensor = llama.custom_sdpa(
            q, self.k_cache, self.v_cache, step.start, mask, 0.0, mask is None, self.config.attention_scale
        )
        return out

    def _plain(self, q: Tensor, k: Tensor, v: Tensor, step: Step) -> Tensor:
        config = self.config
        self.k_cache[:, :, step.positions] = k.transpose(1, 2)
        self.v_cache[:, :, step.positions] = v.transpose(1, 2)
        q, mask = q.transpose(1, 2), step.mask(self.window)
        if self.form == "aten" and not config.attention_softcap:
            return F.scaled_dot_product_attention(
                q, self.k_cache, self.v_cache, mask, scale=config.attention_scale, enable_gqa=True
            ).transpose(1, 2)
        count = config.heads // config.kv_heads  # query heads per cached head
        rows = q.unflatten(1, (config.kv_heads, count)).flatten(2, 3)  # type: ignore[no-untyped-call]
        scores = rows @ self.k_cache.transpose(2, 3) * config.attention_scale
        if config.attention_softcap:
            scores = config.attention_softcap * torch.tanh(scores / config.attention_softcap)
        values = (scores + mask.repeat(count, 1)).softmax(-1) @ self.v_cache
        out: Tensor = values.unflatten(2, (count, -1)).flatten(1, 2).transpose(1, 2)
        return out


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply a rotary embedding, cos and sin [T, 1, pairs], to the first 2 * pairs values of x [1, T, heads, size]."""
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]
    parts = [first * cos - second * sin, second * cos + first * sin]
    return torch.cat(parts if 2 * half == x.shape[-1] else [*parts, x[..., 2 * half :]], -1)


class PortableFeedForward(nn.Module):
    """The gated feed-forward network."""

    def __init__(self, config: DecoderConfig, precision: Precision) -> None:
        super().__init__()
        self.activation, self.rotates = config.activation, config.rotates_inner
        inner, bits, group, rank = config.intermediate_size, precision.linear, precision.group, config.adapter_rank
        self.gate_proj = PortableLinear(inner, config.hidden_size, config.mlp_bias, bits, group, rank)
        self.up_proj = PortableLinear(inner, config.hidden_size, config.mlp_bias, bits, group, rank)
        self.down_proj = PortableLinear(config.hidden_size, inner, config.mlp_bias, bits, group, rank)
        if self.rotates:
            for name, factor in zip(("first_factor", "second_factor"), factors(inner), strict=True):
                self.register_buffer(name, factor)

    def forward(self, x: Tensor) -> Tensor:
        gates = self.gate_proj(x)
        gates = F.silu(gates) if self.activation == "silu" else F.gelu(gates, approximate="tanh")
        inner = gates * self.up_proj(x)
        if self.rotates:
            inner = transform(inner, self.get_buffer("first_factor"), self.get_buffer("second_factor"))
        out: Tensor = self.down_proj(inner)
        return out


class PortableBlock(nn.Module):
    """One decoder layer: attention and feed-forward network, each with a residual connection."""

    def __init__(self, config: DecoderConfig, window: int, context: int, form: Form, precision: Precision) -> None:
        super().__init__()
        self.factor, self.has_branch_norms = config.residual_multiplier, config.branch_norms
        self.self_attn = PortableAttention(config, window, context, form, precision)
        self.mlp = PortableFeedForward(config, precision)
        self.input_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.norm_eps)
        if config.branch_norms:
            self.pre_feedforward_layernorm = Norm(config.hidden_size, config.norm_eps)
            self.post_feedforward_layernorm = Norm(config.hidden_size, config.norm_eps)

    def forward(self, x: Tensor, step: Step, turns: tuple[Tensor, Tensor] | None) -> Tensor:
        branch = self.self_attn(self.input_layernorm(x), step, turns)
        if self.has_branch_norms:
            x = self._add(x, self.post_attention_layernorm(branch))
            return self._add(x, self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x))))
        x = self._add(x, branch)
        return self._add(x, self.mlp(self.post_attention_layernorm(x)))

    def _add(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + (branch if self.factor == 1 else branch * self.factor)


class PortableDecoder(nn.Module):
    """A language model with its key-value caches; `forward` has the arguments that ExecuTorch's text runner passes.

    Args:
        config: The model's configuration.
        context: Maximum number of positions of a sequence.
        form: The operators of attention, see `Form`.
        precision: The bits of the weights, see `Precision`.
    """

    def __init__(self, config: DecoderConfig, *, context: int, form: Form, precision: Precision = Precision()) -> None:
        super().__init__()
        self.config, self.context, self.form = config, context, form
        size, vocabulary, group = config.hidden_size, config.vocab_size, precision.group
        self.embed_tokens = PortableTable(vocabulary, size, precision.embedding, 0)
        windows = [layer.window if layer.window < context else 0 for layer in config.layers]
        self.layers = nn.ModuleList(PortableBlock(config, window, context, form, precision) for window in windows)
        self.norm = Norm(size, config.norm_eps)
        self.lm_head = PortableLinear(vocabulary, size, False, precision.output, group)
        for index, rope in enumerate(config.ropes):
            cos, sin = rope_table(rope, context).chunk(2, 1)
            self.register_buffer(f"cos_{index}", cos.contiguous())
            self.register_buffer(f"sin_{index}", sin.contiguous())

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Compute the logits [1, vocab_size] after the last token.

        Args:
            tokens: int64 [1, T].
            input_pos: int64 [1], the position of the first token. Earlier calls must have computed all positions before
                it.
        """
        config = self.config
        step = Step(input_pos, tokens.shape[1], self.context, self.form)
        turns = [
            tuple(self.get_buffer(f"{name}_{index}")[step.positions][:, None] for name in ("cos", "sin"))
            for index in range(len(config.ropes))
        ]
        x = self.embed_tokens(tokens)
        if config.embedding_multiplier != 1:
            x = x * config.embedding_multiplier
        for layer, block in zip(config.layers, self.layers, strict=True):
            x = block(x, step, None if layer.rope is None else turns[layer.rope])
        logits: Tensor = self.lm_head(self.norm(x[:, -1]))
        if config.logit_divisor != 1:
            logits = logits / config.logit_divisor
        if config.logit_softcap:
            logits = config.logit_softcap * torch.tanh(logits / config.logit_softcap)
        return logits


def load_portable(
    config: DecoderConfig, weights: Weights, *, context: int, form: Form, precision: Precision = Precision()
) -> PortableDecoder:
    """Return a portable decoder with the weights of a checkpoint, which it reads one matrix at a time.

    Raises:
        CheckpointError: A tensor is missing, or has another shape than the configuration asks for.
    """
    if form == "llama":
        import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (registers the operators)
    decoder = PortableDecoder(config, context=context, form=form, precision=precision)
    reader = Reader(config, weights)
    for name, module in decoder.named_modules():
        if isinstance(module, Norm):
            module.weight.copy_(reader.norm(f"{name}.weight", module.weight.shape[0]))
        elif isinstance(module, PortableFeedForward):
            _read_gates(reader, name, module)
        elif isinstance(module, PortableMatrix) and not name.endswith(("gate_proj", "up_proj")):
            source = "embed_tokens" if config.tied and name == "lm_head" else name
            start = 0
            for part in reader.rows(f"{source}.weight", module.columns, module.bits):
                module.put(start, part)
                start += len(part)
            if isinstance(module, PortableLinear) and module.bias is not None:
                module.bias.copy_(reader.bias(name))
        elif isinstance(module, Adapter):
            module.a, module.b = reader.adapter(name, module)
    return decoder.eval()


def _read_gates(reader: Reader, name: str, module: PortableFeedForward) -> None:
    """Read `gate_up_proj`, in which blocks of gate and value rows alternate, into two matrices without padding rows."""
    gate, up = module.gate_proj, module.up_proj
    start = 0
    for part in reader.rows(f"{name}.gate_up_proj.weight", gate.columns, gate.bits):
        for half, matrix in enumerate((gate, up)):
            matrix.put(start, _half(part, half)[: gate.rows - start])
        start += len(part) // 2
    if gate.bias is not None and up.bias is not None:
        bias = reader.bias(f"{name}.gate_up_proj")
        gate.bias.copy_(_half_of_rows(bias, 0)[: gate.rows])
        up.bias.copy_(_half_of_rows(bias, 1)[: up.rows])


def _half(part: Part, half: int) -> Part:
    """Return the gate rows (half 0) or the value rows (half 1) of a matrix in which blocks of both alternate."""
    if isinstance(part, QuantizedMatrix):
        return QuantizedMatrix(_half_of_rows(part.values, half), _half_of_rows(part.scales, half), part.bits)
    return _half_of_rows(part, half)


def _half_of_rows(rows: Tensor, half: int) -> Tensor:
    return rows.reshape(-1, 2, KEY_BLOCK, *rows.shape[1:])[:, half].flatten(0, 1)
