"""`edgecore profile`: a table, and files of other tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import pytest
import torch
from command_line import one_sentence
from record_bytes import EXECUTE, KERNEL, name_hash, ring

import edgecore as ec
from edgecore.devtools import Trace, profile
from edgecore.errors import EdgecoreError


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
    assert figures["rows"][-1]["label"] == "(runtime, between operators)"


def test_a_profile_is_written_for_other_tools(edgecore, relu, tmp_path):
    files = [tmp_path / name for name in ("chrome.json", "scope.json", "runs.etdp")]
    options = [part for pair in zip(("--chrome", "--speedscope", "--etdp"), files, strict=True) for part in pair]
    result = edgecore("profile", relu, "--runs", 3, "--warmup", 0, *options)
    assert result.status == 0, result.err
    assert {event["ph"] for event in json.loads(files[0].read_text())["traceEvents"]} == {"M", "X"}
    assert len(json.loads(files[1].read_text())["profiles"]) == 3
    assert len(Trace.read(files[2]).runs) == 3


def test_the_records_of_firmware_are_shown_instead_of_a_run(edgecore, relu, tmp_path):
    forward = name_hash("forward") & 0xFFFF
    path = tmp_path / "device.ectr"
    path.write_bytes(ring([(500, 40, forward, EXECUTE, 0), (1, 30, 0, KERNEL, 0)], 2))
    result = edgecore("profile", relu, "--from", path)
    assert result.status == 0, result.err
    assert "median of 1 runs 40.000 us" in result.out
    path.write_bytes(ring([(500, 40, forward + 1, EXECUTE, 0)], 1))
    one_sentence(edgecore("profile", relu, "--from", path), "the records of the trace belong to a program with other")


def test_a_profile_shows_as_many_rows_as_asked_for_and_sums_up_the_others():
    from edgecore.devtools.profiling.profiler import format_rows
    from edgecore.devtools.profiling.summary import Row, Summary

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


def test_the_groups_are_those_of_a_summary():
    from edgecore.cli.commands.profile import By
    from edgecore.devtools.profiling.summary import GROUPS

    assert tuple(by.value for by in By) == GROUPS


@pytest.fixture
def long(tmp_path):
    """A file whose runs have 301 events."""
    layers = [torch.nn.Sigmoid() if index % 2 else torch.nn.ReLU() for index in range(300)]
    ec.compile(torch.nn.Sequential(*layers).eval(), (torch.ones(4),), backends=[]).save(tmp_path / "long.pte")
    return tmp_path / "long.pte"


def test_runs_that_a_full_trace_has_dropped_are_counted(long):
    x = numpy.ones(4, numpy.float32)
    result = profile(long, x, runs=3, warmup=40, trace_limit=32 << 10)
    assert (len(result.trace.runs), result.dropped) == (3, 0)
    assert [other.name for other in result.trace.others] == ["Default"]
    result = profile(long, x, runs=40, warmup=1, trace_limit=32 << 10)
    assert (len(result.trace.runs), result.dropped) == (3, 37)
    assert "median of 3 runs (37 older ones are missing: the trace was full)" in result.table()


def test_a_trace_without_room_for_a_run_is_one_sentence(tmp_path):
    class Wide(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.sigmoid(x + index) for index in range(520)])

    ec.compile(Wide().eval(), (torch.ones(4),), backends=[]).save(tmp_path / "wide.pte")
    with pytest.raises(EdgecoreError, match=r"wide\.pte: the events of one run of forward need more memory"):
        profile(tmp_path / "wide.pte", numpy.ones(4, numpy.float32), runs=2, trace_limit=32 << 10)


def test_a_bundled_program_is_profiled(long, tmp_path):
    x = torch.ones(4)
    exported = torch.export.export(torch.nn.ReLU(), (x,))
    suite = ec.MethodTestSuite("forward", [ec.MethodTestCase((x,), (x,))])
    ec.BundledProgram(ec.compile(exported, backends=[]), [suite]).save(tmp_path / "model.bpte")
    result = profile(tmp_path / "model.bpte", x.numpy(), runs=2)
    assert {row.label for row in result.summary().rows} == {"relu", "(runtime, between operators)"}


def test_the_head_and_the_table_have_one_unit(relu):
    lines = profile(relu, numpy.ones((2, 3), numpy.float32), runs=2).table().splitlines()
    assert lines[0].split("runs ")[1].split(", ")[0].split()[1] == lines[3].split()[3] == "us"


def test_a_profile_of_a_device_has_the_same_table(edgecore, relu, tmp_path, monkeypatch):
    if not Path(sys.executable).with_name("edgecore-run").is_file():
        pytest.skip("the wheel of edgecore is not installed here")
    monkeypatch.setenv("HOME", str(tmp_path))
    out = tmp_path / "figures.json"
    result = edgecore("profile", relu, "--device", "local", "--runs", 4, "--warmup", 1, "--json", out)
    assert result.status == 0, result.err
    assert "relu.pte on local, method forward: median of 4 runs" in result.out
    assert "no --input: the inputs are random (seed 0)" in result.err
    assert len(json.loads(out.read_text())["runs_ms"]) == 4
    result = edgecore("profile", relu, "--device", "telnet:host")
    assert (result.status, "is no device" in result.err) == (1, True)
