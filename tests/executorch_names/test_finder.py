"""The finder of ExecuTorch's names: what it gives, what it says about missing names, and what it leaves alone."""

import subprocess
import sys

import pytest

NAMES = """
import edgecore.executorch
edgecore.executorch.install()
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)


def test_importing_the_package_knows_no_executorch():
    finished = python(
        "import sys; before = set(sys.modules), list(sys.meta_path)\n"
        "import edgecore.executorch\n"
        "new = {name for name in set(sys.modules) - before[0] if name.startswith(('executorch', 'torch', 'numpy'))}\n"
        "print(new, sys.meta_path == before[1])"
    )
    assert finished.stdout == "set() True\n", finished.stderr


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "from executorch.exir import to_edg",
            "no counterpart of executorch.exir.to_edg: the nearest is executorch.exir",
        ),
        ("from executorch.exir import CaptureConfig", "programs come from torch.export; the nearest is"),
        ("import executorch.exir.captured", "no counterpart of executorch.exir.captured: the nearest is"),
        ("import executorch.examples.models", "the nearest is the command `edgecore compile`"),
        ("from executorch.backends.nowhere import A", "the nearest are the backends that `edgecore backends` lists"),
    ],
)
def test_a_name_without_counterpart_is_one_sentence(statement, words):
    finished = python(f"{NAMES}{statement}")
    (line,) = [line for line in finished.stderr.splitlines() if line.startswith("ImportError: ")]
    assert words in line and line.count("edgecore has no counterpart of") == 1


def test_modules_are_reached_as_attributes_and_list_their_names():
    finished = python(
        f"{NAMES}from executorch import exir\nimport executorch\n"
        "print(executorch.exir is exir, 'to_edge' in dir(exir) or 'to_edge' in exir.__all__)\n"
        "print(exir.backend.compile_spec_schema.CompileSpec.__module__, hasattr(exir, '__wrapped__'))\n"
        "try:\n    exir()\nexcept TypeError as error:\n    print(error)"
    )
    assert finished.stdout.splitlines() == [
        "True True", "edgecore.plugin.api False", "the module executorch.exir is no function",
    ], finished.stderr  # fmt: skip


def test_installing_after_executorch_itself_is_refused():
    finished = python(
        "import sys, types; sys.modules['executorch'] = types.ModuleType('executorch')\n"
        "import edgecore.executorch\n"
        "try:\n    edgecore.executorch.install()\nexcept ImportError as error:\n    print(error)"
    )
    assert finished.stdout == "executorch is imported already; call edgecore.executorch.install() before that\n"


def test_a_module_is_run_by_its_name(tmp_path):
    (tmp_path / "tool.py").write_text(
        "import sys, executorch.exir.backend.compile_spec_schema as s\nprint(sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "edgecore.executorch", "-m", "tool", "x"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert finished.stdout == "['x']\n", finished.stderr
