"""Toolchains for publishable wheels: zig compiles for the glibc of manylinux_2_28, and for musl.

zig is a clang with the headers and the symbols of every glibc; it comes from PyPI (the package ``ziglang``). A
backend's library contains zig's libc++. The core's Python module uses the system's libstdc++ instead, because it shares
C++ types with nanobind's library, which uses this libstdc++. The module is compiled with the libstdc++ headers of the
machine's GCC, and linked with a stub of ``libstdc++.so.6``. The stub has only the symbols that manylinux_2_28 allows,
so that calls of newer functions do not link. ``newer_libstdcxx.cpp`` defines the newer functions that the headers
themselves call. For musl, whose libstdc++ the machine lacks, the core's module contains nanobind's library and libc++,
and shares no C++ types.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import ziglang
from process import run

HERE = Path(__file__).parent
NEWER = HERE / "newer_libstdcxx.cpp"
ZIG = str(Path(ziglang.__file__).with_name("zig"))
# The newest symbol versions of libstdc++ in manylinux_2_28 (PEP 600). auditwheel checks the wheels by its own list.
NEWEST = {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
# A row of `readelf --dyn-syms` for a defined symbol: size, kind and name of the symbol, then family and number of its
# version, such as GLIBCXX and 3.4.24. "@@" marks the default version of the symbol.
SYMBOL = re.compile(
    r"\s*\d+: \w+ +(?P<size>\d+) (?P<kind>\w+) +(?:GLOBAL|WEAK|UNIQUE) +\w+ +\d+ "
    r"(?P<name>[^@\s]+)@@(?P<family>\w+)_(?P<number>[\d.]+)$"
)


@dataclass(frozen=True)
class Target:
    """A platform for which wheels are built.

    Attributes:
        platform_tag: The wheel's platform tag, for example ``manylinux_2_28_aarch64``.
        processor: ``x86_64`` or ``aarch64``.
        zig: zig's name of the target; "" if a GCC of this machine compiles for the target instead.
        gcc: Prefix of the commands of that GCC, such as ``aarch64-linux-gnu-``. With zig, the core's Python module uses
            the libstdc++ of this GCC; for musl, the GCC is not used.
    """

    platform_tag: str
    processor: str
    zig: str
    gcc: str

    @property
    def has_musl(self) -> bool:
        """True if the C library of the target is musl."""
        return self.zig.endswith("-musl")


TARGETS = {
    target.platform_tag: target
    for target in (
        Target("manylinux_2_28_x86_64", "x86_64", "x86_64-linux-gnu.2.28", ""),
        Target("manylinux_2_28_aarch64", "aarch64", "aarch64-linux-gnu.2.28", "aarch64-linux-gnu-"),
        # Debian 12, for plugins with static libraries of vendors that call a newer libstdc++.
        Target("manylinux_2_36_x86_64", "x86_64", "", ""),
        Target("manylinux_2_36_aarch64", "aarch64", "", "aarch64-linux-gnu-"),
        Target("musllinux_1_2_x86_64", "x86_64", "x86_64-linux-musl", ""),
        Target("musllinux_1_2_aarch64", "aarch64", "aarch64-linux-musl", ""),
    )
}


def write(target: Target, folder: Path, include: list[Path], *, libstdcxx: bool) -> Path:
    """Write the toolchain for ``target`` into ``folder`` and return the path of its CMake file.

    Args:
        target: The platform to compile for.
        folder: The folder of the toolchain; it is created if necessary.
        include: Additional folders with headers.
        libstdcxx: True to use the system's libstdc++, False to link zig's libc++ into each library.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["set(CMAKE_SYSTEM_NAME Linux)", f"set(CMAKE_SYSTEM_PROCESSOR {target.processor})"]
    toolchain = folder / "toolchain.cmake"
    if not target.zig:
        compilers = {"C": "gcc", "CXX": "g++"}
        lines += [f"set(CMAKE_{language}_COMPILER {target.gcc}{name})" for language, name in compilers.items()]
        toolchain.write_text("\n".join(lines) + "\n")
        return toolchain
    compiler = {
        language: f"{ZIG} {command} -target {target.zig}" for language, command in (("C", "cc"), ("CXX", "c++"))
    }
    lines += [f"set(CMAKE_{language}_COMPILER {command})" for language, command in compiler.items()]
    lines += [f"set(CMAKE_ASM_COMPILER {compiler['C']})"]
    for tool in ("ar", "ranlib"):
        script = folder / f"zig-{tool}"
        script.write_text(f'#!/bin/sh\nexec {ZIG} {tool} "$@"\n')
        script.chmod(0o755)
        lines.append(f"set(CMAKE_{tool.upper()} {script})")
    system = [f"-isystem {path}" for path in include]
    if target.has_musl:
        # By default, zig links programs for musl statically, but a static program cannot load backends.
        lines.append('set(CMAKE_EXE_LINKER_FLAGS_INIT "-dynamic")')
        # In zig's stub of musl, all data symbols have the same address. A program that is not position-independent
        # would get copies of this data, in which stderr equals stdout.
        lines.append("set(CMAKE_POSITION_INDEPENDENT_CODE ON)")
    if not libstdcxx:
        lines.append(f'set(CMAKE_CXX_FLAGS_INIT "{" ".join(system)}")')
    else:
        headers = libstdcxx_headers(target.gcc)
        # Use -I, because zig searches its folders of C headers before the folders of -isystem, but after those of -I.
        # Most headers of libstdc++ declare themselves as system headers, for which compilers print no warnings.
        # bits/stl_tempbuf.h does not, and calls a deprecated function: hence -Wno-deprecated-declarations.
        folders = [f"-I{HERE / 'include'}", *(f"-I{path}" for path in headers)]
        flags = " ".join(["-nostdinc++", "-Wno-deprecated-declarations", *folders])
        libraries = [
            link_stub(target, compiler["C"].split(), folder),
            compile_newer(compiler["CXX"].split(), flags.split(), folder),
            find_library(target.gcc, "libgcc_s.so.1"),
        ]
        lines.append(f'set(CMAKE_CXX_FLAGS_INIT "{" ".join([flags, *system])}")')
        lines.append(f'set(CMAKE_CXX_STANDARD_LIBRARIES "{" ".join(map(str, libraries))}")')
        # The stub and this machine's libgcc_s only represent the libraries of the user's machine, so their own
        # undefined symbols must not be link errors.
        lines += [
            f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "-nostdlib++ -Wl,--allow-shlib-undefined")'
            for kind in ("SHARED", "MODULE", "EXE")
        ]
    toolchain.write_text("\n".join(lines) + "\n")
    return toolchain


