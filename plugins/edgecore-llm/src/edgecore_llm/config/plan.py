"""Map the settings of `LlmConfig` to export options; refuse, with a reason, a setting that would have no effect."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel

from edgecore_llm.checkpoints.meta import QuantizationMethod
from edgecore_llm.config.llm_config import LlmConfig
from edgecore_llm.errors import ConfigError
from edgecore_llm.export import ExportOptions
from edgecore_llm.model.layers import Precision
from edgecore_llm.quantize.packed import GROUP

REPOSITORIES = {
    "qwen2_5_0_5b": "Qwen/Qwen2.5-0.5B", "qwen2_5_1_5b": "Qwen/Qwen2.5-1.5B",
    "qwen2_5_coder_32b": "Qwen/Qwen2.5-Coder-32B-Instruct", "qwen3_0_6b": "Qwen/Qwen3-0.6B",
    "qwen3_1_7b": "Qwen/Qwen3-1.7B", "qwen3_4b": "Qwen/Qwen3-4B", "phi_4_mini": "microsoft/Phi-4-mini-instruct",
    "smollm2": "HuggingFaceTB/SmolLM2-135M",
}  # fmt: skip
"""The Hub repository for each `base.model_class`, used if no checkpoint is given."""
_FAMILIES = {
    "stories110m": "llama", "llama2": "llama", "llama3": "llama", "llama3_1": "llama", "llama3_2": "llama",
    "smollm2": "llama", "qwen2_5_0_5b": "qwen2", "qwen2_5_1_5b": "qwen2", "qwen2_5_coder_32b": "qwen2",
    "qwen3_0_6b": "qwen3", "qwen3_1_7b": "qwen3", "qwen3_4b": "qwen3", "phi_4_mini": "phi3",
}  # fmt: skip
ACTING = {
    "base.model_class", "base.params", "base.checkpoint", "base.tokenizer_path", "base.metadata", "base.preq_mode",
    "base.preq_group_size", "base.preq_embedding_quantize", "base.use_lora", "model.use_attention_sink",
    "model.use_shared_embedding", "model.use_sdpa_with_kv_cache", "model.use_kv_cache", "model.local_global_attention",
    "model.quantize_kv_cache", "export.max_seq_length", "export.max_context_length", "export.output_dir",
    "export.output_name", "debug.verbose", "debug.generate_full_logits", "quantization.qmode",
    "quantization.embedding_quantize", "quantization.group_size",
    "quantization.use_spin_quant", "quantization.use_qat",
    "backend.xnnpack.enabled", "backend.xnnpack.extended_ops", "backend.vulkan.enabled", "backend.openvino.enabled",
}  # fmt: skip
"""Settings that have an effect, or that ask for a property of every exported file."""
_ADAPTERS = "adapters are not supported yet; merge the adapter into the checkpoint first"
_CACHE = "scales of a quantized cache are those of its rows; use model.quantize_kv_cache"
_LAYOUT = "the layout of tables is chosen by this package; remove it"
_DEBUG = "use `edgecore inspect`, `edgecore bench` and the traces of `edgecore-run` on the file; remove it"
_STATIC = "language models are compiled for any number of tokens, and this backend needs fixed ones; leave it off"
_ONE_TOKEN = "this backend takes files with calls of one token; export with `--backend NAME` and without settings"
_OPTIONS = "options of backends are not passed on; remove it"
_CALIBRATION = "export with `--calibration FILE.txt` and without settings; remove it"
REFUSED = {
    "base.lora_config": _ADAPTERS,
    "model.dtype_override": "values are computed in float32; make the file smaller by quantization.qmode",
    "model.enable_dynamic_shape": "a file takes any number of tokens up to export.max_seq_length; remove it",
    "model.expand_rope_table": _LAYOUT,
    "model.output_prune_map": "vocabularies are not pruned; remove it",
    "model.input_prune_map": "vocabularies are not pruned; remove it",
    "model.static_quantize_kv_cache": _CACHE,
    "model.static_quantize_kv_cache_scale": _CACHE,
    "model.use_moe_quantized_op": "models with experts are not supported; remove it",
    "export.so_library": "operators come from installed packages; remove it",
    "export.export_only": "the command writes compiled files only; remove it",
    "export.foundation_weights_file": "the weights are in the file, from which they are mapped; remove it",
    "export.lora_weights_file": _ADAPTERS,
    "debug.profile_memory": _DEBUG,
    "debug.profile_path": _DEBUG,
    "debug.generate_etrecord": _DEBUG,
    "multimethod": "a file has one method; export a file for each",
    "quantization.pt2e_quantize": "linear layers are quantized by quantization.qmode; use 8da4w or 8da8w",
    "quantization.quantize_scope": "leave out quantization.embedding_quantize to quantize linear layers only",
    "quantization.calibration_tasks": _CALIBRATION,
    "quantization.calibration_limit": _CALIBRATION,
    "quantization.calibration_seq_length": _CALIBRATION,
    "quantization.calibration_data": _CALIBRATION,
    "quantization.use_hqq": "scales are always fitted to the weights; remove it",
    "backend.xnnpack.enable_bf16": "values are computed in float32; remove it",
    "backend.vulkan.force_fp16": _OPTIONS,
    "backend.openvino": _OPTIONS,
    "backend.coreml": _ONE_TOKEN,
    "backend.qnn": _ONE_TOKEN,
    "backend.mps": "ExecuTorch removed this backend; use another",
    "backend.mlx": "there is no such backend for edgecore; use another",
    "backend.torchao": "the kernels of this package take their place; remove it",
    "backend.tosa": _STATIC,
    "backend.ethosu": _STATIC,
    "backend.vgf": _STATIC,
}
"""Settings and sections that are refused unless they have their default, mapped to the reason and the remedy."""


@dataclass(frozen=True)
class QuantizedPlan:
    """The quantized checkpoint that the settings require; the checkpoint that is opened must have these properties.

    Attributes:
        method: How the checkpoint was quantized.
        precision: Required bits and group sizes of its matrices.
        adapter_rank: Required rank of its LoRA adapters; 0 for none.
    """

    method: QuantizationMethod
    precision: Precision
    adapter_rank: int


@dataclass(frozen=True)
class Plan:
    """An export, as the settings of `LlmConfig` describe it.

    Attributes:
        checkpoint: The file or folder of the checkpoint; None if the settings name none.
        repository: The Hub repository for `base.model_class`; None if it has none.
        params: The `params.json` of a `.pth` checkpoint.
        family: The model family that the checkpoint must have, such as "llama"; None for any.
        tokenizer: The path of a tokenizer.
        output: The file to write; None if the settings do not name it.
        needs_tied: The model's output layer must share the embedding table.
        quantized: The quantized checkpoint that the settings describe; None if they describe none.
        is_verbose: Print the options.
        options: The export options.
    """

    checkpoint: str | None
    repository: str | None
    params: str | None
    family: str | None
    tokenizer: str | None
    output: Path | None
    needs_tied: bool
    quantized: QuantizedPlan | None
    is_verbose: bool
    options: ExportOptions


def plan(config: LlmConfig) -> Plan:
    """Return the export that the settings of `LlmConfig` describe.

    Raises:
        ConfigError: A setting is not supported; the error says why, and what to do.
    """
    changed = dict(_changed(config, LlmConfig()))
    # `--group_size` also sets `backend.openvino.nncf_compression_group_size` (flags.py), so ignore that setting if both
    # have the same value.
    if changed.get("backend.openvino.nncf_compression_group_size") == config.quantization.group_size:
        changed.pop("backend.openvino.nncf_compression_group_size", None)
    for key, value in changed.items():
        reason = next((why for name, why in REFUSED.items() if key == name or key.startswith(f"{name}.")), None)
        if key not in ACTING:
            raise ConfigError(f"{key}={value} is not supported: {reason}")
    if config.backend.xnnpack.extended_ops and not config.backend.xnnpack.enabled:
        raise ConfigError("backend.xnnpack.extended_ops=True has no effect without backend.xnnpack.enabled=true")
    name, checkpoint = config.base.model_class, config.base.checkpoint
    if name not in _FAMILIES:
        raise ConfigError(f"base.model_class={name} is not supported; these are: {', '.join(_FAMILIES)}")
    if config.base.params is not None and checkpoint is None:
        raise ConfigError("base.params has no effect without base.checkpoint")
    output = config.export.output_name
    if output is not None and not output.endswith(".pte"):
        output += ".pte"
    elif output is None and config.export.output_dir != ".":
        output = f"{name}.pte"
    return Plan(
        checkpoint=checkpoint,
        repository=REPOSITORIES.get(name),
        params=config.base.params,
        # The default "llama3" does not restrict the family, because users also keep this default for other models.
        family=_FAMILIES[name] if name != "llama3" else None,
        tokenizer=config.base.tokenizer_path,
        output=None if output is None else Path(config.export.output_dir) / output,
        needs_tied=config.model.use_shared_embedding,
        quantized=_quantized(config),
        is_verbose=config.debug.verbose,
        options=ExportOptions(
            context=config.export.max_context_length,
            chunk=config.export.max_seq_length,
            precision=_precision(config),
            backends=[name for name in config.backend.enabled if f"backend.{name}.enabled" in ACTING],
            windows=_windows(config),
            sinks=_sinks_and_window(config)[0],
            constants=_constants(config.base.metadata),
        ),
    )


def _changed(section: BaseModel, default: BaseModel, prefix: str = "") -> list[tuple[str, Any]]:
    """Return (full name, value) of each setting that differs from its default."""
    changed: list[tuple[str, Any]] = []
    for name in type(section).model_fields:
        value, usual = getattr(section, name), getattr(default, name)
        if isinstance(value, BaseModel) and isinstance(usual, BaseModel):
            changed += _changed(value, usual, f"{prefix}{name}.")
        elif value != usual:
            changed.append((prefix + name, value))
    return changed


def _sinks_and_window(config: LlmConfig) -> tuple[int, int]:
    """Parse `model.use_attention_sink`, "SINKS,WINDOW": a token sees the first SINKS and the last WINDOW positions."""
    text = config.model.use_attention_sink
    if text is None:
        return 0, 0
    sinks, window = (int(part) for part in text.split(","))
    if window == 0:
        raise ConfigError(f"model.use_attention_sink={text} has a window of no positions")
    return sinks, window


def _windows(config: LlmConfig) -> Sequence[int]:
    window = _sinks_and_window(config)[1]
    if window and config.model.local_global_attention:
        raise ConfigError("model.use_attention_sink and model.local_global_attention exclude each other")
    return (window,) if window else config.model.local_global_attention or ()


def _quantized(config: LlmConfig) -> QuantizedPlan | None:
    """Return the quantized checkpoint that `base.preq_mode` and related settings require; None without `preq_mode`."""
    base, settings = config.base, config.quantization
    is_spinquant = settings.use_spin_quant is not None
    if base.preq_mode is None:
        for key, is_set in {
            "quantization.use_spin_quant": is_spinquant,
            "quantization.use_qat": settings.use_qat,
            "base.use_lora": base.use_lora,
        }.items():
            if is_set:
                raise ConfigError(f"{key} needs base.preq_mode: it describes a checkpoint that is quantized already")
        return None
    if is_spinquant == settings.use_qat:
        raise ConfigError("base.preq_mode needs either quantization.use_spin_quant or quantization.use_qat")
    if base.use_lora and is_spinquant:
        raise ConfigError("base.use_lora and quantization.use_spin_quant exclude each other")
    for key in ("qmode", "embedding_quantize"):
        if getattr(settings, key) is not None:
            raise ConfigError(f"quantization.{key} and base.preq_mode exclude each other: the checkpoint has its bits")
    if base.preq_embedding_quantize != "8,0":
        raise ConfigError(
            f"base.preq_embedding_quantize={base.preq_embedding_quantize} is not supported: tables have 8 bits; use 8,0"
        )
    output: Literal[4, 8] = 4 if base.preq_mode == "8da4w" else 8
    precision = Precision(4, 8, output, base.preq_group_size)
    return QuantizedPlan("spinquant" if is_spinquant else "qat", precision, base.use_lora)


def _precision(config: LlmConfig) -> Precision:
    settings = config.quantization
    linear = None if settings.qmode is None else _linear_bits(settings.qmode)
    if linear is None and settings.group_size is not None:
        raise ConfigError("quantization.group_size has no effect without quantization.qmode")
    embedding, group = None, None
    if settings.embedding_quantize is not None:
        bits, group = (int(part) for part in settings.embedding_quantize.removeprefix("torchao:").split(","))
        embedding = _bits("quantization.embedding_quantize", settings.embedding_quantize, bits)
    # Groups of fewer than 32 inputs per scale save no bytes, because the packed format stores a scale per 32 inputs.
    linear_group = GROUP if settings.group_size is None else settings.group_size
    cache: Literal[8, 32] = 8 if config.model.quantize_kv_cache else 32
    return Precision(
        linear=linear, embedding=embedding, output=linear, group=linear_group, embedding_group=group, cache=cache
    )


def _linear_bits(mode: str) -> Literal[4, 8]:
    match = re.fullmatch(r"(?:torchao:)?8da(\d)w", mode)
    if match is None:
        advice = "use 8da4w" if "4" in mode else "use 8da8w"
        raise ConfigError(
            f"quantization.qmode={mode} is not supported: inputs are rounded to 8 bits, and scales need no samples; "
            f"{advice}"
        )
    return _bits("quantization.qmode", mode, int(match[1]))


def _bits(key: str, value: str, bits: int) -> Literal[4, 8]:
    if bits not in (4, 8):
        raise ConfigError(f"{key}={value} is not supported: weights have 4 or 8 bits")
    return cast("Literal[4, 8]", bits)


def _constants(metadata: str | None) -> Mapping[str, Any]:
    """Parse `base.metadata`, JSON with the values of constant methods of the `.pte`, such as `get_eos_ids`."""
    constants: dict[str, Any] = {} if metadata is None else json.loads(metadata)
    for name, value in constants.items():
        values = value if isinstance(value, list) else [value]
        if not name.isidentifier() or not values or not all(isinstance(item, int | float | str) for item in values):
            raise ConfigError(f"base.metadata: {name} is no name of a method, or its value is no number, text or list")
    if not all(isinstance(item, int) for item in _listed(constants.get("get_eos_ids", []))):
        raise ConfigError("base.metadata: get_eos_ids holds something else than ids of tokens")
    return constants


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
