"""Chromium without a window, for the tests of pages, and the addresses that it has asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
HOSTILE = "</script><img src=x onerror=document.title='broken'>"


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium, which can reach no host and records its log and requests; skip the test if it is not installed."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "host-resolver-rules=MAP * ~NOTFOUND", "window-size=1200,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def violations(driver: Any) -> list[str]:
    """Return what axe-core finds serious or critical in what the page shows; skip the test if it is not installed."""
    axe = pytest.importorskip("axe_core_python")
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": (Path(axe.__file__).parent / "axe.min.js").read_text()})
    found = driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found if rule["impact"] in ("serious", "critical")
    ]


def requested_urls(driver: Any) -> set[str]:
    """Return the addresses that were asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return {one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"}
