"""Unpack Debian's Python and musl for 64-bit Arm into a folder, to build wheels and to run them with qemu-aarch64.

``python3 tools/cross/arm64_python.py`` prints the folder.
"""

from __future__ import annotations

from pathlib import Path

import debian

VERSION = "3.11"
PACKAGES = (
    *(f"libpython{VERSION}-dev", f"python{VERSION}-minimal"),
    *(f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib"),
    *"libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5".split(),
    *"libsqlite3-0 libuuid1 libssl3 musl".split(),
)


def fetch() -> Path:
    """Download and unpack the packages, unless that is done already, and return the folder."""
    return debian.unpack(f"arm64-python-{VERSION}", "arm64", PACKAGES)


if __name__ == "__main__":
    print(fetch())
