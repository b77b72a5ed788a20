"""Decompositions that torch lacks, on the samples of PyTorch's operator database; ATen's own operators are the judge."""

from itertools import islice

import pytest
import torch
from core_operators import MODELS, assert_equal
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

import edgecore
from edgecore import format as fmt
from edgecore.errors import ExecutionError
from edgecore.passes.decompose import decompose  # noqa: F401  (registers all decompositions)
from edgecore.passes.decompose.decompositions.various import _TABLE

aten = torch.ops.aten

SAMPLED = {
    "nn.functional.adaptive_max_pool1d": aten.adaptive_max_pool2d.default,
    "nn.functional.adaptive_max_pool2d": aten.adaptive_max_pool2d.default,
    "nn.functional.adaptive_max_pool3d": aten.adaptive_max_pool3d.default,
    "nn.functional.avg_pool3d": aten.avg_pool3d.default,
    "nn.functional.max_pool3d": aten.max_pool3d_with_indices.default,
    "nn.functional.embedding_bag": aten._embedding_bag_forward_only.default,
    "median": aten.median.dim,
    "nanmedian": aten.nanmedian.dim,
    "kthvalue": aten.kthvalue.default,
    "mode": aten.mode.default,
    "sort": aten.sort.stable,
    "nn.functional.fold": aten.col2im.default,
    "cummax": aten.cummax.default,
    "cummin": aten.cummin.default,
    "cumprod": aten.cumprod.default,
    "logcumsumexp": aten.logcumsumexp.default,
    "scatter_reduce": aten.scatter_reduce.two,
    "index_reduce": aten.index_reduce.default,
    "scatter": aten.scatter.reduce,
    "round": aten.round.decimals,
    "copysign": aten.copysign.Tensor,
    "signbit": aten.signbit.default,
    "fmax": aten.fmax.default,
    "fmin": aten.fmin.default,
    "hypot": aten.hypot.default,
    "addmv": aten.addmv.default,
    "dist": aten.dist.default,
}
PLACES_OF_EQUALS = {
    aten.median.dim, aten.nanmedian.dim, aten.kthvalue.default, aten.mode.default, aten.sort.stable,
}  # fmt: skip
"""Operators of which torch does not say which place of equal elements they return."""


def tensors(results):
    return [item for item in torch.utils._pytree.tree_leaves(results) if isinstance(item, torch.Tensor)]


ROUNDED_AT_EACH_STEP = {aten.logcumsumexp.default, aten.index_reduce.default}
"""Operators that eager computes in float16 throughout: its results differ from exact ones by some roundings."""


class Compared(TorchDispatchMode):
    """Repeats each call of one operator, and of others that are decomposed, by its decomposition."""

    def __init__(self):
        super().__init__()
        self.called = set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        want = operator(*args, **kwargs)
        if operator not in SAMPLED.values():
            return want
        got = _TABLE[operator][0](*args, **kwargs)
        expected, actual = tensors(want), tensors(got)
        if operator is aten._embedding_bag_forward_only.default:
            expected, actual = expected[:1], actual[:1]
        elif operator in PLACES_OF_EQUALS and not kwargs.get("stable"):
            expected, actual = expected[:1], actual[:1]
        for one, other in zip(actual, expected, strict=True):
            rounded = operator in ROUNDED_AT_EACH_STEP and other.dtype == torch.float16
            tolerance = {"rtol": 4e-3, "atol": 1e-3} if rounded else {}
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance)
        self.called.add(operator)
        return want


def compare_samples(name, dtype, count):
    entries = [entry for entry in op_db if entry.name == name and entry.supports_dtype(dtype, "cpu")]
    if not entries:
        pytest.skip("torch does not support the dtype")
    with torch.no_grad(), Compared() as compared:
        for entry in entries:
            for sample in islice(entry.sample_inputs("cpu", dtype), count):
                entry.op(sample.input, *sample.args, **sample.kwargs)
    return compared.called


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_of_the_operator_database_equal_eager(name):
    assert SAMPLED[name] in compare_samples(name, torch.float32, 8)


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.bool], ids=str)
def test_all_samples_of_the_operator_database_equal_eager(name, dtype):
    compare_samples(name, dtype, None)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_core_operators_equals_eager(name):
    model, inputs = MODELS[name]
    loaded = edgecore.load(edgecore.compile(model, inputs, runtime=fmt.EDGECORE).buffer)
    assert_equal(loaded.forward(*inputs), model(*inputs))


@pytest.mark.parametrize("runtime, whole", [(fmt.EDGECORE, True), (fmt.EXECUTORCH_1_5, False)])
def test_only_a_runtime_with_a_kernel_gets_scatter_reduce_whole(runtime, whole):
    model, inputs = MODELS["scattered amax"]
    (plan,) = edgecore.compile(model, inputs, runtime=runtime).pte.program.execution_plan
    assert ("aten::scatter_reduce.two_out" in [operator.key for operator in plan.operators]) == whole


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_a_reduction_refuses_an_index_out_of_range(reduce, include_self):
    class Scatters(torch.nn.Module):
        def forward(self, x, index):
            return torch.zeros(2, 3).scatter_reduce(1, index, x, reduce, include_self=include_self)

    x, index = torch.randn(2, 4), torch.tensor([[0, 2, 2, 0], [1, 1, 2, 1]])
    loaded = edgecore.load(edgecore.compile(Scatters().eval(), (x, index)).buffer)
    assert_equal(loaded.forward(x, index), Scatters()(x, index))
    for number in (3, -1):
        with pytest.raises(ExecutionError):
            loaded.forward(x, torch.full_like(index, number))


@pytest.mark.parametrize(
    "pool, shape",
    [(torch.nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 7, 5)), (torch.nn.AdaptiveMaxPool3d(2), (2, 3, 5, 4, 3))],
)
def test_pooling_to_a_size_takes_batches_of_any_size(pool, shape):
    x = torch.randn(shape)
    program = edgecore.compile(pool.eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n", max=4)},))
    loaded = edgecore.load(program.buffer)
    for batch in (x, x[:1], torch.cat([x, x])):
        assert_equal(loaded.forward(batch), pool(batch))
