"""The digits net on machines that are not this one: bare metal, and Linux on another processor."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from embedding import ROOT, Digits, build, same_numbers

FIRMWARE = ROOT / "examples" / "firmware"


def needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (tools/system_packages.sh installs them)")


def test_the_digits_net_runs_on_bare_metal(digits: Digits, tmp_path: Path) -> None:
    needs("arm-none-eabi-g++", "qemu-system-arm")
    toolchain = FIRMWARE / "arm-none-eabi.cmake"
    build(FIRMWARE, tmp_path / "build", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DPTE={digits.pte}")
    (tmp_path / "input.bin").write_bytes(digits.image)
    elf = tmp_path / "build" / "firmware.elf"
    machine = ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "null"]
    semihosting = ["-semihosting-config", "enable=on,target=native", "-kernel", elf]
    done = subprocess.run([*machine, *semihosting], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memory used" in done.stdout + done.stderr
    same_numbers((tmp_path / "output.bin").read_bytes(), digits.output)

    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True).stdout.split()
    assert not {"malloc", "_malloc_r", "_Znwj", "_sbrk", "__cxa_throw"} & set(symbols)
    # The platform's functions come from the application: nothing of the C library stands behind them.
    assert not {"printf", "fprintf", "puts", "_write", "abort", "clock", "clock_gettime", "getenv"} & set(symbols)
    assert {"edgecore_register_platform", "edgecore_log"} <= set(symbols)


def test_the_digits_net_runs_on_linux_on_aarch64(digits: Digits, tmp_path: Path) -> None:
    needs("aarch64-linux-gnu-g++", "qemu-aarch64")
    import numpy

    project = ROOT / "examples" / "device-run"
    toolchain = project / "aarch64-linux-gnu.cmake"
    build(
        project,
        tmp_path / "build",
        f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        f"-DPTE={digits.pte}",
        "-DCMAKE_BUILD_TYPE=MinSizeRel",
    )
    (tmp_path / "image.bin").write_bytes(digits.image)
    run = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", tmp_path / "build" / "edgecore-run", digits.pte]
    run += ["--input", tmp_path / "image.bin", "--output-dir", tmp_path, "--threads", "2"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    same_numbers(numpy.load(tmp_path / "output_0.npy").tobytes(), digits.output)
