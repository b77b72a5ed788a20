"""Scripts of ExecuTorch's documentation, written anew: each runs unchanged by `python -m edgecore.compat`."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"

PAGES = {
    "backend_dialect": "compiler-backend-dialect",
    "bundled_program": "bundled-io",
    "custom_passes": "compiler-custom-compiler-passes",
    "delegate_debugging": "debug-backend-delegate",
    "delegates_and_partitioners": "compiler-delegate-and-partitioner",
    "export_and_lower": "using-executorch-export",
    "export_recipe": "etrecord",
    "getting_started": "getting-started",
    "memory_planning": "compiler-memory-planning",
    "runtime_python": "runtime-python-api-reference",
    "xnnpack_tutorial": "tutorial-xnnpack-delegate-lowering",
}
"""Script -> the page of the documentation whose calls it makes."""

QUICK = ("backend_dialect", "runtime_python")
"""Scripts that also run in the quick form of the tests: one that lowers, and one that runs a file."""

NOT_RUN = {
    "using-executorch-export: delegate_external_constants_pass_unlifted": "ExecutorchBackendConfig(external_constants=...)"
    " names the weights of a .ptd file, so no pass has to tag them",
    "compiler-backend-dialect: _trace_and_lower_to_edge_ops": "torch's subgraph_rewriter makes nodes without `val`, which "
    "an edge program must have; edgecore.passes.replace_pattern is the nearest",
    "ir-exir: exir_ops.edge.aten.sigmoid.default._schema.arguments[0].allowed_types": "edge operators are torch's own, "
    "whose schemas have no such field; edgecore.sdk.allowed_types(operator) has the dtypes",
    "api-life-cycle: CaptureConfig": "the class was removed from ExecuTorch, which the page shows",
}
"""Samples of these pages that do not run, and why."""


def run(script: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgecore.compat", str(script), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in PAGES]
)
def test_the_script_of_a_page_runs_unchanged(name, tmp_path):
    if "xnnpack" in (SCRIPTS / f"{name}.py").read_text().lower():
        pytest.importorskip("edgecore_xnnpack")
    finished = run(SCRIPTS / f"{name}.py", tmp_path)
    assert finished.returncode == 0, finished.stderr[-3000:]


def test_each_script_belongs_to_a_page():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(PAGES)


def test_a_script_gets_its_own_arguments_and_folder(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    script.write_text(
        "import sys\nfrom beside import VALUE\n"
        "from executorch.exir.backend.compile_spec_schema import CompileSpec\n"
        "assert __name__ == '__main__'\nprint(sys.argv[1:], VALUE, CompileSpec('key', b'1').key)\n"
    )
    finished = run(script, tmp_path.parent, "--flag", "value")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "['--flag', 'value'] 7 key\n"


def test_a_missing_script_and_no_script_are_explained(tmp_path):
    missing = run(tmp_path / "nothing.py", tmp_path)
    assert missing.returncode == 1 and "there is no script" in missing.stderr
    nothing = subprocess.run([sys.executable, "-m", "edgecore.compat"], capture_output=True, text=True)
    assert nothing.returncode == 2 and "usage:" in nothing.stdout
