"""Programs for Linux on 64-bit Arm, run by qemu: edgecore-run of examples/device-run, and examples/raspberry-pi.

The program for the C library musl is one file without Python and libraries. It needs zig (make test-platforms), whose
first build takes minutes.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from embedding import PACKAGE, ROOT, Digits, build, needs, same_numbers, shared_folder

import edgecore

TOOLCHAINS = PACKAGE / "cmake" / "toolchains"
GNU = f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAINS / 'aarch64-linux-gnu.cmake'}"
SMALL = ("-DCMAKE_BUILD_TYPE=MinSizeRel", "-DEDGECORE_OPTIMIZE_SIZE=ON")
QEMU = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
NETWORKS = ("mobilenet_v2", "bert_mini")


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
def test_the_digits_net_runs(digits: Digits, tmp_path: Path) -> None:
    needs("aarch64-linux-gnu-g++", "qemu-aarch64")
    build(ROOT / "examples" / "device-run", tmp_path / "build", GNU, f"-DPTE={digits.pte}", *SMALL)
    (tmp_path / "image.bin").write_bytes(digits.image)
    program = [*QEMU, tmp_path / "build" / "edgecore-run", digits.pte]
    run(*program, "--input", tmp_path / "image.bin", "--output-dir", tmp_path, "--threads", "2")
    same_numbers(numpy.load(tmp_path / "output_0.npy").tobytes(), digits.output)


@pytest.mark.slow
def test_a_picture_is_classified(tmp_path: Path) -> None:
    needs("aarch64-linux-gnu-g++", "qemu-aarch64")
    pytest.importorskip("sklearn")
    project = ROOT / "examples" / "raspberry-pi"
    text = run(sys.executable, project / "prepare.py", tmp_path)
    (digit,) = text.split()[-1:]
    build(project, tmp_path / "build", GNU, f"-DPTE={tmp_path / 'model.pte'}", *SMALL)
    classify = [*QEMU, tmp_path / "build" / "classify", tmp_path / "model.pte", tmp_path / "labels.txt"]
    assert run(*classify, tmp_path / "picture.ppm").splitlines()[0].split()[-1] == digit

    for damaged in (
        b"P5 8 8 255 ",
        b"P6 8 0 255 ",
        b"P6 99999999999999999999 8 255 ",
        b"P6 8 8 65535 ",
        b"P6 8 8 255 ..",
    ):
        (tmp_path / "damaged.ppm").write_bytes(damaged)
        done = subprocess.run([*map(str, classify), tmp_path / "damaged.ppm"], capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "damaged.ppm" in done.stderr


def zig() -> Path:
    """Return the program zig: the one on the PATH, or that of the package ziglang."""
    if found := shutil.which("zig"):
        return Path(found)
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        pytest.skip("zig is not installed (pip install ziglang)")
    return Path(spec.origin).with_name("zig")


def save(folder: Path, name: str, backends: list[str]) -> None:
    """Write a network, an input of it and what it gives here: NAME.pte, NAME.npy and NAME.out.npy."""
    from zoo import make

    torch.manual_seed(0)
    model, inputs = make(name)
    (x,) = inputs
    x = x[:, :32].contiguous() if name == "bert_mini" else x[..., :96, :96].contiguous()
    pte = folder / f"{name}.pte"
    edgecore.compile(torch.export.export(model.eval(), (x,)), backends=backends).save(pte)
    result = edgecore.load(pte).forward(x.numpy())
    numpy.save(folder / f"{name}.npy", x.numpy())
    numpy.save(folder / f"{name}.out.npy", numpy.asarray(result[0] if isinstance(result, (list, tuple)) else result))


def static_program(folder: Path, backends: list[str]) -> Path:
    """Build edgecore-run with the operators of `NETWORKS` as one file, and check that it is one."""
    toolchain = TOOLCHAINS / "aarch64-linux-musl.cmake"
    options = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DEDGECORE_ZIG={zig()}", f"-DBACKENDS={';'.join(backends)}"]
    files = ";".join(str(path) for path in sorted(folder.glob("*.pte")))
    build(ROOT / "examples" / "device-run", folder / "build", *options, f"-DPTE={files}", *SMALL)
    program = folder / "build" / "edgecore-run"
    headers = run("aarch64-linux-gnu-readelf", "--program-headers", "--sections", program)
    assert "INTERP" not in headers and ".symtab" not in headers, "it is not static, or not stripped"
    return program


def same_as_here(program: Path, folder: Path, name: str) -> None:
    arguments = [folder / f"{name}.pte", "--input", folder / f"{name}.npy", "--output-dir", folder, "--threads", "2"]
    run("qemu-aarch64", "-cpu", "cortex-a53", program, *arguments)
    result, expected = numpy.load(folder / "output_0.npy"), numpy.load(folder / f"{name}.out.npy")
    numpy.testing.assert_allclose(result, expected, rtol=0, atol=1e-4 * float(numpy.abs(expected).max()))


def needs_packages(*names: str) -> None:
    """Skip the test if a package is missing. Importing torchvision itself fails beside a torch without its operators."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("qemu-aarch64", "aarch64-linux-gnu-readelf")
    needs_packages("torchvision", "transformers")
    zig()
    return shared_folder(tmp_path_factory, "static", lambda folder: [save(folder, name, []) for name in NETWORKS])


@pytest.mark.full
def test_one_file_runs_networks_with_the_portable_kernels(networks: Path) -> None:
    program = static_program(networks, [])
    assert program.stat().st_size < 1_000_000
    for name in NETWORKS:
        same_as_here(program, networks, name)


@pytest.mark.full
def test_one_file_runs_networks_with_xnnpack(tmp_path: Path) -> None:
    needs("qemu-aarch64", "aarch64-linux-gnu-readelf")
    needs_packages("edgecore_xnnpack", "torchvision", "transformers")
    for name in NETWORKS:
        save(tmp_path, name, ["xnnpack"])
    program = static_program(tmp_path, ["xnnpack"])
    assert program.stat().st_size < 6_000_000
    for name in NETWORKS:
        same_as_here(program, tmp_path, name)
