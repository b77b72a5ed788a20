"""Translate the flags of ExecuTorch's older command `export_llama` to settings of `LlmConfig`."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

import yaml

from edgecore_llm.config.llm_config import LlmConfig, validate
from edgecore_llm.errors import ConfigError

_VALUES = {
    "base.model_class": "--model",
    "base.params": "-p --params",
    "base.checkpoint": "-c --checkpoint",
    "base.lora_config.adapter_checkpoint": "--adapter_checkpoint",
    "base.lora_config.adapter_config": "--adapter_config",
    "base.tokenizer_path": "-t --tokenizer_path",
    "base.metadata": "-m --metadata",
    "base.use_lora": "-lora --use_lora",
    "base.preq_mode": "--preq_mode",
    "base.preq_group_size": "--preq_group_size",
    "base.preq_embedding_quantize": "--preq_embedding_quantize",
    "model.dtype_override": "-d --dtype-override",
    "model.use_attention_sink": "--use_attention_sink",
    "model.output_prune_map": "--output_prune_map",
    "model.input_prune_map": "--input_prune_map",
    "model.static_quantize_kv_cache_scale": "--static_quantize_kv_cache_scale",
    "export.max_seq_length": "--max_seq_length",
    "export.max_context_length": "--max_context_length",
    "export.output_dir": "-o --output-dir",
    "export.output_name": "-n --output_name",
    "export.so_library": "-s --so_library",
    "debug.profile_path": "-prof --profile_path",
    "quantization.qmode": "-qmode --quantization_mode",
    "quantization.embedding_quantize": "-E --embedding-quantize",
    "quantization.pt2e_quantize": "--pt2e_quantize",
    "quantization.group_size": "-G --group_size",
    "quantization.use_spin_quant": "-sq --use_spin_quant",
    "quantization.calibration_limit": "--calibration_limit",
    "quantization.calibration_seq_length": "--calibration_seq_length",
    "quantization.calibration_data": "--calibration_data",
    "backend.coreml.quantize": "--coreml-quantize",
    "backend.coreml.ios": "--coreml-ios",
    "backend.coreml.compute_units": "--coreml-compute-units",
    "backend.qnn.soc_model": "--soc_model",
    "backend.qnn.optimized_rotation_path": "--optimized_rotation_path",
    "backend.qnn.num_sharding": "--num_sharding",
    "backend.openvino.device": "--openvino_device",
    "backend.vgf.compile_spec": "--vgf-compile-spec",
    "backend.vgf.quantize_scope": "--vgf-quantize-scope",
}
"""Settings with a value, and the flags that set them."""
_SWITCHES = {
    "model.use_shared_embedding": "--use_shared_embedding",
    "model.use_kv_cache": "-kv --use_kv_cache",
    "model.quantize_kv_cache": "--quantize_kv_cache",
    "model.static_quantize_kv_cache": "--static_quantize_kv_cache",
    "model.use_sdpa_with_kv_cache": "--use_sdpa_with_kv_cache",
    "model.expand_rope_table": "--expand_rope_table",
    "model.use_moe_quantized_op": "--use_moe_quantized_op",
    "export.export_only": "--export_only",
    "debug.profile_memory": "--profile_memory",
    "debug.generate_etrecord": "--generate_etrecord",
    "debug.generate_full_logits": "--generate_full_logits",
    "debug.verbose": "-v --verbose",
    "quantization.use_qat": "-qat --use_qat",
    "backend.xnnpack.enabled": "-X --xnnpack",
    "backend.xnnpack.extended_ops": "--xnnpack-extended-ops",
    "backend.xnnpack.enable_bf16": "--xnnpack-enable-bf16",
    "backend.torchao.use_torchao_kernels_tied_embedding": "--use-torchao-kernels-tied-embedding",
    "backend.torchao.use_torchao_kernels_linear": "--use-torchao-kernels-linear",
    "backend.vulkan.enabled": "-V --vulkan",
    "backend.vulkan.force_fp16": "--vulkan-force-fp16",
    "backend.vgf.enabled": "--vgf --arm-vgf",
    "backend.coreml.enabled": "--coreml",
    "backend.coreml.enable_state": "--coreml-enable-state",
    "backend.coreml.preserve_sdpa": "--coreml-preserve-sdpa",
    "backend.qnn.enabled": "--qnn",
    "backend.qnn.use_sha": "--use_qnn_sha",
    "backend.openvino.enabled": "--openvino",
    "backend.openvino.openvino_awq": "--openvino_awq",
    "backend.openvino.openvino_scale_estimation": "--openvino_scale_estimation",
    "backend.mlx.enabled": "--mlx",
}
"""Settings that a flag without a value turns on."""
_ALSO = {
    "quantization.group_size": "backend.openvino.nncf_compression_group_size",
    "backend.vgf.quantize_scope": "quantization.quantize_scope",
    "backend.mlx.enabled": "model.use_kv_cache",
}
"""Settings whose values are copied to a second setting."""


def config_from_flags(arguments: Sequence[str]) -> LlmConfig:
    """Return the configuration that the flags of ExecuTorch's `export_llama` describe.

    Raises:
        ConfigError: A flag does not exist, or a value is not allowed for its setting.
    """
    parser = _Parser(argument_default=argparse.SUPPRESS, add_help=False, allow_abbrev=False)
    for key, flags in _VALUES.items():
        parser.add_argument(*flags.split(), dest=key)
    for key, flags in _SWITCHES.items():
        parser.add_argument(*flags.split(), dest=key, action="store_true")
    parser.add_argument("--disable_dynamic_shape", dest="model.enable_dynamic_shape", action="store_false")
    parser.add_argument("--use-torchao-kernels", dest="torchao", action="store_true")
    parser.add_argument("--calibration_tasks", dest="quantization.calibration_tasks", nargs="+")
    parser.add_argument("--local_global_attention", dest="model.local_global_attention", type=yaml.safe_load)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [flag for action in parser._actions for flag in action.option_strings]
        close = difflib.get_close_matches(unknown[0], known, 1)
        raise ConfigError(f"there is no flag {unknown[0]}" + (f"; did you mean {close[0]}?" if close else ""))
    settings: dict[str, Any] = vars(parsed)
    if settings.pop("torchao", False):
        settings |= {key: True for key in _SWITCHES if key.startswith("backend.torchao.")}
    for key, other in _ALSO.items():
        if settings.get(key, "0") != "0":  # `-G 0` (no weight groups) does not set OpenVINO's group size
            settings[other] = settings[key]
    if "base.lora_config.adapter_checkpoint" in settings and "base.lora_config.adapter_config" not in settings:
        raise ConfigError("--adapter_checkpoint needs --adapter_config")
    return validate(_nested(settings))


def _nested(settings: dict[str, Any]) -> dict[str, Any]:
    """Turn keys with dots into nested sections: {"a.b": 1} -> {"a": {"b": 1}}."""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        *sections, name = key.split(".")
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return values


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigError` for wrong arguments instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)
