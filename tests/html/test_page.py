"""Pages of reports: their content, and in Chromium what people see, click and type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium import HOSTILE, chromium, requested_urls, violations
from torch import nn

import edgecore
from edgecore.devtools import diff, profile
from edgecore.html import arena, page, table


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(torch.relu(self.wide(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.add_module("head " + HOSTILE.replace(".", ""), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return torch.softmax(list(self.children())[1](x), -1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages of a model whose names are hostile."""
    folder = tmp_path_factory.mktemp("pages")
    program = edgecore.compile(Net().eval(), (torch.randn(3, 16),))
    program.save(folder / "model.pte")
    program.report().to_html(folder / "report.html")
    measured = profile(folder / "model.pte", np.zeros((3, 16), np.float32), runs=8, warmup=1, threads=1)
    (folder / "profile.html").write_text(measured.to_html(), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def opened(browser: Any, files: Path) -> Iterator[Callable[..., Any]]:
    """A function that opens a page of `files` at a view. At the end nothing was requested, and no error was logged."""

    def open_page(name: str, state: str = "") -> Any:
        browser.get("about:blank")
        browser.get(f"{(files / name).as_uri()}#{state}")
        return browser

    browser.get_log("performance")
    browser.get_log("browser")
    yield open_page
    assert browser.get_log("browser") == []
    asked = requested_urls(browser)
    assert all(url.startswith("file:") and url.endswith(".html") for url in asked), asked
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def find(browser: Any, css: str) -> list[Any]:
    return browser.find_elements("css selector", css)


def texts(browser: Any, css: str) -> list[str]:
    return browser.execute_script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)


@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("profile.html", ["summary", "table", "flame", "timeline", "network", "memory"]),
        ("report.html", ["summary", "operators", "network", "memory", "tables"]),
    ],
)
def test_each_view_shows_something_and_names_stay_text(opened: Any, name: str, views: list[str]) -> None:
    browser = opened(name)
    assert [tab.get_attribute("id").removeprefix("tab-") for tab in find(browser, "[role=tab]")] == views
    for view in views:
        find(browser, f"#tab-{view}")[0].click()
        assert find(browser, f"#view-{view}")[0].is_displayed()
        assert len([one for one in find(browser, "main section") if one.is_displayed()]) == 1
        assert find(browser, f"#view-{view} :is(dd, tr, rect)")
    assert not find(browser, "img")
    assert browser.title != "broken"


def test_a_hostile_name_is_shown_as_it_is(opened: Any) -> None:
    browser = opened("profile.html", "view=table&by=module")
    assert any("</script><img" in label for label in texts(browser, "td.name"))


def test_a_click_on_a_head_sorts_and_another_one_reverses(opened: Any) -> None:
    browser = opened("profile.html", "view=table&by=event")

    def labels() -> list[str]:
        return texts(browser, "#view-table tbody tr:not(.rest) td.name")

    before = labels()
    times = [float(cell.split()[0]) for cell in texts(browser, "tbody tr:not(.rest) td:nth-child(5)")]
    assert times == sorted(times, reverse=True)
    find(browser, "#view-table th button")[0].click()
    assert labels() == sorted(before)
    assert find(browser, "#view-table th")[0].get_attribute("aria-sort") == "ascending"
    browser.switch_to.active_element.send_keys("\ue007")  # Enter: the head keeps the focus
    assert labels() == sorted(before, reverse=True)


def test_tables_sort_numbers_with_units_as_numbers(opened: Any, files: Path) -> None:
    cells = ["10.2 dB", "-1.5 dB", "9.1 dB", "exact", "-12.0 dB"]
    content = {
        "tables": [table("Layers", ["module", "SQNR"], [(f"blocks.{i + 7}", one) for i, one in enumerate(cells)])]
    }
    (files / "tables.html").write_text(page("Tables", content), encoding="utf-8")
    browser = opened("tables.html")
    module, sqnr = find(browser, "#view-tables th button")
    sqnr.click()
    ordered = ["-12.0 dB", "-1.5 dB", "9.1 dB", "10.2 dB", "exact"]
    assert texts(browser, "#view-tables td:nth-child(2)") == ordered
    sqnr.click()
    assert texts(browser, "#view-tables td:nth-child(2)") == ordered[::-1]
    module.click()
    assert texts(browser, "#view-tables td.name") == [f"blocks.{number}" for number in range(7, 12)]


