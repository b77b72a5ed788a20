"""ExecuTorch's names for the Ethos-U backend: compile spec, partitioner, quantizer, with ExecuTorch's arguments."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.targets import DEFAULT_CONFIG
from edgecore_tosa.executorch import SpecPartitioner, SpecQuantizer, TosaCompileSpec


class EthosUCompileSpec(TosaCompileSpec[EthosUOptions]):
    """A compile spec: the settings for compiling models for one NPU.

    Args:
        target: NPU and its number of multiply-accumulate units, such as `ethos-u55-128`.
        system_config: System configuration in Vela's configuration file; None for the target's default.
        memory_mode: Memory mode in Vela's configuration file; None for the target's default.
        extra_flags: Additional flags of Vela.
        config_ini: Vela's configuration file: the name of a file in Vela's package, or a path.

    Raises:
        ValueError: A target, system configuration, memory mode or flag does not exist. The message lists the choices.
    """

    output_format = "vela"

    def __init__(
        self,
        target: str,
        system_config: str | None = None,
        memory_mode: str | None = None,
        extra_flags: Sequence[str] | None = None,
        config_ini: str | None = DEFAULT_CONFIG,
    ) -> None:
        values = {
            "target": target,
            "system_config": system_config,
            "memory_mode": memory_mode,
            "extra_flags": tuple(extra_flags or ()),
            "config_ini": config_ini or DEFAULT_CONFIG,
        }
        super().__init__(EthosUOptions, values)


class EthosUPartitioner(SpecPartitioner):
    """The partitioner: it tags the fx nodes that the NPU of its compile spec supports."""

    backend_id = EthosUCompiler.backend_id


class EthosUQuantizer(SpecQuantizer):
    """The quantizer: it annotates an exported model for the NPU of its compile spec."""
