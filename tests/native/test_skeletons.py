"""Skeletons of delegates as a vendor builds them: one exported symbol, today's runtime runs them, firmware can use them;
and what was built with the headers of earlier releases of the interface runs, or is refused with a sentence."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

import edgecore
import edgecore.format as fmt
from edgecore.errors import EdgecoreError
from edgecore.runtime import Program
from edgecore.runtime.file_backends import FileBackends

HERE = Path(__file__).resolve().parent
SKELETONS = HERE / "skeletons"
INCLUDE = HERE.parents[1] / "runtime_cpp" / "include"
STORED = {folder.name: folder for folder in sorted((HERE / "abi").iterdir())}
IDS = {"firmware": "FirmwareSkeleton", "gpu": "GpuSkeleton", "state": "StateSkeleton", "vendor": "VendorSkeleton"}
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
NM = shutil.which("nm") or shutil.which("llvm-nm-16")
# Members that were renamed since a stored header was written; the layout is the same.
RENAMED = {"min_host_major": "least_host_major", "min_host_minor": "least_host_minor"}


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def current() -> str:
    text = (INCLUDE / "edgecore" / "abi.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define EDGECORE_ABI_(?:MAJOR|MINOR) (\d+)", text))


def options_for(include: Path) -> list[str]:
    """Compiler options under which today's sources compile against the headers in `include`, of today or stored."""
    header = (include / "edgecore" / "backend.h").read_text(encoding="utf-8")
    renamed = [f"-D{new}={old}" for new, old in RENAMED.items() if new not in header]
    return [f"-I{include}", *renamed]


