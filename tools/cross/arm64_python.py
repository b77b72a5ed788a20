"""Debian's Python for 64-bit Arm, unpacked into a folder: its headers build wheels, and qemu-aarch64 runs it.

``python3 tools/cross/arm64_python.py`` prints the folder. apt downloads the packages from the archive that the machine is
configured with, by an index of its own; neither root nor a change of the machine's configuration is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from process import run

SUITE = "bookworm"
VERSION = "3.11"
PACKAGES = (
    f"libpython{VERSION}-dev", f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib",
    "libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5",
    "libsqlite3-0", "libuuid1", "libssl3",
)  # fmt: skip
FINISHED = "finished"


def fetch() -> Path:
    """Download and unpack the packages, unless that is done already, and return the folder."""
    cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache/edgecore")
    folder = cache / "cross" / f"arm64-python-{VERSION}-{SUITE}"
    if (folder / FINISHED).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="edgecore-apt-") as name:
        work = Path(name)
        for part in ("lists", "archives", "packages"):
            (work / part / "partial").mkdir(parents=True)
        if os.geteuid() == 0:  # apt run by root downloads as the user _apt
            work.chmod(0o755)
            shutil.chown(work / "packages", "_apt")
        (work / "sources.list").write_text(f"deb {archive()} {SUITE} main\n")
        options = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "Dir::Etc::sourcelist": work / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::Lists": work / "lists",
            "Dir::Cache": work,
            "Dir::Cache::archives": work / "archives",
            "Acquire::Languages": "none",
        }
        apt = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        run(*apt, "update", folder=work / "packages")
        run(*apt, "download", *PACKAGES, folder=work / "packages")
        for package in sorted((work / "packages").glob("*.deb")):
            run("dpkg", "-x", package, folder)
    (folder / FINISHED).touch()
    return folder


def archive() -> str:
    """Return the URI of the Debian archive that apt is configured with, security updates apart."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.split() for line in listing.stdout.splitlines()]
    uris = [row[0] for row in rows if len(row) == 2 and row[1] == "main" and "security" not in row[0]]
    if not uris:
        raise SystemExit("apt has no Debian archive configured; run apt-get update, or use a Debian machine.")
    return min(uris, key=lambda uri: not uri.rstrip("/").endswith("/debian"))


if __name__ == "__main__":
    print(fetch())
