#!/usr/bin/env python3
"""Fetch Arm's TOSA reference model as static libraries, and print the folder that holds it.

The plugin's CMake runs this script; it can also be run by hand. The wheel of ``reference_model.pins`` for the
processor is taken from the folder that ``EDGECORE_THIRD_PARTY`` names, else pip downloads it. The result
(``include/``, ``lib/`` and ``licenses/``) is kept in ``$EDGECORE_CACHE/third_party/tosa-reference-model-<key>``
(default cache: ``~/.cache/edgecore``), where the key is a hash of the pins, of this script and of the licences.
Progress goes to stderr, the folder's path to stdout. CMake passes the folder of edgecore's CMake files, where
``third_party.py`` lies, in EDGECORE_CMAKE_DIR; without this variable, the script runs in edgecore's repository. CMake
passes the processor that it builds for in EDGECORE_PROCESSOR; without this variable, it is this machine's.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, os.environ.get("EDGECORE_CMAKE_DIR") or str(Path(__file__).resolve().parents[4] / "cmake"))

from third_party import FetchError, Pin, cache_folder, new_folder, read_pins, say

HERE = Path(__file__).parent
PINS = HERE / "reference_model.pins"
LICENSES = HERE / "licenses"
REQUIREMENT = "tosa_tools==2026.8.0"
DOWNLOAD_SECONDS = 300
LIBRARIES = ("tosa_reference_model_lib", "tosa_check_dynamic_shape", "tosa_graph_tools", "tosa_serialization_lib")
# Of the wheel's include folder; GoogleTest's headers are the rest.
HEADERS = ("include/flatbuffers/", "include/tosa_serialization_lib/")


def choose_pin(system: str, processor: str) -> Pin:
    pins = {pin.package: pin for pin in read_pins(PINS)}  # this column holds the processor
    if system != "Linux" or processor not in pins:
        raise FetchError(
            f"Arm's reference model exists for Linux on {' and '.join(sorted(pins))}, but this is {system} on "
            f"{processor}; build edgecore-tosa on one of those."
        )
    return pins[processor]


def download(pin: Pin, folder: Path) -> None:
    """Let pip download the wheel; the caller checks what ``folder`` holds afterwards.

    Python runs in isolated mode: the environment in which pip builds a package hides pip itself through PYTHONPATH.
    """
    say(f"downloading {REQUIREMENT} ({pin.size / 1e6:.0f} MB)")
    command = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"]
    command += ["--platform", Path(pin.name).stem.rpartition(".")[2], "--dest", str(folder), REQUIREMENT]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        say(f"pip did not finish within {DOWNLOAD_SECONDS} s")


def fetch(pin: Pin, into: Path) -> Path:
    """Return the path of the pinned wheel in ``into``, after fetching it there unless it is there already."""
    into.mkdir(parents=True, exist_ok=True)
    wheel = into / pin.name
    if pin.matches(wheel):
        return wheel
    folder = os.environ.get("EDGECORE_THIRD_PARTY")
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=into) as name:
        found = Path(name, pin.name)
        if folder and Path(folder, pin.name).is_file():
            say(f"taking {pin.name} from {folder}")
            shutil.copyfile(Path(folder, pin.name), found)
        else:
            download(pin, Path(name))
        if not pin.matches(found):
            problem = "is not the pinned file" if found.is_file() else "could not be downloaded"
            raise FetchError(
                f"{pin.name} {problem}; put the file of {REQUIREMENT} into a folder and set EDGECORE_THIRD_PARTY to it."
            )
        found.replace(wheel)
    return wheel


def unpack(wheel: Path, stage: Path) -> None:
    """Put the headers, static libraries and licences into ``stage``."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        headers = [name for name in names if name.startswith(HEADERS) or Path(name).parent == Path("include")]
        for name in headers:
            archive.extract(name, stage)
        (stage / "lib").mkdir()
        for library in (*LIBRARIES, "flatbuffers"):
            member = f"lib64/lib{library}.a"
            if member not in names:
                raise FetchError(f"{wheel.name} holds no {member}; correct LIBRARIES in {__file__}.")
            (stage / "lib" / f"lib{library}.a").write_bytes(archive.read(member))
    shutil.copytree(LICENSES, stage / "licenses")


def main() -> int:
    try:
        pin = choose_pin(platform.system(), os.environ.get("EDGECORE_PROCESSOR") or platform.machine())
        parts = [PINS, Path(__file__), *sorted(LICENSES.iterdir())]
        key = hashlib.sha256(b"".join(part.read_bytes() for part in parts) + pin.sha256.encode()).hexdigest()[:16]
        result = cache_folder() / f"tosa-reference-model-{key}"
        with new_folder(result) as stage:
            if stage is not None:
                unpack(fetch(pin, cache_folder() / "files"), stage)
        print(result)
        return 0
    except (FetchError, OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
