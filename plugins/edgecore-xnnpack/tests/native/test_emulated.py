"""Each recipe on the kernels of each x86 processor, whatever this one is: ``make test-emulated``.

``EDGECORE_XNNPACK_EMULATED`` names a build folder of ``native/`` whose ``XNNPACK_DIR`` is what
``get_xnnpack.py --emulated`` printed. Files are compiled here and run in a process for each processor.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
import edgecore_xnnpack

BUILD = os.environ.get("EDGECORE_XNNPACK_EMULATED")
pytestmark = pytest.mark.skipif(not BUILD, reason="EDGECORE_XNNPACK_EMULATED names no build with emulated kernels")

PACKAGE = Path(edgecore_xnnpack.__file__).parent
PROCESSORS = {row["name"]: row for row in csv.DictReader((PACKAGE / "processors.csv").read_text().splitlines())}
EMULATED = [name for name, row in PROCESSORS.items() if "avx512" in row["hardware"] or "avx256" in row["hardware"]]
EMULATED += [name for name, row in PROCESSORS.items() if row["hardware"].startswith("avxvnni")]

ROWS = 100
WIDTHS = [(32, 32), (64, 64), (96, 200), (512, 512), (1024, 48)]
# Max difference from eager, relative to the max output. 4 bits in groups: the format rounds their scales.
EAGER = {"int4-groups": 4e-3, "int4-rows": 1e-5, "int8-rows": 1e-5, "float32": 1e-5}
# From the kernels for AVX2, which this processor runs itself. A dynamic input may be rounded the other way: one step of
# 255 in one product of the sum. fp16: half a unit in the last place of 11 bits for each partial sum.
RECIPES = {"int4-weights": 1e-2, "int8-dynamic": 1e-2, "int8": 1e-2, "fp16": 1e-2}

# Prints, for each file, the number of rows, the row and the error (relative to the max expected value) that is worst.
CHILD = """
import json, pathlib, sys
import numpy as np
import edgecore
worst = {}
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.pte")):
    model = edgecore.load(file)
    data = np.load(file.with_suffix(".npz"))
    record = "expected" not in data
    found = []
    for rows in data["rows"]:
        out = np.asarray(model.forward(data["x"][:rows])).astype(np.float64)
        if record:
            found.append(out)
            continue
        expected = data["expected"][:rows]
        error = np.nan_to_num(np.abs(out - expected), nan=np.inf).max(1) / np.abs(data["expected"]).max()
        found.append((float(error.max()), int(rows), int(error.argmax())))
    if record:
        np.savez(file.with_suffix(".npz"), **data, expected=found[-1])
    else:
        worst[file.stem] = max(found)
print(json.dumps(worst))
"""


def torchao(name: str, net: nn.Module) -> nn.Module:
    """The net with quantized weights and dynamically quantized inputs."""
    quantization = pytest.importorskip("torchao.quantization")
    granularity = pytest.importorskip("torchao.quantization.granularity")
    if name != "float32":
        config = quantization.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4 if name.startswith("int4") else torch.int8,
            weight_granularity=granularity.PerGroup(32) if name == "int4-groups" else granularity.PerAxis(0),
        )
        quantization.quantize_(net, config)
    return net


def save(
    folder: Path, name: str, net: nn.Module, x: torch.Tensor, rows: list[int], eager: bool, **options: Any
) -> None:
    backend = edgecore.Backend("xnnpack", required=True)
    edgecore.compile(net, (x,), backends=[backend], **options).save(folder / f"{name}.pte")
    data = {"x": x.numpy(), "rows": np.array(rows)}
    if eager:
        data["expected"] = net(x).detach().numpy()
    np.savez(folder / f"{name}.npz", **data)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    site = folder / "site"
    shutil.copytree(PACKAGE, site / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    library = "libedgecore_xnnpack.so"
    shutil.copyfile(Path(str(BUILD)) / library, site / PACKAGE.name / "lib" / library)
    torch.manual_seed(0)
    any_number = ({0: torch.export.Dim("rows", min=1, max=ROWS)},)
    counts = list(range(1, ROWS + 1))
    for width, outputs in WIDTHS:
        x = torch.randn(ROWS, width)
        net = nn.Linear(width, outputs).eval()
        for name in RECIPES:
            save(
                folder, f"{name} {width}x{outputs}", net, x, counts, False, quantize=name, dynamic_shapes=any_number,
                **({"calibration": [(x,)]} if name == "int8" else {}),
            )  # fmt: skip
        for name in EAGER:
            quantized = torchao(name, nn.Linear(width, outputs).eval())
            save(folder, f"{name} {width}x{outputs}", quantized, x, counts, True, dynamic_shapes=any_number)
            if width == outputs:
                for rows in (15, 16, 17, 31):
                    save(folder, f"{name} {width}x{outputs} of {rows}", quantized, x[:rows], [rows], True)
    run(folder, PROCESSORS["avx2"]["hardware"])  # what the recipes are compared with
    return folder


def run(folder: Path, hardware: str) -> dict[str, tuple[float, int, int]]:
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware, "PYTHONPATH": str(folder / "site")}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[float, int, int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", EMULATED)
def test_every_row_is_right_for_each_number_of_rows_on(files: Path, name: str) -> None:
    wrong = []
    for file, (error, rows, row) in run(files, PROCESSORS[name]["hardware"]).items():
        if error > (EAGER | RECIPES)[file.split()[0]]:
            wrong.append(f"{file}: of {rows} rows row {row} differs by {error:.2g} of the max output")
    assert not wrong, "\n".join(wrong)
