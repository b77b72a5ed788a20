"""Operators of a user's namespace: kept whole, called by the name of their out-variant, checked against kernel packages."""

import sys
import textwrap

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
def add_package(tmp_path, monkeypatch):
    """add_package(distribution, keys) installs a package with kernels of the namespace `edgecore_tests`."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def add(distribution, keys, source=""):
        module = distribution.replace("-", "_")
        modules.append(module)
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[edgecore.kernels]\nedgecore_tests = {module}\n")
        (tmp_path / f"{module}.py").write_text(
            source
            or textwrap.dedent(f"""
            from edgecore.plugin import KernelInfo, hookimpl

            @hookimpl
            def edgecore_kernels():
                return [KernelInfo(namespace="edgecore_tests", operators={keys!r}, native_library=lambda: "/lib.so")]
        """)
        )

    yield add
    for module in modules:
        sys.modules.pop(module, None)


def compiled(**options):
    return edgecore.compile(Custom().eval(), (X,), runtime="edgecore", **options)


def test_the_kernels_of_a_package_are_called_by_name(add_package):
    add_package("demo-kernels", KEYS)
    pte = compiled().pte
    (plan,) = pte.program.execution_plan
    assert [operator.key for operator in plan.operators] == ["aten::relu.out", *KEYS, "aten::sub.out"]
    _, scale, minmax_call, _ = (instruction.instr_args for instruction in plan.chains[0].instructions)
    kinds = [type(plan.values[index].val).__name__ for index in scale.args]
    assert kinds == ["Tensor", "Double", "IntList", "Tensor", "Tensor"]
    kinds = [type(plan.values[index].val).__name__ for index in minmax_call.args]
    assert kinds == ["Tensor", "Bool", "Tensor", "Tensor", "TensorList"]
    assert fmt.verify(pte, "edgecore") == []


def test_without_a_package_the_error_says_what_to_install():
    with pytest.raises(
        CompileError, match=r"edgecore_tests::scale.out has no kernel: install the package .* an entry point"
    ):
        compiled()


def test_a_package_without_this_kernel(add_package):
    add_package("demo-kernels", KEYS[:1])
    with pytest.raises(CompileError, match="minmax.out has no kernel: demo-kernels has kernels of the namespace"):
        compiled()


def test_two_packages_with_one_kernel_are_both_named(add_package):
    add_package("demo-kernels", KEYS)
    add_package("other-kernels", KEYS[1:])
    with pytest.raises(CompileError, match="minmax.out has a kernel in each of demo-kernels and other-kernels"):
        compiled()


def test_a_broken_package_is_named(add_package):
    add_package("demo-kernels", KEYS, "import nowhere_to_be_found")
    with pytest.raises(CompileError, match=r"kernel package demo-kernels 1\.2 is broken: ModuleNotFoundError"):
        compiled()


def test_the_stock_profile_has_no_operators_of_users():
    with pytest.raises(CompileError, match=r'operator of your own, which .*; compile with runtime="edgecore"'):
        edgecore.compile(Custom().eval(), (X,))
