"""Options of `Backend("ethosu", ...)`. Their fields are the source of the README's table and of error messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from edgecore.plugin import CompileSpec
from edgecore.sdk import Names
from edgecore_ethosu.vela.flags import parse_flags, split_flags
from edgecore_ethosu.vela.targets import (
    DEFAULT_CONFIG,
    TARGETS,
    config_path,
    configuration,
    default_memory_mode,
    default_system_config,
    tosa_spec,
)
from edgecore_tosa.operators import table_of
from edgecore_tosa.spec import TosaSpec

SPEC_KEY = "ethosu_options"
"""Key of the compile spec that holds the options as JSON. ExecuTorch has the other compile spec, `target`, too."""


class EthosUOptions(BaseModel):
    """Options of the Ethos-U backend, named like the arguments of ExecuTorch's `EthosUCompileSpec`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(
        default="ethos-u55-128", description="NPU and its number of multiply-accumulate units, such as `ethos-u85-256`."
    )
    system_config: str | None = Field(
        default=None,
        description="`[System_Config.NAME]` of the configuration file; by default by target.",
    )
    memory_mode: str | None = Field(
        default=None,
        description="`[Memory_Mode.NAME]` of the configuration file; by default by target.",
    )
    extra_flags: Names = Field(
        default=(), description="Flags of Vela, such as `--optimise=Size`, `--arena-cache-size=2097152`."
    )
    config_ini: str = Field(default=DEFAULT_CONFIG, description="Vela's configuration file: one of its own, or a path.")
    include_tosa: bool = Field(
        default=True,
        description="Store the TOSA graph, which runs on this machine; no device needs it.",
        json_schema_extra={"device_only": [False]},
    )
    dump_intermediate_artifacts_to: str | None = Field(
        default=None, description="Folder for TOSA graphs, blobs, cycles, Vela's output."
    )
    operators: Names = Field(
        default=(), description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all."
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )

    @field_validator("target")
    @classmethod
    def _known_target(cls, target: str) -> str:
        if target.lower() not in TARGETS:
            raise ValueError(f"{target!r} is no target: there are {', '.join(TARGETS)}")
        return target.lower()

    @field_validator("extra_flags")
    @classmethod
    def _valid_flags(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        parse_flags(words := split_flags(flags))
        return words

    @field_validator("operators")
    @classmethod
    def _known_operators(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(table_of(tosa_spec(info.data.get("target", TARGETS[0]))).check_names(names))

    @model_validator(mode="after")
    def _valid_configuration(self) -> EthosUOptions:
        path = config_path(self.config_ini)
        if path is not None:  # do not check without Vela: `compile_tosa` reports that Vela is missing
            configuration(self.target, self.system, self.mode, path)
        return self

    @property
    def spec(self) -> TosaSpec:
        """The TOSA profile and extensions that Vela supports for the target."""
        return tosa_spec(self.target)

    @property
    def system(self) -> str:
        """The system configuration that the user chose, or the target's default."""
        return self.system_config or default_system_config(self.target)

    @property
    def mode(self) -> str:
        """The memory mode that the user chose, or the target's default."""
        return self.memory_mode or default_memory_mode(self.target)

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs (key, bytes) with the options, which `preprocess` receives and the `.pte` stores."""
        stored = self.model_dump_json(exclude_defaults=True, exclude={"target", "operators", "min_operators"})
        return [CompileSpec("target", self.target.encode()), CompileSpec(SPEC_KEY, stored.encode())]

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> EthosUOptions:
        """Return the options that `to_specs` wrote into compile specs."""
        values = {spec.key: spec.value.decode() for spec in specs}
        return cls.model_validate({"target": values["target"], **json.loads(values.get(SPEC_KEY, "{}"))})
