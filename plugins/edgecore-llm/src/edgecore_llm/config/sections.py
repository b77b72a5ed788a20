"""The sections of `LlmConfig`. Names and defaults are those that ExecuTorch documents for `export_llm`."""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A section of settings; a key that the section does not define is an error."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


def _json_text(value: Any) -> Any:
    """Convert an object to JSON text; check that a text is a JSON object; other values pass unchanged."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError as error:
            raise ValueError(f"this is no JSON text: {error}") from error
        if not isinstance(parsed, dict):
            raise ValueError("this is no JSON object")
    return value


def _two_numbers(value: Any) -> Any:
    """Check that a value is the text "A,B" with two integers; YAML may have parsed this text as a list."""
    text = ",".join(map(str, value)) if isinstance(value, list) else value
    if text is not None and not re.fullmatch(r"\d+,\d+", str(text)):
        raise ValueError("this is no pair of whole numbers, such as 4,124")
    return text


def _preq_mode(value: Any) -> Any:
    """Replace the name of ExecuTorch's enumerator, such as `preq_8da4w`, by the mode's value; keep other values."""
    return {"preq_8da4w": "8da4w", "preq_8da4w_out_8da8w": "8da4w_output_8da8w"}.get(value, value)


def _matching(pattern: str, meaning: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is not None and not re.fullmatch(pattern, str(value)):
            raise ValueError(f"this is none of {meaning}")
        return value

    return BeforeValidator(check)


Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
Embedding = Annotated[
    str, _matching(r"(2|4|8),\d+|torchao:[1-8],\d+", '"BITS,GROUP" with 2, 4 or 8 bits, "torchao:BITS,GROUP"')
]
QMode = Annotated[
    str,
    _matching(
        r"int8|8da4w|8da8w|8da4w-gptq|4w|torchao:(8da|fpa)[1-8]w",
        "int8, 8da4w, 8da8w, 8da4w-gptq, 4w, torchao:8daBITSw, torchao:fpaBITSw",
    ),
]
ModelClass = Literal[
    "stories110m", "llama2", "llama3", "llama3_1", "llama3_2", "llama3_2_vision", "static_llama", "qwen2_5_0_5b",
    "qwen2_5_1_5b", "qwen2_5_coder_32b", "qwen3_0_6b", "qwen3_1_7b", "qwen3_4b", "qwen3_5_0_8b", "qwen3_5_2b",
    "qwen3_5_4b",
    "phi_4_mini", "smollm2", "lfm2_350m", "lfm2_700m", "lfm2_1_2b", "lfm2_5_350m", "lfm2_5_1_2b",
]  # fmt: skip
Pt2eQuantize = Literal[
    "xnnpack_dynamic", "xnnpack_dynamic_qc4", "openvino_4wo", "openvino_8wo", "qnn_8a8w", "qnn_16a16w", "qnn_16a4w",
    "coreml_c4w", "coreml_8a_c8w", "coreml_8a_c4w", "coreml_baseline_8a_c8w", "coreml_baseline_8a_c4w", "vulkan_8w",
    "tosa_8a8w", "ethosu_8a8w", "ethosu_16a8w", "vgf_8a8w", "vgf_16a8w",
]  # fmt: skip


class LoraConfig(Section):
    """A LoRA adapter."""

    adapter_checkpoint: str
    adapter_config: str | None = None
    lora_rank: NotNegative = 0
    lora_alpha: NotNegative = 0
    target_modules: list[str] = []
    adapter_quant: str | None = None


class BaseConfig(Section):
    """The model and its files."""

    model_class: ModelClass = "llama3"
    params: str | None = None
    checkpoint: str | None = None
    lora_config: LoraConfig | None = None
    tokenizer_path: str | None = None
    metadata: Annotated[str | None, BeforeValidator(_json_text)] = None
    use_lora: NotNegative = 0
    preq_mode: Annotated[Literal["8da4w", "8da4w_output_8da8w"] | None, BeforeValidator(_preq_mode)] = None
    preq_group_size: Positive = 32
    preq_embedding_quantize: Embedding = "8,0"


class ModelConfig(Section):
    """Options that change the decoder: dtype, attention, cache, vocabulary."""

    dtype_override: Literal["fp32", "fp16", "bf16"] = "fp32"
    enable_dynamic_shape: bool = True
    use_shared_embedding: bool = False
    use_sdpa_with_kv_cache: bool = False
    expand_rope_table: bool = False
    use_attention_sink: Annotated[str | None, BeforeValidator(_two_numbers)] = None
    output_prune_map: str | None = None
    input_prune_map: str | None = None
    use_kv_cache: bool = False
    quantize_kv_cache: bool = False
    static_quantize_kv_cache: bool = False
    static_quantize_kv_cache_scale: float = 1 / 127
    local_global_attention: list[NotNegative] | None = None
    use_moe_quantized_op: bool = False

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        if (self.quantize_kv_cache or self.static_quantize_kv_cache) and not self.use_kv_cache:
            raise ValueError("a quantized cache needs use_kv_cache")
        if self.static_quantize_kv_cache:
            others = ("quantize_kv_cache", "enable_dynamic_shape", "local_global_attention", "use_attention_sink")
            for other in others:
                if getattr(self, other):
                    raise ValueError(f"static_quantize_kv_cache and {other} exclude each other")
            if not 0 < self.static_quantize_kv_cache_scale < math.inf:
                raise ValueError("static_quantize_kv_cache_scale is not positive and finite")
        return self


class ExportConfig(Section):
    """Sequence lengths of the exported model, and the name and folder of the output file."""

    max_seq_length: Positive = 128
    max_context_length: Positive = 128
    output_dir: str = "."
    output_name: str | None = None
    so_library: str | None = None
    export_only: bool = False
    foundation_weights_file: str | None = None
    lora_weights_file: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ExportConfig:
        if self.max_context_length < self.max_seq_length:
            raise ValueError(
                f"max_context_length {self.max_context_length} is below max_seq_length {self.max_seq_length}"
            )
        return self


class DebugConfig(Section):
    """Reports and traces that ExecuTorch's export writes beside the `.pte`."""

    profile_memory: bool = False
    profile_path: str | None = None
    generate_etrecord: bool = False
    generate_full_logits: bool = False
    verbose: bool = False


class MethodConfig(Section):
    """One of several methods."""

    method_name: str
    lora_config: LoraConfig | None = None
    export_seq_len: Positive | None = None


class MultimethodConfig(Section):
    """A file with several methods."""

    methods: list[MethodConfig] = []
    share_mutable_buffers: bool = False


class QuantizationConfig(Section):
    """The quantization of weights."""

    qmode: QMode | None = None
    embedding_quantize: Embedding | None = None
    pt2e_quantize: Pt2eQuantize | None = None
    group_size: NotNegative | None = None
    use_spin_quant: Literal["cuda", "native"] | None = None
    use_qat: bool = False
    quantize_scope: Literal["full", "linear"] = "full"
    calibration_tasks: list[str] | None = None
    calibration_limit: Positive | None = None
    calibration_seq_length: Positive | None = None
    calibration_data: str = "Once upon a time"
    use_hqq: bool = True