def test_the_filter_keeps_the_rows_that_have_all_words(opened: Any) -> None:
    browser = opened("profile.html", "view=table&by=module")
    browser.find_element("css selector", "body").send_keys("/")
    browser.switch_to.active_element.send_keys("blocks.1 linear")
    assert sorted(texts(browser, "td.name")) == ["blocks.1.narrow", "blocks.1.wide"]
    assert "filter=blocks.1+linear" in browser.current_url
    assert texts(browser, ".bar .note")[0].startswith("2 rows, ")


def traced(path: Path) -> Path:
    """Run a file some times, and return its ETDump."""
    program = edgecore.load(path, trace=True, threads=1)
    for _ in range(13):
        program.forward(np.zeros((3, 16), np.float32))
    program.write_trace(path.with_suffix(".etdp"))
    return path.with_suffix(".etdp")


@pytest.fixture(scope="module")
def compared(files: Path) -> Path:
    """`files`, with pages that compare a model with itself on XNNPACK: with times and without."""
    edgecore.compile(Net().eval(), (torch.randn(3, 16),), backends=["xnnpack"]).save(files / "other.pte")
    pair = files / "model.pte", files / "other.pte"
    for name, traces in (("timed", tuple(traced(path) for path in pair)), ("placed", None)):
        (files / f"{name}.html").write_text(diff(*pair, traces=traces).to_html(), encoding="utf-8")
    return files


@pytest.mark.parametrize("name", ["timed.html", "placed.html"])
def test_a_comparison_has_operators_placement_memory_and_what_differs(opened: Any, compared: Path, name: str) -> None:
    browser = opened(name)
    views = [tab.get_attribute("id").removeprefix("tab-") for tab in find(browser, "[role=tab]")]
    assert views == ["summary", "compare", "placement", "memory", "tables"]
    for view in views:
        find(browser, f"#tab-{view}")[0].click()
        assert find(browser, f"#view-{view} :is(dd, tr, rect)")
    assert not find(browser, "img") and browser.title != "broken"
    titles = texts(browser, "#view-summary h2")
    assert any(one.startswith("size: ") for one in titles) and any(one.startswith("operators: ") for one in titles)


def test_a_comparison_shows_both_times_with_an_interval_or_says_that_it_cannot_tell(
    opened: Any, compared: Path
) -> None:
    browser = opened("timed.html", "view=compare")
    heads = texts(browser, "#view-compare th")
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#view-compare tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    both = [dict(zip(heads, row, strict=True)) for row in rows if "only in" not in row[-1]]
    assert both and all(row["B is"] in ("slower", "faster", "same", "cannot tell") for row in both)
    assert all(" to " in row["95 % interval"] and row["time A"] and row["time B"] for row in both)
    alone = [dict(zip(heads, row, strict=True)) for row in rows if "only in" in row[-1]]
    assert all(bool(row["time A"]) == row["B is"].endswith("A") and row["difference"] == "" for row in alone)
    names = texts(browser, "#view-compare tbody tr:not(.rest) td.name")
    assert {"blocks.0.wide", "blocks.1.narrow"} <= set(names)
    assert any("</script><img" in name for name in names)
    find(browser, "#view-compare select option[value=operator]")[0].click()
    assert any("only in B" in verdict for verdict in texts(browser, "#view-compare td:last-child"))


