"""The package as a whole: its public names, its imports, and the files of its wheel."""

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import files, version

import pytest

import edgecore

TORCH_FREE = ["edgecore", "edgecore.format", "edgecore.plugin", "edgecore.plugin.registry", "edgecore.runtime"]


def submodules():
    return {module.name for module in pkgutil.iter_modules(edgecore.__path__)}


def test_no_public_name_is_also_a_submodule():
    assert not submodules() & set(edgecore.__all__)


def test_every_public_name_survives_the_import_of_every_submodule():
    for module in pkgutil.walk_packages(edgecore.__path__, "edgecore."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in edgecore.__all__:
        assert callable(getattr(edgecore, name)), name


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
