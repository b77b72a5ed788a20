"""Options of `Backend("vgf", ...)`. Their fields are the source of the README's table and of error messages."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from edgecore.plugin import CompileSpec
from edgecore.sdk import Names
from edgecore_tosa.operators import table_of
from edgecore_tosa.spec import TosaSpec

DEFAULT_SPEC = "TOSA-1.0+INT+FP+int16+int4"
OUTPUT_FORMAT = "vgf"

_FLAGS_OF_PACKAGE = ("-i", "--input", "-o", "--output")
_FLAGS_WITHOUT_VGF = (
    "-h",
    "--help",
    "-v",
    "--version",
    "--tosa-flatbuffer",
    "--tosa-flatbuffer-schema",
    "--experimental-analysis",
)


class VgfOptions(BaseModel):
    """Options of the VGF backend, named like the arguments of ExecuTorch's `VgfCompileSpec`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tosa_spec: str = Field(
        default=DEFAULT_SPEC,
        description="TOSA's profiles, such as `TOSA-1.0+FP`, `TOSA-1.0+INT+int16`.",
    )
    compiler_flags: Names = Field(
        default=(), description="Flags of Arm's converter: `--emit-debug-info`, `--type-narrowing=full`."
    )
    dump_intermediate_artifacts_to: str | None = Field(
        default=None, description="Folder for TOSA graphs, VGF files, the converter's output."
    )
    operators: Names = Field(
        default=(), description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all."
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )

    @field_validator("tosa_spec")
    @classmethod
    def _known_spec(cls, text: str) -> str:
        spec = TosaSpec.parse(text)
        if spec.is_u55:
            raise ValueError(f"{text!r}: u55 is for Ethos-U55, whose backend is edgecore-ethosu")
        return str(spec)

    @field_validator("compiler_flags")
    @classmethod
    def _possible_flags(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        words = tuple(word for flag in flags for word in flag.split())
        for word in words:
            name = word.partition("=")[0]
            if name in _FLAGS_OF_PACKAGE:
                raise ValueError(f"compiler_flags: edgecore-vgf sets {name} itself")
            if name in _FLAGS_WITHOUT_VGF:
                raise ValueError(f"compiler_flags: with {name} the converter writes no VGF file")
        return words

    @field_validator("operators")
    @classmethod
    def _known_operators(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(table_of(TosaSpec.parse(info.data.get("tosa_spec", DEFAULT_SPEC))).check_names(names))

    @property
    def spec(self) -> TosaSpec:
        """The TOSA specification (profiles and extensions) that the user chose."""
        return TosaSpec.parse(self.tosa_spec)

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs (key, bytes) with the options, with ExecuTorch's keys; the `.pte` stores them."""
        specs = {"tosa_spec": self.tosa_spec}
        if self.compiler_flags:
            specs["compile_flags"] = " ".join(self.compiler_flags)
        specs["output_format"] = OUTPUT_FORMAT
        if self.dump_intermediate_artifacts_to is not None:
            specs["debug_artifact_path"] = self.dump_intermediate_artifacts_to
        return [CompileSpec(key, value.encode()) for key, value in specs.items()]

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> VgfOptions:
        """Return the options that `to_specs` wrote into compile specs."""
        values = {spec.key: spec.value.decode() for spec in specs}
        return cls(
            tosa_spec=values["tosa_spec"],
            compiler_flags=tuple(values.get("compile_flags", "").split()),
            dump_intermediate_artifacts_to=values.get("debug_artifact_path"),
        )