def test_a_selection_in_a_comparison_is_one_in_all_its_views(opened: Any, compared: Path) -> None:
    browser = opened("placed.html", "view=placement")
    row = next(one for one in find(browser, "#view-placement tbody tr") if "blocks.0.wide" in one.text)
    row.click()
    find(browser, "#tab-compare")[0].click()
    find(browser, "#view-compare select option[value=operator]")[0].click()
    assert [one.text for one in find(browser, "#view-compare tr.selected")] != []
    assert all("blocks.0.wide" in one.text for one in find(browser, "#view-compare tr.selected"))
    find(browser, "#view-compare input")[0].send_keys("blocks.1.narrow")
    assert {one.split()[0] for one in texts(browser, "#view-compare tbody td.name")} == {"linear"}


@pytest.mark.parametrize("view", ["summary", "compare", "placement", "memory", "tables"])
def test_a_comparison_fits_into_a_narrow_window(opened: Any, compared: Path, view: str) -> None:
    browser = opened("timed.html", f"view={view}")
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def test_what_is_selected_in_one_view_is_selected_in_all_and_after_a_reload(opened: Any) -> None:
    browser = opened("profile.html", "view=flame")
    box = next(one for one in find(browser, "#view-flame .box") if one.get_attribute("aria-label").startswith("wide:"))
    box.click()
    assert "blocks.0.wide" in texts(browser, "#selection")[0]
    for view in ("table", "timeline", "network"):
        find(browser, f"#tab-{view}")[0].click()
        assert len(find(browser, f"#view-{view} .selected")) == 1
    browser.refresh()
    assert find(browser, "#view-network .node.selected")
    browser.find_element("css selector", "body").send_keys("\ue00c")  # Escape
    assert not find(browser, ".selected")


def test_keys_change_views_and_select_rows(opened: Any) -> None:
    browser = opened("profile.html")
    find(browser, "#tab-summary")[0].click()
    browser.switch_to.active_element.send_keys("\ue014")  # right arrow
    assert find(browser, "#view-table")[0].is_displayed()
    find(browser, "#view-table tbody tr")[0].send_keys("\n")
    assert len(find(browser, "#view-table tr.selected")) == 1


def test_a_module_of_the_network_is_one_box_until_it_is_opened(opened: Any) -> None:
    browser = opened("profile.html", "view=network")
    operators = find(browser, "#view-network .node")
    find(browser, "#view-network option:nth-child(2)")[0].click()
    boxes = find(browser, "#view-network .node")
    assert len(boxes) < len(operators) - 4
    box = next(one for one in boxes if one.get_attribute("aria-label").startswith("blocks, 8 operators"))
    box.send_keys("o")
    assert {"blocks.0", "blocks.1"} <= {text.split(",")[0] for text in labels(browser, "#view-network .node")}
    find(browser, "#view-network .node")[0].send_keys("c")
    assert len(find(browser, "#view-network .node")) == len(boxes)


def labels(browser: Any, css: str) -> list[str]:
    return [one.get_attribute("aria-label") for one in find(browser, css)]


def test_the_network_marks_what_is_searched_for(opened: Any) -> None:
    browser = opened("report.html", "view=network")
    find(browser, "#view-network input")[0].send_keys("blocks.1.wide")
    assert len(find(browser, "#view-network .node.found")) == len(texts(browser, "#view-network .node.found")) > 0
    assert all("blocks.1.wide" in text for text in labels(browser, "#view-network .node.found"))


def test_a_report_connects_its_table_with_the_network(opened: Any) -> None:
    browser = opened("report.html", "view=operators")
    find(browser, "#view-operators tbody tr")[0].click()
    find(browser, "#tab-network")[0].click()
    assert len(find(browser, "#view-network .node.selected")) == 1


def test_both_colour_schemes_have_readable_text(opened: Any) -> None:
    browser = opened("profile.html", "view=table")
    seen = set()
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        ink, paper = (sum(map(int, re.findall(r"\d+", one)[:3])) / 3 for one in browser.execute_script(style))
        assert abs(ink - paper) > 150
        seen.add(paper)
    assert len(seen) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["profile.html", "report.html"])
def test_axe_finds_nothing_serious_in_any_view(opened: Any, name: str, scheme: str) -> None:
    browser = opened(name)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    for tab in find(browser, "[role=tab]"):
        tab.click()
        assert violations(browser) == [], tab.text


