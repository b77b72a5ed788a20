"""Cycles that compilers of backends expect: in the table, the JSON and the page of a profile, marked as estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import edgecore
import edgecore.format as fmt
from edgecore.devtools import profile
from edgecore.devtools.profiling.estimated_cycles import estimates


def estimated(path: Path) -> None:
    """Write a file whose backend expects 900 cycles of its first layer, and 100 of the second one."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).eval()
    program = edgecore.compile(net, (torch.randn(2, 8),), backends=["xnnpack"])
    meta = fmt.get_meta(program.pte)
    delegate = meta.methods[0].delegates[0]
    cycles = [fmt.CycleEstimate(one.id, one.name, cycles)
              for one, cycles in zip(delegate.operations, (900, 100), strict=True)]  # fmt: skip
    delegate.details = bytes(fmt.pack(fmt.DelegateDetails(cycles=cycles)))
    fmt.set_meta(program.pte, meta)
    path.write_bytes(fmt.write_pte(program.pte))


def test_estimates_stand_below_the_times_and_say_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    estimated(path)
    measured = profile(path, np.zeros((2, 8), np.float32), runs=3, warmup=0)
    lines = measured.table(by="module").splitlines()
    place = next(index for index, line in enumerate(lines) if "not measured" in line)
    assert "XnnpackBackend" in lines[place]
    assert [line.split() for line in lines[place + 1 :]] == [
        ["900", "90.0", "%", "0"], ["100", "10.0", "%", "1"], ["1,000", "100.0", "%", "all", "operations"]
    ]  # fmt: skip
    rows = measured.as_dict("module")["estimated_cycles"]
    assert [(row["label"], row["cycles"]) for row in rows] == [("0", 900), ("1", 100)]
    assert "1,000 cycles in all, estimated by the backend" in measured.to_html()


def test_a_file_without_estimates_has_no_such_rows(tmp_path: Path) -> None:
    net = nn.Linear(8, 8).eval()
    program = edgecore.compile(net, (torch.randn(2, 8),), backends=["xnnpack"])
    assert estimates(program.pte, "forward") == []
    path = tmp_path / "model.pte"
    program.save(path)
    assert "not measured" not in profile(path, np.zeros((2, 8), np.float32), runs=3, warmup=0).table()
