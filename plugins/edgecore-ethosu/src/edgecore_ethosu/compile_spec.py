"""`EthosUCompileSpec` for scripts in ExecuTorch's style: the options of the backend under the documented names."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore.sdk import validate_options
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.targets import DEFAULT_CONFIG


class EthosUCompileSpec:
    """Configuration of the compilation for one NPU.

    Args:
        target: NPU and its number of multiply-accumulate units, such as `ethos-u55-128`.
        system_config: System configuration in Vela's configuration file; None for the target's usual one.
        memory_mode: Memory mode in Vela's configuration file; None for the target's usual one.
        extra_flags: More flags of Vela.
        config_ini: Vela's configuration file: one of its own, or a path.

    Raises:
        ValueError: There is no such target, system configuration, memory mode or flag. The message lists what there is.
    """

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
        self.options = validate_options(EthosUOptions, values)

    def dump_intermediate_artifacts_to(self, output_path: str | None) -> EthosUCompileSpec:
        """Set the folder for TOSA graphs and Vela's output; None for no such files. Return this object."""
        self.options = self.options.model_copy(update={"dump_intermediate_artifacts_to": output_path})
        return self

    def get_intermediate_path(self) -> str | None:
        """Return the folder for TOSA graphs and Vela's output."""
        return self.options.dump_intermediate_artifacts_to

    @staticmethod
    def get_output_format() -> str:
        """Return `vela`, the format of the blobs."""
        return "vela"
