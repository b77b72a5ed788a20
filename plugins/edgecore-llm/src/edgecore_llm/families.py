"""Define the model families, a row per family, and translate Hugging Face's `config.json` to `DecoderConfig`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgecore_llm.errors import CheckpointError
from edgecore_llm.model.config import Activation, DecoderConfig, Layer, Rope, llama3_divisors

Config = Mapping[str, Any]
"""The content of a `config.json`."""


@dataclass(frozen=True)
class Family:
    """The properties of a model family that the `config.json` of its models does not contain.

    Attributes:
        name: The name of the family, such as "qwen3".
        model_types: Values of `model_type` in a `config.json`.
        architectures: Values of `general.architecture` in a GGUF file.
        defaults: Values for keys that are missing in a `config.json`.
        norm_offset, qk_norms, branch_norms: See `DecoderConfig`.
        qkv_bias, o_bias: True if the projections have biases; None: `attention_bias` in the `config.json` decides.
        is_fused: The checkpoint stores q, k, v as one `qkv_proj`, and gate and up as `gate_up_proj`.
        is_interleaved: A GGUF file orders the rows of q and k as interleaved rotary pairs.
        scales_embeddings: Multiply embeddings by the square root of the hidden size.
        has_window: Returns True if the layer with a given index uses `sliding_window`; called if `layer_types` is
            missing.
        has_local_rope: Layers with a sliding window have a different rotary embedding from layers without one.
        skips_rope: Some layers have no rotary embedding: see `no_rope_layers` or `no_rope_layer_interval`.
    """

    name: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    defaults: Config = field(default_factory=dict)
    norm_offset: float = 0.0
    qk_norms: bool = False
    branch_norms: bool = False
    qkv_bias: bool | None = None
    o_bias: bool | None = None
    is_fused: bool = False
    is_interleaved: bool = False
    scales_embeddings: bool = False
    has_window: Callable[[Config, int], bool] = lambda config, layer: False
    has_local_rope: bool = False
    skips_rope: bool = False


def _windows_above(config: Config, layer: int) -> bool:
    return bool(config.get("use_sliding_window")) and layer >= int(config.get("max_window_layers", 28))


def _windows_without_rope(config: Config, layer: int) -> bool:
    return bool(config.get("use_sliding_window")) and not _has_rope(config, layer)


def _windows_but_each_sixth(config: Config, layer: int) -> bool:
    return (layer + 1) % int(config.get("sliding_window_pattern", 6)) != 0


_GEMMA = {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 256, "query_pre_attn_scalar": 256}

FAMILIES = (
    Family("llama", ("llama",), ("llama",), is_interleaved=True),
    Family(
        "mistral", ("mistral",), (), {"sliding_window": 4096, "num_key_value_heads": 8}, qkv_bias=False, o_bias=False,
        is_interleaved=True, has_window=lambda config, layer: True,
    ),
    Family("qwen2", ("qwen2",), ("qwen2",), qkv_bias=True, o_bias=False, has_window=_windows_above),
    Family("qwen3", ("qwen3",), ("qwen3",), {"head_dim": 128}, qk_norms=True, has_window=_windows_above),
    Family(
        "gemma2", ("gemma2",), ("gemma2",),
        {**_GEMMA, "sliding_window": 4096, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        norm_offset=1.0, branch_norms=True, scales_embeddings=True, has_window=lambda config, layer: layer % 2 == 0,
    ),
    Family(
        "gemma3", ("gemma3_text", "gemma3"), ("gemma3",),
        {**_GEMMA, "sliding_window": 4096, "rope_theta": 1e6, "rope_local_base_freq": 1e4},
        norm_offset=1.0, qk_norms=True, branch_norms=True, scales_embeddings=True, has_window=_windows_but_each_sixth,
        has_local_rope=True,
    ),
    Family(
        "phi3", ("phi3",), ("phi3",), {"rms_norm_eps": 1e-5}, qkv_bias=False, o_bias=False, is_fused=True,
        has_window=lambda config, layer: True,
    ),
    Family(
        "smollm3", ("smollm3",), ("smollm3",), {"rope_theta": 2e6, "tie_word_embeddings": True}, is_interleaved=True,
        has_window=_windows_without_rope, skips_rope=True,
    ),
    Family("granite", ("granite",), ("granite",), {"attention_multiplier": 1.0}, is_interleaved=True),
)  # fmt: skip
"""SmolLM2 counts as Llama, Phi 4-mini as Phi 3. GGUF files of Mistral have the architecture "llama"."""

_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}
_LARGEST = {"num_hidden_layers": 1 << 10, "num_attention_heads": 1 << 10, "head_dim": 1 << 12}
_LARGEST_OTHER = 1 << 24
"""Upper bound for counts that `_LARGEST` does not list; larger values are damage, and would exhaust the memory."""


def family_of(model_type: str) -> Family:
    """Return the family of a `model_type`, a value of Hugging Face's `config.json`.

    Raises:
        CheckpointError: No family has this `model_type`.
    """
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(name for family in FAMILIES for name in family.model_types)
    raise CheckpointError(f"models of type {model_type!r} are not supported; these are: {known}")


def decoder_config(config: Config) -> DecoderConfig:
    """Translate the values of Hugging Face's `config.json` to the configuration of a decoder.

    Raises:
        CheckpointError: The family is unknown, or a value is missing or out of range.
    """
    family = family_of(str(config.get("model_type")))
    text = config.get("text_config", config)  # a multimodal model has the decoder's values there
    values = {"rope_theta": 10000.0, "hidden_act": "silu", "rms_norm_eps": 1e-6, **family.defaults}
    values |= {key: value for key, value in config.items() if key in ("dtype", "torch_dtype", "tie_word_embeddings")}
    # A null value counts as missing, so that the default applies; but a null `sliding_window` means no window.
    values |= {key: value for key, value in text.items() if value is not None or key == "sliding_window"}
    if "quantization_config" in config:
        raise CheckpointError("quantized checkpoints of Hugging Face are not supported; take the original weights")

    hidden, heads = _count(values, "hidden_size"), _count(values, "num_attention_heads")
    kv_heads = _count(values, "num_key_value_heads", heads)
    head_dim = _count(values, "head_dim", hidden // heads)
    if heads % kv_heads:
        raise CheckpointError(f"{heads} attention heads cannot share {kv_heads} heads of keys and values")
    activation = values.get("hidden_activation") or values["hidden_act"]
    if activation not in _ACTIVATIONS:
        raise CheckpointError(f"the activation {activation!r} is not supported")
    bias = bool(values.get("attention_bias", False))
    return DecoderConfig(
        family=family.name,
        vocab_size=_count(values, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_count(values, "intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        layers=_layers(family, values),
        ropes=_ropes(family, values, head_dim),
        norm_eps=_number(values, "rms_norm_eps"),
        norm_offset=family.norm_offset,
        qk_norms=family.qk_norms,
        branch_norms=family.branch_norms,
        activation=_ACTIVATIONS[activation],
        qkv_bias=bias if family.qkv_bias is None else family.qkv_bias,
        o_bias=bias if family.o_bias is None else family.o_bias,
        mlp_bias=bool(values.get("mlp_bias", False)),
        attention_scale=_number(
            values, "attention_multiplier", _number(values, "query_pre_attn_scalar", head_dim) ** -0.5
        ),
        attention_softcap=_number(values, "attn_logit_softcapping", 0),
        logit_softcap=_number(values, "final_logit_softcapping", 0),
        embedding_multiplier=_embedding_multiplier(family, values, hidden),
        residual_multiplier=_number(values, "residual_multiplier", 1),
        logit_divisor=_number(values, "logits_scaling", 1),
        tied=bool(values.get("tie_word_embeddings", False)),
        max_context=_count(values, "max_position_embeddings", 2048),
    )


def _count(values: Config, key: str, default: int | None = None) -> int:
    value = values.get(key, default)
    if value is None:
        raise CheckpointError(f"the configuration of the model has no {key}")
    if not isinstance(value, int) or not 0 < value <= _LARGEST.get(key, _LARGEST_OTHER):
        raise CheckpointError(f"{key} of the model's configuration is {value!r}, which is not a possible count")
    return value


def _number(values: Config, key: str, default: float | None = None) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise CheckpointError(f"{key} of the model's configuration is {value!r}, which is not a possible number")
    return float(value)


def _embedding_multiplier(family: Family, values: Config, hidden: int) -> float:
    """Return the factor of embeddings; the square root of the hidden size is rounded to the model's training dtype."""
    if not family.scales_embeddings:
        return _number(values, "embedding_multiplier", 1)
    root, dtype = math.sqrt(hidden), str(values.get("dtype", values.get("torch_dtype", "float32")))
    bits = {"bfloat16": 8, "float16": 11}.get(dtype.removeprefix("torch."), 24)
    mantissa, exponent = math.frexp(root)
    return math.ldexp(round(mantissa * 2**bits), exponent - bits)


