"""Check the packages of a release before any of them is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from artifacts import PLATFORMS, PUBLISH, run, sdists_of, wheel_for

BIN = Path(sys.executable).parent
BUFFERS = {"PyObject_CheckBuffer", "PyObject_GetBuffer", "PyBuffer_Release"}
"""Functions that joined Python's limited API in 3.11. Each version from 3.10 on exports them, with the same struct."""


def check_all() -> None:
    """Raise SystemExit, with the output of the tool, if a package is missing or does not pass."""
    check_complete()
    files = sorted(PUBLISH.iterdir())
    wheels = [path for path in files if path.suffix == ".whl"]
    run(BIN / "twine", "check", "--strict", *files)
    run(BIN / "check-wheel-contents", "--config", PUBLISH.parents[1] / "pyproject.toml", *wheels)
    stable = [path for path in wheels if "-abi3-" in path.name]
    # abi3audit fails for the names of BUFFERS too, so that its report decides, not its exit status.
    audit = subprocess.run([BIN / "abi3audit", "--report", *stable], capture_output=True, text=True, check=False)
    if not audit.stdout:
        raise SystemExit(f"abi3audit made no report: {audit.stderr}")
    check_stable(json.loads(audit.stdout))


def check_complete() -> None:
    """Raise SystemExit if a package lacks a wheel for one of its platforms, or its sdist."""
    missing = [
        f"{name} for {tag}" for name, platforms in PLATFORMS.items() for tag in platforms if not wheel_for(name, tag)
    ]
    missing += [f"the sdist of {name}" for name in PLATFORMS if len(sdists_of(name)) != 1]
    if missing:
        raise SystemExit(f"{PUBLISH} lacks {', '.join(missing)}; `python tools/release build` makes them.")


def check_stable(report: dict[str, Any]) -> None:
    """Raise SystemExit if an extension of a wheel for all later Pythons uses a function that one of them may lack.

    Args:
        report: The report of abi3audit: `specs` -> file -> `wheel` -> rows with `name` and `result`.
    """
    for path, audit in report["specs"].items():
        for extension in audit["wheel"]:
            result = extension["result"]
            names = {*result["non_abi3_symbols"], *result["future_abi3_objects"]} - BUFFERS
            if names:
                raise SystemExit(
                    f"{extension['name']} of {path} uses {', '.join(sorted(names))}, which no Python promises"
                )
        print(f"{path}: the extensions use Python's limited API")
