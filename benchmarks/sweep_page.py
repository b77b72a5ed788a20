"""Measure filters on the page of a sweep of 2,000 cells in Chromium: from the event until the next frame is painted.

    python benchmarks/sweep_page.py

Needs chromium, chromedriver and selenium. Prints a line for each view and filter: the median and the largest of eleven
times that it is set and taken back, in ms.
"""

import shutil
import statistics
import tempfile
from pathlib import Path

from selenium import webdriver

from edgecore.sweeps import CellResult, sweep_page

FILTERS = (("backend", "change", "backend4"), ("model", "change", "model3"), ("text", "input", "model1/"),
           ("text", "input", "recipe7"))  # fmt: skip
TIMES = """
const [id, event, value, done] = arguments, one = document.getElementById(id);
const set = (text) => new Promise((resolve) => {
  const start = performance.now();
  one.value = text;
  one.dispatchEvent(new Event(event));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
});
(async () => {
  const found = [];
  for (let number = 0; number < 11; ++number) found.push(await set(value), await set(""));
  done(found);
})();
"""


def rows() -> list[CellResult]:
    found = []
    for number in range(2000):
        names = f"model{number // 100}", f"backend{number // 10 % 10}", f"recipe{number % 10}"
        status = "failed" if number % 7 == 3 else "ok"
        found.append(
            CellResult(
                "/".join(names), *names, "executorch-1.5", 0, status, reason="no room" if status == "failed" else "",
                file_bytes=1000 + number, sqnr_db=20.0 + number % 40, accuracy=0.5 + number % 97 / 200,
                median_ms=1.0 + number % 89, report="report.html",
            )
        )  # fmt: skip
    return found


def main() -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1200,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "index.html")
        page.write_text(sweep_page(rows(), "2,000 cells"), encoding="utf-8")
        driver.get(page.as_uri())
        for view in ("matrix", "scatter"):
            driver.find_element("id", f"tab-{view}").click()
            for name, event, value in FILTERS:
                found = driver.execute_async_script(TIMES, name, event, value)
                print(
                    f"{view}, {name} = {value}: {statistics.median(found):.0f} ms, at most {max(found):.0f} ms",
                    flush=True,
                )
    driver.quit()


if __name__ == "__main__":
    main()
