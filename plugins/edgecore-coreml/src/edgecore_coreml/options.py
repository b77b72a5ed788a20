"""Options of `Backend("coreml", ...)`. Their fields are the source of the README's table and of error messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from edgecore.plugin import CompileSpec
from edgecore.sdk import Names
from edgecore_coreml.operators import TABLE

TARGETS = {"iOS15": 6, "iOS16": 7, "iOS17": 8, "iOS18": 9, "iOS26": 10}
"""Maps a deployment target to its version of Core ML's specification. macOS 12 to 15 and 26 have the same versions as
iOS 15 to 18 and 26."""

COMPUTE_UNITS, PRECISION, TARGET, MODEL_TYPE, SHARING = (
    "compute_units", "model_compute_precision", "min_deployment_target", "model_type",
    "multimethod_weight_sharing_strategy",
)  # fmt: skip
OTHERS = "coreml_options"
"""Keys of the compile specs: ExecuTorch's, and `coreml_options` for the other options as JSON."""

_STATE_TARGET = "iOS18"
FUNCTIONS_TARGET = "iOS18"
"""The first system that supports models with several functions."""


def _name(value: Any) -> Any:
    """Return the name of a coremltools enumerator: `coremltools.target.iOS18` becomes "iOS18". Keep a string."""
    return getattr(value, "name", value)


def _shapes(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


class CoreMLOptions(BaseModel):
    """Options of the Core ML backend, with ExecuTorch's names and values as far as they exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    compute_unit: Annotated[Literal["ALL", "CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE"], BeforeValidator(_name)] = Field(
        default="ALL", description="Processors that Core ML may use."
    )
    minimum_deployment_target: Annotated[
        Literal["iOS15", "iOS16", "iOS17", "iOS18", "iOS26"] | None, BeforeValidator(_name)
    ] = Field(default=None, description="Oldest system.")
    compute_precision: Annotated[Literal["FLOAT16", "FLOAT32"] | None, BeforeValidator(_name)] = Field(
        default=None, description="Precision; the model's by default."
    )
    model_type: Annotated[Literal["MODEL", "COMPILED_MODEL"], BeforeValidator(_name)] = Field(
        default="MODEL",
        description="Who compiles it: the device, or Xcode on a Mac.",
        json_schema_extra={"compiles_elsewhere": ["COMPILED_MODEL"]},
    )
    multimethod_weight_sharing_strategy: Annotated[Literal["POSITIONAL", "DISABLED"] | None, BeforeValidator(_name)] = (
        Field(default=None, description="One model for methods.")
    )
    take_over_mutable_buffer: bool = Field(
        default=True, description="Keep mutable buffers as states of Core ML, which need iOS 18."
    )
    take_over_constant_data: bool = Field(
        default=True, description="Store weights in the model; otherwise they are inputs of it."
    )
    lower_full_graph: bool = Field(
        default=False, description="Delegate all operators or none; with `required=True`, all or an error."
    )
    skip_ops_for_coreml_delegation: Names = Field(
        default=(), description="Do not delegate these operators, such as `add`."
    )
    enumerated_shapes: Annotated[dict[str, list[list[int]]] | None, BeforeValidator(_shapes)] = Field(
        default=None, description="Input -> shapes; needs `lower_full_graph`."
    )
    dump_intermediate_artifacts_to: str | None = Field(
        default=None, description="Folder for model packages and coremltools' output."
    )
    operators: Names = Field(
        default=(), description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all."
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )

    @field_validator("operators", "skip_ops_for_coreml_delegation")
    @classmethod
    def _known_operators(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = {name.lower(): name for row in TABLE.rows.values() for name in row.names}
        return tuple(TABLE.check_names([known.get(name.lower(), name) for name in names]))

    @model_validator(mode="after")
    def _consistent(self) -> CoreMLOptions:
        if self.lower_full_graph and self.skip_ops_for_coreml_delegation:
            raise ValueError("lower_full_graph=True allows no skip_ops_for_coreml_delegation")
        if self.lower_full_graph and not self.take_over_constant_data:
            raise ValueError("lower_full_graph=True needs take_over_constant_data=True: the model then has all weights")
        is_older = self.minimum_deployment_target not in (None, _STATE_TARGET, "iOS26")
        if self.multimethod_weight_sharing_strategy == "POSITIONAL" and is_older:
            raise ValueError("multimethod_weight_sharing_strategy='POSITIONAL' needs minimum_deployment_target='iOS18'")
        if self.enumerated_shapes is None:
            return self
        if not self.lower_full_graph:
            raise ValueError("enumerated_shapes need lower_full_graph=True")
        counts = {len(shapes) for shapes in self.enumerated_shapes.values()}
        if len(counts) != 1 or 0 in counts:
            raise ValueError("enumerated_shapes must have the same number of shapes for each input, at least one")
        if len(self.enumerated_shapes) > 1 and is_older:
            raise ValueError("enumerated_shapes of several inputs need minimum_deployment_target='iOS18'")
        return self

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs (key, bytes) with the options, which `preprocess` receives and the `.pte` stores."""
        version = TARGETS.get(self.minimum_deployment_target or "", "")
        named = {"compute_unit", "minimum_deployment_target", "compute_precision", "model_type", SHARING}
        others = self.model_dump_json(exclude_defaults=True, exclude=named | {"operators", "min_operators"})
        texts = {
            COMPUTE_UNITS: self.compute_unit.lower(),
            MODEL_TYPE: self.model_type.lower(),
            TARGET: str(version),
            PRECISION: (self.compute_precision or "").lower(),
            SHARING: (self.multimethod_weight_sharing_strategy or "").lower(),
            OTHERS: others if others != "{}" else "",
        }
        return [CompileSpec(key, text.encode()) for key, text in texts.items() if text]

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> CoreMLOptions:
        """Return the options that `to_specs` wrote into compile specs."""
        return cls.model_validate(cls.values_of_specs(specs))

    @staticmethod
    def values_of_specs(specs: Sequence[CompileSpec]) -> dict[str, Any]:
        """Return the values of the options in compile specs; several specs `coreml_options` (JSON) are merged."""
        texts = {spec.key: spec.value.decode() for spec in specs}
        names = {str(version): name for name, version in TARGETS.items()}
        values = {
            "compute_unit": texts.get(COMPUTE_UNITS, "all").upper(),
            "model_type": texts.get(MODEL_TYPE, "model").upper(),
            "minimum_deployment_target": names.get(texts.get(TARGET, "")),
            "compute_precision": texts.get(PRECISION, "").upper() or None,
            SHARING: texts.get(SHARING, "").upper() or None,
        }
        for spec in specs:
            values |= json.loads(spec.value) if spec.key == OTHERS else {}
        return values
