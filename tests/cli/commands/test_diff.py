"""`edgecore diff`: exit status and output."""

from __future__ import annotations

import dataclasses
import json

import pytest

from edgecore import format as fmt


def test_the_words_of_fail_on_are_those_of_a_comparison():
    from edgecore.cli.commands import diff
    from edgecore.devtools.file_diff.differences import SECTIONS

    assert diff.SECTIONS == SECTIONS


def test_equal_files_end_with_0(edgecore, relu):
    result = edgecore("diff", relu, relu, "--fail-on", "size,operators,memory,weights,signature")
    assert (result.status, result.err) == (0, "")
    assert "relu.pte: identical" in result.out


@pytest.mark.parametrize(("named", "status"), [("", 0), ("signature", 0), ("operators", 1), ("size, memory", 1)])
def test_a_difference_that_is_named_ends_with_1(edgecore, relu, tmp_path, named, status):
    pte = fmt.read_pte(relu.read_bytes())
    plan = pte.program.execution_plan[0]
    plan.operators.append(fmt.Operator("aten::neg", "out"))
    plan.chains[0].instructions.append(fmt.Instruction(fmt.KernelCall(1, [1, 1, 1])))
    plan.non_const_buffer_sizes = [0, 128]
    other = tmp_path / "other.pte"
    other.write_bytes(fmt.write_pte(pte))
    out = tmp_path / "diff.json"
    page = tmp_path / "diff.html"
    result = edgecore("diff", relu, other, "--fail-on", named, "--json", out, "--html", page)
    assert result.status == status, result.err
    assert "added: (the model itself) neg (kernels)" in result.out
    assert json.loads(out.read_text())["different"] == ["size", "operators", "memory"]
    assert "<title>relu.pte and other.pte</title>" in page.read_text(encoding="utf-8")


def test_files_that_cannot_be_compared_end_with_2(edgecore, relu, ptd, tmp_path):
    for other in (tmp_path / "missing.pte", ptd):
        result = edgecore("diff", relu, other)
        assert result.status == 2
        assert str(other) in result.err
        assert len(result.err.splitlines()) == 1
    assert edgecore("diff", relu, relu, "--fail-on", "colour").status == 2


def test_only_times_are_those_of_one_method(edgecore, relu, tmp_path):
    pte = fmt.read_pte(relu.read_bytes())
    plans = [dataclasses.replace(pte.program.execution_plan[0], name=name) for name in ("encode", "decode")]
    pte.program.execution_plan = plans
    path = tmp_path / "two.pte"
    path.write_bytes(fmt.write_pte(pte))
    result = edgecore("diff", path, path)
    assert (result.status, result.err) == (0, "")
    assert edgecore("track", path, "--history", tmp_path / "h.jsonl", "--runs", 0).status == 0
    result = edgecore("diff", path, path, "--runs", 1)
    assert (result.status, "choose one with --method" in result.err) == (2, True)
    assert edgecore("diff", path, path, "--runs", 1, "--method", "decode").status == 0


def test_traces_and_runs_exclude_one_another(edgecore, relu):
    result = edgecore("diff", relu, relu, "--runs", 5, "--trace", "a.etdp", "b.etdp")
    assert (result.status, "leave out one" in result.err) == (2, True)


def test_too_few_runs_for_a_verdict_are_an_error(edgecore, relu):
    result = edgecore("diff", relu, relu, "--runs", 9, "--fail-on", "time")
    assert (result.status, "--fail-on time needs --runs of at least 10" in result.err) == (2, True)


def test_files_are_run_in_turns(edgecore, relu):
    result = edgecore("diff", relu, relu, "--runs", 5)
    assert result.status == 0, result.err
    assert "runs in turns" in result.out
