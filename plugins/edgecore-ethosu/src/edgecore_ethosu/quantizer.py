"""The quantizer for Ethos-U, with ExecuTorch's interface. The configurations are those of `edgecore_tosa.quantizer`."""

from __future__ import annotations

from edgecore_ethosu.compile_spec import EthosUCompileSpec
from edgecore_tosa.quantizer import (
    TosaQuantizer,
    get_symmetric_a8w4_quantization_config,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)

__all__ = [
    "EthosUQuantizer",
    "get_symmetric_a8w4_quantization_config",
    "get_symmetric_a16w8_quantization_config",
    "get_symmetric_quantization_config",
]


class EthosUQuantizer(TosaQuantizer):
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`.

    Args:
        compile_spec: The configuration of the compilation.
    """

    def __init__(self, compile_spec: EthosUCompileSpec) -> None:
        super().__init__()
        self.compile_spec = compile_spec
