#!/usr/bin/env python3
"""Run a program with the lavapipe of Debian sid, whose cooperative matrices trixie's 25.0 lacks.

    later_lavapipe.py PROGRAM [ARGUMENT ...]

The packages that apt resolves for it are fetched once, verified by the archive's signature, and unpacked into
``$EDGECORE_CACHE/third_party/lavapipe-sid``; delete that folder for a newer Mesa. The loader in there runs the program,
which may be built on an older Debian, with these libraries. This needs no root, but an x86-64 machine with Linux.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "cmake"))

from third_party import FetchError, cache_folder, new_folder, private_apt, say, unpack_deb

SUITE = "sid"
PACKAGES = ("mesa-vulkan-drivers", "libvulkan1", "vulkan-validationlayers", "libstdc++6", "zlib1g")
SECONDS = 300
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def unpack(into: Path) -> None:
    """Unpack ``PACKAGES`` and all that they depend on into a folder."""
    with private_apt(SUITE) as (words, root):
        (root / "status").touch()  # nothing is installed, so that apt resolves down to libc6
        apt = [*words, "-o", f"Dir::State::status={root / 'status'}", "-o", "Debug::NoLocking=1"]
        install = ["install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES]
        # An archive that cannot be reached is an error of `update`, too, which only warns by default.
        for arguments in (["-o", "APT::Update::Error-Mode=any", "update"], install):
            done = subprocess.run([*apt, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode:
                step = "update" if "update" in arguments else "install"
                raise FetchError(f"apt-get {step} failed for Debian {SUITE}: {done.stderr.strip()}")
        for archive in sorted((root / "archives").glob("*.deb")):
            unpacked = subprocess.run(["dpkg", "-x", archive, into], capture_output=True, check=False)
            if unpacked.returncode:
                unpack_deb(archive, into)


def folder() -> Path:
    """Return the folder with the unpacked packages, which is made first if the cache does not hold it."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise FetchError(f"The later lavapipe runs on x86-64 Linux, not on {platform.system()} {platform.machine()}.")
    root = cache_folder() / f"lavapipe-{SUITE}"
    with new_folder(root) as stage:
        if stage is not None:
            unpack(stage)
            driver = {"api_version": "1.4.0", "library_path": str(root / LIBRARIES / "libvulkan_lvp.so")}
            text = json.dumps({"file_format_version": "1.0.1", "ICD": driver})
            (stage / "lavapipe.json").write_text(text)
            say(f"unpacked the later lavapipe: {root}")
    return root


def command(program: str) -> tuple[list[str], dict[str, str]]:
    """Return the words that start ``program`` with the later lavapipe, and the environment that it needs."""
    root = folder()
    path = shutil.which(program)
    if path is None:
        raise FetchError(f"{program} is no program; give the path of one.")
    libraries = str(root / LIBRARIES)
    words = [f"{libraries}/ld-linux-x86-64.so.2", "--argv0", path, "--library-path", libraries, path]
    variables = {
        "VK_DRIVER_FILES": str(root / "lavapipe.json"),
        "VK_LAYER_PATH": str(root / "usr/share/vulkan/explicit_layer.d"),
    }
    return words, {**os.environ, **variables}


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: later_lavapipe.py PROGRAM [ARGUMENT ...]", file=sys.stderr)
        return 2
    try:
        words, environment = command(sys.argv[1])
        os.execve(words[0], [*words, *sys.argv[2:]], environment)
    except (FetchError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
