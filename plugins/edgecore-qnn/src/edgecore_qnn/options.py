"""Options of `Backend("qnn", ...)`. The README's table and error messages are generated from these fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edgecore.plugin import CompileSpec
from edgecore.sdk import Names
from edgecore_qnn.operators import TABLE
from edgecore_qnn.provider.socs import SOCS, Soc

SPEC_KEY = "qnn_options"
"""Key of the compile spec that holds the options as JSON."""

PERFORMANCE_KEY = "performance_mode"
"""Key of the compile spec that the delegate reads; without it, the NPU runs at its default clocks."""
PERFORMANCE_MODES = (
    "default", "burst", "balanced", "high_performance", "sustained_high_performance", "power_saver", "low_power_saver",
    "high_power_saver", "low_balanced",
)  # fmt: skip
"""The allowed performance modes: all modes of ONNX Runtime's QNN provider except `extreme_power_saver`."""

_PARTITIONING = {"operators", "min_operators", "skip_node_id_set", "skip_node_op_set"}

_CANNOT = {
    "online_prepare": "ONNX Runtime's QNN provider writes compiled context binaries only; compile for the SoC here",
    "use_multi_contexts": "each delegate has one context; ONNX Runtime's QNN provider splits no graph",
    "use_weight_sharing": "QNN's emulator in onnxruntime-qnn 2.7.0 crashes when it loads a context of several graphs",
    "hvx_threads": "ONNX Runtime's QNN provider has no such option; the NPU uses all its HVX threads",
    "use_dlbc": "ONNX Runtime's QNN provider has no such option",
    "use_slc_allocator": "ONNX Runtime's QNN provider has no such option",
    "shared_buffer": "the delegate passes the memory of its arguments to ONNX Runtime",
    "op_package_options": "operator packages need Qualcomm's SDK, and this package has none",
}
"""Options in ExecuTorch's documentation that cannot be set, with the reason."""


class QnnOptions(BaseModel):
    """Options of the QNN backend. Options that ExecuTorch documents have the same meaning here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    soc_model: str = Field(default="SM8650", description="SoC, such as `SM8750`.")
    performance_mode: str = Field(
        default="default", description="Clocks of the NPU while the model runs, such as `burst`."
    )
    vtcm_mb: int = Field(default=0, ge=0, description="MB of the NPU's fast memory (VTCM) for the graph; 0: all of it.")
    optimization_level: int = Field(
        default=0, ge=0, le=3, description="0 to 3: a higher level takes longer to compile, for a faster graph."
    )
    dump_intermediate_artifacts_to: str | None = Field(
        default=None,
        description="Folder for ONNX model, QNN's graph and log.",
    )
    profile_level: Literal["off", "basic", "detailed"] = Field(
        default="off", description="Times of compiling, in the report and that folder."
    )
    use_fp16: bool = Field(
        default=True, description="Delegate operators that are not quantized; they compute with fp16."
    )
    skip_node_id_set: Names = Field(default=(), description="Names of nodes of the graph that are not delegated.")
    skip_node_op_set: Names = Field(
        default=(), description="Operators that are not delegated, such as `add` or `aten.add.Tensor`."
    )
    timeout: float = Field(default=600, gt=0, description="Seconds that the provider may take for a graph.")
    operators: Names = Field(
        default=(), description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all."
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )

    @model_validator(mode="before")
    @classmethod
    def _possible(cls, values: Any) -> Any:
        for name, reason in _CANNOT.items():
            if values.get(name):
                raise ValueError(f"{name}: {reason}")
        return {name: value for name, value in values.items() if name not in _CANNOT}

    @field_validator("soc_model")
    @classmethod
    def _known_soc(cls, name: str) -> str:
        if name.upper() not in SOCS:
            raise ValueError(f"{name!r} is no SoC: there are {', '.join(SOCS)}")
        return name.upper()

    @field_validator("performance_mode")
    @classmethod
    def _known_mode(cls, name: str) -> str:
        if name not in PERFORMANCE_MODES:
            raise ValueError(f"{name!r} is no performance mode: there are {', '.join(PERFORMANCE_MODES)}")
        return name

    @field_validator("operators", "skip_node_op_set")
    @classmethod
    def _known_operators(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))

    @property
    def soc(self) -> Soc:
        """The description of the SoC that the option `soc_model` names."""
        return SOCS[self.soc_model]

    def provider_options(self) -> dict[str, str]:
        """Return the provider's options that affect compilation, except the SoC."""
        options = {}
        if self.vtcm_mb:
            options["vtcm_mb"] = str(self.vtcm_mb)
        if self.optimization_level:
            options["htp_graph_finalization_optimization_mode"] = str(self.optimization_level)
        return options

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs that `preprocess` receives and the file stores."""
        stored = self.model_dump_json(exclude_defaults=True, exclude=_PARTITIONING)
        specs = [CompileSpec(SPEC_KEY, stored.encode())]
        if self.performance_mode != "default":
            specs.append(CompileSpec(PERFORMANCE_KEY, self.performance_mode.encode()))
        return specs

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> QnnOptions:
        """Return the options that `to_specs` wrote into compile specs."""
        return cls.model_validate_json(next(spec.value for spec in specs if spec.key == SPEC_KEY))
