"""The section `backend` of `LlmConfig` (the settings of an export), with a section for each backend."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgecore_llm.config.sections import NotNegative, Positive, Section


class BackendSection(Section):
    """Settings of a backend, which an export uses if `enabled` is true."""

    enabled: bool = False


class XnnpackConfig(BackendSection):
    """Settings of the XNNPACK backend."""

    extended_ops: bool = False
    enable_bf16: bool = False


class CoreMLConfig(BackendSection):
    """Settings of the Core ML backend."""

    enable_state: bool = False
    preserve_sdpa: bool = False
    quantize: Literal["b4w", "c4w"] | None = None
    ios: Annotated[int, Field(ge=15, le=18)] = 15
    compute_units: Literal["cpu_only", "cpu_and_gpu", "cpu_and_ne", "all"] = "cpu_only"


class VulkanConfig(BackendSection):
    """Settings of the Vulkan backend."""

    force_fp16: bool = False


class QnnConfig(BackendSection):
    """Settings of the QNN backend."""

    use_sha: bool = False
    soc_model: str = "SM8650"
    use_qnn_sha: bool = False
    optimized_rotation_path: str | None = None
    num_sharding: NotNegative = 0


class OpenvinoConfig(BackendSection):
    """Settings of the OpenVINO backend."""

    device: str = "CPU"
    nncf_compression_group_size: Positive = 32
    openvino_awq: bool = False
    openvino_scale_estimation: bool = False


class TorchaoConfig(Section):
    """Selects kernels of torchao."""

    use_torchao_kernels_linear: bool = False
    use_torchao_kernels_tied_embedding: bool = False


class TosaConfig(BackendSection):
    """Settings of the TOSA backend."""

    version: str = "TOSA-1.0+INT"


class EthosUConfig(BackendSection):
    """Settings of the Ethos-U backend."""

    target: str = "ethos-u85-128"
    memory_mode: str = "default"
    system_config: str = "default"
    extra_flags: list[str] = Field(default_factory=list)


class VgfConfig(BackendSection):
    """Settings of the VGF backend."""

    compile_spec: str | None = "TOSA-1.0+INT"
    compiler_flags: list[str] = Field(default_factory=list)
    quantize_scope: Literal["full", "linear"] = "full"


class BackendConfig(Section):
    """The backends."""

    xnnpack: XnnpackConfig = XnnpackConfig()
    coreml: CoreMLConfig = CoreMLConfig()
    vulkan: VulkanConfig = VulkanConfig()
    qnn: QnnConfig = QnnConfig()
    mps: BackendSection = BackendSection()
    openvino: OpenvinoConfig = OpenvinoConfig()
    torchao: TorchaoConfig = TorchaoConfig()
    tosa: TosaConfig = TosaConfig()
    ethosu: EthosUConfig = EthosUConfig()
    vgf: VgfConfig = VgfConfig()
    mlx: BackendSection = BackendSection()

    @property
    def enabled(self) -> list[str]:
        """The names of the enabled backends."""
        return [name for name in type(self).model_fields if getattr(getattr(self, name), "enabled", False)]
