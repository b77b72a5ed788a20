"""`edgecore profile`: a table, and files of other tools."""

from __future__ import annotations

import json

import pytest

from edgecore.devtools import Trace


@pytest.mark.parametrize("by", ["operator", "module", "backend", "line", "kernel"])
def test_a_profile_is_a_table_whose_rows_add_up(edgecore, relu, tmp_path, by):
    out = tmp_path / "figures.json"
    result = edgecore("profile", relu, "--runs", 8, "--warmup", 2, "--by", by, "--json", out)
    assert result.status == 0, result.err
    assert "method forward: median of 8 runs" in result.out
    assert result.out.splitlines()[3].split()[0] == by
    figures = json.loads(out.read_text())
    assert (len(figures["runs_ms"]), figures["by"]) == (8, by)
    assert sum(row["ms"] for row in figures["rows"]) == pytest.approx(figures["run_ms"])
    assert figures["events"][0]["kind"] == "run"


def test_a_profile_is_written_for_other_tools(edgecore, relu, tmp_path):
    files = [tmp_path / name for name in ("chrome.json", "scope.json", "runs.etdp")]
    options = [part for pair in zip(("--chrome", "--speedscope", "--etdp"), files, strict=True) for part in pair]
    result = edgecore("profile", relu, "--runs", 3, "--warmup", 0, *options)
    assert result.status == 0, result.err
    assert {event["ph"] for event in json.loads(files[0].read_text())["traceEvents"]} == {"M", "X"}
    assert len(json.loads(files[1].read_text())["profiles"]) == 3
    assert len(Trace.read(files[2]).runs) == 3


def test_a_profile_shows_as_many_rows_as_asked_for_and_sums_up_the_others():
    from edgecore.devtools.profiler import format_rows
    from edgecore.devtools.summary import Row, Summary

    rows = [Row(f"operator {i}", "kernels", 1, [1_000_000 * i]) for i in (4, 3, 2, 1)]
    lines = format_rows(
        Summary([*rows, Row("(rest)", "", 1, [500_000], rest=True)], [10_500_000], [10_500_000]), "operator", 2
    )
    assert [line.split()[0] for line in lines[1:]] == ["operator", "operator", "(2", "(rest)", "a"]
    assert "3.0000" in lines[3]
    assert lines[5].split()[-1] == "100.0"


def test_a_wrong_group_is_wrong_usage(edgecore, relu):
    assert edgecore("profile", relu, "--by", "colour").status == 2


def test_a_method_that_the_file_lacks_is_one_sentence(edgecore, relu):
    result = edgecore("profile", relu, "--method", "backward")
    assert result.status == 1
    assert "no method 'backward'; it has forward" in result.err
