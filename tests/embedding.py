"""The digits net, trained and compiled for no backend, and how a file is built into other programs."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import edgecore

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(edgecore.__file__).parent
"""The installed package: headers, sources and the CMake package are taken from there, as a user would."""


@dataclass
class Digits:
    """`pte` and what our Python runtime computes with it from `image` (float32, 1x1x8x8)."""

    pte: Path
    image: bytes
    output: bytes


def needs(*programs: str) -> None:
    """Skip the test if one of the programs is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (tools/system_packages.sh installs them)")


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` has filled, once for all workers of this run."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, done = base / name, base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def make_digits(folder: Path) -> None:
    """A network that knows its digits, as `folder`/digits.pte, and what a `Digits` holds."""
    sklearn = pytest.importorskip("sklearn.datasets")
    import numpy
    import torch

    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    assert spec is not None and spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = demo  # its dataclass looks there
    spec.loader.exec_module(demo)
    data = sklearn.load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    model = demo.Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(3):
        for batch in torch.randperm(1437).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    model.eval()
    image = images[1500:1501]
    pte = folder / "digits.pte"
    edgecore.compile(torch.export.export(model, (image,)), backends=[]).save(pte)
    output = numpy.asarray(edgecore.load(pte).forward(image.numpy()))
    with torch.no_grad():
        numpy.testing.assert_allclose(output, model(image).numpy(), atol=1e-4)
    assert output.argmax() == data.target[1500], "the net has not learnt its digits"
    (folder / "image.bin").write_bytes(image.numpy().tobytes())
    (folder / "output.bin").write_bytes(output.tobytes())


def build(source: Path, folder: Path, *options: str) -> None:
    """Configure and build a CMake project against the installed package, with ccache where it is installed."""
    cache = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX") if shutil.which("ccache")]
    configure = ["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-Dedgecore_DIR={PACKAGE / 'cmake'}"]
    configure += [f"-DPython3_EXECUTABLE={sys.executable}", *cache, *options]
    # The interpreter finds its packages itself; a compiler of `make` is not the one that an application uses.
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")}
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def same_numbers(result: bytes, expected: bytes) -> None:
    """float32 arrays that differ by 1e-5 of the largest value at most."""
    import numpy

    ours, theirs = (numpy.frombuffer(part, numpy.float32) for part in (result, expected))
    numpy.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * float(numpy.abs(theirs).max()))
