"""The quantizer of edgecore-tosa and its configurations, under the names that Ethos-U users import."""

from edgecore_tosa.quantizer import (
    TosaQuantizer,
    get_symmetric_a8w4_quantization_config,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)

__all__ = [
    "TosaQuantizer",
    "get_symmetric_a8w4_quantization_config",
    "get_symmetric_a16w8_quantization_config",
    "get_symmetric_quantization_config",
]