def build(name: str, folder: Path, include: Path = INCLUDE) -> Path:
    """The skeleton as a shared library."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    exports = folder / "exports.map"
    exports.write_text("{ global: edgecore_backend_v0; local: *; };\n")
    library = folder / f"libedgecore_{name}.so"
    run(
        *(compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", *WARNINGS),
        *options_for(include),
        *(SKELETONS / f"{name}.cpp", "-o", library, f"-Wl,--version-script={exports}", "-Wl,-rpath,$ORIGIN"),
        *("-ldl", "-pthread"),
    )
    return library


def build_runtime(folder: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang-16")
    library = folder / "libskeleton_runtime.so.2"
    run(compiler, "-std=c11", "-fPIC", "-shared", SKELETONS / "vendor_runtime.c", "-o", library)


def program(backend_id: str, path: Path) -> Path:
    """y = 3 * (3 * x), float32 [4], by two delegates."""
    values = [fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[4], dim_order=[0]) for _ in range(3)]
    values[1].allocation_info = fmt.AllocationDetails.at(1, 0)
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(value) for value in values],
        inputs=[0],
        outputs=[2],
        chains=[
            fmt.Chain(
                inputs=[],
                outputs=[],
                instructions=[
                    fmt.Instruction(fmt.DelegateCall(0, [0, 1])),
                    fmt.Instruction(fmt.DelegateCall(1, [1, 2])),
                ],
            )
        ],
        operators=[],
        delegates=[fmt.BackendDelegate(backend_id, fmt.BackendDelegateDataReference(index=i)) for i in range(2)],
        non_const_buffer_sizes=[0, 64],
    )
    path.write_bytes(
        fmt.write_pte(fmt.PteFile(fmt.Program(execution_plan=[plan]), delegate_blobs=[struct.pack("<f", 3)] * 2))
    )
    return path


def load(name: str, library: Path, folder: Path) -> Program:
    from edgecore._runtime import open_program

    opened = open_program((os.fsencode(program(IDS[name], folder / "model.pte")),), [], {}, "mmap")
    opened.load_backend(os.fsencode(library), IDS[name], {})
    return Program(opened, opened.make_methods(1, True, None, 0, 0, False), FileBackends(opened.backend_ids, {}, None))


def results(program: Program) -> list[float]:
    output = program.forward(array("f", [1, 2, 3, 4]))
    return memoryview(output).cast("B").cast("f").tolist()


def buffers_of_the_runtime(sizes: int = 4) -> bytes:
    """A program with the buffers of the state skeleton, which the runtime keeps. It returns the first, "total.0"."""
    values = [fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[sizes], dim_order=[0]) for _ in range(3)]
    for i, value in enumerate(values[1:]):
        value.allocation_info = fmt.AllocationDetails.at(1, 64 * i)
        value.extra_tensor_info = fmt.ExtraTensorInfo(fully_qualified_name=f"total.{i}")
    plan = fmt.ExecutionPlan(
        name="forward",
        values=[fmt.EValue(value) for value in values],
        inputs=[0],
        outputs=[1],
        chains=[fmt.Chain(inputs=[], outputs=[], instructions=[])],
        operators=[],
        delegates=[],
        non_const_buffer_sizes=[0, 128],
    )
    return fmt.write_pte(fmt.PteFile(fmt.Program(execution_plan=[plan])))


@pytest.mark.parametrize("name", IDS)
def test_a_skeleton_exports_one_symbol_and_runs(name: str, tmp_path: Path) -> None:
    library = build(name, tmp_path)
    if NM is not None:
        assert [line.split()[-1] for line in run(NM, "-D", "--defined-only", library).splitlines()] == [
            "edgecore_backend_v0"
        ]
    if name == "vendor":
        with pytest.raises(EdgecoreError, match=r"the runtime libskeleton_runtime\.so\.2 is not installed"):
            load(name, library, tmp_path)
        build_runtime(tmp_path)
    assert results(load(name, library, tmp_path)) == [9, 18, 27, 36]


def test_sessions_of_a_backend_with_state_do_not_mix(tmp_path: Path) -> None:
    first = load("state", build("state", tmp_path), tmp_path)
    assert results(first) == [9, 18, 27, 36]
    second = first.new_session()
    assert results(second) == [9, 18, 27, 36]
    assert results(first) == results(second) == [15, 30, 45, 60]  # (3 * 3 + 3 * 1 + 3) * x
    first.reset()
    third = second.new_session()
    state = second.export_state()
    del second
    assert results(first) == [9, 18, 27, 36]
    third.import_state(state)
    assert results(third) == [22, 44, 66, 88]


def test_state_moves_between_a_backend_and_the_runtime(tmp_path: Path) -> None:
    delegated = load("state", build("state", tmp_path), tmp_path)
    plain = edgecore.load(buffers_of_the_runtime())
    assert results(plain) == [0, 0, 0, 0]
    results(delegated)
    plain.import_state(delegated.export_state())
    assert results(plain) == [1, 2, 3, 4]
    results(delegated)
    delegated.import_state(plain.export_state())
    assert results(delegated) == [15, 30, 45, 60]
    with pytest.raises(
        EdgecoreError,
        match=re.escape(
            "it has the buffer 'total.0' float32 [3] of method 'forward', this program has the buffer 'total.0' float32 "
            "[4] of method 'forward'."
        ),
    ):
        delegated.import_state(edgecore.load(buffers_of_the_runtime(3)).export_state())


@pytest.mark.parametrize("name", IDS)
def test_a_skeleton_linked_statically_has_a_name_of_its_own_and_no_start_up_code(name: str, tmp_path: Path) -> None:
    """`runtime_cpp/tests/skeletons_test.cpp` links several of them into one program."""
    compiler = shutil.which("g++") or shutil.which("clang++-16")
    readelf = shutil.which("readelf") or shutil.which("llvm-readelf-16")
    if compiler is None or readelf is None or NM is None:
        pytest.skip("a C++ compiler, readelf or nm is not installed")
    compiled = tmp_path / f"{name}.o"
    options = ["-std=c++17", "-O1", "-fvisibility=hidden", "-DEDGECORE_STATIC", f"-I{INCLUDE}"]
    run(compiler, *options, "-c", SKELETONS / f"{name}.cpp", "-o", compiled)
    assert ".init_array" not in run(readelf, "-S", "-W", compiled)
    symbols = [line.split()[-2:] for line in run(NM, "--defined-only", compiled).splitlines()]
    assert [symbol for kind, symbol in symbols if kind in "TDBR"] == [f"edgecore_backend_v0_{name}"]


def test_the_skeleton_for_firmware_needs_no_heap_and_no_library(tmp_path: Path) -> None:
    compiler = shutil.which("arm-none-eabi-g++")
    if compiler is None:
        pytest.skip("arm-none-eabi-g++ is not installed (package gcc-arm-none-eabi)")
    compiled = tmp_path / "firmware.o"
    run(
        *(compiler, "-std=c++17", "-Os", "-mcpu=cortex-m55", "-mfloat-abi=hard", "-ffreestanding", "-fno-exceptions"),
        *("-fno-rtti", "-DEDGECORE_STATIC", *WARNINGS, f"-I{INCLUDE}"),
        *("-c", SKELETONS / "firmware.cpp", "-o", compiled),
    )
    symbols = [line.split() for line in run("arm-none-eabi-nm", compiled).splitlines()]
    assert {words[-1] for words in symbols if words[-2] == "U"} <= {"memcpy", "memset"}
    assert [words[-1] for words in symbols if words[-2] == "T"] == ["edgecore_backend_v0_firmware"]
    assert any(words[-2] == "r" and "kTable" in words[-1] for words in symbols)  # in flash


def assert_refused(name: str, library: Path, version: str, folder: Path) -> None:
    with pytest.raises(EdgecoreError) as refused:
        load(name, library, folder)
    expected = (
        f"The plugin edgecore-{name}-skeleton in {library} was built for version {version} of the native interface; "
        f"this edgecore has {current()}: update the package edgecore-{name}-skeleton."
    )
    assert expected in str(refused.value)


@pytest.mark.parametrize("version", STORED)
def test_a_plugin_built_with_headers_of_another_version_is_refused(version: str, tmp_path: Path) -> None:
    library = build("firmware", tmp_path, STORED[version])
    if version == current():
        assert results(load("firmware", library, tmp_path)) == [9, 18, 27, 36]
        return
    assert_refused("firmware", library, version, tmp_path)


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the library is for x86-64 Linux")
@pytest.mark.parametrize("version", [version for version in STORED if (STORED[version] / "fixture").is_dir()])
def test_a_library_that_was_built_for_an_earlier_version_runs_or_is_refused_in_one_sentence(
    version: str, tmp_path: Path
) -> None:
    library = STORED[version] / "fixture" / "libedgecore_state.x86_64-linux.so"
    if version == current():
        first = load("state", library, tmp_path)
        assert results(first) == [9, 18, 27, 36]
        state = first.export_state()
        second = first.new_session()
        second.import_state(state)
        assert results(first) == results(second) == [15, 30, 45, 60]
    else:
        assert_refused("state", library, version, tmp_path)


def test_the_headers_of_this_version_are_stored_unchanged() -> None:
    """A changed layout needs a new version: bump EDGECORE_ABI_MINOR and store abi.h, backend.h, backend.hpp, kernel.h."""
    assert current() in STORED
    compiler = shutil.which("g++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    layout = INCLUDE.parent / "tests" / "abi_layout.h"
    run(
        compiler,
        "-std=c++17",
        "-fsyntax-only",
        *options_for(STORED[current()]),
        f"-I{INCLUDE}",  # platform.h is for applications, and not among the stored headers
        "-include",
        "stddef.h",
        "-x",
        "c++",
        layout,
    )
