"""Whole models: the file's ML program computes what eager does, with the stand-in for Core ML; what a file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.cli.commands import extract
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package.files import unpack
from edgecore_coreml_standin.interpreter import StandIn


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.linear = torch.nn.Linear(16 * 16, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.softmax(self.linear(x.flatten(1)), -1)


IMAGE = (1, 3, 8, 8)


def compiled(model, *inputs, quantize=None, dynamic_shapes=None, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend], quantize=quantize, dynamic_shapes=dynamic_shapes)


def blob_of(program, path: Path) -> bytes:
    program.save(path)
    (blob,) = read_pte(path.read_bytes()).delegate_blobs
    return bytes(blob)


def test_the_program_of_a_file_computes_what_eager_does(tmp_path):
    model, x = Classifier(), torch.randn(IMAGE)
    program = compiled(model, x)
    assert "delegate 0: iOS15 or later, computes in the model's precision" in str(program.report())
    standin = StandIn(blob_of(program, tmp_path / "model.pte"), {})
    torch.testing.assert_close(standin(x)[0], model(x))
    lines = CoreMLCompiler().describe_blob(blob_of(program, tmp_path / "model.pte"), {})
    assert lines[0] == "model: iOS15 or later (specification version 6)" and "  conv: 1" in lines


def test_equal_models_give_equal_files(tmp_path):
    model, x = Classifier(), torch.randn(IMAGE)
    first, second = (blob_of(compiled(model, x), tmp_path / name) for name in ("a.pte", "b.pte"))
    assert first == second


@pytest.mark.parametrize(("recipe", "minimum"), [("int8-weights", 30.0), ("palette4", 10.0)])
def test_compressed_weights_are_smaller_and_close(tmp_path, recipe, minimum):
    model, x = Classifier(), torch.randn(IMAGE)
    program = compiled(model, x, quantize=recipe)
    assert "iOS16 or later" in str(program.report())
    blob = blob_of(program, tmp_path / "model.pte")
    plain = blob_of(compiled(model, x), tmp_path / "plain.pte")
    assert len(unpack(blob, {}).weights) < 0.5 * len(unpack(plain, {}).weights)
    result, expected = StandIn(blob, {})(x)[0], model(x)
    assert 20 * torch.log10(expected.norm() / (result - expected).norm()) > minimum


def test_float16_is_reported_and_close(tmp_path):
    model, x = Classifier(), torch.randn(IMAGE)
    program = compiled(model, x, compute_precision="FLOAT16")
    assert "computes in FLOAT16" in str(program.report()) and "rounded to float16" in str(program.report())
    blob = blob_of(program, tmp_path / "model.pte")
    lines = CoreMLCompiler().describe_blob(blob, {})
    assert "  in float32: 1" in lines  # the cast of the result
    assert any(line.startswith("  in float16: ") for line in lines)
    torch.testing.assert_close(StandIn(blob, {})(x)[0].float(), model(x), rtol=0, atol=0.01)


def test_a_dynamic_batch_becomes_a_range(tmp_path):
    model, x = Classifier(), torch.randn(2, *IMAGE[1:])
    batch = torch.export.Dim("batch", min=1, max=4)
    program = compiled(model, x, dynamic_shapes={"x": {0: batch}})
    lines = CoreMLCompiler().describe_blob(blob_of(program, tmp_path / "model.pte"), {})
    assert "input x: float32 [1 to 4, 3, 8, 8]" in lines
    assert str(program.report()).count("the Neural Engine does not take inputs whose sizes have a range") == 1


def test_ranges_are_no_matter_where_the_neural_engine_has_no_part():
    batch = torch.export.Dim("batch", min=1, max=4)
    inputs, shapes = torch.randn(2, *IMAGE[1:]), {"x": {0: batch}}
    program = compiled(Classifier(), inputs, dynamic_shapes=shapes, compute_unit="CPU_AND_GPU")
    assert "Neural Engine" not in str(program.report())
    assert "Neural Engine" not in str(compiled(Classifier(), inputs).report())


def test_enumerated_shapes_are_in_the_package(tmp_path):
    batch = torch.export.Dim("batch", min=1, max=4)
    program = compiled(
        Classifier(),
        torch.randn(2, *IMAGE[1:]),
        dynamic_shapes={"x": {0: batch}},
        enumerated_shapes={"x": [[1, 3, 8, 8], [4, 3, 8, 8]]},
        lower_full_graph=True,
    )
    lines = CoreMLCompiler().describe_blob(blob_of(program, tmp_path / "model.pte"), {})
    assert "input x: float32, one of [1, 3, 8, 8], [4, 3, 8, 8]" in lines
    assert "Neural Engine" not in str(program.report())


def test_extract_writes_the_model_package(tmp_path):
    blob = blob_of(compiled(Classifier(), torch.randn(IMAGE)), tmp_path / "model.pte")
    extract.command(tmp_path / "model.pte", None)
    (row,) = json.loads((tmp_path / "model/index.json").read_text())["blobs"]
    package = tmp_path / "model" / row["unpacked"] / "model.mlpackage"
    manifest = json.loads((package / "Manifest.json").read_text())
    paths = [package / "Data" / item["path"] for item in manifest["itemInfoEntries"].values()]
    assert all(path.exists() for path in paths) and manifest["rootModelIdentifier"] in manifest["itemInfoEntries"]
    assert (package / "Data/com.apple.CoreML/model.mlmodel").read_bytes() == unpack(blob, {}).specification


def test_coremltools_prints_nothing(capfd):
    compiled(Classifier(), torch.randn(IMAGE))
    assert capfd.readouterr() == ("", "")