def _has_rope(values: Config, layer: int) -> bool:
    listed = values.get("no_rope_layers")
    if listed:
        return bool(listed[layer])
    return (layer + 1) % int(values.get("no_rope_layer_interval", 4)) != 0


def _layers(family: Family, values: Config) -> tuple[Layer, ...]:
    count = _count(values, "num_hidden_layers")
    size, types = values.get("sliding_window") or 0, values.get("layer_types")
    for key, listed in (("layer_types", types), ("no_rope_layers", values.get("no_rope_layers"))):
        if listed and len(listed) < count:
            raise CheckpointError(f"{key} of the model's configuration has {len(listed)} entries for {count} layers")
    uses_window = values.get("use_sliding_window", True)
    layers = []
    for index in range(count):
        has_window = types[index] == "sliding_attention" if types else family.has_window(values, index)
        window = int(size) if has_window and uses_window else 0
        has_rope = not family.skips_rope or _has_rope(values, index)
        rope = 1 if family.has_local_rope and has_window else 0
        layers.append(Layer(rope if has_rope else None, window))
    return tuple(layers)


def _ropes(family: Family, values: Config, head_dim: int) -> tuple[Rope, ...]:
    """Return one rotary embedding for all layers, or two: for layers without and with a sliding window.

    transformers before 5 writes `rope_theta` and `rope_scaling` into a `config.json`, later releases `rope_parameters`.
    """
    parameters = values.get("rope_parameters") or {}
    old = {"rope_theta": values["rope_theta"], **(values.get("rope_scaling") or {})}
    if not family.has_local_rope:
        return (_rope({**old, **parameters}, values, head_dim),)
    local = {"rope_theta": values["rope_local_base_freq"], **parameters.get("sliding_attention", {})}
    every = {**old, **parameters.get("full_attention", {})}
    return _rope(every, values, head_dim), _rope(local, values, head_dim)


