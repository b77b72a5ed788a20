"""Installed packages with kernels of ATen operators: their kernels come before edgecore's own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from toy_backend import compiled

import edgecore
from edgecore import EdgeCompileConfig
from edgecore.errors import BackendAmbiguous, BackendBroken, CompileError
from edgecore.plugin.diagnosis.doctor import diagnose_kernels

SOURCE = r"""
#include "edgecore/kernel.hpp"
using namespace edgecore::kernel;

// The sum plus 100; with another alpha than 1 it leaves the call to the next kernel.
void add(Context &context, Tensor a, Tensor b, Scalar alpha, Tensor out) {
  if (alpha.to_double() != 1) return context.fail(EDGECORE_NOT_SUPPORTED, "alpha");
  if (!context.resize(out, a.shape())) return;
  for (int64_t i = 0; i < a.count(); ++i) out.data<float>()[i] = a.data<float>()[i] + b.data<float>()[i] + 100;
}

void ones(Context &context, Tensor a, Tensor, Tensor out) {
  if (!context.resize(out, a.shape())) return;
  for (int64_t i = 0; i < a.count(); ++i) out.data<float>()[i] = 1;
}

void one(Context &context, Tensor a, Tensor out) { ones(context, a, a, out); }

EDGECORE_LIBRARY_FOR(aten, "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)", add,
                     for_types<float>());
EDGECORE_LIBRARY_FOR(aten, "mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", ones,
                     for_types<float>());
EDGECORE_LIBRARY_FOR(aten, "hardswish.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", one, for_types<float>());
EDGECORE_KERNELS("PACKAGE", "1.0");
"""


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a + b, torch.add(a, b, alpha=2), a * b


class Difference(torch.nn.Module):
    def forward(self, a, b):
        return a - b


class Sum(torch.nn.Module):
    def forward(self, a, b):
        return a + b


class Product(torch.nn.Module):
    def forward(self, a, b):
        return a * b


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cpp").write_text(SOURCE)
    return compiled(folder / "libkernels.so", folder / "kernels.cpp")


@pytest.fixture
def install(tmp_path, monkeypatch, library):
    """install(name, *declared): a package that declares operators or namespaces, for one test."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def add(name: str, *declared: str, answer: str = repr(str(library))) -> Path:
        names.append(name)
        info = tmp_path / f"{name}-1.0.dist-info"
        (tmp_path / f"{name}.py").write_text(f"def library():\n    return {answer}\n")
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        entries = "".join(f"{key} = {name}:library\n" for key in declared)
        (info / "entry_points.txt").write_text(f"[edgecore.kernels]\n{entries}")
        return tmp_path

    yield add
    for name in names:
        sys.modules.pop(name, None)


def made(model: torch.nn.Module, dtype: torch.dtype = torch.float32) -> bytes:
    inputs = torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)
    return bytes(edgecore.compile(model.eval(), inputs, backends=[]).buffer)


@pytest.fixture(scope="module")
def pte() -> bytes:
    return made(Model())


def run(pte: bytes, dtype: torch.dtype = torch.float32) -> list[list[float]]:
    a, b = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([4, 5, 6], dtype=dtype)
    return [output.tolist() for output in edgecore.load(pte).forward(a, b)]


OWN = [[5, 7, 9], [9, 12, 15], [4, 10, 18]]
REPLACED = [[105, 107, 109], [9, 12, 15], [4, 10, 18]]


def test_the_kernel_of_a_declared_operator_comes_before_edgecores_and_leaves_it_what_it_does_not_support(install, pte):
    assert run(pte) == OWN
    install("fast_add", "aten::add.out")
    assert run(pte) == REPLACED, "the kernel of mul is not declared, and alpha=2 is not supported"
    assert run(pte) == REPLACED


def test_a_call_with_other_dtypes_runs_edgecores_kernel(install):
    integers = made(Model(), torch.int32)
    install("fast_add", "aten::add.out")
    assert run(integers, torch.int32) == OWN


def test_a_package_that_is_removed_has_no_effect_any_more(install, pte, monkeypatch):
    folder = install("fast_add", "aten::add.out")
    assert run(pte) == REPLACED
    (folder / "fast_add-1.0.dist-info").rename(folder / "fast_add-1.0.gone")
    assert run(pte) == OWN


def test_one_package_may_declare_several_operators(install, pte):
    install("fast", "aten::add.out", "aten::mul.out", "aten::relu.out")
    assert run(pte) == [*REPLACED[:2], [1, 1, 1]]


def test_two_packages_for_one_operator_are_an_error_only_for_methods_that_call_it(install):
    inputs = (torch.ones(3), torch.ones(3))
    programs = {"add": torch.export.export(Sum(), inputs), "mul": torch.export.export(Product(), inputs)}
    file = bytes(edgecore.to_edge(programs).to_executorch().buffer)
    install("fast_add", "aten::add.out")
    install("other_add", "aten::add.out")
    program = edgecore.load(file)
    assert program["mul"](*inputs).tolist() == [1, 1, 1]
    with pytest.raises(
        BackendAmbiguous, match=r"aten::add\.out is declared by fast-add 1\.0 and other-add 1\.0; uninst"
    ):
        program["add"](*inputs)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "The library has no kernel of aten::sub.out"),
        ("'/nowhere/libkernels.so'", "/nowhere/libkernels.so"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_package_that_lacks_what_it_declares_is_named(install, library, answer, problem):
    file = made(Difference())
    install("fast", "aten::sub.out", answer=answer or repr(str(library)))
    with pytest.raises(BackendBroken, match=re.escape(problem)) as caught:
        run(file)
    assert "'aten::sub.out' of fast 1.0 cannot be loaded" in str(caught.value)


def test_an_operator_that_edgecore_has_no_kernel_of_compiles_and_runs_where_a_package_declares_it(install):
    def compile_with_hardswish() -> bytes:
        exported = torch.export.export(torch.nn.Hardswish(), (torch.ones(3),))
        whole = EdgeCompileConfig(preserve_ops=[torch.ops.aten.hardswish.default])
        edge = edgecore.to_edge(exported, compile_config=whole)
        return bytes(edge.to_executorch(edgecore.ExecutorchBackendConfig(runtime="edgecore")).buffer)

    with pytest.raises(CompileError, match=r"aten::hardswish\.out"):
        compile_with_hardswish()
    install("hardswish", "aten::hardswish.out")
    output = edgecore.load(compile_with_hardswish()).forward(torch.tensor([-4.0, 3.0, 0.0]))
    assert output.tolist() == [1, 1, 1]


def test_doctor_has_a_row_for_each_declared_operator(install):
    install("fast", "aten::add.out", "aten::sub.out", "aten::mul.out")
    install("other", "aten::mul.out")
    rows = {
        (provider.name, provider.distribution): (finding.ok, finding.detail, finding.remedy)
        for provider, finding in diagnose_kernels()
        if provider.name.startswith("aten::")
    }
    ok, detail, remedy = rows.pop(("aten::add.out", "fast"))
    assert (
        ok and "libkernels.so, its kernel of aten::add.out comes before edgecore's, interface " in detail and not remedy
    )
    ok, detail, _ = rows.pop(("aten::sub.out", "fast"))
    assert not ok and detail.endswith("libkernels.so has no kernel of aten::sub.out, which fast declares")
    both = "the kernel of aten::mul.out is declared by fast 1.0 and other 1.0; uninstall one of them"
    assert rows == {("aten::mul.out", name): (False, both, f"pip uninstall {name}") for name in ("fast", "other")}
