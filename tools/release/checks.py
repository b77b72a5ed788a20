"""Check the packages of a release before any of them is installed."""

from __future__ import annotations

import sys
from pathlib import Path

from artifacts import PLATFORMS, PUBLISH, run, sdists_of, wheel_for

BIN = Path(sys.executable).parent


def check_all() -> None:
    """Raise SystemExit, with the output of the tool, if a package is missing or does not pass."""
    check_complete()
    files = sorted(PUBLISH.iterdir())
    wheels = [path for path in files if path.suffix == ".whl"]
    run(BIN / "twine", "check", "--strict", *files)
    run(BIN / "check-wheel-contents", "--config", PUBLISH.parents[1] / "pyproject.toml", *wheels)
    stable = [path for path in wheels if "-abi3-" in path.name]
    print(run(BIN / "abi3audit", "--strict", "--summary", *stable).strip())


def check_complete() -> None:
    """Raise SystemExit if a package lacks a wheel for one of its platforms, or its sdist."""
    missing = [
        f"{name} for {tag}" for name, platforms in PLATFORMS.items() for tag in platforms if not wheel_for(name, tag)
    ]
    missing += [f"the sdist of {name}" for name in PLATFORMS if len(sdists_of(name)) != 1]
    if missing:
        raise SystemExit(f"{PUBLISH} lacks {', '.join(missing)}; `python tools/release build` makes them.")
