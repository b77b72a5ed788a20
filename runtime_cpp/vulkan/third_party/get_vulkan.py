#!/usr/bin/env python3
"""Fetch the Vulkan headers, volk and the Vulkan Memory Allocator, and print the folder that holds them.

`cmake/edgecoreVulkan.cmake` runs this script; it can also be run by hand. The files of ``vulkan.pins`` come from the Debian
archive through apt, else from the folder that ``EDGECORE_THIRD_PARTY`` names. The result (``include/`` and
``licenses/``) is kept in ``$EDGECORE_CACHE/third_party/vulkan-<key>`` (default cache: ``~/.cache/edgecore``), where the
key is a hash of the pins and of this script. Progress goes to stderr, the folder's path to stdout.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

# The folder of edgecore's CMake files: in the repository, and in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "cmake"))

from third_party import FetchError, Pin, cache_folder, fetch, new_folder, read_pins, unpack_deb

PINS = Path(__file__).with_name("vulkan.pins")
# Only what C++ code includes: the bindings for C++ are 10 MB more.
FILES = ("vulkan/*.h", "vk_video/*.h", "volk.h", "volk.c", "vk_mem_alloc.h")


def unpack(files: Path, pins: list[Pin], stage: Path) -> None:
    """Unpack the packages, and put the headers and licences into ``stage``."""
    (stage / "licenses").mkdir()
    with tempfile.TemporaryDirectory(prefix="debs-", dir=stage.parent) as name:
        for pin in pins:
            unpack_deb(files / pin.name, Path(name))
            license_file = Path(name, "usr/share/doc", pin.package, "copyright")
            shutil.copyfile(license_file, stage / "licenses" / f"{pin.package}.txt")
        include = Path(name, "usr/include")
        for pattern in FILES:
            found = list(include.glob(pattern))
            if not found:
                raise FetchError(f"The packages of {PINS.name} hold no file {pattern}; correct FILES in {__file__}.")
            for path in found:
                target = stage / "include" / path.relative_to(include)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def main() -> int:
    """Fetch the headers if the cache has none, print their folder, and return the exit status."""
    try:
        pins = read_pins(PINS)
        key = hashlib.sha256(PINS.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
        cache = cache_folder()
        result = cache / f"vulkan-{key}"
        with new_folder(result) as stage:
            if stage is not None:
                fetch(pins, cache / "files")
                unpack(cache / "files", pins, stage)
        print(result)
        return 0
    except (FetchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
