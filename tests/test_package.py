"""The package as a whole: its public names, its imports, and the files of its wheel."""

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, files, requires, version
from pathlib import PurePosixPath

import pytest
import torch

import edgecore

TORCH_FREE = ["edgecore", "edgecore.format", "edgecore.plugin", "edgecore.plugin.registry", "edgecore.runtime"]


def submodules():
    return {module.name for module in pkgutil.iter_modules(edgecore.__path__)}


def test_no_public_name_is_also_a_submodule():
    assert not submodules() & set(edgecore.__all__)


def test_every_public_name_survives_the_import_of_every_submodule():
    for module in pkgutil.walk_packages(edgecore.__path__, "edgecore."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ModuleNotFoundError as error:
                assert error.name == "ray", module.name  # of the extra `ray`
    for name in edgecore.__all__:
        assert callable(getattr(edgecore, name)), name


@pytest.mark.parametrize("package", ["conformance", "devtools", "pipeline", "plugin", "runtime", "sdk", "sweeps"])
def test_every_public_name_of_a_package_can_be_imported(package):
    module = import_module(f"edgecore.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None, name


@pytest.mark.parametrize("module", TORCH_FREE)
def test_modules_that_load_files_import_no_torch(module):
    code = f"import sys, {module}; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        edgecore.nonesuch


def test_import_edgecore_alone_reaches_errors_version_and_a_full_dir():
    code = """
import sys, edgecore
print(edgecore.__version__, set(edgecore.__all__) <= set(dir(edgecore)), "errors" in dir(edgecore))
try:
    raise ValueError
except edgecore.errors.EdgecoreError:
    pass
except ValueError:
    print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [version("edgecore"), "True", "True", "False"]


def test_the_wheel_holds_what_runs_and_what_a_cpp_build_needs_but_no_tests():
    names = [path.as_posix() for path in files("edgecore") or () if "templates" not in path.parts]
    assert names
    tops = {name.partition("/")[0] for name in names if not name.startswith("..")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"edgecore"}
    assert "edgecore/native/core/program.cpp" in names
    assert not [name for name in names if re.search(r"(^|[/_])(tests?|fuzzer|benchmarks?|examples?)([/_.]|$)", name)]


RUNTIME_BYTES = 13_000_000
"""The files of edgecore's and edgecore-xnnpack's wheels may take this much; 1.2 MB of it are comments in sources.

Leave room: the same sources took 12.48 MB in one clone and 12.54 MB in another.
"""


def runtime_distributions(*names: str) -> set[str]:
    """The distributions that `pip install` puts beside Python for these, without extras."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for requirement in map(Requirement, requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def test_a_runtime_install_with_xnnpack_is_small_and_lacks_the_command_line():
    try:
        names = runtime_distributions("edgecore", "edgecore-xnnpack")
    except PackageNotFoundError:
        pytest.skip("edgecore-xnnpack is not installed")
    assert not names & {"jinja2", "numpy", "rich", "torch", "typer"}
    parts = [
        path for name in ("edgecore", "edgecore-xnnpack") for path in files(name) or ()
        if path.suffix != ".pyc" and path.locate().exists()
    ]  # fmt: skip
    assert "edgecore/bin/edgecore-run" in [path.as_posix() for path in parts]
    assert sum(path.locate().stat().st_size for path in parts) <= RUNTIME_BYTES


WITHOUT_EXTRA = "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'jinja2']))\n"  # imports of them fail


def without_extra(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRA + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_without_its_extra_names_the_extra_in_one_sentence():
    done = without_extra("from edgecore.cli import main; main()", "--help")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == 'edgecore: the command line needs the package typer: pip install "edgecore[cli]"\n'


def test_a_file_runs_and_is_described_without_the_command_line(tmp_path):
    path = tmp_path / "model.pte"
    edgecore.compile(torch.nn.ReLU().eval(), (torch.randn(2, 3),), backends=[]).save(path)
    code = """
import array, edgecore
from edgecore.devtools import budget, file_diff, graph, profiling
from edgecore.html.page import page
program = edgecore.load(sys.argv[1], trace=True)
values = memoryview(array.array("f", [-1, 2, -3, 4, -5, 6])).cast("B").cast("f", [2, 3])
print(memoryview(program.forward(values)).cast("B").cast("f").tolist())
try:
    page("title", {})
except edgecore.errors.EdgecoreError as error:
    print(error)
"""
    done = without_extra(code, path)
    assert done.stdout.splitlines() == [
        "[0.0, 2.0, 0.0, 4.0, 0.0, 6.0]", 'a page needs the package jinja2: pip install "edgecore[cli]"',
    ], done.stderr  # fmt: skip


LICENCES = {
    "edgecore": ["dagre", "flatbuffers", "libcxx", "nanobind", "robin-map"],
    "edgecore-coreml": [],
    "edgecore-coreml-standin": [],
    "edgecore-ethosu": [],
    "edgecore-llm": [],
    "edgecore-openvino": ["libcxx"],
    "edgecore-qnn": ["flatbuffers"],
    "edgecore-tosa": ["musl", "tosa-reference-model"],
    "edgecore-vgf": ["flatbuffers", "volk", "vulkan-headers", "vulkan-memory-allocator"],
    "edgecore-vulkan": ["flatbuffers", "volk", "vulkan-headers", "vulkan-memory-allocator"],
    "edgecore-xnnpack": ["flatbuffers", "fxdiv", "libcxx", "pthreadpool", "xnnpack"],
}


@pytest.mark.parametrize("name", LICENCES)
def test_a_wheel_names_and_holds_the_licences_of_what_it_contains(name):
    try:
        facts = distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    named = facts.metadata.get_all("License-File")
    assert sorted(PurePosixPath(path).stem for path in named) == ["LICENSE", *LICENCES[name]]
    assert "Apache-2.0" in facts.metadata["License-Expression"]
    held = {path.as_posix().partition(".dist-info/licenses/")[2] for path in facts.files or ()}
    assert set(named) <= held
