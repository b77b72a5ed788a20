"""Every kernel with an ATen overload against eager PyTorch, over the samples of PyTorch's own operator database."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from checker import Catalog, Checker
from native import Library
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = [
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
]
SAMPLES = {torch.float32: 8, torch.int64: 4}  # of an operator and dtype; 1 of the other dtypes

# Entries of the database whose implementation reaches our operators under another name.
ALSO = {
    "__getitem__", "nn.functional.adaptive_avg_pool2d", "nn.functional.avg_pool2d", "nn.functional.batch_norm",
    "nn.functional.bilinear", "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d", "nn.functional.elu", "nn.functional.embedding", "nn.functional.gelu", "nn.functional.dropout",
    "nn.functional.group_norm", "nn.functional.hardtanh", "nn.functional.interpolate", "nn.functional.layer_norm",
    "nn.functional.leaky_relu", "nn.functional.linear", "nn.functional.max_pool2d", "nn.functional.pad",
    "nn.functional.pixel_shuffle", "nn.functional.pixel_unshuffle", "nn.functional.relu", "nn.functional.relu6",
    "nn.functional.upsample_bilinear", "nn.functional.upsample_nearest", "log_softmax", "softmax", "to", "movedim",
    "cdist", "fft.hfft", "fft.irfft", "fft.irfftn", "fft.rfft", "fft.rfftn", "nn.functional.pdist", "matmul", "tile", "true_divide", "max_reduction_with_dim", "reshape", "squeeze_multiple", "split_list_args",
}  # fmt: skip

# Their numbers are not eager's; test_random.py has what they promise.
RANDOM = {"aten::rand.out", "aten::randn.out", "aten::native_dropout.out"}


def relevant(library: Library) -> list[Any]:
    bases = {name.split("::")[1].split(".")[0].strip("_") for name in library.kernels if name.startswith("aten::")}
    bases |= {base.removesuffix("_copy") for base in bases} | {base.removeprefix("native_") for base in bases}
    return [op for op in op_db if op.name in ALSO or op.name.split(".")[-1].strip("_") in bases]


def strided(value: Any) -> Any:
    """The same numbers with the first and last dims swapped in memory, and channels last for four dims."""
    if isinstance(value, (list, tuple)):
        return type(value)(strided(v) for v in value)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dim() < 2:
        return value
    if value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value.transpose(0, -1).contiguous().transpose(0, -1)


def run(op: Any, dtype: torch.dtype, checker: Checker, change: Any) -> None:
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES.get(dtype, 1)):
        first = change(sample.input)
        args = [change(a) for a in sample.args]
        kwargs = {k: change(v) for k, v in sample.kwargs.items()}
        try:
            with checker:
                op.op(first, *args, **kwargs)
        except (RuntimeError, TypeError, NotImplementedError, IndexError):
            continue  # eager itself cannot


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
def test_kernels_agree_with_eager(library: Library, layout: str, record_property: Any) -> None:
    checker = Checker(Catalog(library))
    change = strided if layout == "strided" else (lambda value: value)
    dtypes = [torch.float32, torch.int64] if layout == "strided" else DTYPES
    for op in relevant(library):
        for dtype in dtypes:
            if dtype in op.dtypes:
                run(op, dtype, checker, change)
    unexpected = {name: found for name, found in checker.failed.items() if name not in RANDOM}
    record_property("passed", dict(checker.passed))
    lines = [
        f"{name}: {len(found)} failed, {checker.passed[name]} passed; {found[0]}" for name, found in unexpected.items()
    ]
    print(f"\n{layout}: {len(checker.passed)} kernels, {sum(checker.passed.values())} calls agree")
    untested = sorted(name for name in library.kernels if name.startswith("aten::") and not checker.passed[name])
    print("not reached:", *untested)
    assert not unexpected, "\n".join(lines)
