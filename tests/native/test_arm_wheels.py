"""The wheels for 64-bit Arm on an emulated processor: ``make test-wheels``.

``EDGECORE_ARM_WHEELS`` names the folder of the wheels (``make wheels`` writes ``dist/publish``). Debian's Python for Arm
installs them in qemu and runs files that are compiled here; the results must be those of this machine. There is no
Python for musl here: qemu runs the programs of those wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch
import zoo
from torch import nn

import edgecore

ROOT = Path(__file__).parents[2]
WHEELS = os.environ.get("EDGECORE_ARM_WHEELS")

PROCESSORS = ["cortex-a53", "neoverse-n1", "max"]
DEPENDENCIES = [
    "flatbuffers", "hypothesis", "jinja2", "nanobind-backend", "numpy", "pluggy", "pydantic", "pytest", "rich",
    "tokenizers", "typer",
]  # fmt: skip
# Tests of the runtime and of the files that need neither torch (for Arm it comes with CUDA only) nor a compiler, and start
# no Python, which only qemu can start.
TESTS_WITHOUT_TORCH = [
    "format/test_bpte.py", "format/test_flat.py", "format/test_ptd.py", "plugin/installed/test_entry_points.py",
    "plugin/installed/test_files.py", "plugin/test_options.py", "runtime/test_docstrings.py",
    "runtime/test_error_codes.py",
]  # fmt: skip
# Loads each file of a folder, runs it on the inputs beside it, and writes the results.
CHILD = """
import pathlib, platform, sys
import numpy as np
import edgecore
assert platform.machine() == "aarch64"
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.pte")):
    model = edgecore.load(file)
    outputs = [np.asarray(model.forward(x)) for x in np.load(file.with_suffix(".npy"))]
    np.save(file.with_suffix("." + sys.argv[2]), outputs)
    print(file.stem, sorted(set(model.forward.delegates)))
"""
DECODE = """
import json, os
os.environ["EDGECORE_LLM_INSTRUCTIONS"] = {instructions!r}
from edgecore_llm.runner.session import Model
session = Model({file!r}, threads=1).new_session()
print(json.dumps([session.logits([token])[0].tolist() for token in {prompt}]))
"""
# The recipes of XNNPACK, and the largest difference between processors relative to the largest output: floats are
# rounded in another order, and an integer may be rounded the other way.
RECIPES = {
    None: 1e-4,
    "fp16": 1e-2,
    "int8": 1e-2,
    "int8-dynamic": 1e-2,
    "int8-weights": 1e-4,
    "int4-weights": 1e-2,
}


def system_folder() -> Path:
    """Return the folder with Debian's Python and C libraries for Arm."""
    fetch = [sys.executable, ROOT / "tools/cross/arm64_python.py"]
    return Path(subprocess.run(fetch, capture_output=True, text=True, check=True).stdout.strip())


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The folder with the published wheels. Tests that need it are skipped without it."""
    if not WHEELS:
        pytest.skip("EDGECORE_ARM_WHEELS names no folder with wheels")
    return Path(WHEELS)


@pytest.fixture(scope="session")
def arm_python(wheels: Path, tmp_path_factory: pytest.TempPathFactory):
    """A function that runs Debian's Python for Arm, with our wheels installed, as one of the processors."""
    folder = tmp_path_factory.mktemp("arm")
    root = system_folder()
    platforms = [word for tag in ("2_28", "2_17") for word in ("--platform", f"manylinux_{tag}_aarch64")]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "download",
        "--dest",
        folder / "wheels",
    ]
    version = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"]
    subprocess.run([*pip, "--only-binary=:all:", *platforms, *version, *DEPENDENCIES], check=True)
    subprocess.run([*pip, "--no-deps", "pip"], check=True)
    (installer,) = (folder / "wheels").glob("pip-*.whl")

    def run(*arguments: str | Path, cpu: str = "neoverse-n1") -> subprocess.CompletedProcess[str]:
        command = ["qemu-aarch64", "-cpu", cpu, "-L", root, root / "usr/bin/python3.11", *arguments]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "site"), "HOME": str(folder)}
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)

    from_folders = ["--no-index", "--find-links", folder / "wheels", "--find-links", wheels]
    ours = ["edgecore[cli]", "edgecore-llm", "edgecore-xnnpack", "hypothesis", "numpy", "pydantic", "pytest"]
    done = run(installer / "pip", "install", "--quiet", *from_folders, "--target", folder / "site", *ours)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each recipe, its inputs (.npy), and the results of this machine (.host.npy)."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32), nn.Hardswish(),
        nn.Conv2d(32, 48, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip
    layers = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32), nn.LayerNorm(32), nn.Linear(32, 32))
    samples = {
        "convolutions": [torch.randn(1, 3, 16, 16) for _ in range(4)],
        "layers": [torch.randn(5, 64) for _ in range(4)],
    }
    for name, network in {"convolutions": convolutions.eval(), "layers": layers.eval()}.items():
        for recipe in RECIPES:
            inputs = samples[name]
            options = (
                {"quantize": recipe, "calibration": [(x,) for x in inputs]}
                if recipe == "int8"
                else {"quantize": recipe}
            )
            file = folder / f"{name}-{recipe}.pte"
            edgecore.compile(network, (inputs[0],), backends=["xnnpack"], **options).save(file)
            model = edgecore.load(file)
            np.save(file.with_suffix(".npy"), [x.numpy() for x in inputs])
            np.save(file.with_suffix(".host.npy"), [np.asarray(model.forward(x.numpy())) for x in inputs])
    return folder


