"""Debian's Python and musl for 64-bit Arm, unpacked into a folder: for building wheels, and for qemu-aarch64.

``python3 tools/cross/arm64_python.py`` prints the folder. apt downloads the packages from the archive that the machine
is configured with, by an index of its own; neither root nor a change of the machine's configuration is needed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from process import run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))

from third_party import FetchError, private_apt

SUITE = "bookworm"
VERSION = "3.11"
PACKAGES = (
    *(f"libpython{VERSION}-dev", f"python{VERSION}-minimal"),
    *(f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib"),
    *"libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5".split(),
    *"libsqlite3-0 libuuid1 libssl3 musl".split(),
)


def fetch() -> Path:
    """Download and unpack the packages, unless that is done already, and return the folder."""
    cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache/edgecore")
    folder = cache / "cross" / f"arm64-python-{VERSION}-{SUITE}"
    finished, packages = folder / "finished", " ".join(PACKAGES)
    if finished.exists() and finished.read_text() == packages:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with private_apt(SUITE, "arm64") as (apt, root):
            downloads = root / "files"
            run(*apt, "-q", "update", folder=downloads)
            run(*apt, "-q", "download", *PACKAGES, folder=downloads)
            for package in sorted(downloads.glob("*.deb")):
                run("dpkg", "-x", package, folder)
    except FetchError as error:
        raise SystemExit(f"error: {error}") from error
    finished.write_text(packages)
    return folder


if __name__ == "__main__":
    print(fetch())
