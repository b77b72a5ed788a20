"""The commands that users run on the command line: vulkan-bench, and what compile and inspect say of a delegate."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from vulkan_support import lowered

import edgecore


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgecore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_bench_measures_each_kind_of_work():
    done = run("vulkan-bench", "--sizes", 16, "--elements", 1, "--runs", 1, "--fp16", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["device"]["is_default"] and answer["device"]["name"]
    figures = answer["figures"]
    units = {(figure["name"].split()[0], figure["dtype"], figure["unit"]) for figure in figures}
    for dtype in ("float32", "float16"):
        assert {("matmul", dtype, "GFLOP/s"), ("copy", dtype, "GB/s"), ("sigmoid", dtype, "GB/s")} < units
    assert {("run", "float32", ""), ("input", "float32", "GB/s")} < units
    assert all(figure["ms"] > 0 and (figure["rate"] > 0) == bool(figure["unit"]) for figure in figures)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("--sizes", "8,x"), "--sizes takes positive numbers"),
        (("--device", "no such"), "has the index or name 'no such'"),
    ],
)
def test_the_bench_refuses_wrong_arguments(arguments, sentence):
    done = run("vulkan-bench", *arguments)
    assert done.returncode == 1 and sentence in done.stderr and done.stdout == ""


def test_inspect_and_the_report_tell_the_costs_of_a_delegate(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).eval()
    program = edgecore.compile(model, (torch.randn(1, 3, 8, 8),), backends=["vulkan"])
    # The input becomes channels-last, then convolution, mean, a copy to rows, and linear; the view costs nothing.
    weights = 4 * (8 * 3 * 9 + 8 + 4 * 8 + 4)
    costs = (
        f"about 5 dispatches for 5 operator calls, copies between layouts: 1; weights: {weights:,} bytes; "
        f"at the borders: 2 staging copies of {4 * (3 * 64 + 4)} bytes, reordered: 1"
    )
    assert f"delegate 0: {costs}; greatest memory: " in str(program.report())
    program.save(tmp_path / "model.pte")
    done = run("inspect", tmp_path / "model.pte", "--blobs")
    assert costs in " ".join(done.stdout.split())
    assert "aten.linear.default" in done.stdout


def test_costs_count_views_parts_and_conversions():
    halves = lowered(lambda a: torch.cat([a, a.sigmoid()]) * 2, torch.randn(2, 4), force_fp16=True)
    # sigmoid, the two parts of cat, mul, and conversions of the input and the output
    assert "about 6 dispatches for 3 operator calls" in halves.report and "reordered: 2" in halves.report
    view = lowered(lambda a: a.sigmoid().view(4, 4), torch.randn(2, 8))
    assert "about 2 dispatches for 2 operator calls" in view.report  # a view that is a result is a copy