@pytest.mark.full
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_files_of_every_recipe_give_the_results_of_this_machine(arm_python, files: Path, cpu: str):
    done = arm_python("-c", CHILD, files, cpu, cpu=cpu)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert len(rows) == 2 * len(RECIPES)
    assert all("XnnpackBackend" in row for row in rows)
    for file in files.glob("*.pte"):
        recipe = file.stem.split("-", 1)[1]
        expected, found = (np.load(file.with_suffix(f".{name}.npy")) for name in ("host", cpu))
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error <= RECIPES[None if recipe == "None" else recipe], (file.stem, error)


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a tiny Llama with random weights of 4 bits."""
    zoo.torchvision_models()  # transformers imports torchvision
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("llm")
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
    }  # fmt: skip
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(folder)
    export = [sys.executable, "-m", "edgecore", "llm", "export", folder, "-o", folder / "model.pte"]
    subprocess.run(export, check=True, capture_output=True)
    return folder / "model.pte"


@pytest.mark.full
@pytest.mark.parametrize(("cpu", "instructions"), [("cortex-a53", "baseline"), ("neoverse-n1", "dotprod")])
def test_the_kernels_of_each_processor_decode_a_language_model(
    arm_python, language_model: Path, cpu: str, instructions: str
):
    """The package refuses instructions that the processor lacks, so these kernels did run."""
    from edgecore_llm.runner.session import Model

    prompt = list(b"edge device")
    code = DECODE.format(instructions=instructions, file=str(language_model), prompt=prompt)
    done = arm_python("-c", code, cpu=cpu)
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout))
    expected = Model(language_model, threads=1).new_session().logits(prompt)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-2 * np.abs(expected).max()


def test_commands_of_the_wheels(arm_python, files: Path):
    file = files / "convolutions-int8.pte"
    inspected = arm_python("-m", "edgecore", "inspect", file)
    assert inspected.returncode == 0, inspected.stderr
    assert "XnnpackBackend" in inspected.stdout
    ran = arm_python("-m", "edgecore", "run", file, "--json")
    assert ran.returncode == 0, ran.stderr


def test_the_tests_that_need_no_torch_are_where_the_list_says():
    """Unlike the tests with the wheels, this test always runs: after a test has moved, too."""
    assert [name for name in TESTS_WITHOUT_TORCH if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.full
def test_tests_that_need_no_torch_pass_from_the_wheel(arm_python):
    tests = [ROOT / "tests" / name for name in TESTS_WITHOUT_TORCH]
    done = arm_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, *tests
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.full
def test_the_program_and_the_backend_of_the_wheels_for_musl_run_a_file(wheels: Path, files: Path, tmp_path: Path):
    for name in ("edgecore", "edgecore_xnnpack"):
        (wheel,) = wheels.glob(f"{name}-*-musllinux_1_2_aarch64.whl")
        with ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
    program = tmp_path / "edgecore" / "bin" / "edgecore-run"
    (backend,) = (tmp_path / "edgecore_xnnpack/lib").glob("*.so")
    program.chmod(0o755)
    for name in ("convolutions-None", "layers-int8-dynamic"):
        np.save(tmp_path / "input.npy", np.load(files / f"{name}.npy")[0])
        arguments = ["--backend", backend, "--input", tmp_path / "input.npy", "--output-dir", tmp_path]
        command = ["qemu-aarch64", "-L", system_folder(), program, files / f"{name}.pte", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        expected, found = np.load(files / f"{name}.host.npy")[0], np.load(tmp_path / "output_0.npy")
        recipe = RECIPES["int8-dynamic" if "int8" in name else None]
        assert np.abs(found - expected).max() <= recipe * np.abs(expected).max()

    missing = [*command[:4], tmp_path / "missing.pte"]
    done = subprocess.run(missing, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "No such file" in done.stderr


def test_the_core_for_musl_holds_nanobind(wheels: Path):
    (wheel,) = wheels.glob("edgecore-*-cp311-cp311-musllinux_1_2_aarch64.whl")
    with ZipFile(wheel) as archive:
        assert "edgecore/_runtime.cpython-311-aarch64-linux-musl.so" in archive.namelist()
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = archive.read(metadata).decode()
    assert "Requires-Dist: pluggy" in required
    assert "Requires-Dist: nanobind" not in required
