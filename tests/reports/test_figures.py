"""A report has the same figures in the terminal, as JSON and on its page, and a notebook shows the page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium import chromium
from torch import nn

import edgecore
from edgecore.devtools import Profile, compare, profile
from edgecore.pipeline import DelegationReport


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(self.second(torch.relu(self.first(x))), 2)[0] * 2


X = torch.linspace(-1, 1, 16).reshape(2, 8)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> DelegationReport:
    program = edgecore.compile(Net().eval(), (X,), backends=["xnnpack"], quantize="int8", calibration=[(X,)])
    return program.report(quantization=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = tmp_path_factory.mktemp("files") / "net.pte"
    edgecore.compile(Net().eval(), (X,), backends=["xnnpack"]).save(path)
    return profile(path, np.asarray(X), runs=8, warmup=1, threads=1)


def content(page: str) -> dict[str, Any]:
    """The data of a page; packed rows are unpacked."""
    found = re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.DOTALL)
    data = json.loads(found[1])
    for key in ("operators", "graph"):
        if data.get(key):
            data[key] = [dict(zip(data[key]["keys"], row, strict=True)) for row in data[key]["rows"]]
    return data


def page_of(report: Any) -> str:
    """The page that a notebook shows for a result."""
    return html.unescape(re.fullmatch(r'<iframe srcdoc="([^"]*)" .*></iframe>', report._repr_html_(), re.DOTALL)[1])


def test_a_delegation_report_says_the_same_three_times(report: DelegationReport) -> None:
    page, figures, text = (
        content(page_of(report)),
        json.loads(json.dumps(report.as_dict(), allow_nan=False)),
        str(report),
    )
    rows = figures["operators"]
    assert [(row["node"], row["where"]) for row in rows] == [(row["name"], row["backend"]) for row in page["operators"]]
    outside = [row for row in rows if row["where"] == "edgecore"]
    assert outside == figures["left_outside"] != []
    assert f"operators delegated: {len(rows) - len(outside)} of {len(rows)}" in text
    assert dict(page["facts"])["delegated"] == f"{len(rows) - len(outside)} of {len(rows)} operators"
    counts = {row["where"]: sum(other["where"] == row["where"] for other in rows) for row in rows}
    assert {name: count for bar in page["bars"] for name, count in bar["parts"]} == counts
    for row in outside:
        ((backend, reason),) = row["reasons"]
        assert f"{backend}: {reason}" in text
        assert f"{backend}: {reason}" in [one["why"] for one in page["operators"]]
    (arena,) = figures["memory"]
    assert (
        f"{arena['size']:,} bytes" in text
        and f"{arena['size']:,} bytes" in dict(page["facts"])["memory of forward, arena 1"]
    )
    worst = figures["quantization"][0]
    assert f"{worst['sqnr']:.1f} dB" in text
    assert round(min(row["local"] for row in page["accuracy"]["rows"]), 6) == round(worst["sqnr"], 6)


def test_the_network_of_a_report_has_each_operator_but_conversions_of_a_delegate(report: DelegationReport) -> None:
    nodes = {node["id"]: node for node in content(page_of(report))["graph"]}
    assert {node["operator"] for node in nodes.values()} >= {"x", "topk", "linear"}
    assert all(source in nodes for node in nodes.values() for source in node["inputs"])
    hidden = [row.node for row in report.rows if f"forward/{row.node}" not in nodes]
    assert hidden and all("quantize_per" in name for name in hidden)
    for row in report.rows:
        if row.node in hidden:
            continue
        node = nodes[f"forward/{row.node}"]
        assert (node["backend"], node["partition"], node["module"]) == (row.where, row.partition, row.module)


def test_a_profile_says_the_same_three_times(measured: Profile) -> None:
    page, figures = content(page_of(measured)), measured.as_dict("operator")
    table = measured.table(by="operator")
    operators = [row for row in page["operators"] if not row["rest"]]
    for row in figures["rows"]:
        mine = [one for one in operators if one["operator"] == row["label"]]
        if mine:
            assert sum(one["ns"] for one in mine) / 1e6 == pytest.approx(row["ms"], abs=1e-6 * len(mine))
            assert row["label"] in table
    assert {one["operator"] for one in operators} <= {row["label"] for row in figures["rows"]}


def test_a_comparison_says_the_same_three_times() -> None:
    report = compare(Net().eval(), (X,), backends=["xnnpack"], samples=1)
    page, figures = content(page_of(report)), report.as_dict()
    assert dict(page["facts"])["verdict"] == figures["verdict"] == str(report).splitlines()[-1]
    assert [(row["operator"], row["local"]) for row in page["accuracy"]["rows"]] == [
        (row["operator"], row["local"]["sqnr"]) for row in figures["rows"]
    ]
    assert all(row["operator"] in str(report) for row in figures["rows"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def test_a_notebook_shows_the_page_in_a_frame(browser: Any, report: DelegationReport, tmp_path: Path) -> None:
    (tmp_path / "notebook.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>notebook</title>{report._repr_html_()}'
    )
    browser.get((tmp_path / "notebook.html").as_uri())
    browser.switch_to.frame(0)
    browser.find_element("id", "tab-operators").click()
    assert len(browser.find_elements("css selector", "#view-operators tbody tr")) == len(report.rows)
    assert browser.get_log("browser") == []
