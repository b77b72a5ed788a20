"""ExecuTorch's names for the operators and precisions that `XnnpackPartitioner` delegates."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class ConfigPrecisionType(Enum):
    """The precision of the operators to delegate, for `XnnpackPartitioner(config_precisions=...)`."""

    FP32 = 1
    STATIC_QUANT = 2
    DYNAMIC_QUANT = 3


class OperatorConfig:
    """The base class of the configurations in `CONFIGS`, which `XnnpackPartitioner(configs=...)` takes.

    Attributes:
        operators: Names of the operators as in the option `configs`.
    """

    operators: ClassVar[tuple[str, ...]] = ()


_OPERATORS = {
    "Abs": "abs", "Add": "add", "Addmm": "addmm", "AvgPooling": "avg_pool2d", "BMM": "bmm",
    "BatchNorm": "_native_batch_norm_legit_no_training", "Cat": "cat", "Ceil": "ceil", "Clamp": "clamp",
    "Clone": "clone", "ConstantPad": "constant_pad_nd", "Convolution": "convolution", "Cos": "cos", "Div": "div",
    "Exp": "exp", "Floor": "floor", "Gelu": "gelu", "Hardswish": "hardswish", "Hardtanh": "hardtanh",
    "LeakyReLU": "leaky_relu", "Linear": "linear", "Log": "log", "MM": "mm", "MaxDim": "max",
    "MaxPool2d": "max_pool2d max_pool2d_with_indices", "Maximum": "maximum", "MeanDim": "mean", "Minimum": "minimum",
    "Mul": "mul", "Neg": "neg", "Permute": "permute_copy t_copy transpose_copy", "Pow": "pow",
    "Prelu": "prelu _prelu_kernel", "ReLU": "relu", "ReciprocalSquareRoot": "rsqrt", "Sigmoid": "sigmoid", "Sin": "sin",
    "SliceCopy": "slice_copy", "Softmax": "softmax _softmax", "SquareRoot": "sqrt", "Sub": "sub", "Tanh": "tanh",
    "UnsqueezeCopy": "unsqueeze_copy", "UpsampleBilinear2d": "upsample_bilinear2d", "ViewCopy": "view_copy",
}  # fmt: skip

CONFIGS: dict[str, type[OperatorConfig]] = {
    f"{name}Config": type(f"{name}Config", (OperatorConfig,), {"operators": tuple(operators.split())})
    for name, operators in _OPERATORS.items()
}
"""The configurations by their names, such as `LinearConfig`."""

ALL_PARTITIONER_CONFIGS = list(CONFIGS.values())


def __getattr__(name: str) -> type[OperatorConfig]:
    """Return the configuration class with this name, such as `LinearConfig`."""
    if name not in CONFIGS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; there are {', '.join(CONFIGS)}")
    return CONFIGS[name]
