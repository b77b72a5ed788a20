"""`edgecore compile` on models: what it prints, and what is left behind when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from command_line import one_sentence

from edgecore import format as fmt
from edgecore import runtime
from edgecore.cli.common import parse_backend
from edgecore.format.etrecord import read_etrecord

pytest.importorskip("torch")

MODELS = """
import torch

class Add(torch.nn.Module):
    def forward(self, x):
        for _ in range(5):
            x = torch.relu(x + 1)
        return x

class DataDependent(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

@torch.library.custom_op("test_compile::kernelless", mutates_args=())
def kernelless_operator(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

kernelless_operator.register_fake(torch.empty_like)

class Kernelless(torch.nn.Module):
    def forward(self, x):
        return kernelless_operator(x)

def add(): return Add().eval(), (torch.ones(2, 3),)
def data_dependent(): return DataDependent().eval(), (torch.ones(2, 3),)
def kernelless(): return Kernelless().eval(), (torch.ones(2, 3),)
def linear(): return torch.nn.Linear(3, 4).eval(), (torch.ones(2, 3),)
def training(): return Add(), (torch.ones(2, 3),)
"""


@pytest.fixture
def models(module, tmp_path):
    module(MODELS)
    return tmp_path


def test_compile_adds_constant_methods_and_plans_memory(edgecore, models):
    constants = ["--constant-method", "vocab=32000", "--constant-method", "tags=[1, 2]", "--constant-method", "id=a b"]
    result = edgecore("compile", "my_model_file:add", "-o", "a.pte", "--memory", "static", "--share-state", *constants)
    assert result.status == 0, result.err
    program = runtime.load(models / "a.pte")
    assert (program.vocab(), program.tags(), program.id()) == (32000, [1, 2], "a b")
    assert program.forward.inputs[0].planned
    assert edgecore("compile", "my_model_file:add", "--constant-method", "no value").status == 2
    one_sentence(edgecore("compile", "my_model_file:add", "--memory", "heap"), "memory='heap' is not valid")
    one_sentence(edgecore("compile", "my_model_file:add", "--constant-method", "forward=1"),
                 "the constant method 'forward' has the name of a method of the model")  # fmt: skip
    twice = edgecore("compile", "my_model_file:add", "--constant-method", "x=1", "--constant-method", "x=2")
    assert twice.status == 2 and "the method 'x' has two constants" in " ".join(twice.err.split())


def test_compile_writes_the_file_and_the_report(edgecore, models):
    result = edgecore("compile", "my_model_file:add", "-o", "a.pte", "--report", "a.html")
    assert result.status == 0, result.err
    # One line for the calls of one operator that are not delegated for the same reason.
    assert result.out.count("not delegated:") == 2
    assert "not delegated: 5 x aten.relu.default (relu, relu_1, relu_2, ...)" in result.out
    assert "aten.relu.default" in (models / "a.html").read_text()
    assert fmt.verify(fmt.read_pte((models / "a.pte").read_bytes()), "executorch-1.5") == []


def test_the_file_is_named_after_the_model_and_json_has_its_facts(edgecore, models):
    facts = json.loads(edgecore("compile", "my_model_file:add", "--json").out)
    assert facts["file"] == "add.pte"
    assert facts["bytes"] == (models / "add.pte").stat().st_size
    assert len(facts["left_outside"]) == 10


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (["add", "-b", "nonesuch"], ["'nonesuch' is not installed"]),
        (["add", "-b", "npu9"], ["'npu9' is not installed, and no package is known for it"]),
        (["add", "--runtime", "executorch-9"], ["executorch-9"]),
        (["add", "-o", "no/such/a.pte"], ["the folder no/such does not exist"]),
        (["add", "--report", "no/such/a.html"], ["the folder no/such does not exist"]),
        (
            ["data_dependent"],
            ["could not export DataDependent", "torch said:", "data-dependent", "my_model_file.py:12"],
        ),
        (
            ["kernelless"],
            [
                "which the target runtime executorch-1.5 does not have",
                "test_compile::kernelless",
                "my_model_file.py:22",
            ],
        ),
        (["training"], ["call model.eval()"]),
    ],
    ids=lambda value: "-".join(value) if value[0].isidentifier() else "",
)
def test_a_failure_is_one_sentence_and_leaves_no_file(edgecore, models, line, parts):
    before = sorted(models.iterdir())
    result = edgecore("compile", f"my_model_file:{line[0]}", *line[1:])
    assert result.status == 1
    (sentence,) = result.err.splitlines()
    assert sentence.startswith("edgecore: ")
    assert all(part in sentence for part in parts), sentence
    assert sorted(models.iterdir()) == before


def test_a_backend_that_is_installed_but_broken_is_one_sentence(edgecore, models):
    info = models / "edgecore_bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgecore-bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgecore.backends]\nBadBackend = edgecore_bad\n")
    (models / "edgecore_bad.py").write_text("raise OSError('libvendor.so.3: cannot open')\n")
    result = edgecore("compile", "my_model_file:add", "-b", "BadBackend")
    assert result.status == 1
    (sentence,) = result.err.splitlines()
    assert "'BadBackend' of edgecore-bad 1.0 is broken: OSError: libvendor.so.3" in sentence
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert edgecore("compile", "my_model_file:add").status == 0  # it concerns only those who use it


def test_the_option_debug_prints_all_of_torchs_reason(edgecore, models):
    result = edgecore("--debug", "compile", "my_model_file:data_dependent")
    assert result.status == 1
    assert "GuardOnDataDependentSymNode" in result.err
    assert result.err.splitlines()[-1].startswith("edgecore: torch.export could not export")


@pytest.mark.parametrize("backend", ["xnnpack:speed", ":a=b"])
def test_wrong_syntax_of_a_backend_is_wrong_usage(edgecore, models, backend):
    result = edgecore("compile", "my_model_file:add", "-b", backend)
    assert result.status == 2
    assert "is not NAME[:key=value,...]" in result.err


def test_quantize_calibrates_with_a_folder_of_samples(edgecore, models, tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    (tmp_path / "samples").mkdir()
    for index in range(3):
        np.save(tmp_path / "samples" / f"{index}.npy", np.full((2, 3), index, np.float32))
    command = ("compile", "my_model_file:linear", "-b", "xnnpack", "-q", "int8", "-o", "add8.pte")
    result = edgecore(*command, "--calibration", "samples")
    assert result.status == 0, result.err
    assert (tmp_path / "add8.pte").is_file()
    assert "quantization" not in result.out
    failed = edgecore(*command)
    assert failed.status == 1 and "quantize='int8' needs --calibration FOLDER" in failed.err

    asked = edgecore(*command, "--calibration", "samples", "--report", "a.html")
    assert "quantization: 1 layer," in asked.out and "result int8" in asked.out
    assert '"title":"Quantization"' in (tmp_path / "a.html").read_text()
    facts = json.loads(edgecore(*command, "--calibration", "samples", "--report", "a.html", "--json").out)
    assert facts["quantization"][0]["operator"] == "aten.linear.default"
    assert facts["quantization"][0]["sqnr"] > 20 and facts["quantization"][0]["inputs_sqnr"] is None


EXPORTED = """
import torch

class Lies(torch.nn.Module):
    def forward(self, x):
        return x + (1.5 if torch.compiler.is_exporting() else 1)

def lies(): return Lies().eval(), (torch.ones(2, 3),)
def add(): return torch.nn.Linear(3, 4).eval(), (torch.ones(2, 3),)
"""


def test_compare_prints_the_outputs_and_fails_where_they_differ(edgecore, module, tmp_path):
    module(EXPORTED)
    right = edgecore("compile", "my_model_file:add", "--compare")
    assert right.status == 0, right.err
    assert "comparison: the runtime agrees with eager" in right.out
    wrong = edgecore("compile", "my_model_file:lies", "--compare", "--json")
    assert wrong.status == 1
    assert "lies.pte: the runtime differs from eager by more than expected in 1 of 1 output" in wrong.err
    (row,) = json.loads(wrong.out)["comparison"]
    assert (row["output"], row["eager"]["largest"]) == ("0", 0.5)
    assert (tmp_path / "lies.pte").is_file()


def test_an_etrecord_is_written_on_request(edgecore, models):
    assert edgecore("compile", "my_model_file:linear", "--etrecord", "linear.etrecord").status == 0
    assert read_etrecord(models / "linear.etrecord").methods == ["forward"]
    failed = edgecore("compile", "my_model_file:linear", "--etrecord", "missing/linear.etrecord")
    assert "the folder missing does not exist" in failed.err


def test_passes_are_dumped_to_a_new_folder_and_a_bad_folder_is_one_line(edgecore, models):
    assert edgecore("compile", "my_model_file:linear", "--dump-passes", "graphs").status == 0
    assert "aten.linear.default(%" in (models / "graphs" / "00-exported.txt").read_text()
    again = edgecore("compile", "my_model_file:linear", "--dump-passes", "graphs")
    assert again.status == 1
    assert again.err.strip().count("\n") == 0
    assert "cannot dump passes to graphs: the folder is not empty; choose a new one" in again.err


class TestModelArgumentOfCompile:
    def test_an_absent_model_file_is_reported_with_its_name(self, edgecore):
        one_sentence(edgecore("compile", "no.pt2"), "no.pt2 does not exist")

    def test_a_model_file_that_torch_did_not_save_is_reported(self, edgecore, tmp_path):
        (tmp_path / "bad.pt2").write_bytes(b"nothing")
        result = edgecore("compile", tmp_path / "bad.pt2")
        assert result.status == 1
        assert "bad.pt2 was not written by torch.export.save" in result.err.splitlines()[-1]

    def test_a_quantized_model_file_is_read_in_a_process_of_its_own(self, tmp_path):
        import torch
        from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)

        class Quantized(torch.nn.Module):
            def forward(self, x):
                library = torch.ops.quantized_decomposed
                parameters = (0.1, 0, -128, 127, torch.int8)
                return library.dequantize_per_tensor.default(
                    library.quantize_per_tensor.default(x, *parameters), *parameters
                )

        path = tmp_path / "quantized.pt2"
        torch.export.save(torch.export.export(Quantized(), (torch.ones(2, 3),)), path)
        command = [sys.executable, "-m", "edgecore", "compile", path, "-o", tmp_path / "quantized.pte"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_a_module_that_does_not_exist_is_reported(self, edgecore):
        one_sentence(edgecore("compile", "no_such_module:model"), "cannot import 'no_such_module'")

    def test_a_module_that_does_not_import_is_reported_with_its_error(self, edgecore, module):
        module("import no_such_module")
        one_sentence(edgecore("compile", "my_model_file:model"), "ModuleNotFoundError", "'no_such_module'")
        module("raise ModuleNotFoundError('no torch', name='torch')")
        one_sentence(edgecore("compile", "my_model_file:model"), "no torch; run: pip install 'edgecore[compile]'")
        module("def model(:")
        one_sentence(edgecore("compile", "my_model_file:model"), "SyntaxError", "line 1")

    def test_a_function_that_raises_is_reported_with_its_first_line(self, edgecore, module):
        module("def model(): raise OSError('no weights in w.bin\\nsecond line')")
        one_sentence(edgecore("compile", "my_model_file:model"), "my_model_file:model failed", "no weights in w.bin")

    def test_a_function_that_the_module_lacks_is_reported(self, edgecore):
        one_sentence(edgecore("compile", "json:model"), "module 'json'", "has no function 'model'")

    def test_a_function_that_returns_no_model_is_reported_with_what_it_must_return(self, edgecore, module):
        module("def model(): return 42")
        one_sentence(
            edgecore("compile", "my_model_file:model"), "must return (model, example_inputs[, dynamic_shapes])"
        )

    def test_an_argument_that_is_neither_file_nor_function_is_wrong_usage(self, edgecore):
        assert edgecore("compile", "model").status == 2


def test_options_of_a_backend_are_parsed_with_their_types():
    assert parse_backend("xnnpack") == ("xnnpack", {})
    assert parse_backend("qnn:soc=SM8650,required=true,level=3") == (
        "qnn",
        {"soc": "SM8650", "required": True, "level": 3},
    )


def test_compile_aligns_segments(edgecore, models, tmp_path):
    options = ("--segment-alignment", "4096", "--constant-tensor-alignment", "256")
    result = edgecore("compile", "my_model_file:linear", *options, "-o", tmp_path / "m.pte")
    assert result.status == 0, result.err
    assert all(segment.offset % 4096 == 0 for segment in fmt.read_pte((tmp_path / "m.pte").read_bytes()).segments)
    wrong = edgecore("compile", "my_model_file:linear", "--segment-alignment", "100")
    one_sentence(wrong, "segment alignment must be a power of two")


def test_compile_writes_external_weights_to_the_files_asked_for(edgecore, module, tmp_path):
    module(
        "import torch\n"
        "def make():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).eval(), (torch.ones(1, 4),)\n"
    )
    arguments = ("--external-data", "base", "--external-data", "1.*=head", "-o", tmp_path / "m.pte", "--json")
    result = edgecore("compile", "my_model_file:make", *arguments)
    assert result.status == 0, result.err
    assert json.loads(result.out)["data"] == [str(tmp_path / "base.ptd"), str(tmp_path / "head.ptd")]
    names = {path.name: set(fmt.read_ptd(path.read_bytes()).entries) for path in tmp_path.glob("*.ptd")}
    assert names == {"base.ptd": {"0.weight", "0.bias"}, "head.ptd": {"1.weight", "1.bias"}}
    facts = json.loads(edgecore("inspect", tmp_path / "m.pte", "--json").out)
    assert facts["external_data"] == ["0.bias", "0.weight", "1.bias", "1.weight"]
    verified = edgecore("verify", tmp_path / "m.pte", "--data", tmp_path / "base.ptd", "--data", tmp_path / "head.ptd")
    assert verified.status == 0, verified.err
    assert "4 weights are in .ptd files" in edgecore("verify", tmp_path / "m.pte").err
    assert (
        "'0.bias' is in none of the .ptd files"
        in edgecore("verify", tmp_path / "m.pte", "--data", tmp_path / "head.ptd").out
    )
    wrong = edgecore("compile", "my_model_file:make", "--external-data", "a/b", "-o", tmp_path / "m.pte")
    one_sentence(wrong, "'a/b' is no file name")
