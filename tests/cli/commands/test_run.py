"""`edgecore run`: inputs, outputs, and what is said of inputs that do not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import GOOD, bundle, one_sentence


def test_run_reads_its_inputs_and_writes_its_outputs(edgecore, relu, tmp_path):
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    result = edgecore("run", relu, "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "out", "--json")
    assert result.status == 0, result.err
    (output,) = json.loads(result.out)["outputs"]
    assert (output["dtype"], output["shape"], output["min"], output["max"]) == ("float32", [2, 3], 0, 6)
    np.testing.assert_array_equal(np.load(output["file"]), np.maximum(x, 0))


def test_run_without_inputs_says_that_they_are_random(edgecore, relu):
    first, second = edgecore("run", relu, "--json"), edgecore("run", relu, "--json")
    assert first.status == 0, first.err
    assert "inputs are random" in first.err
    assert json.loads(first.out)["outputs"] == json.loads(second.out)["outputs"]


def test_run_prints_its_outputs_as_text(edgecore, relu):
    result = edgecore("run", relu)
    assert result.status == 0, result.err
    assert "output 0: dtype float32  shape [2, 3]" in result.out


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_method_that_the_file_lacks_is_reported_with_those_it_has(edgecore, relu, command):
    one_sentence(edgecore(command, relu, "--method", "backward"), "no method 'backward'", "it has forward")


@pytest.mark.parametrize("command", ["run", "bench"])
def test_run_and_bench_name_a_backend_that_is_not_installed(edgecore, pte, command):
    one_sentence(edgecore(command, pte), "FooBackend", "no package is known for it")


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ([np.zeros((2, 3), np.float32)] * 2, ["2", "1"]),
        ([np.zeros((2, 4), np.float32)], ["dim 1 must be 3, got 4", "2, 4"]),
        ([np.zeros((2, 3), np.int64)], ["int64", "float32"]),
    ],
    ids=["count", "shape", "dtype"],
)
def test_run_refuses_inputs_that_do_not_fit(edgecore, relu, tmp_path, arrays, parts):
    options = []
    for index, array in enumerate(arrays):
        np.save(tmp_path / f"{index}.npy", array)
        options += ["--input", tmp_path / f"{index}.npy"]
    one_sentence(edgecore("run", relu, *options), *parts)


def test_a_number_that_the_export_fixed_may_be_given_as_input(edgecore, number, tmp_path):
    """An input that was a number when the model was exported keeps that value: `run` reads it from the file, or gets it as a scalar."""
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "3.npy", np.int64(3))
    np.save(tmp_path / "4.npy", np.int64(4))
    assert edgecore("run", number).status == edgecore("bench", number, "--runs", 1).status == 0
    assert "input 1: int 3" in edgecore("inspect", number).out
    given = ["run", number, "--input", tmp_path / "x.npy", "--input"]
    assert edgecore(*given, tmp_path / "3.npy").status == 0
    one_sentence(edgecore(*given, tmp_path / "4.npy"), "fixed to 3", "not 4")


def test_an_input_that_is_no_npy_file_is_reported(edgecore, relu, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    one_sentence(edgecore("run", relu, "--input", tmp_path / "two.npz"), "two.npz is an archive")
    (tmp_path / "x.npy").write_text("1 2 3")
    one_sentence(edgecore("run", relu, "--input", tmp_path / "x.npy"), "x.npy is not a .npy file")
    one_sentence(edgecore("run", relu, "--input", tmp_path / "y.npy"), "y.npy: No such file or directory")


def test_a_ptd_file_is_no_program_to_run(edgecore, ptd, relu):
    one_sentence(edgecore("run", ptd), "weights.ptd")
    one_sentence(edgecore("inspect", ptd, "--html", "page.html"), "holds weights only")


def test_a_bundle_whose_outputs_are_as_expected_passes(edgecore, relu, tmp_path):
    path = bundle(relu, tmp_path, GOOD)
    result = edgecore("run", path)
    assert result.status == 0, result.err
    assert "ok    forward, case 0, output 0: max abs error 0, max rel error 0" in result.out
    assert "1 outputs passed, 0 failed; tolerance 1e-05 + 1e-05 * |expected|" in result.out
    facts = json.loads(edgecore("run", path, "--json").out)
    assert facts["passed"] is True
    assert facts["results"][0]["method"] == "forward"
    assert json.loads(edgecore("inspect", path, "--json").out)["test_cases"] == {"forward": 1}
    assert "test cases of forward: 1" in edgecore("inspect", path).out
    assert edgecore("verify", path).status == 0


def test_a_bundle_with_a_wrong_output_fails_and_names_the_element(edgecore, relu, tmp_path):
    path = bundle(relu, tmp_path, [0.0, 2.0, 0.0, 4.0, 0.0, 7.0])
    result = edgecore("run", path)
    one_sentence(result, str(path), "1 outputs failed")
    assert "FAILED forward, case 0, output 0: 1 of 6 elements are wrong" in result.out
    assert "the worst is [1, 2]: 6, expected 7" in result.out
    assert edgecore("run", path, "--atol", "1").status == 0
    assert edgecore("run", path, "--input", "x.npy").status == 2


def test_tolerances_without_a_bundle_are_wrong_usage(edgecore, relu):
    assert edgecore("run", relu, "--rtol", "1").status == 2


@pytest.mark.parametrize("command", ["run", "bench"])
def test_threads_and_options_of_backends_reach_the_loader(edgecore, relu, command, monkeypatch):
    import edgecore as package

    given, load = [], package.load

    def spy(*args, **kwargs):
        given.append(kwargs)
        return load(*args, **kwargs | {"options": {}})

    monkeypatch.setattr(package, "load", spy)
    options = ["--threads", "1", "-b", "foo:level=2,folder=x", "-b", "foo:fast=true", "-b", "bar:n=1"]
    assert edgecore(command, relu, *options).status == 0
    assert given[0]["threads"] == 1
    assert given[0]["options"] == {"foo": {"level": 2, "folder": "x", "fast": True}, "bar": {"n": 1}}


def test_an_option_without_a_value_is_wrong_usage(edgecore, relu):
    assert edgecore("run", relu, "-b", "foo:level").status == 2
    assert edgecore("run", relu, "-b", "foo").status == 2
