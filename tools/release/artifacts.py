"""The packages of a release: wheels for each platform of ``plugins.toml``, and an sdist of each package."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/cross"), str(ROOT / "cmake")]

from process import run
from wheels import PLATFORMS, PUBLISH, source


def build_all() -> None:
    """Build all packages into ``dist/publish``, which is emptied before."""
    for old in PUBLISH.glob("*"):
        old.unlink()
    run(sys.executable, ROOT / "tools/cross/wheels.py")
    build_sdists()


def build_sdists() -> None:
    """Build the sdist of each package, with the build tools of this environment."""
    for package in PLATFORMS:
        run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", PUBLISH, source(package))


def wheels_of(package: str) -> list[Path]:
    """Return the published wheels of a package."""
    return sorted(PUBLISH.glob(f"{package.replace('-', '_')}-[0-9]*.whl"))


def sdists_of(package: str) -> list[Path]:
    """Return the published sdists of a package."""
    return sorted(PUBLISH.glob(f"{package.replace('-', '_')}-[0-9]*.tar.gz"))


def wheel_for(package: str, tag: str) -> Path | None:
    """Return the wheel that was built for a platform tag of PLATFORMS; its own tag may be of an older system."""
    processor = "x86_64" if tag.endswith("x86_64") else "aarch64"
    for wheel in wheels_of(package):
        if tag == "any" and wheel.stem.endswith("-any"):
            return wheel
        if tag.partition("_")[0] in wheel.stem and wheel.stem.endswith(f"_{processor}"):
            return wheel
    return None