def libstdcxx_headers(gcc: str) -> list[str]:
    """Return the folders in which ``g++`` searches for C++ headers, in the order of the search."""
    searched = run(f"{gcc}g++", "-E", "-x", "c++", "-v", "-")
    folders = [line.strip() for line in searched.splitlines() if line.startswith(" /")]
    return [str(Path(folder).resolve()) for folder in folders if "/c++" in folder]


def find_library(gcc: str, name: str) -> Path:
    """Return the path of a library that ``g++`` links."""
    return Path(run(f"{gcc}g++", f"-print-file-name={name}").strip()).resolve()


def link_stub(target: Target, compiler: list[str], folder: Path) -> Path:
    """Link a stub of ``libstdc++.so.6`` with the symbols of the machine's library up to ``NEWEST``, without code."""
    real = find_library(target.gcc, "libstdc++.so.6")
    versions: dict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    assembly: list[str] = []
    for row in run("readelf", "--wide", "--dyn-syms", real).splitlines():
        match = SYMBOL.match(row)
        if match is None:
            continue
        number = tuple(map(int, match["number"].split(".")))
        if number > NEWEST.get(match["family"], ()):
            continue
        name = match["name"]
        versions[match["family"], number].append(name)
        assembly.append(f".globl {name}")
        if match["kind"] == "FUNC":
            assembly += [".text", f".type {name},%function", f"{name}: .4byte 0"]
        else:
            # Mark a thread-local variable (of std::call_once), because code accesses it by special instructions.
            thread = match["kind"] == "TLS"
            assembly.append('.section .tbss,"awT",%nobits' if thread else ".data")
            size = max(int(match["size"]), 1)
            assembly += [
                f".type {name},%{'tls_' if thread else ''}object",
                f".size {name},{size}",
                f"{name}: .zero {size}",
            ]
    before: dict[str, str] = {}
    script = []
    for (family, number), names in sorted(versions.items()):
        version = f"{family}_{'.'.join(map(str, number))}"
        script.append(f"{version} {{ global: {' '.join(f'{name};' for name in names)} }} {before.get(family, '')};")
        before[family] = version
    source, symbols, stub = folder / "stub.s", folder / "stub.map", folder / "libstdc++.so.6"
    source.write_text("\n".join(assembly) + "\n")
    symbols.write_text("\n".join(script) + "\n")
    run(
        *compiler,
        "-shared",
        "-nostdlib",
        f"-Wl,-soname,{stub.name}",
        f"-Wl,--version-script={symbols}",
        "-o",
        stub,
        source,
    )
    return stub


def compile_newer(compiler: list[str], flags: list[str], folder: Path) -> Path:
    """Compile ``newer_libstdcxx.cpp`` into a static library and return its path."""
    item, archive = folder / "newer.o", folder / "libnewer.a"
    run(*compiler, *flags, "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-c", NEWER, "-o", item)
    archive.unlink(missing_ok=True)
    run(ZIG, "ar", "rcs", archive, item)
    return archive