@pytest.mark.parametrize("view", ["summary", "table", "flame", "timeline", "network", "memory"])
def test_a_narrow_window_needs_no_scrolling_to_the_side(opened: Any, view: str) -> None:
    browser = opened("profile.html", f"view={view}")
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def test_a_print_has_all_views(opened: Any) -> None:
    browser = opened("profile.html")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert all(one.is_displayed() for one in find(browser, "main section"))


def test_a_network_of_5000_operators_is_one_page_of_two_megabytes(browser: Any, tmp_path: Path) -> None:
    rows = [
        {"name": f"FullyConnected [{index}]", "operator": "linear + gelu", "backend": "XnnpackBackend", "calls": 1,
         "module": f"model.layers.{index // 20}.self_attention.projection_{index % 20}", "line": "model.py:123",
         "kernel": "Fully Connected (NC, F32) GEMM", "instruction": 0, "handles": [index], "node": "", "ns": 1000 + index,
         "min": 900, "max": 99999, "rest": False}
        for index in range(5000)
    ]  # fmt: skip
    graph = [
        {"id": f"forward/0/{index}", "operator": "linear", "module": row["module"], "line": "model.py:123",
         "handles": [index], "backend": "XnnpackBackend", "shape": "float32 [1, 128, 512]",
         "inputs": [f"forward/0/{max(index - 3, 0)}"]}
        for index, row in enumerate(rows)
    ]  # fmt: skip
    timeline = [[index, index * 1000, 1000, 2] for index in range(5000)]
    text = page("large", {"operators": rows, "graph": graph, "timeline": timeline})
    assert len(text.encode()) <= 2.5e6
    (tmp_path / "large.html").write_text(text, encoding="utf-8")
    browser.get((tmp_path / "large.html").as_uri())
    for view in ("table", "flame", "timeline", "network"):
        find(browser, f"#tab-{view}")[0].click()
        assert find(browser, f"#view-{view}")[0].is_displayed()
    assert 50 < len(find(browser, "#view-network .node")) <= 600
    assert not browser.get_log("browser")


def test_errors_of_operators_are_a_drawing_and_a_table(browser: Any, tmp_path: Path) -> None:
    rows = [
        {"module": f"block.{index}", "operator": "linear", "line": "net.py:3", "backend": "XnnpackBackend",
         "local": (None, 60.0, -1000.0)[index], "accumulated": 60.0 - index, "wrong": index == 2,
         "why": "3 NaN" if index == 2 else ""}
        for index in range(3)
    ]  # fmt: skip
    words = {"own": "alone", "whole": "since the input", "title": "Operators", "note": "Errors in dB."}
    text = page("net:make", {"facts": [("verdict", "wrong")], "accuracy": {"rows": rows, "culprit": 2, **words}})
    (tmp_path / "accuracy.html").write_text(text, encoding="utf-8")
    browser.get((tmp_path / "accuracy.html").as_uri() + "#view=accuracy")
    assert len(find(browser, "#view-accuracy circle")) == 3
    lines = [one.text.split() for one in find(browser, "#view-accuracy tbody tr")]
    assert [("exact" in line, "60.0" in line) for line in lines[:2]] == [(True, True), (False, True)]
    assert "NaN" in lines[2] and "number" in lines[2]
    assert [one.text.split()[0] for one in find(browser, "#view-accuracy tr.marked")] == ["3"]
    assert not browser.get_log("browser")


def test_memory_that_several_tensors_share_counts_once() -> None:
    made = arena(
        "arena 1",
        3,
        [
            ("a", "first", "", 0, 64, 0, 1),
            ("view", "", "", 0, 64, 1, 2),
            ("b", "", "", 64, 32, 1, 1),
            ("late", "", "", 64, 16, 2, 2),
        ],
    )
    assert (made["bytes"], made["peak"], made["needed"]) == (96, 1, 96)
    assert made["owners"] == [["a of first, view", 64], ["b", 32]]
