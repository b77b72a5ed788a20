"""Several methods: one model with a function for each, whose weights are in the file once."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
import torch

import edgecore
from edgecore.cli.blobs import describe_blobs
from edgecore.cli.commands import extract
from edgecore.errors import FormatError
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package.blob import read_blob, resolve, write_blob, write_reference
from edgecore_coreml.package.describe import specification_of
from edgecore_coreml.package.files import Package, pack_functions, unpack
from edgecore_coreml.package.graph import graph_of
from edgecore_coreml_standin.interpreter import StandIn


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))

    def forward(self, x):
        return self.layers(x) + 1.0


INPUTS = {"decode": (torch.randn(1, 64),), "prefill": (torch.randn(5, 64),)}
WEIGHTS = 2 * 64 * 64 * 4


def compiled(model, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    return edgecore.compile(dict.fromkeys(INPUTS, model), INPUTS, backends=[backend], runtime="edgecore")


@pytest.fixture(scope="module")
def linked():
    torch.manual_seed(0)
    model = Network().eval()
    return model, compiled(model, multimethod_weight_sharing_strategy="POSITIONAL")


def test_two_methods_are_functions_of_one_model_with_the_weights_once(linked):
    model, program = linked
    assert str(program.report()).count("one model for decode, prefill") == 2
    pte = read_pte(bytes(program.buffer))
    (key,) = (key for key in pte.named_data if key.startswith("coreml_"))
    assert sorted(map(bytes, pte.delegate_blobs)) == [write_reference(key, name) for name in INPUTS]
    for name, inputs in INPUTS.items():
        blob = write_reference(key, name)
        package = unpack(blob, pte.named_data)
        assert package.function == name and WEIGHTS <= len(package.weights) < 1.1 * WEIGHTS
        torch.testing.assert_close(StandIn(blob, pte.named_data)(*inputs)[0], model(*inputs))
        lines = CoreMLCompiler().describe_blob(blob, pte.named_data)
        assert f"function {name} of decode, prefill" in lines and "model: iOS18 or later" in lines[0]
        assert any(line.startswith("input x: float32 [" + str(len(inputs[0]))) for line in lines)
        assert CoreMLCompiler().verify_blob(blob, pte.named_data, runtime="edgecore") == []
        graph = CoreMLCompiler().blob_graph(blob, pte.named_data)
        assert [node.name for node in graph.nodes] == ["linear", "relu", "linear", "add"]
        assert graph.values[graph.inputs[0]] == f"float32 [{len(inputs[0])}, 64]"
        assert graph.nodes[-1].outputs == graph.outputs
    assert len(program.buffer) < 2 * WEIGHTS
    assert [row["problem"] for row in describe_blobs(pte, None)] == ["", ""]


def test_a_dtype_that_nobody_knows_is_shown_as_its_number(linked):
    package = unpack(linked[1].pte.delegate_blobs[0], linked[1].pte.named_data)
    spec = specification_of(package)
    function = spec.mlProgram.functions["decode"]
    block = function.block_specializations[function.opset]
    block.operations[-1].outputs[0].type.tensorType.dataType = 999
    graph = graph_of(replace(package, specification=spec.SerializeToString()))
    assert graph.values[graph.outputs[0]] == "dtype 999 [1, 64]"


def test_the_folder_has_the_metadata_of_executorch(linked):
    pte = read_pte(bytes(linked[1].buffer))
    folder, function = resolve(pte.delegate_blobs[0], pte.named_data)
    metadata = json.loads(read_blob(folder, {})["metadata.json"])
    assert function == "decode" and set(metadata) == {"identifier", "methods"}
    assert set(metadata["methods"]) == {"decode", "prefill"}
    assert all(set(names) == {"inputNames", "outputNames"} for names in metadata["methods"].values())


def test_equal_programs_give_equal_files(linked):
    again = compiled(linked[0], multimethod_weight_sharing_strategy="POSITIONAL")
    assert bytes(again.buffer) == bytes(linked[1].buffer)


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_a_file_of_two_functions_runs(linked, tmp_path):
    model, program = linked
    program.save(tmp_path / "model.pte")
    standin = {"standin": sys.executable, "model_cache_folder": str(tmp_path / "cache")}
    loaded = edgecore.load(tmp_path / "model.pte", options={"coreml": standin})
    for name, inputs in INPUTS.items():
        torch.testing.assert_close(loaded[name](*inputs), model(*inputs))
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_extract_writes_the_model_of_each_method(linked, tmp_path):
    linked[1].save(tmp_path / "model.pte")
    extract.command(tmp_path / "model.pte", None)
    rows = json.loads((tmp_path / "model/index.json").read_text())["blobs"]
    assert all((tmp_path / "model" / row["unpacked"] / "model.mlpackage/Manifest.json").is_file() for row in rows)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 0),  # they run on iOS 15, and a common model would not
        ({"minimum_deployment_target": "iOS18"}, 1),
        ({"minimum_deployment_target": "iOS18", "multimethod_weight_sharing_strategy": "DISABLED"}, 0),
    ],
)
def test_methods_share_a_model_if_that_needs_no_newer_system(options, count):
    program = compiled(Network().eval(), **options)
    named_data = read_pte(bytes(program.buffer)).named_data
    assert sum(key.startswith("coreml_") for key in named_data) == count


class Data:
    def __init__(self, data):
        self.data = data


def test_a_function_that_the_folder_does_not_have_is_named():
    package = Package(b"specification", b"", ("x",), ("y",))
    folder = pack_functions(b"specification", b"", {"decode": package})
    blob = write_reference("k", "decode")
    assert unpack(blob, {"k": Data(folder)}).inputs == ("x",)
    for metadata in (b"{}", b"[]", b'{"methods": []}', b'{"methods": {"prefill": {}}}'):
        damaged = write_blob(read_blob(folder, {}) | {"metadata.json": metadata})
        with pytest.raises(FormatError, match="has no method 'decode'"):
            CoreMLCompiler().verify_blob(blob, {"k": Data(damaged)}, runtime="edgecore")
