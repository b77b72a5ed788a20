"""`edgecore compare`: a table, figures, thresholds, test cases, and one sentence about bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import pytest
from command_line import one_sentence

pytest.importorskip("edgecore_xnnpack")

MODEL = """
import torch

def make():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),)
"""


@pytest.fixture
def real(module, tmp_path):
    """A folder of samples for the model `my_model_file:make`."""
    module(MODEL)
    folder = tmp_path / "real"
    folder.mkdir()
    for seed in range(3):
        values = numpy.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype("float32")
        numpy.save(folder / f"{seed}.npy", values)
    return folder


def test_a_model_is_compared_on_real_samples(edgecore, real, tmp_path):
    out = tmp_path / "figures.json"
    result = edgecore(
        "compare", "my_model_file:make", "-b", "xnnpack", "-q", "int8", "--calibration", real, "--samples", 2,
        "--json", out, "--html", tmp_path / "page.html",
    )  # fmt: skip
    assert result.status == 0, result.err
    page = (tmp_path / "page.html").read_text()
    assert page.count('"accumulated":') == 3 and "my_model_file:make" in page
    assert "quantized, 3 operators, worst of 2 samples of the calibration" in result.out
    assert "every operator that was seen computes what PyTorch computes, but for rounding" in result.out
    assert json.loads(out.read_text())["samples"] == 2


def test_a_model_is_compared_on_a_device(edgecore, real, tmp_path, monkeypatch):
    if not Path(sys.executable).with_name("edgecore-run").is_file():
        pytest.skip("the wheel of edgecore is not installed here")
    monkeypatch.setenv("HOME", str(tmp_path))
    result = edgecore("compare", "my_model_file:make", "-b", "xnnpack", "--input", real, "--device", "local")
    assert result.status == 0, result.err
    assert "xnnpack on local against PyTorch: 2 operators, worst of 3 samples" in result.out
    one_sentence(edgecore("compare", "my_model_file:make", "--device", "telnet:x"), "'telnet:x' is no device")


def test_example_inputs_are_named_as_such(edgecore, real):
    result = edgecore("compare", "my_model_file:make", "-b", "xnnpack")
    assert result.status == 0, result.err
    assert "1 sample (the example inputs; if they are random, they hide errors: pass real ones)" in result.out


def test_files_and_folders_are_samples(edgecore, real):
    result = edgecore("compare", "my_model_file:make", "--input", real / "1.npy", "--input", real, "--samples", 3)
    assert result.status == 0, result.err
    assert "worst of 3 samples" in result.out


def test_outputs_below_the_threshold_fail(edgecore, real):
    arguments = ("compare", "my_model_file:make", "-b", "xnnpack", "-q", "int8", "--calibration", real)
    assert edgecore(*arguments, "--threshold", 10).status == 0
    one_sentence(
        edgecore(*arguments, "--threshold", 80), "dB against the float model, less than the threshold of 80 dB"
    )


def test_a_wrong_operator_fails_and_becomes_a_test_case(edgecore, real, tmp_path):
    bug = tmp_path / "bug"
    result = edgecore(
        "compare", "my_model_file:make", "-b", "xnnpack", "--input", real, "--tolerance", "1e-9", "--extract", bug
    )
    one_sentence(result, "the first operator that is wrong: 0: convolution + relu")
    assert "\n>>  0 " in result.out
    assert sorted(path.name for path in bug.iterdir()) == sorted(
        ["operator.pt2", "operator.bpte", "values.pt", "run.py", "README.txt"]
    )
    assert edgecore("run", bug / "operator.bpte").status == 0  # the error is within the tolerance of `edgecore run`


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--input", "missing.npy"], ["missing.npy", "No such file"]),
        (["-b", "nonsense"], ["nonsense"]),
        (["--json", "nowhere/out.json"], ["nowhere", "does not exist"]),
        (["-b", "xnnpack", "-q", "int8"], ["needs --calibration FOLDER"]),
    ],
)
def test_bad_input_is_one_sentence(edgecore, real, arguments, parts):
    one_sentence(edgecore("compare", "my_model_file:make", *arguments), *parts)


def test_inputs_of_another_shape_are_one_sentence(edgecore, real, tmp_path):
    numpy.save(tmp_path / "wrong.npy", numpy.zeros((1, 5, 8, 8), "float32"))
    result = edgecore("compare", "my_model_file:make", "--input", tmp_path / "wrong.npy")
    one_sentence(result, "does not accept --input", "[1, 5, 8, 8]", "the model's example [1, 3, 8, 8]")
