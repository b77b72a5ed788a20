"""Make the pictures of pages in docs/images: `python tools/screenshots.py`, with the system's Chromium.

Each picture is 1000 pixels wide, with 64 colours, and at most 60 kB large.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from selenium import webdriver

import edgecore
from edgecore.devtools import compare, diff, profile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from zoo import make

IMAGES = Path(__file__).parents[1] / "docs" / "images"
VIEWS = {
    "profile-summary": 380,
    "profile-table": 480,
    "profile-flame": 280,
    "profile-timeline": 280,
    "profile-network": 600,
    "sweep-summary": 520,
    "sweep-table": 420,
    "sweep-scatter": 600,
    "report-summary": 520,
    "report-operators": 420,
    "report-network": 600,
    "report-accuracy": 560,
    "report-memory": 480,
    "plain-memory": 600,
    "compare-accuracy": 600,
    "diff-summary": 600,
    "diff-compare": 480,
    "diff-placement": 400,
}
"""`PAGE-VIEW` -> height of the picture in pixels."""
FILES = {"profile-flame": "profile-modules", "plain-memory": "profile-memory", "diff-compare": "diff-operators"}
"""`PAGE-VIEW` -> name of the picture, if the two differ."""
MAX_BYTES = 60_000


def pages(folder: Path) -> None:
    """Write the pages into a folder: the pages of MobileNetV2, and a delegation report."""
    torch.manual_seed(0)
    model, (x,) = make("mobilenet_v2")
    traces = []
    for name, backends in (("profile", ["xnnpack"]), ("plain", [])):
        path = folder / f"{name}.pte"
        edgecore.compile(model, (x,), backends=backends).save(path)
        measured = profile(path, np.asarray(x), runs=12, warmup=2, threads=1)
        traces.append(folder / f"{name}.etdp")
        measured.trace.save(traces[-1])
        (folder / f"{name}.html").write_text(measured.to_html(), encoding="utf-8")
    files = folder / "plain.pte", folder / "profile.pte"
    (folder / "diff.html").write_text(diff(*files, traces=(traces[1], traces[0])).to_html(), encoding="utf-8")
    (folder / "compare.html").write_text(
        compare(model, (x,), backends=["xnnpack"], samples=1).to_html(), encoding="utf-8"
    )
    report_page(folder / "report.html")
    sweep_page(folder)


class Ranked(torch.nn.Module):
    """A U-Net whose pixels are ranked by class; XNNPACK has no operator for ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = make("unet")[0]
        self.scale = torch.nn.Conv2d(5, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes plus their scaled ranks: float32 [1, 5, 128, 128]."""
        scores = self.unet(x)
        ranks = torch.argsort(torch.cumsum(scores, 1), 1).to(x.dtype)
        return self.scale(ranks) + scores


def report_page(path: Path) -> None:
    """Write the delegation report of a quantized network. XNNPACK computes a part of the network."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 128, 128)
    program = edgecore.compile(Ranked().eval(), (x,), backends=["xnnpack"], quantize="int8", calibration=[(x,)])
    program.report(quantization=True).to_html(path)


SWEEP = {
    "models": {
        name: {"source": f"pictured:{name}", "calibration": f"pictured:{name}_samples"}
        for name in ("ds_cnn", "encoder")
    },
    "backends": ["xnnpack", "kernels"],
    "recipes": ["float", "int8", "int8-dynamic"],
    "exclude": [{"backend": "kernels", "recipe": "int8*"}],
}


def sweep_page(folder: Path) -> None:
    """Write the page of a sweep of two small networks."""
    lines = ["from zoo import make"]
    for name in SWEEP["models"]:
        lines += [
            f"def {name}():",
            f"    return make('{name}')",
            f"def {name}_samples():",
            f"    return [make('{name}')[1]]",
        ]
    (folder / "pictured.py").write_text("\n".join(lines), encoding="utf-8")
    sys.path.insert(0, str(folder))
    edgecore.sweep(SWEEP, folder / "two networks", jobs=1)
    shutil.copy(folder / "two networks" / "index.html", folder / "sweep.html")


def main() -> None:
    """Make all pictures."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        with tempfile.TemporaryDirectory() as name:
            pages(Path(name))
            for view, height in VIEWS.items():
                page, _, part = view.partition("-")
                size = {"width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                driver.get("about:blank")
                driver.get(f"{(Path(name) / f'{page}.html').as_uri()}#view={part}")
                image = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
                path = IMAGES / f"{FILES.get(view, view)}.png"
                image.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
                if path.stat().st_size > MAX_BYTES:
                    raise SystemExit(f"{path} has {path.stat().st_size} bytes; at most {MAX_BYTES} are allowed")
                print(f"{path.name}: {path.stat().st_size:,} bytes")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
