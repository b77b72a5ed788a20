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

``--emulated`` builds ``xnnpack-emulated-<key>``, a library for tests, from the same sources: its kernels for AVX512 and
later extensions are compiled for any processor with AVX2 (``emulated.py``), and XNNPACK selects them on any such
processor. To use this library, name its folder in ``XNNPACK_DIR``. ``--sources FOLDER`` only unpacks the patched
sources into FOLDER, for XNNPACK's own tests.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import cross
import emulated
import generate
import series

PINS = Path(__file__).with_name("xnnpack.pins")
CPUINFO = Path(__file__).parents[1] / "cpuinfo"
TOOLCHAINS = {path.stem: path for path in (Path(__file__).parents[1] / "cmake").glob("*-linux-*.cmake")}
SUITE = "trixie"
UPDATE_SECONDS, DOWNLOAD_SECONDS = 300, 120

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
class Pin:
    """A file of the Debian archive; a copy is used only if its SHA-256 and size match."""

    sha256: str
    size: int
    kind: str  # "source" or "binary": how apt fetches it
    package: str
    name: str

    def matches(self, path: Path) -> bool:
        """Return True if the file at ``path`` has this pin's size and SHA-256."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


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


def say(text: str) -> None:
    print(f"xnnpack: {text}", file=sys.stderr, flush=True)


def read_pins(*more_files: Path) -> list[Pin]:
    """Read ``xnnpack.pins`` and ``more_files``, which have the same format."""
    lines = [line for file in (PINS, *more_files) for line in file.read_text().splitlines()]
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return [Pin(sha, int(size), kind, package, name) for sha, size, kind, package, name in rows]


# ---- fetching


def archive_uri() -> str | None:
    """Return the URI of the Debian archive that apt is configured with, or None.

    Security repositories are skipped; a URI that ends with ``/debian`` is preferred to those of other vendors.
    """
    output_format = "$(REPO_URI) $(COMPONENT)"
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", output_format, "Created-By: Packages"],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_SECONDS,
        check=False,
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    uris = [row[0] for row in rows if len(row) == 2 and row[1] == "main" and "security" not in row[0]]
    uris.sort(key=lambda uri: not uri.rstrip("/").endswith("/debian"))
    return uris[0] if uris else None


def apt_fetch(pins: list[Pin], into: Path) -> None:
    """Download those of ``pins`` that apt can get; the caller checks which files exist afterwards.

    apt's exit status is ignored: it is 100 also if only a file beside the wanted file (such as its .dsc) is missing in
    the archive.
    """
    if shutil.which("apt-get") is None:
        say("this machine has no apt-get; no file is fetched from the Debian archive")
        return
    with tempfile.TemporaryDirectory(prefix="edgecore-apt-") as name:
        root = Path(name)
        folders = {key: root / key for key in ("lists", "archives", "files")}
        for folder in folders.values():
            (folder / "partial").mkdir(parents=True)
        if os.geteuid() == 0:  # apt run by root downloads as the user _apt, who must be able to enter and write here
            root.chmod(0o755)
            with suppress(LookupError):
                shutil.chown(folders["files"], "_apt")
        options = [
            f"Dir::Etc::sourcelist={root / 'sources.list'}",
            "Dir::Etc::sourceparts=/dev/null",
            f"Dir::State::Lists={folders['lists']}",
            f"Dir::Cache={root}",
            f"Dir::Cache::archives={folders['archives']}",
            "APT::Get::List-Cleanup=0",
            "Acquire::Languages=none",
            "Acquire::Retries=1",
            "Acquire::http::Timeout=30",
            "Acquire::https::Timeout=30",
        ]
        apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
        commands = [(["update"], UPDATE_SECONDS)]
        for pin in pins:
            if pin.kind == "source":
                commands.append((["source", "--download-only", pin.package], DOWNLOAD_SECONDS))
            else:
                version = pin.name.split("_")[1]
                commands.append((["download", f"{pin.package}={version}"], DOWNLOAD_SECONDS))
        try:
            uri = archive_uri()
            if uri is None:
                say("apt has no Debian archive configured; no file is fetched from it")
                return
            (root / "sources.list").write_text(f"deb {uri} {SUITE} main\ndeb-src {uri} {SUITE} main\n")
            say(f"asking the Debian archive for {len(pins)} files of {SUITE}")
            for words, seconds in commands:
                subprocess.run(
                    [*apt, *words],
                    cwd=folders["files"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=seconds,
                    check=False,
                )
        except subprocess.TimeoutExpired as expired:
            say(f"apt-get did not finish within {expired.timeout:.0f} s")
        take(pins, folders["files"], into, "the Debian archive")


def take(pins: list[Pin], source: Path, into: Path, origin: str) -> None:
    """Copy the pinned files from ``source`` to ``into``; refuse those whose size or hash differs from the pin."""
    for pin in pins:
        # apt escapes characters such as "~" in the names of binary packages.
        candidates = [path for path in (source / pin.name, source / pin.name.replace("~", "%7e")) if path.is_file()]
        if not candidates:
            continue
        copy = into / f"{pin.name}.{os.getpid()}"
        shutil.copyfile(candidates[0], copy)
        if pin.matches(copy):
            copy.replace(into / pin.name)
        else:
            copy.unlink()
            say(f"refused {pin.name} from {origin}: its size or SHA-256 differs from the pinned value")


def fetch(pins: list[Pin], into: Path) -> None:
    """Make ``into`` hold every pinned file, fetched from the Debian archive, else from ``EDGECORE_THIRD_PARTY``.

    Files that ``into`` already holds are not fetched again. Raises BuildError if a file cannot be found.
    """
    into.mkdir(parents=True, exist_ok=True)
    folder = os.environ.get("EDGECORE_THIRD_PARTY")

    def missing() -> list[Pin]:
        return [pin for pin in pins if not pin.matches(into / pin.name)]

    if missing():
        apt_fetch(missing(), into)
    if missing() and folder:
        say(f"taking {len(missing())} files from {folder}")
        take(missing(), Path(folder), into, folder)
    if missing():
        names = ", ".join(pin.name for pin in missing())
        tried = f"EDGECORE_THIRD_PARTY={folder}" if folder else "EDGECORE_THIRD_PARTY is not set"
        raise BuildError(
            f"Neither the Debian archive nor a local folder ({tried}) has {names}; put these files of Debian {SUITE} "
            f"(SHA-256 in {PINS}) into a folder and set EDGECORE_THIRD_PARTY to it."
        )


# ---- unpacking


def unpack_tarball(archive: Path, into: Path) -> Path:
    """Unpack a source tarball and return its top folder, which holds CMakeLists.txt or ``include/``."""
    with tarfile.open(archive) as tar:
        extract(tar, into)
    entries = list(into.iterdir())
    return entries[0] if len(entries) == 1 else into


def unpack_deb(archive: Path, into: Path) -> None:
    """Unpack the files of a .deb: an ar archive (60-byte headers, members at even offsets) with a data.tar.*."""
    data = archive.read_bytes()
    offset = len(b"!<arch>\n")
    while offset < len(data):
        header = data[offset : offset + 60]
        name, size = header[:16].decode().strip(), int(header[48:58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(data[offset + 60 : offset + 60 + size])) as tar:
                extract(tar, into)
            return
        offset += 60 + size + size % 2
    raise BuildError(f"{archive.name} holds no data.tar member; delete {archive} and try again.")


def extract(tar: tarfile.TarFile, into: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        tar.extractall(into, filter="data")
    else:
        tar.extractall(into)


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
        if pin.kind == "binary":
            unpack_deb(archives[pin.package], work / "debs")
    usr = work / "debs" / "usr"

    stage.mkdir()
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, so that a second process waits and then finds the finished build."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
        cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache" / "edgecore") / "third_party"
        result = cache / f"{name}-{key}"
        cache.mkdir(parents=True, exist_ok=True)
        if arguments.sources is not None:
            pins = read_pins()
            fetch(pins, cache / "files")
            shutil.rmtree(arguments.sources, ignore_errors=True)
            unpack_sources({pin.package: cache / "files" / pin.name for pin in pins}, arguments.sources)
            return 0
        if not result.is_dir():
            with locked(cache / f"{name}-{key}.lock"):
                if not result.is_dir():
                    make(result, cache, compiler, for_tests)
        print(result)
        return 0
    except (BuildError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def make(result: Path, cache: Path, compiler: Compiler, for_tests: bool) -> None:
    """Fetch and build XNNPACK in a temporary folder, and rename this folder to ``result`` once it is complete."""
    pins = read_pins(emulated.PINS) if for_tests else read_pins()
    fetch(pins, cache / "files")
    if not compiler.all_kernels:
        say(f"warning: {compiler.version} is too old for the AMX and AVX512-FP16 kernels; install clang-16 for them")
    say(f"building with {compiler.version}; this takes about a minute on two cores")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as name:
        stage = Path(name) / "stage"
        build(cache / "files", Path(name), stage, compiler, pins, for_tests)
        stage.rename(result)
    say(f"built in {time.monotonic() - start:.0f} s: {result}")


if __name__ == "__main__":
    sys.exit(main())
