"""Skeletons of delegates as a vendor builds them: one exported symbol, the runtime runs them, firmware can use them; and
what was built for another version of the interface is refused with a sentence."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
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
IDS = {"firmware": "FirmwareSkeleton", "gpu": "GpuSkeleton", "state": "StateSkeleton", "vendor": "VendorSkeleton"}
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
NM = shutil.which("nm") or shutil.which("llvm-nm-16")


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def current() -> tuple[int, int]:
    text = (INCLUDE / "edgecore" / "abi.h").read_text(encoding="utf-8")
    major, minor = re.findall(r"#define EDGECORE_ABI_(?:MAJOR|MINOR) (\d+)", text)
    return int(major), int(minor)


def build(name: str, folder: Path) -> Path:
    """The skeleton as a shared library."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    exports = folder / "exports.map"
    exports.write_text("{ global: edgecore_backend_v0; local: *; };\n")
    library = folder / f"libedgecore_{name}.so"
    run(
        *(compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", *WARNINGS),
        *(f"-I{INCLUDE}", SKELETONS / f"{name}.cpp", "-o", library, f"-Wl,--version-script={exports}"),
        *("-Wl,-rpath,$ORIGIN", "-ldl", "-pthread"),
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

    opened = open_program((os.fsencode(program(IDS.get(name, "OldSkeleton"), folder / "model.pte")),), [], {}, "mmap")
    opened.load_backend(os.fsencode(library), IDS.get(name, "OldSkeleton"), {})
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


@pytest.mark.parametrize("version", [(0, 2), (0, 10), (9, 9)])
def test_a_plugin_built_for_another_version_is_refused(version: tuple[int, int], tmp_path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang-16")
    library = tmp_path / "libold.so"
    macros = [f"-DEDGECORE_{name}={number}" for name, number in zip(("MAJOR", "MINOR"), version, strict=True)]
    run(compiler, "-std=c11", "-fPIC", "-shared", *WARNINGS, *macros, SKELETONS / "old.c", "-o", library)
    package = "edgecore-old-skeleton" if version < current() else "edgecore"
    expected = (
        f"The plugin edgecore-old-skeleton in {library} was built for version {version[0]}.{version[1]} of the native "
        f"interface; this edgecore has {current()[0]}.{current()[1]}: update the package {package}."
    )
    with pytest.raises(EdgecoreError, match=re.escape(expected)):
        load("old", library, tmp_path)
