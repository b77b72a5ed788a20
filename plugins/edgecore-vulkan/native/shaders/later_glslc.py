#!/usr/bin/env python3
"""Run the glslc of Debian trixie on a machine that cannot install it, with the given arguments.

``build.py`` uses it for shaders with extensions that bookworm's glslc lacks: GL_KHR_cooperative_matrix, integer dot
product. The compiler's packages and the C and C++ libraries that it needs are fetched once and unpacked into
``$EDGECORE_CACHE/third_party/glslc-<key>``; the dynamic loader in this folder runs the compiler with these libraries.
This needs no root, but an x86-64 machine with Linux.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "cmake"))

from third_party import FetchError, apt_fetch, cache_folder, fetch, new_folder, read_pins, say, unpack_deb

PINS = Path(__file__).with_name("later_glslc.pins")
# The SPIR-V does not depend on the versions of these libraries, which Debian's archive replaces now and then.
LIBRARIES = ("libc6", "libgcc-s1", "libstdc++6")


def folder() -> Path:
    """Return the folder that holds the compiler once it is unpacked."""
    key = hashlib.sha256(PINS.read_bytes()).hexdigest()[:16]
    return cache_folder() / f"glslc-{key}"


def command() -> list[str]:
    """Return the command line of the compiler; unpack the compiler first if the cache does not hold it."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise FetchError(f"The later glslc runs on x86-64 Linux, not on {platform.system()} {platform.machine()}.")
    root = folder()
    with new_folder(root) as stage:
        if stage is not None:
            pins = read_pins(PINS)
            files = root.parent / "files"
            fetch(pins, files)
            apt_fetch([], stage.parent, unpinned=LIBRARIES)
            libraries = [stage.parent / f"{name}.deb" for name in LIBRARIES]
            absent = [path.stem for path in libraries if not path.is_file()]
            if absent:
                raise FetchError(f"apt could not fetch {', '.join(absent)}, which the later glslc needs.")
            for archive in [*(files / pin.name for pin in pins), *libraries]:
                unpack_deb(archive, stage)
            say(f"unpacked the later glslc: {root}")
    libs = root / "usr/lib/x86_64-linux-gnu"
    return [str(libs / "ld-linux-x86-64.so.2"), "--library-path", str(libs), str(root / "usr/bin/glslc")]


def main() -> int:
    try:
        words = [*command(), *sys.argv[1:]]
        os.execv(words[0], words)
    except (FetchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
