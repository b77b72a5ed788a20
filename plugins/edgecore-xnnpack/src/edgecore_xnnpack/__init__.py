"""The XNNPACK backend: fast inference on Arm and x86 CPUs.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor pathlib.
"""

from __future__ import annotations

from edgecore.plugin import BackendInfo, hookimpl, own_library

_CONFIGURED = (
    "Abs Add Addmm AvgPooling BMM BatchNorm Cat Ceil Clamp Clone ConstantPad Convolution Cos Div Exp Floor Gelu "
    "Hardswish Hardtanh LeakyReLU Linear Log MM MaxDim MaxPool2d Maximum MeanDim Minimum Mul Neg Permute Pow "
    "Prelu ReLU ReciprocalSquareRoot Sigmoid Sin SliceCopy Softmax SquareRoot Sub Tanh UnsqueezeCopy "
    "UpsampleBilinear2d ViewCopy "
)
"""The operators for which `partition_config` has a configuration."""

executorch_modules = {
    "executorch.backends.xnnpack.partition.xnnpack_partitioner": {
        "XnnpackPartitioner": "edgecore_xnnpack.partitioner:XnnpackPartitioner",
        "XnnpackDynamicallyQuantizedPartitioner": "edgecore_xnnpack.executorch_names:XnnpackDynamicallyQuantizedPartitioner",
        "XnnpackFloatingPointPartitioner": "edgecore_xnnpack.executorch_names:XnnpackFloatingPointPartitioner",
    },
    "executorch.backends.xnnpack.partition.config": {
        name: f"edgecore_xnnpack.partition_config:{name}"
        for name in (
            "ALL_PARTITIONER_CONFIGS",
            *(f"{operator}Config" for operator in _CONFIGURED.split()),
        )
    },
    "executorch.backends.xnnpack.partition.config.xnnpack_config": {
        "ConfigPrecisionType": "edgecore_xnnpack.partition_config:ConfigPrecisionType",
    },
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer": {
        "XNNPACKQuantizer": "edgecore_xnnpack.executorch_quantizer:XNNPACKQuantizer",
        "get_symmetric_quantization_config": "edgecore_xnnpack.quantizer:get_symmetric_quantization_config",
    },
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils": {
        "QuantizationConfig": "edgecore_xnnpack.quantizer:QuantizationConfig",
    },
    "executorch.backends.xnnpack.recipes": {
        name: f"edgecore_xnnpack.executorch_recipes:{name}" for name in ("XNNPACKRecipeProvider", "XNNPackRecipeType")
    },
    "executorch.backends.transforms.duplicate_dynamic_quant_chain": {
        "DuplicateDynamicQuantChainPass": "edgecore.executorch.exir.passes:DuplicateDynamicQuantChainPass",
    },
    "executorch.backends.xnnpack.utils.configs": {
        "get_xnnpack_edge_compile_config": "edgecore_xnnpack.executorch_names:get_xnnpack_edge_compile_config",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_xnnpack")


def self_test() -> list[tuple[str, bool, str]]:
    """Compare the kernels that XNNPACK selects on this processor with a reference; see `try_kernels`."""
    from edgecore_xnnpack.try_kernels import try_kernels

    return try_kernels(native_library())


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Describe the backend of this package to edgecore."""
    return [
        BackendInfo(
            name="xnnpack",
            backend_id="XnnpackBackend",
            summary="CPU: Arm and x86",
            compiler="edgecore_xnnpack.compiler:XnnpackCompiler",
            native_library=native_library,
            self_test=self_test,
        )
    ]
