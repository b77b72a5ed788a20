"""Toolchains for publishable wheels: zig compiles for the glibc of manylinux_2_28, and for musl.

zig, a clang with the headers and the symbols of every glibc, comes from PyPI (the package ``ziglang``). A backend's
library holds zig's libc++. The core's Python module cannot: nanobind shares C++ types with its own library, whose
libstdc++ is that of the system. Its headers are those of the machine's GCC; the module is linked with a stub of
``libstdc++.so.6`` that has only the symbols which manylinux_2_28 allows, so that no newer one can be called.
``newer_libstdcxx.cpp`` defines the newer functions that the headers themselves call. For musl, whose libstdc++ the
machine lacks, the core's module holds nanobind's library and libc++, and shares no C++ types.
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
# The newest versions of libstdc++'s symbols in manylinux_2_28 (PEP 600; auditwheel checks the wheels against its list).
NEWEST = {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
# A row of `readelf --dyn-syms`: size, kind, name, family and number of the version; "@@" marks the default version.
SYMBOL = re.compile(
    r"\s*\d+: \w+ +(?P<size>\d+) (?P<kind>\w+) +(?:GLOBAL|WEAK|UNIQUE) +\w+ +\d+ "
    r"(?P<name>[^@\s]+)@@(?P<family>\w+)_(?P<number>[\d.]+)$"
)


@dataclass(frozen=True)
class Target:
    """A kind of machine that wheels are made for.

    Attributes:
        platform_tag: the wheel's platform tag, for example ``manylinux_2_28_aarch64``.
        processor: ``x86_64`` or ``aarch64``.
        zig: zig's name of the target, or "" if this machine's GCC compiles for it.
        gcc: the prefix of the commands of the GCC whose libstdc++ the Python module uses, unless the target has musl.
    """

    platform_tag: str
    processor: str
    zig: str
    gcc: str

    @property
    def has_musl(self) -> bool:
        """Return True if its C library is musl."""
        return self.zig.endswith("-musl")


TARGETS = {
    target.platform_tag: target
    for target in (
        Target("manylinux_2_28_x86_64", "x86_64", "x86_64-linux-gnu.2.28", ""),
        Target("manylinux_2_28_aarch64", "aarch64", "aarch64-linux-gnu.2.28", "aarch64-linux-gnu-"),
        # Debian 12, for static libraries of vendors that call a newer libstdc++.
        Target("manylinux_2_36_x86_64", "x86_64", "", ""),
        Target("manylinux_2_36_aarch64", "aarch64", "", "aarch64-linux-gnu-"),
        Target("musllinux_1_2_x86_64", "x86_64", "x86_64-linux-musl", ""),
        Target("musllinux_1_2_aarch64", "aarch64", "aarch64-linux-musl", ""),
    )
}


def write(target: Target, folder: Path, include: list[Path], *, libstdcxx: bool) -> Path:
    """Write the toolchain for ``target`` into ``folder`` and return the path of its CMake file.

    Args:
        target: the machine to compile for.
        folder: where the toolchain is written.
        include: more folders with headers.
        libstdcxx: use the system's libstdc++ instead of a libc++ within each library.
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
        lines.append('set(CMAKE_EXE_LINKER_FLAGS_INIT "-dynamic")')  # programs load backends: zig would link statically
        # All data of zig's stub of musl share an address: a program that is not position-independent would get copies
        # in which stderr is stdout.
        lines.append("set(CMAKE_POSITION_INDEPENDENT_CODE ON)")
    if not libstdcxx:
        lines.append(f'set(CMAKE_CXX_FLAGS_INIT "{" ".join(system)}")')
    else:
        headers = libstdcxx_headers(target.gcc)
        # With -I, since zig's folders of C headers, which follow, precede those of -isystem. The headers that users
        # include declare themselves as system headers; bits/stl_tempbuf.h does not, and calls a deprecated function.
        folders = [f"-I{HERE / 'include'}", *(f"-I{path}" for path in headers)]
        flags = " ".join(["-nostdinc++", "-Wno-deprecated-declarations", *folders])
        libraries = [
            link_stub(target, compiler["C"].split(), folder),
            compile_newer(compiler["CXX"].split(), flags.split(), folder),
            find_library(target.gcc, "libgcc_s.so.1"),
        ]
        lines.append(f'set(CMAKE_CXX_FLAGS_INIT "{" ".join([flags, *system])}")')
        lines.append(f'set(CMAKE_CXX_STANDARD_LIBRARIES "{" ".join(map(str, libraries))}")')
        # The machine's libgcc_s, like the stub, stands for that of the user's machine: its own needs do not count.
        lines += [
            f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "-nostdlib++ -Wl,--allow-shlib-undefined")'
            for kind in ("SHARED", "MODULE", "EXE")
        ]
    toolchain.write_text("\n".join(lines) + "\n")
    return toolchain


def libstdcxx_headers(gcc: str) -> list[str]:
    """Return the folders in which ``g++`` looks for the headers of C++, in its order."""
    searched = run(f"{gcc}g++", "-E", "-x", "c++", "-v", "-")
    folders = [line.strip() for line in searched.splitlines() if line.startswith(" /")]
    return [str(Path(folder).resolve()) for folder in folders if "/c++" in folder]


def find_library(gcc: str, name: str) -> Path:
    """Return the path of a library that ``g++`` links."""
    return Path(run(f"{gcc}g++", f"-print-file-name={name}").strip()).resolve()


def link_stub(target: Target, compiler: list[str], folder: Path) -> Path:
    """Link a ``libstdc++.so.6`` without code that has the symbols of the machine's up to ``NEWEST``."""
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
            # A thread's variable (of std::call_once) is reached by other instructions than one of the process.
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