def _rope(parameters: Config, values: Config, head_dim: int) -> Rope:
    theta = _number(parameters, "rope_theta")
    share = _number(parameters, "partial_rotary_factor", _number(values, "partial_rotary_factor", 1.0))
    dims = int(head_dim * share)
    if dims % 2 or not 0 < dims <= head_dim or theta <= 1:
        raise CheckpointError(f"rotary positions cannot turn {dims} of {head_dim} values with the base {theta}")
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return Rope(theta, dims)
    if kind == "linear":
        return Rope(theta, dims, (_divisor(parameters, "factor"),) * (dims // 2))
    if kind == "divisors":  # a GGUF file may store the divisor of each frequency itself
        return Rope(theta, dims, _divisors(parameters, "divisors", dims))
    if kind == "llama3":
        original = _count(parameters, "original_max_position_embeddings")
        low, high = _number(parameters, "low_freq_factor"), _number(parameters, "high_freq_factor")
        if not low < high:
            raise CheckpointError(f"low_freq_factor {low} of the rotary positions is not below high_freq_factor {high}")
        factor = _divisor(parameters, "factor")
        divisors = llama3_divisors(theta, dims, factor=factor, low=low, high=high, original_context=original)
        return Rope(theta, dims, divisors)
    if kind in ("longrope", "su"):
        short, long = _divisors(parameters, "short_factor", dims), _divisors(parameters, "long_factor", dims)
        key = "original_max_position_embeddings"
        original = _count(parameters if parameters.get(key) else values, key)
        factor = parameters.get("factor") or _count(values, "max_position_embeddings", 2048) / original
        amplitude = 1.0 if factor <= 1 or original == 1 else math.sqrt(1 + math.log(factor) / math.log(original))
        return Rope(theta, dims, short, long, original, parameters.get("attention_factor") or amplitude)
    raise CheckpointError(f"rotary positions of kind {kind!r} are not supported")


def _divisor(parameters: Config, key: str) -> float:
    value = _number(parameters, key)
    if not value:
        raise CheckpointError(f"{key} of the rotary positions is 0")
    return value


def _divisors(parameters: Config, key: str, dims: int) -> tuple[float, ...]:
    listed = parameters.get(key)
    if not isinstance(listed, list) or len(listed) != dims // 2:
        raise CheckpointError(f"{key} of the rotary positions is no list of {dims // 2} numbers")
    return tuple(_divisor({key: value}, key) for value in listed)
