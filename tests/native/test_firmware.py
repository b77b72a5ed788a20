"""The digits net on bare metal, on an emulated board."""

from __future__ import annotations

import subprocess
from pathlib import Path

from embedding import ROOT, Digits, build, needs, same_numbers

FIRMWARE = ROOT / "examples" / "firmware"


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
