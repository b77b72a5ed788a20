"""Code blocks of ExecuTorch's documentation, written anew: each runs unchanged by `python -m edgecore.executorch`.

The blocks of a page are one script, in which each starts at a line `# %% TITLE`.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"

PAGES = {
    "backend_dialect": "compiler-backend-dialect",
    "bundled_program": "bundled-io",
    "custom_passes": "compiler-custom-compiler-passes",
    "delegate_debugging": "debug-backend-delegate",
    "delegates_and_partitioners": "compiler-delegate-and-partitioner",
    "etrecord": "etrecord",
    "export_and_lower": "using-executorch-export",
    "export_recipe": "etrecord",
    "getting_started": "getting-started",
    "inspector": "model-inspector",
    "ir_specification": "ir-exir",
    "memory_planning": "compiler-memory-planning",
    "quantization": "quantization-overview",
    "runtime_python": "runtime-python-api-reference",
    "xnnpack_backend": "backends-xnnpack",
    "xnnpack_tutorial": "tutorial-xnnpack-delegate-lowering",
}
"""Script -> the page of the documentation whose calls it makes."""

QUICK = ("backend_dialect", "runtime_python")
"""Scripts that also run in the quick form of the tests: one that lowers, and one that runs a file."""

NOT_RUN = {
    "using-executorch-export: delegate_external_constants_pass_unlifted": "ExecutorchBackendConfig(external_constants=...)"
    " names the weights of a .ptd file, so no pass has to tag them",
    "compiler-backend-dialect: _trace_and_lower_to_edge_ops": "torch's subgraph_rewriter makes nodes without `val`, which "
    "an edge program must have; edgecore.passes.library.replace_pattern is the nearest",
    "ir-exir: exir_ops.edge.aten.sigmoid.default._schema.arguments[0].allowed_types": "edge operators are torch's own, "
    "whose schemas have no such field; edgecore.sdk.allowed_types(operator) has the dtypes",
    "api-life-cycle: CaptureConfig": "the class was removed from ExecuTorch, which the page shows",
    "compiler-custom-compiler-passes: subgraph_rewriter.replace_pattern_with_filters": "torch's subgraph_rewriter makes "
    "nodes without `val`, as above",
    "compiler-custom-compiler-passes: ReplacedPatterns, InternalMatch, SourcePartition": "the blocks quote classes of "
    "torch.fx; the scripts use the functions that return them",
    "compiler-delegate-and-partitioner: executorch.exir.backend.test": "executorch's wheel has no such package either; "
    "the script has a backend and partitioners of its own",
    "compiler-delegate-and-partitioner: partition, preprocess, to_backend": "the blocks are signatures, whose functions "
    "the script defines or calls",
    "model-debugging: Inspector(buffer_path=...)": "executorch 1.5 calls it debug_buffer_path, as the script does",
    "backends-xnnpack: MobileNet_V2_Weights.DEFAULT": "tests download no weights; the script has a network of its own",
}
"""Samples of these pages that do not run, and why."""

MARK = "# %% "
"""The start of the line before each block of a script."""


def blocks(name: str) -> list[str]:
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]


BLOCKS = [(name, title) for name in PAGES for title in blocks(name)]


def run(script: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgecore.executorch", str(script), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def finished_blocks(tmp_path_factory):
    """Return a function (name of a script) -> the blocks that it finished, and its errors; it runs once."""

    @cache
    def run_script(name: str) -> tuple[list[str], str]:
        text = (SCRIPTS / f"{name}.py").read_text()
        if "xnnpack" in text.lower():
            pytest.importorskip("edgecore_xnnpack")
        folder = tmp_path_factory.mktemp(name)
        for title in blocks(name):
            text = text.replace(f"{MARK}{title}\n", f"print({MARK + title!r}, flush=True)\n")
        (folder / f"{name}.py").write_text(text)
        finished = run(folder / f"{name}.py", folder)
        started = [line.removeprefix(MARK) for line in finished.stdout.splitlines() if line.startswith(MARK)]
        return started if finished.returncode == 0 else started[:-1], finished.stderr[-3000:]

    return run_script


@pytest.mark.parametrize(
    "name, title", [pytest.param(*block, marks=[] if block[0] in QUICK else pytest.mark.full) for block in BLOCKS]
)
def test_a_block_of_a_page_runs_unchanged(name, title, finished_blocks):
    finished, errors = finished_blocks(name)
    assert title in finished, errors


def test_the_scripts_have_more_than_fifty_blocks():
    assert len(set(BLOCKS)) == len(BLOCKS) > 50


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
    nothing = subprocess.run([sys.executable, "-m", "edgecore.executorch"], capture_output=True, text=True)
    assert nothing.returncode == 2 and "usage:" in nothing.stdout


def test_dynamic_quantization_with_a_shared_input_needs_no_duplicated_chains(tmp_path):
    script = tmp_path / "shared_input.py"
    script.write_text(SHARED_INPUT)
    run = subprocess.run([sys.executable, "-m", "edgecore.executorch", str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


SHARED_INPUT = """
import torch
from executorch.backends.transforms.duplicate_dynamic_quant_chain import DuplicateDynamicQuantChainPass
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils import QuantizationConfig
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from executorch.extension.pybindings.portable_lib import Verification, _load_for_executorch_from_buffer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(64, 32), torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.one(x) + self.two(x)


inputs = (torch.randn(4, 64),)
config: QuantizationConfig = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
prepared = prepare_pt2e(torch.export.export(Model().eval(), inputs).module(), XNNPACKQuantizer().set_global(config))
prepared(*inputs)
quantized = convert_pt2e(prepared)
expected = quantized(*inputs)
DuplicateDynamicQuantChainPass()(quantized)
edge = to_edge_transform_and_lower(torch.export.export(quantized, inputs), partitioner=[XnnpackPartitioner()])
program = edge.to_executorch(ExecutorchBackendConfig(sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass()))
module = _load_for_executorch_from_buffer(program.buffer, program_verification=Verification.InternalConsistency)
torch.testing.assert_close(module.forward(inputs)[0], expected, atol=0.05, rtol=0)
"""
