"""Pictures of pages look as they did, on the Chromium that made them.

A picture in `pictures` is at most 900 x 700 pixels. After a change of a page that is meant, look at the new picture,
whose path the failed test names, and copy it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import chromium
from PIL import Image

from edgecore.numerics.quality import LayerQuality
from edgecore.pipeline import DelegationReport
from edgecore.pipeline.report import ReportRow
from edgecore.pipeline.report.memory import ArenaReport, Box
from edgecore.sweeps.results.page import sweep_page
from edgecore.sweeps.results.result import CellResult

PICTURES = Path(__file__).with_name("pictures")
CHROMIUM = "156"
"""The major version that made the pictures: others may draw text in another way."""


def report() -> DelegationReport:
    """Two partitions around an operator that no backend has."""
    row = ReportRow
    rows = [
        row("forward", "aten.convolution.default", "conv", "XnnpackBackend", "net.py:7", (), (), "stem.conv", ("x",), "float32 [1, 8, 32, 32]", 0),
        row("forward", "aten.relu.default", "relu", "XnnpackBackend", "net.py:8", (), (), "stem.act", ("conv",), "float32 [1, 8, 32, 32]", 0),
        row("forward", "aten.topk.default", "topk", "edgecore", "net.py:9", (("XnnpackBackend", "no lowering for aten.topk.default"),), (), "", ("relu",), "float32 [1, 8, 32, 4]"),
        row("forward", "aten.linear.default", "linear", "XnnpackBackend", "net.py:10", (), (), "head", ("topk",), "float32 [1, 8, 32, 10]", 1),
        row("forward", "aten.add.Tensor", "add", "XnnpackBackend", "net.py:11", (), (), "", ("linear", "topk"), "float32 [1, 8, 32, 10]", 1),
    ]  # fmt: skip
    boxes = [Box(("relu",), 1, 3, 0, 32768), Box(("topk",), 2, 5, 32768, 4096)]
    layers = [
        LayerQuality("forward", module, node, operator, "int8", sqnr, inputs)
        for module, node, operator, sqnr, inputs in (
            ("head", "linear", "aten.linear.default", 12.0, 31.0),
            ("stem.conv", "conv", "aten.conv2d.default", 35.0, 41.0),
        )
    ]
    arenas = [ArenaReport("forward", "arena 1", 36864, 36864, 6, 0, boxes)]
    return DelegationReport(rows, {"XnnpackBackend": 2}, arenas, layers)


def sweep() -> str:
    """The page of a sweep of two models, one of which fails with a recipe."""
    rows = []
    for place, (model, backend, recipe) in enumerate(
        (model, backend, recipe)
        for model in ("encoder", "unet")
        for backend in ("kernels", "xnnpack")
        for recipe in ("float32", "int8")
    ):
        name = f"{model}/{backend}/{recipe}/executorch-1.5/1"
        figures = {
            "file_bytes": 90_000 + 7_000 * place,
            "median_ms": 1.5 + (place * 5 % 7),
            "sqnr_db": 90.0 - place * 9 % 50,
        }
        failed = place == 7
        rows.append(
            CellResult(name, model, backend, recipe, "executorch-1.5", 1, "failed" if failed else "ok",
                       "CompileError: no recipe" if failed else "", **({} if failed else figures))
        )  # fmt: skip
    return sweep_page(rows, "of two models")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("pages")
    report().to_html(folder / "report.html")
    (folder / "sweep.html").write_text(sweep(), encoding="utf-8")
    with chromium() as driver:
        if driver.capabilities["browserVersion"].partition(".")[0] != CHROMIUM:
            pytest.skip(f"the pictures were made by Chromium {CHROMIUM}")
        yield driver, folder


VIEWS = [
    *((f"report-{view}", width, scheme) for view in ("summary", "operators", "network", "accuracy", "memory")
      for width, scheme in ((900, "light"), (400, "dark"))),
    *((f"sweep-{view}", width, scheme) for view in ("summary", "table", "matrix", "scatter")
      for width, scheme in ((900, "light"), (400, "dark"))),
]  # fmt: skip


@pytest.mark.parametrize(("view", "width", "scheme"), VIEWS)
def test_a_view_looks_as_before(browser: tuple[Any, Path], tmp_path: Path, view: str, width: int, scheme: str) -> None:
    driver, folder = browser
    page, _, part = view.partition("-")
    size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    driver.get("about:blank")
    driver.get(f"{(folder / f'{page}.html').as_uri()}#view={part}")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    new, expected = tmp_path / f"{view}-{scheme}.png", PICTURES / f"{view}-{scheme}.png"
    picture.quantize(32, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(new, optimize=True)
    assert expected.exists(), f"look at {new}, and copy it to {expected}"
    before = np.asarray(Image.open(expected).convert("RGB"), np.int16)
    now = np.asarray(picture, np.int16)
    assert before.shape == now.shape
    changed = (np.abs(before - now).max(2) > 64).mean()
    assert changed < 0.01, (
        f"{changed:.1%} of the pixels differ: look at {new}, and copy it to {expected} if it is right"
    )
