"""The example of a custom operator: built against the wheel of edgecore alone, installed, compiled and run."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from embedding import ROOT, shared_folder

COMPILE = """
import sys, torch, edgecore, example_ops.operators
class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.ops.example_ops.multiply_add(a, b, 0.5).relu()
example = (torch.tensor([-1.0, 2.0, 3.0]), torch.ones(3))
edgecore.compile(Model().eval(), example, runtime="edgecore").save(sys.argv[1])
"""
RUN = """
import array, sys, edgecore
values = memoryview(array.array("f", [-1.0, 2.0, 3.0]))
print(edgecore.load(sys.argv[1]).forward(values, memoryview(array.array("f", [1.0, 1.0, 1.0]))).tolist())
assert "torch" not in sys.modules and "example_ops.operators" not in sys.modules
"""


CACHE = """
import sys, torch, edgecore, example_ops.operators
class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 4))
    def forward(self, rows, position):
        first = position.item()
        torch._check(first >= 0)
        torch._check(first + rows.shape[0] <= 8)
        torch.ops.example_ops.append(rows, self.cache, first)
        return self.cache.sum(0)
model = Cache().eval()
compiled = edgecore.compile(model, (torch.ones(2, 4), torch.tensor(0)), runtime="edgecore")
compiled.save(sys.argv[1])
(plan,) = compiled.pte.program.execution_plan
assert plan.non_const_buffer_sizes == [0, 8 * 4 * 4]  # the cache alone, without a copy
names = [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]
assert names == ["aten::_local_scalar_dense", "example_ops::append", "aten::sum"], names
loaded = edgecore.load(sys.argv[1])
for position in (0, 3, 6, 3):
    inputs = torch.randn(2, 4), torch.tensor(position)
    torch.testing.assert_close(loaded.forward(*inputs), model(*inputs))
try:
    loaded.forward(torch.ones(2, 4), torch.tensor(7))
except edgecore.errors.EdgecoreError as error:
    print(error)
"""
CONSTANT = """
import sys, torch, edgecore
from edgecore import format as fmt
pte = fmt.read_pte(open(sys.argv[1], "rb").read())
(plan,) = pte.program.execution_plan
(cache,) = (value.val for value in plan.values if getattr(value.val, "extra_tensor_info", None) is not None)
pte.constants.append(bytes(8 * 4 * 4))
cache.allocation_info = cache.extra_tensor_info = None
cache.data_buffer_idx = len(pte.constants) - 1
loaded = edgecore.load(fmt.write_pte(pte))
try:
    loaded.forward(torch.ones(2, 4), torch.tensor(0))
except edgecore.errors.EdgecoreError as error:
    print(error)
"""


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment with the example, over the packages of this one."""
    if not list((ROOT / "dist").glob("edgecore-*.whl")):
        pytest.skip("dist/ holds no wheel of edgecore: run make install")
    return shared_folder(tmp_path_factory, "custom-op", make_environment) / "venv" / "bin" / "python"


def make_environment(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = run(
        *pip, "wheel", "--no-deps", "--find-links", ROOT / "dist", "-w", folder, ROOT / "examples" / "custom-op"
    )
    assert wheel.returncode == 0, wheel.stderr
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    installed = run(*pip, "--python", python, "install", "--no-deps", "--no-index", *folder.glob("*.whl"))
    assert installed.returncode == 0, installed.stderr
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))


@pytest.fixture(scope="module")
def pte(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.pte"
    done = run(python, "-c", COMPILE, path)
    assert done.returncode == 0, done.stderr
    return path


def test_a_file_with_a_custom_operator_runs_where_its_package_is_installed(python: Path, pte: Path) -> None:
    done = run(python, "-c", RUN, pte)
    assert done.stdout.strip() == "[0.0, 3.0, 4.5]", done.stderr


def test_a_custom_operator_is_named_where_its_package_is_missing(pte: Path) -> None:
    done = run(sys.executable, "-c", RUN, pte)
    assert "example_ops::multiply_add.out" in done.stderr


def test_doctor_lists_the_package_of_a_custom_operator(python: Path) -> None:
    done = run(python, "-m", "edgecore", "doctor")
    assert "example_ops (operators, edgecore-example-ops 0.1.0)" in done.stdout
    header = (ROOT / "runtime_cpp/include/edgecore/abi.h").read_text()
    major, minor = (re.search(rf"EDGECORE_ABI_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
    assert f"2 kernels, interface {major}.{minor}" in done.stdout


def test_two_packages_with_one_kernel_are_both_named(python: Path, pte: Path, tmp_path: Path) -> None:
    packages = tmp_path
    info = packages / "edgecore_another_ops-1.0.dist-info"
    info.mkdir()
    (built,) = python.parents[1].glob("lib/python*/site-packages/example_ops/libexample_ops.so")
    library = built.read_bytes().replace(b"edgecore-example-ops", b"edgecore-another-ops")
    (packages / "libanother.so").write_bytes(library)
    (packages / "another.py").write_text(f"def library():\n    return {str(packages / 'libanother.so')!r}\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgecore-another-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgecore.kernels]\nexample_ops = another:library\n")
    done = run(python, "-c", f"import sys; sys.path.insert(0, {str(packages)!r})\n{RUN}", pte)
    assert "'edgecore-example-ops'" in done.stderr and "'edgecore-another-ops'" in done.stderr


def test_an_operator_writes_the_cache_of_a_model_in_place(python: Path, tmp_path: Path) -> None:
    done = run(python, "-c", CACHE, tmp_path / "cache.pte")
    assert done.returncode == 0, done.stderr
    assert "the cache is full" in done.stdout


def test_a_constant_is_never_passed_to_an_argument_that_is_written(python: Path, tmp_path: Path) -> None:
    assert run(python, "-c", CACHE, tmp_path / "cache.pte").returncode == 0
    done = run(python, "-c", CONSTANT, tmp_path / "cache.pte")
    assert "example_ops::append" in done.stdout and "constant" in done.stdout, done.stdout + done.stderr
