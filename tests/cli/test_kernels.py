from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgecore import format as fmt

HEADERS = Path(__file__).resolve().parents[2] / "runtime_cpp" / "include"


@pytest.fixture
def files(relu, tmp_path) -> str:
    """The file of `relu`, and one that calls sigmoid on float16 and an operator of somebody else."""
    pte = fmt.read_pte(relu.read_bytes())
    plan = pte.program.execution_plan[0]
    plan.operators = [fmt.Operator("aten::sigmoid", "out"), fmt.Operator("example::twice", "")]
    for value in plan.values:
        value.val.scalar_type = fmt.ScalarType.HALF
    plan.chains[0].instructions.append(fmt.Instruction(fmt.KernelCall(1, [0, 1, 1])))
    (tmp_path / "sigmoid.pte").write_bytes(fmt.write_pte(pte))
    return f"{relu},{tmp_path / 'sigmoid.pte'}"


def test_the_table_has_what_the_files_call_and_nothing_else(edgecore, files, tmp_path):
    out = tmp_path / "kernels.c"
    done = edgecore("kernels", "--for", files, "--out", out)
    assert done.status == 0, done.err
    text = out.read_text()
    assert '{"aten::relu", 10}, {"out", 3}, 0x40, edgecore_kernel_relu_out}' in text
    assert '{"aten::sigmoid", 13}, {"out", 3}, 0x20, edgecore_kernel_sigmoid_out}' in text
    assert text.count("int32_t edgecore_kernel_") == 2
    # float16 is computed in float32.
    assert "EDGECORE_DTYPES=0x60" in text


def test_the_table_of_kernels_compiles_as_c11(edgecore, files, tmp_path):
    out = tmp_path / "kernels.c"
    edgecore("kernels", "--for", files, "--out", out)
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HEADERS}", "-fsyntax-only", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_operator_of_somebody_else_is_named(edgecore, files, tmp_path):
    done = edgecore("kernels", "--for", files, "--out", tmp_path / "kernels.c")
    assert "these operators are not in edgecore's library, so not in the table: example::twice" in done.err


def test_a_table_that_stays_the_same_is_not_written_again(edgecore, relu, tmp_path):
    out = tmp_path / "kernels.c"
    edgecore("kernels", "--for", relu, "--out", out)
    before = out.stat().st_mtime_ns
    edgecore("kernels", "--for", relu, "--out", out)
    assert out.stat().st_mtime_ns == before


def test_a_folder_without_sources_is_refused(edgecore, relu, tmp_path):
    done = edgecore("kernels", "--for", relu, "--out", tmp_path / "kernels.c", "--sources", tmp_path)
    assert done.status == 1
    assert "contains no operator library" in done.err
