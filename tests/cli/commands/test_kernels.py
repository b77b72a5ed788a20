from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgecore import format as fmt

HEADERS = Path(__file__).resolve().parents[3] / "runtime_cpp" / "include"


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


def test_a_folder_has_the_table_and_the_selection_as_yaml(edgecore, files, tmp_path):
    out = tmp_path / "selected"
    done = edgecore("kernels", "--for", files, "--out", out)
    assert done.status == 0, done.err
    assert "edgecore_kernel_relu_out" in (out / "kernels.c").read_text()
    text = (out / "selection.yaml").read_text()
    assert "  aten::relu.out: [float32]\n  aten::sigmoid.out: [float16]\n" in text


def test_names_and_yaml_and_files_are_united(edgecore, relu, tmp_path):
    selection = tmp_path / "selection.yaml"
    selection.write_text("operators:\n  aten::add.out: [int8, float32]\n  aten::relu.out: [int8]\n  aten::tanh: all\n")
    out = tmp_path / "kernels.c"
    names = "aten::mul.out=float32+bool,aten::add"
    done = edgecore("kernels", "--for", relu, "--yaml", selection, "--operators", names, "--out", out)
    assert done.status == 0, done.err
    text = out.read_text()
    assert '{"aten::relu", 10}, {"out", 3}, 0x42,' in text
    assert '{"aten::mul", 9}, {"out", 3}, 0x840,' in text
    assert '{"aten::add", 9}, {"out", 3}, 0x18008eff,' in text  # all dtypes, since the name has none
    assert '{"aten::add", 9}, {"Scalar_out", 10}' in text and "edgecore_kernel_tanh_out" in text


def test_a_selection_can_be_read_again(edgecore, files, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    edgecore("kernels", "--for", files, "--out", first)
    done = edgecore("kernels", "--yaml", first / "selection.yaml", "--check", files, "--out", second)
    assert done.status == 0, done.err
    assert "not in the table: example::twice" in done.err
    assert (first / "selection.yaml").read_text() == (second / "selection.yaml").read_text()


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ("aten::add.out", "aten::relu.out"),
        ("aten::relu.out=int8+float16", "aten::relu.out for float32"),
    ],
)
def test_what_a_checked_file_lacks_is_named(edgecore, relu, tmp_path, names, missing):
    done = edgecore("kernels", "--operators", names, "--check", relu, "--out", tmp_path / "kernels.c")
    assert done.status == 1
    assert f"{relu} needs what is not selected: {missing}" in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("aten::addd.out", "no operator aten::addd.out"),
        ("aten::add.out=float33", "aten::add.out is selected for float33; the dtypes are bool, int8"),
        ("", "nothing is selected"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(edgecore, tmp_path, names, message):
    done = edgecore("kernels", "--operators", names, "--out", tmp_path / "kernels.c")
    assert done.status == 1
    assert message in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- aten::add.out", "has no mapping `operators`"),
        ("operators: {aten::add.out: float32}", "needs a list of dtypes, or `all`"),
        ("operators: [", "cannot be read as a YAML file"),
    ],
)
def test_a_yaml_file_without_a_selection_is_refused(edgecore, tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    done = edgecore("kernels", "--yaml", tmp_path / "a.yaml", "--out", tmp_path / "kernels.c")
    assert done.status == 1
    assert message in done.err.replace("\n", " ")


def test_a_table_is_a_c_file_or_in_a_folder(edgecore, relu, tmp_path):
    done = edgecore("kernels", "--for", relu, "--out", tmp_path / "kernels.cc")
    assert done.status == 1
    assert "name a folder, or a file that ends in .c" in done.err.replace("\n", " ")
    assert not (tmp_path / "kernels.cc").exists()
