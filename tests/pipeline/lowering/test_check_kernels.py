"""Operators of a user's namespace: kept whole, called by the name of their out-variant, checked against kernel packages."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError

library = torch.library.Library("edgecore_tests", "FRAGMENT")
library.define("scale(Tensor x, float factor, int[] dims=[0]) -> Tensor")
library.define("scale.out(Tensor x, float factor, int[] dims=[0], *, Tensor(a!) out) -> Tensor(a!)")
library.impl("scale", lambda x, factor, dims=(0,): x * factor, "CompositeExplicitAutograd")


@torch.library.custom_op("edgecore_tests::minmax", mutates_args=())
def minmax(x: torch.Tensor, *, keep: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Without an out-variant."""
    return x.amin(0), x.amax(0)


@minmax.register_fake
def _(x, *, keep):
    return torch.empty_like(x[0]), torch.empty_like(x[0])


class Custom(nn.Module):
    def forward(self, x):
        y = torch.ops.edgecore_tests.scale(torch.relu(x), 0.5)
        low, high = torch.ops.edgecore_tests.minmax(y, keep=True)
        return high - low


X = torch.randn(3, 4)
KEYS = ["edgecore_tests::scale.out", "edgecore_tests::minmax.out"]


@pytest.fixture
def kernels(monkeypatch):
    """kernels(keys): an installed package has these; tests/native/test_custom_op.py has a real one."""
    return lambda keys: monkeypatch.setattr(
        "edgecore.pipeline.lowering.check_kernels._installed", lambda namespace: frozenset(keys)
    )


def compiled(**options):
    return edgecore.compile(Custom().eval(), (X,), runtime="edgecore", **options)


def test_kernels_of_a_package_are_called_by_the_names_of_their_out_variants(kernels):
    kernels(KEYS)
    pte = compiled().pte
    (plan,) = pte.program.execution_plan
    assert [operator.key for operator in plan.operators] == ["aten::relu.out", *KEYS, "aten::sub.out"]
    _, scale, minmax_call, _ = (instruction.instr_args for instruction in plan.chains[0].instructions)
    kinds = [type(plan.values[index].val).__name__ for index in scale.args]
    assert kinds == ["Tensor", "Double", "IntList", "Tensor", "Tensor"]
    kinds = [type(plan.values[index].val).__name__ for index in minmax_call.args]
    assert kinds == ["Tensor", "Bool", "Tensor", "Tensor", "TensorList"]
    assert fmt.verify(pte, "edgecore") == []


def test_an_operator_without_a_package_is_an_error_that_says_what_to_install():
    with pytest.raises(
        CompileError, match=r"edgecore_tests::scale.out has no kernel; install the package .* an entry point"
    ):
        compiled()


def test_a_kernel_that_the_package_lacks_is_named(kernels):
    kernels(KEYS[:1])
    with pytest.raises(CompileError, match="minmax.out has no kernel"):
        compiled()


def test_the_target_runtime_executorch_has_no_operators_of_users():
    with pytest.raises(CompileError, match=r'operator of your own, which .*; compile with runtime="edgecore"'):
        edgecore.compile(Custom().eval(), (X,))
