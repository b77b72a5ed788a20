"""Names for ExecuTorch scripts: compile spec, partitioner and quantizer with the documented arguments and methods."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.targets import DEFAULT_CONFIG
from edgecore_tosa.executorch import SpecPartitioner, SpecQuantizer, TosaCompileSpec


class EthosUCompileSpec(TosaCompileSpec[EthosUOptions]):
    """Configuration of the compilation for one NPU.

    Args:
        target: NPU and its number of multiply-accumulate units, such as `ethos-u55-128`.
        system_config: System configuration in Vela's configuration file; None for the target's usual one.
        memory_mode: Memory mode in Vela's configuration file; None for the target's usual one.
        extra_flags: More flags of Vela.
        config_ini: Vela's configuration file: one of its own, or a path.

    Raises:
        ValueError: There is no such target, system configuration, memory mode or flag. The message lists the choices.
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
    """Tags the calls that an NPU supports."""

    backend_id = EthosUCompiler.backend_id


class EthosUQuantizer(SpecQuantizer):
    """Annotates an exported model for an NPU."""
