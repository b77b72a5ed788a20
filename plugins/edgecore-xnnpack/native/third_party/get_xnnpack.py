#!/usr/bin/env python3
"""Fetch and build the XNNPACK that edgecore-xnnpack links, and print the folder that holds it.

The plugin's CMake runs this script; it can also be run by hand: ``python3 get_xnnpack.py [--emulated]``. The files of
``xnnpack.pins`` come from the Debian archive through apt, else from the folder that ``EDGECORE_THIRD_PARTY`` names. The
library's description of the processor (cpuinfo) is ours, in ``../cpuinfo``. The result (``include/``, ``lib/`` and
``licenses/``) is kept in ``$EDGECORE_CACHE/third_party/xnnpack-<key>`` (default cache: ``~/.cache/edgecore``). The key is
a hash of the pins, our changes to XNNPACK (``patches/``, ``kernels/``, ``kernels.txt``; see ``README.md``), cpuinfo, the
build options and the compiler. Progress goes to stderr, the folder's path to stdout.

``--target TRIPLE`` builds ``xnnpack-TRIPLE-<key>`` for another processor, with CMake's toolchain file
``../cmake/TRIPLE.cmake``; ``--toolchain FILE`` does so with another file. The key then covers the toolchain file, those
that it includes, and the compilers that it chooses (``cross.py``). ``--define NAME=VALUE`` sets a variable that the
file reads.

CMake passes the folder of edgecore's CMake files, where ``third_party.py`` lies, in EDGECORE_CMAKE_DIR. Without this
variable, the script runs in edgecore's repository.

``--emulated`` builds ``xnnpack-emulated-<key>``, a library for tests, from the same sources: its kernels for AVX512 and
later extensions are compiled for any processor with AVX2 (``emulated.py``), and XNNPACK selects them on any such
processor. To use this library, name its folder in ``XNNPACK_DIR``. ``--sources FOLDER`` only unpacks the patched
sources into FOLDER, for XNNPACK's own tests.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import cross
import emulated
import generate
import series

sys.path.insert(0, os.environ.get("EDGECORE_CMAKE_DIR") or str(Path(__file__).resolve().parents[4] / "cmake"))

from third_party import FetchError, Pin, cache_folder, extract, fetch, new_folder, read_pins, say, unpack_deb

PINS = Path(__file__).with_name("xnnpack.pins")
CPUINFO = Path(__file__).parents[1] / "cpuinfo"
TOOLCHAINS = {path.stem: path for path in (Path(__file__).parents[1] / "cmake").glob("*-linux-*.cmake")}

COMMON_OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
    "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",  # both projects ask for a CMake older than CMake 4 accepts
]
# Hides XNNPACK's symbols in the plugin's shared library: the process may contain another XNNPACK.
C_FLAGS = "-fvisibility=hidden"
# No exception passes through C code: tables for that would be a twentieth of the plugin's library.
NO_UNWIND = "-fno-asynchronous-unwind-tables"
# Turns off clang's SLP vectorizer, which packs the row pointers of the indirect GEMMs into vectors and unpacks them in
# the inner loop: with it, fp32 3x3 convolutions take 1.3 to 1.4 times as long. -fno-slp-vectorize would have no effect,
# because XNNPACK appends its own -O2, which turns the vectorizer on again.
CLANG_FLAGS = "-mllvm -vectorize-slp=false"
XNNPACK_OPTIONS = [
    "-DXNNPACK_LIBRARY_TYPE=static",
    "-DXNNPACK_USE_SYSTEM_LIBS=ON",
    "-DXNNPACK_BUILD_ALL_MICROKERNELS=OFF",
    "-DXNNPACK_BUILD_TESTS=OFF",
    "-DXNNPACK_BUILD_BENCHMARKS=OFF",
    "-DXNNPACK_ENABLE_KLEIDIAI=OFF",  # a library of its own, which is not among the pins
]
PTHREADPOOL_OPTIONS = [
    "-DPTHREADPOOL_LIBRARY_TYPE=static",
    "-DPTHREADPOOL_BUILD_TESTS=OFF",
    "-DPTHREADPOOL_BUILD_BENCHMARKS=OFF",
]


class BuildError(Exception):
    """An error whose text is one sentence for the user: what failed, and what to do."""


@dataclass(frozen=True)
class Compiler:
    """The commands of a C and a C++ compiler of the same family; ``version`` is the first line of ``--version``."""

    c: str
    cxx: str
    version: str
    all_kernels: bool  # new enough for XNNPACK's AMX and AVX512-FP16 kernels
    toolchain: Path | None = None  # CMake's description of another target than this machine
    definitions: tuple[str, ...] = ()  # NAME=VALUE, for the toolchain file

    @property
    def flags(self) -> str:
        return f"{C_FLAGS} {CLANG_FLAGS}" if "clang" in self.version else C_FLAGS


# ---- unpacking


def unpack_tarball(archive: Path, into: Path) -> Path:
    """Unpack a source tarball and return its top folder, which holds CMakeLists.txt or ``include/``."""
    with tarfile.open(archive) as tar:
        extract(tar, into)
    entries = list(into.iterdir())
    return entries[0] if len(entries) == 1 else into


# ---- building


def compiler_version(command: str) -> str | None:
    if shutil.which(command) is None:
        return None
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else None


def choose_compiler() -> Compiler:
    """Choose clang-16, else another clang of version 15 or later, else gcc 13 or later, else any C compiler."""
    clangs = [("clang-16", "clang++-16"), *((f"clang-{n}", f"clang++-{n}") for n in (17, 18, 19, 20, 15))]
    gccs = [(f"gcc-{n}", f"g++-{n}") for n in (13, 14, 15)]
    fallback: Compiler | None = None
    for c, cxx in [*clangs, ("clang", "clang++"), *gccs, ("gcc", "g++"), ("cc", "c++")]:
        version = compiler_version(c)
        if version is None or shutil.which(cxx) is None:
            continue
        number = re.search(r"(\d+)\.\d+", version)
        min_version = 15 if "clang" in version else 13
        if number and int(number[1]) >= min_version:
            return Compiler(c, cxx, version, all_kernels=True)
        fallback = fallback or Compiler(c, cxx, version, all_kernels=False)
    if fallback is None:
        raise BuildError("No C and C++ compiler was found; install clang-16.")
    return fallback


def cmake_build(name: str, source: Path, build: Path, compiler: Compiler, options: list[str]) -> None:
    """Configure and build a CMake project in the folder ``build`` of the work folder."""
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    tools = [f"-DCMAKE_C_COMPILER={compiler.c}", f"-DCMAKE_CXX_COMPILER={compiler.cxx}"]
    if compiler.toolchain is not None:
        tools = [f"-DCMAKE_TOOLCHAIN_FILE={compiler.toolchain}", *(f"-D{one}" for one in compiler.definitions)]
    configure = [
        "cmake", "-S", str(source), "-B", str(build), *generator, *tools,
        f"-DPython_EXECUTABLE={sys.executable}", *COMMON_OPTIONS, *options,
    ]  # fmt: skip
    run_with_progress(configure, name, build.parent)
    run_with_progress(["cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1)], name, build.parent)


def run_with_progress(command: list[str], name: str, work: Path) -> None:
    """Run a command and print its progress ("[3/10]" or "[30%]" in its output) at each 10 %.

    The folder ``work`` has another name each time, which ccache, if it is used, must not take for another command.
    Raises BuildError if the command fails, after printing the end of its output.
    """
    lines: list[str] = []
    tenth = 0
    environment = {**os.environ, "CCACHE_BASEDIR": str(work)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            step = re.match(r"\[\s*(?:(\d+)/(\d+)|(\d+)%)\]", line)
            if step:
                percent = int(step[3]) if step[3] else 100 * int(step[1]) // int(step[2])
                if percent // 10 > tenth:
                    tenth = percent // 10
                    say(f"{name} {tenth * 10} %")
    if process.returncode:
        sys.stderr.writelines(lines[-30:])
        raise BuildError(f"Building {name} failed ({' '.join(command[:3])}, status {process.returncode}); see above.")


def unpack_sources(archives: dict[str, Path], work: Path) -> dict[str, Path]:
    """Unpack the source archives (by package name) into folders of ``work``, and patch XNNPACK.

    Returns the top folder of each package's sources.
    """
    sources = {}
    for package in ("xnnpack", "pthreadpool", "fxdiv"):
        (work / package).mkdir(parents=True)
        sources[package] = unpack_tarball(archives[package], work / package)
    series.apply(sources["xnnpack"])
    generate.generate(sources["xnnpack"])
    return sources


def build(files: Path, work: Path, stage: Path, compiler: Compiler, pins: list[Pin], for_tests: bool) -> None:
    """Unpack and build XNNPACK in ``work``, and put the files that the plugin needs into ``stage``."""
    archives = {pin.package: files / pin.name for pin in pins}
    sources = unpack_sources(archives, work)
    for pin in pins:
        if not pin.is_source:
            unpack_deb(archives[pin.package], work / "debs")
    usr = work / "debs" / "usr"

    include, lib, licenses = stage / "include", stage / "lib", stage / "licenses"
    for folder in (include, lib, licenses):
        folder.mkdir(parents=True)
    headers = [sources["xnnpack"] / "include/xnnpack.h", sources["pthreadpool"] / "include/pthreadpool.h"]
    for header in [*headers, sources["fxdiv"] / "include/fxdiv.h", CPUINFO / "include/cpuinfo.h"]:
        shutil.copyfile(header, include / header.name)
    for package, source in sources.items():
        shutil.copyfile(source / "LICENSE", licenses / f"{package}.txt")

    flags = f"{compiler.flags} -I{include}"
    if for_tests:
        shutil.copytree(usr / "include/simde", include / "simde")
        shutil.copyfile(usr / "share/doc/libsimde-dev/copyright", licenses / "simde.txt")
        emulated.prepare(sources["xnnpack"], include)
    generate.group(sources["xnnpack"])
    flag_options = [f"-DCMAKE_C_FLAGS={flags} {NO_UNWIND}", f"-DCMAKE_CXX_FLAGS={flags}"]
    fxdiv = f"-DFXDIV_SOURCE_DIR={sources['fxdiv']}"
    cpuinfo, pool, xnnpack = (work / f"build-{name}" for name in ("cpuinfo", "pthreadpool", "xnnpack"))
    cmake_build("cpuinfo", CPUINFO, cpuinfo, compiler, flag_options)
    cmake_build("pthreadpool", sources["pthreadpool"], pool, compiler, [*flag_options, *PTHREADPOOL_OPTIONS, fxdiv])
    system = [
        fxdiv,
        f"-DCPUINFO_SOURCE_DIR={CPUINFO}",
        f"-DCPUINFO_LIBRARY={cpuinfo / 'libcpuinfo.a'}",
        f"-DPTHREADPOOL_SOURCE_DIR={sources['pthreadpool']}",
        f"-DPTHREADPOOL_LIBRARY={pool / 'libpthreadpool.a'}",
    ]
    cmake_build("XNNPACK", sources["xnnpack"], xnnpack, compiler, [*flag_options, *XNNPACK_OPTIONS, *system])
    archives = (cpuinfo / "libcpuinfo.a", pool / "libpthreadpool.a")
    for archive in (*archives, xnnpack / "libXNNPACK.a", xnnpack / "libmicrokernels-prod.a"):
        shutil.copyfile(archive, lib / archive.name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch and build XNNPACK, and print the folder that holds it.")
    parser.add_argument(
        "--emulated", action="store_true", help="a library for tests: every x86 kernel on any processor with AVX2"
    )
    parser.add_argument("--target", choices=sorted(TOOLCHAINS), help="build for another processor than this machine's")
    parser.add_argument("--toolchain", type=Path, metavar="FILE", help="the same with a toolchain file of CMake")
    parser.add_argument(
        "--define", action="append", default=[], metavar="NAME=VALUE", help="a variable of CMake for the toolchain file"
    )
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="only unpack the patched sources into FOLDER")
    arguments = parser.parse_args()
    for_tests: bool = arguments.emulated
    try:
        if platform.system() != "Linux":
            raise BuildError(
                f"XNNPACK is built here on Linux, but this is {platform.system()}; "
                "build XNNPACK yourself and set XNNPACK_DIR to its folder."
            )
        if shutil.which("cmake") is None:
            raise BuildError("cmake was not found; install it (apt-get install cmake ninja-build).")
        compiler = choose_compiler()
        options = [*COMMON_OPTIONS, compiler.flags, NO_UNWIND, *XNNPACK_OPTIONS, *PTHREADPOOL_OPTIONS]
        ours = sorted(path for path in CPUINFO.rglob("*") if path.is_file())
        inputs = [generate.TABLE, *sorted(generate.TEMPLATES.iterdir()), *ours]
        changes = repr([patch.files for patch in series.read()])
        identity = [PINS.read_text(), changes, *(path.read_text() for path in inputs), *options, compiler.version]
        name = "xnnpack"
        if for_tests:
            if "clang" not in compiler.version:
                raise BuildError("The emulated kernels need clang's vector types; install clang-16.")
            name = "xnnpack-emulated"
            emulation = [emulated.PINS, Path(emulated.__file__), *sorted(emulated.HEADERS.iterdir())]
            identity += [path.read_text() for path in emulation]
        toolchain: Path | None = TOOLCHAINS[arguments.target] if arguments.target else arguments.toolchain
        if toolchain is not None:
            compiler = replace(compiler, toolchain=toolchain.resolve(), definitions=tuple(arguments.define))
            name = f"xnnpack-{toolchain.stem}"
            identity += cross.describe(toolchain, arguments.define)
        key = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
        if arguments.sources is not None:
            pins = read_pins(PINS)
            files = cache_folder() / "files"
            fetch(pins, files)
            shutil.rmtree(arguments.sources, ignore_errors=True)
            unpack_sources({pin.package: files / pin.name for pin in pins}, arguments.sources)
            return 0
        result = cache_folder() / f"{name}-{key}"
        with new_folder(result) as stage:
            if stage is not None:
                make(stage, compiler, for_tests)
        print(result)
        return 0
    except (BuildError, FetchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def make(stage: Path, compiler: Compiler, for_tests: bool) -> None:
    """Fetch XNNPACK, and build it beside ``stage``, the new folder that receives the result."""
    pins = read_pins(PINS) + (read_pins(emulated.PINS) if for_tests else [])
    files = cache_folder() / "files"
    fetch(pins, files)
    if not compiler.all_kernels:
        say(f"warning: {compiler.version} is too old for the AMX and AVX512-FP16 kernels; install clang-16 for them")
    say(f"building with {compiler.version}; this takes about a minute on two cores")
    start = time.monotonic()
    build(files, stage.parent, stage, compiler, pins, for_tests)
    say(f"built in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
