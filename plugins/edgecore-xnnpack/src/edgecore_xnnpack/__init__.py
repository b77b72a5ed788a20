"""The XNNPACK backend: fast inference on Arm and x86 CPUs.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor pathlib.
"""

from __future__ import annotations

from edgecore_xnnpack.backend import edgecore_backends as edgecore_backends
from edgecore_xnnpack.backend import native_library as native_library

_CONFIGURED = (
    "Abs Add Addmm AvgPooling BMM BatchNorm Cat Ceil Clamp Clone ConstantPad Convolution Cos Div Exp Floor Gelu "
    "Hardswish Hardtanh LeakyReLU Linear Log MM MaxDim MaxPool2d Maximum MeanDim Minimum Mul Neg Permute Pow "
    "Prelu ReLU ReciprocalSquareRoot Sigmoid Sin SliceCopy Softmax SquareRoot Sub Tanh UnsqueezeCopy "
    "UpsampleBilinear2d ViewCopy "
)
"""The operators for which `executorch.config` has a configuration."""

executorch_modules = {
    "executorch.backends.xnnpack.partition.xnnpack_partitioner": {
        name: f"edgecore_xnnpack.executorch.partitioner:{name}"
        for name in (
            "XnnpackPartitioner",
            "XnnpackDynamicallyQuantizedPartitioner",
            "XnnpackFloatingPointPartitioner",
        )
    },
    "executorch.backends.xnnpack.partition.config": {
        name: f"edgecore_xnnpack.executorch.config:{name}"
        for name in (
            "ALL_PARTITIONER_CONFIGS",
            *(f"{operator}Config" for operator in _CONFIGURED.split()),
        )
    },
    "executorch.backends.xnnpack.partition.config.xnnpack_config": {
        "ConfigPrecisionType": "edgecore_xnnpack.executorch.config:ConfigPrecisionType",
    },
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer": {
        "XNNPACKQuantizer": "edgecore_xnnpack.executorch.quantizer:XNNPACKQuantizer",
        "get_symmetric_quantization_config": "edgecore_xnnpack.quantizer:get_symmetric_quantization_config",
    },
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils": {
        "QuantizationConfig": "edgecore_xnnpack.quantizer:QuantizationConfig",
    },
    "executorch.backends.xnnpack.recipes": {
        name: f"edgecore_xnnpack.executorch.recipes:{name}" for name in ("XNNPACKRecipeProvider", "XNNPackRecipeType")
    },
    "executorch.backends.transforms.duplicate_dynamic_quant_chain": {
        "DuplicateDynamicQuantChainPass": "edgecore.executorch.exir.passes:DuplicateDynamicQuantChainPass",
    },
    "executorch.backends.xnnpack.utils.configs": {
        "get_xnnpack_edge_compile_config": "edgecore_xnnpack.executorch.partitioner:get_xnnpack_edge_compile_config",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
