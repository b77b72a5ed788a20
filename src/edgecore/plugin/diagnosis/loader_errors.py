"""Explain why the system's loader cannot load a shared library, and name the command that repairs it."""

from __future__ import annotations

import platform
import re
import shutil
import struct
import sys
from pathlib import Path

# Processor numbers in the field e_machine of an ELF header:
# https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 8: "mips", 20: "ppc", 21: "ppc64le"}
_NAMES = {"amd64": "x86_64", "arm64": "aarch64", "i386": "x86", "i686": "x86", "armv7l": "arm", "armv8l": "arm"}

# File name prefix of a system library -> the command that installs it.
_PACKAGES = {
    "libOpenCL.": "apt-get install ocl-icd-libopencl1",
    "libvulkan.": "apt-get install libvulkan1",
    "libgomp.": "apt-get install libgomp1",
    "libomp.": "apt-get install libomp5",
    "libatomic.": "apt-get install libatomic1",
    "libstdc++.": "apt-get install libstdc++6",
    "libtbb.": "apt-get install libtbb12",
    "libGL.": "apt-get install libgl1",
    "libEGL.": "apt-get install libegl1",
    "libusb-1.0.": "apt-get install libusb-1.0-0",
    "libopenvino": "pip install openvino",
    "libcudart.": "pip install nvidia-cuda-runtime-cu12",
    "libcublas.": "pip install nvidia-cublas-cu12",
    "libcudnn": "pip install nvidia-cudnn-cu12",
    "libnvinfer.": "pip install tensorrt",
}

_MISSING = re.compile(
    r"^(?P<glibc>[^/\s:]+): cannot open shared object file: No such file"  # glibc
    r"|Error loading shared library (?P<musl>[^\s:]+): No such file"  # musl
    r"|Library not loaded: (?P<macos>\S+)"  # macOS
)
_TOO_OLD = re.compile(r"version `(?P<version>[^']+)' not found")
_SYMBOL = re.compile(r"undefined symbol: (?P<name>\w+)")


def wrong_file(path: Path) -> str:
    """Check that a library exists, is not inside an archive, and is built for this machine's processor.

    Args:
        path: Absolute path of the library.

    Returns:
        A sentence about the first problem; empty if there is none.
    """
    archive = next((parent for parent in path.parents if parent.is_file()), None)
    if archive:
        return f"{path} lies in the archive {archive}, and a system loads libraries from files of their own only"
    if not path.is_file():
        return f"{path} does not exist"
    machine = machine_of(path)
    here = _NAMES.get(platform.machine().lower(), platform.machine().lower())
    if machine and here in _MACHINES.values() and machine != here and sys.platform == "linux":
        return f"{path} is for {machine}, and this Python runs on {here}"
    return ""


def machine_of(path: Path) -> str:
    """Return the processor of an ELF file, such as "aarch64"; empty if the file is not an ELF file."""
    with path.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return ""
    (number,) = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)
    return _MACHINES.get(number, f"processor {number}")


def explain(message: str, reinstall: str, distribution: str) -> tuple[str, str]:
    """Explain an error message of the system's dynamic loader.

    Args:
        message: The loader's message.
        reinstall: Command to return if no other command follows from the message.
        distribution: The package that contains the library.

    Returns:
        An explanation (empty if the message is unknown), and a command that repairs the problem.
    """
    if match := _MISSING.search(message):
        library = next(filter(None, match.groupdict().values()))
        return f"it needs {library}, which the system's loader does not find", _package_of(library)
    if match := _TOO_OLD.search(message):
        reason = f"it was built for a newer system than this one: {match['version']} is missing"
        return reason, f"pip install --force-reinstall --no-deps --no-binary {distribution} {distribution}"
    if match := _SYMBOL.search(message):
        return f"none of its libraries has the symbol {match['name']}: their versions do not match", reinstall
    return "", reinstall


def _package_of(library: str) -> str:
    """Return the command that installs a library, or that searches for the system package that contains it."""
    name = library.rpartition("/")[2]
    for start, command in _PACKAGES.items():
        if name.startswith(start):
            return command
    if shutil.which("dnf"):
        return f"dnf provides '*/{name}'"
    return f"apt-get install apt-file && apt-file update && apt-file search {name}"
