"""The page of a sweep in Chromium: 2,000 cells, filters, the front, and no request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import HOSTILE, chromium, requested_urls

from edgecore.sweeps import CellResult, compare_sweeps, sweep_page


def rows() -> list[CellResult]:
    found = []
    for number in range(2000):
        model, backend, recipe = f"model{number // 100}", f"backend{number // 10 % 10}", f"recipe{number % 10}"
        status = "failed" if number % 7 == 3 else "ok"
        found.append(
            CellResult(
                f"{model}/{backend}/{recipe}", model, backend, recipe, "executorch-1.5", 0, status,
                reason=HOSTILE if status == "failed" else "", file_bytes=1000 + number, sqnr_db=float("inf"),
                accuracy=0.5 + number % 97 / 200, median_ms=1.0 + number % 89, report="cells/x/report.html",
            )
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    page = Path(tmp_path_factory.mktemp("sweep"), "index.html")
    changed = [one for one in rows() if one.model == "model3"]
    page.write_text(sweep_page(rows(), "all", compare_sweeps(rows(), changed)[:50]), encoding="utf-8")
    with chromium() as driver:
        driver.get(page.as_uri())
        yield driver
        log, asked = driver.get_log("browser"), requested_urls(driver)
    assert log == []
    assert asked == {page.as_uri()}


def count(browser: Any) -> str:
    return browser.find_element("id", "count").text


def test_filters_leave_the_cells_that_match(browser: Any) -> None:
    browser.find_element("id", "tab-matrix").click()
    assert count(browser).startswith("2000 of 2000 cells")
    assert len(browser.find_elements("css selector", ".matrix tbody tr")) == 20
    browser.execute_script(
        "const one = document.getElementById('backend'); one.value = 'backend4'; one.dispatchEvent(new Event('change'))"
    )
    assert count(browser).startswith("200 of 2000 cells")
    browser.execute_script(
        "const one = document.getElementById('backend'); one.value = ''; one.dispatchEvent(new Event('change'))"
    )


def test_a_filter_makes_no_element_and_changes_only_cells_that_come_or_go(browser: Any) -> None:
    browser.find_element("id", "tab-matrix").click()
    made, changed = browser.execute_script("""
        const make = document.createElement, observer = new MutationObserver(() => {});
        let made = 0;
        document.createElement = function (...names) { made += 1; return make.apply(this, names); };
        observer.observe(document.querySelector(".matrix"), {attributes: true, childList: true, subtree: true});
        const one = document.getElementById("text");
        one.value = "model1/";
        one.dispatchEvent(new Event("input"));
        const changed = observer.takeRecords().length;
        one.value = "";
        one.dispatchEvent(new Event("input"));
        observer.disconnect();
        document.createElement = make;
        return [made, changed];
    """)
    assert made == 0
    assert 0 < changed <= 1900 + 19, "1900 cells and 19 rows go"


def test_a_text_leaves_the_cells_whose_name_holds_it(browser: Any) -> None:
    browser.find_element("id", "tab-matrix").click()
    set_text = (
        "const one = document.getElementById('text'); one.value = arguments[0]; one.dispatchEvent(new Event('input'))"
    )
    for text, left in (("recipe1", 200), ("model1", 1100), ("", 2000)):
        browser.execute_script(set_text, text)
        assert count(browser).startswith(f"{left} of 2000 cells"), text


def test_a_cell_shows_its_figures_and_its_reason_as_text(browser: Any) -> None:
    browser.find_element("id", "tab-matrix").click()
    browser.find_element("css selector", ".matrix td.failed").click()
    shown = browser.find_element("id", "selection").text
    assert HOSTILE in shown and "Where each operator runs" in shown and browser.title != "broken"


def test_the_scatter_draws_the_front_of_cells_that_nothing_beats(browser: Any) -> None:
    browser.find_element("id", "tab-scatter").click()
    good = [one for one in rows() if one.status == "ok"]
    best = [one for one in good if not any(
        other.median_ms <= one.median_ms and other.accuracy >= one.accuracy
        and (other.median_ms, other.accuracy) != (one.median_ms, one.accuracy) for other in good)]  # fmt: skip
    drawn = browser.find_elements("css selector", ".point.front")
    assert len(drawn) == len({(one.median_ms, one.accuracy) for one in best})
    assert len(browser.find_elements("css selector", ".point")) == len(good)


def test_changes_come_first_with_regressions_marked(browser: Any) -> None:
    browser.find_element("id", "tab-changes").click()
    marked = browser.find_elements("css selector", "#view-changes tr.selected")
    assert marked and "is gone" in marked[0].text
