"""Download Debian packages for any processor, and unpack them into a folder of the cache.

apt downloads from the archive in the machine's configuration, but keeps a separate package index (`private_apt`). So
this needs no root, and does not change the machine's configuration.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from process import run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))

from third_party import FetchError, private_apt

SUITE = "bookworm"


def unpack(name: str, architecture: str, packages: Sequence[str]) -> Path:
    """Download and unpack packages, unless that is done already, and return their folder.

    Args:
        name: The name of the folder without the Debian suite, which is appended.
        architecture: Debian's name of the processor, such as ``arm64``.
        packages: The names of the packages.

    Raises:
        SystemExit: apt or dpkg fails.
    """
    cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache/edgecore")
    folder = cache / "cross" / f"{name}-{SUITE}"
    finished, wanted = folder / "finished", " ".join(packages)
    if finished.exists() and finished.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with private_apt(SUITE, architecture) as (apt, root):
            downloads = root / "files"
            run(*apt, "-q", "update", folder=downloads)
            run(*apt, "-q", "download", *packages, folder=downloads)
            for package in sorted(downloads.glob("*.deb")):
                run("dpkg", "-x", package, folder)
    except FetchError as error:
        raise SystemExit(f"error: {error}") from error
    finished.write_text(wanted)
    return folder
