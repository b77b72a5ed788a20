"""`edgecore/torch_kernel.hpp`: the kernel of the runtime as an operator of PyTorch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from embedding import ROOT

INCLUDE = ROOT / "runtime_cpp" / "include"
SOURCE = """
#include "edgecore/torch_kernel.hpp"
namespace kernel = edgecore::kernel;
void multiply_add(kernel::Context &context, kernel::Tensor a, kernel::Tensor b, double scale, kernel::Tensor out) {
  if (!a.is<float>() || a.shape() != b.shape()) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "a and b must be float32 tensors of one shape");
  }
  if (!context.resize(out, a.shape())) return;
  float *scratch = static_cast<float *>(context.scratch(4 * static_cast<uint64_t>(a.count())));
  context.parallel_for(a.count(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) scratch[i] = a.data<float>()[i] * b.data<float>()[i] * float(scale);
  });
  for (int64_t i = 0; i < a.count(); ++i) out.data<float>()[i] = scratch[i] + a.data<float>()[i];
}
void total(kernel::Context &, kernel::TensorList tensors, edgecore::Span<const int64_t> ints, std::optional<bool> flag,
           edgecore::StringView text, kernel::Tensor out) {
  double sum = double(text.size()) + (flag.value_or(false) ? 100 : 0);
  for (size_t i = 0; i < tensors.size(); ++i) sum += double(tensors[i].data<float>()[0]);
  for (int64_t value : ints) sum += double(value);
  out.data<float>()[0] = float(sum);
}
#define OUT "(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)"
#define TOTAL "(Tensor[] tensors, SymInt[] ints, bool? flag, str text, *, Tensor(a!) out) -> Tensor(a!)"
EDGECORE_TORCH_LIBRARY(torch_kernel_test, "multiply_add.out" OUT, multiply_add);
EDGECORE_TORCH_FUNCTIONAL(torch_kernel_test, "multiply_add(Tensor a, Tensor b, float scale) -> Tensor", multiply_add);
EDGECORE_TORCH_LIBRARY(torch_kernel_test, "total.out" TOTAL, total);
"""


def flags() -> list[str]:
    from torch.utils import cpp_extension

    isystem = [flag for path in cpp_extension.include_paths() for flag in ("-isystem", path)]
    return [*isystem, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{INCLUDE}", "-std=c++20"]


def compiler() -> str:
    return os.environ.get("CXX", "c++")


@pytest.mark.full
def test_a_kernel_is_an_operator_of_torch(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    libraries = Path(torch.__file__).parent / "lib"
    library = tmp_path / "libkernel.so"
    command = [compiler(), *flags(), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", tmp_path / "kernel.cpp"]
    done = subprocess.run(
        [*command, "-o", library, f"-L{libraries}", "-ltorch_cpu", "-lc10"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:3000]
    torch.ops.load_library(library)
    ops = torch.ops.torch_kernel_test
    a, b = torch.randn(3, 40), torch.randn(3, 40)
    torch.testing.assert_close(ops.multiply_add(a, b, 0.5), a * b * 0.5 + a)
    out = torch.empty(0)
    assert ops.multiply_add.out(a, b, 2.0, out=out) is out
    torch.testing.assert_close(out, a * b * 2 + a)
    ones = [torch.ones(1), torch.ones(1)]
    assert ops.total.out(ones, [3, 4], True, "four", out=torch.empty(1)).item() == 113
    with pytest.raises(RuntimeError, match="a and b must be float32 tensors of one shape"):
        ops.multiply_add(a.double(), b, 0.5)


def test_the_compiler_refuses_a_schema_that_does_not_fit(tmp_path: Path) -> None:
    source = """
#include "edgecore/kernel.hpp"
void relu(edgecore::kernel::Context &, edgecore::kernel::Tensor, edgecore::kernel::Tensor) {}
EDGECORE_LIBRARY(my_ops, "relu.out(Tensor x, float slope, *, Tensor(a!) out) -> Tensor(a!)", relu);
"""
    (tmp_path / "kernel.cpp").write_text(source)
    command = [compiler(), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", tmp_path / "kernel.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "the parameters of relu do not fit the schema relu.out" in done.stderr
