"""Compiled models, with a script in place of Apple's `xcrun`: it writes a folder as Apple's compiler lays it out."""

from __future__ import annotations

import json
import os
import sys

import pytest
import torch
from typer.testing import CliRunner

import edgecore
from edgecore.cli.app import app
from edgecore.errors import CompileError, ExecutionError, FormatError
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package.blob import read_blob, resolve, write_blob
from edgecore_coreml.package.compiled import check_compiler, compile_model
from edgecore_coreml.package.files import Package, pack
from edgecore_coreml_standin.interpreter import StandIn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script is for a shell")

XCRUN = """#!/bin/sh
case "$1 $2" in
  "--find coremlcompiler") exit 0 ;;
  "coremlcompiler compile") ;;
  *) exit 2 ;;
esac
package="$3/Data/com.apple.CoreML"
test -f "$3/Manifest.json" && test -d "$package/weights" || exit 3
mkdir -p "$4/model.mlmodelc/weights"
cp "$package/model.mlmodel" "$4/model.mlmodelc/model.mil"
cp "$package"/weights/* "$4/model.mlmodelc/weights/" 2>/dev/null
cp "$(dirname "$0")/described.json" "$4/model.mlmodelc/metadata.json"
"""

FLEXIBLE = {"name": "y", "dataType": "Float32", "shape": "[1, 32]", "hasShapeFlexibility": "1"}
DESCRIBED = {
    "specificationVersion": 7,
    "inputSchema": [{"name": "input_1", "dataType": "Float16", "shape": "[1, 64]", "hasShapeFlexibility": "0"}],
    "outputSchema": [FLEXIBLE, {"name": 1}, "damaged"],
}
COMPILED = "model.mlmodelc/"


def put_xcrun(folder, monkeypatch, script):
    (folder / "described.json").write_text(json.dumps([DESCRIBED]))
    (folder / "xcrun").write_text(script)
    (folder / "xcrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def xcrun(tmp_path_factory, monkeypatch):
    put_xcrun(tmp_path_factory.mktemp("xcode"), monkeypatch, XCRUN)


@pytest.fixture
def no_xcrun(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))


def compiled(model, inputs, model_type="COMPILED_MODEL", **options):
    backend = edgecore.Backend("coreml", required=True, model_type=model_type, **options)
    return edgecore.compile(model, inputs, backends=[backend])


def linear(**options):
    torch.manual_seed(0)
    return compiled(torch.nn.Linear(64, 32).eval(), (torch.randn(1, 64),), **options)


def blob_of(program):
    (blob,) = map(bytes, read_pte(bytes(program.buffer)).delegate_blobs)
    return blob


@pytest.mark.usefixtures("xcrun")
def test_the_blob_has_the_compiled_model_and_the_metadata_of_the_package():
    program, package = linear(), read_blob(blob_of(linear(model_type="MODEL")), {})
    files = read_blob(blob_of(program), {})
    assert sorted(files) == [
        "metadata.json",
        *(COMPILED + name for name in ("metadata.json", "model.mil", "weights/weight.bin")),
    ]
    assert files["metadata.json"] == package["metadata.json"]
    assert files[COMPILED + "weights/weight.bin"] == package["model.mlpackage/Data/com.apple.CoreML/weights/weight.bin"]
    assert blob_of(linear()) == blob_of(program)
    assert "compiled by Xcode" in str(program.report())
    (plan,) = read_pte(bytes(program.buffer)).program.execution_plan
    specs = {spec.key: bytes(spec.value) for spec in plan.delegates[0].compile_specs}
    assert specs["model_type"] == b"compiled_model"  # as ExecuTorch writes it


@pytest.mark.usefixtures("xcrun")
def test_a_model_without_weights_is_compiled():
    class Relu(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    assert COMPILED + "model.mil" in read_blob(blob_of(compiled(Relu().eval(), (torch.randn(3),))), {})


@pytest.mark.usefixtures("xcrun")
def test_methods_share_a_compiled_model():
    inputs = {"decode": (torch.randn(1, 64),), "prefill": (torch.randn(5, 64),)}
    model = torch.nn.Linear(64, 64).eval()
    program = compiled(dict.fromkeys(inputs, model), inputs, multimethod_weight_sharing_strategy="POSITIONAL")
    assert str(program.report()).count("compiled by Xcode, one model for decode, prefill") == 2
    pte = read_pte(bytes(program.buffer))
    assert sum(key.startswith("coreml_") for key in pte.named_data) == 1
    for blob in map(bytes, pte.delegate_blobs):
        folder, function = resolve(blob, pte.named_data)
        files = read_blob(folder, {})
        assert set(json.loads(files["metadata.json"])["methods"]) == set(inputs)
        assert COMPILED + "model.mil" in files and not any(path.startswith("model.mlpackage") for path in files)
        lines = CoreMLCompiler().describe_blob(blob, pte.named_data)
        assert f"function {function}" in lines and "input input_1" in lines
        assert CoreMLCompiler().verify_blob(blob, pte.named_data, runtime="edgecore") == []


@pytest.mark.usefixtures("no_xcrun")
def test_without_xcode_one_error_says_what_compiled_models_need():
    with pytest.raises(
        CompileError, match=r"need a Mac with Xcode.*; leave model_type=\"MODEL\", and the device compiles"
    ):
        edgecore.compile(object(), (), backends=[edgecore.Backend("coreml", model_type="COMPILED_MODEL")])


def test_an_xcrun_without_the_compiler_is_the_same_error(tmp_path, monkeypatch):
    """It is so on a Mac that has Apple's command line tools, and no Xcode."""
    put_xcrun(tmp_path, monkeypatch, "#!/bin/sh\nexit 72\n")
    with pytest.raises(CompileError, match="xcrun finds no coremlcompiler here"):
        check_compiler()


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            "echo 'coremlc: error: no such\n operator' >&2; exit 1",
            "cannot compile the model: coremlc: error: no such oper",
        ),
        ("exit 5", "cannot compile the model: it ended with status 5"),
        ("exit 0", "ended without an error, and wrote no model.mlmodelc"),
    ],
)
def test_a_compiler_that_fails_is_named_with_its_message(tmp_path, monkeypatch, end, message):
    put_xcrun(tmp_path, monkeypatch, f"#!/bin/sh\ntest $1 = --find && exit 0\n{end}\n")
    with pytest.raises(CompileError, match=message):
        compile_model(pack(Package(b"specification", b"weights", ("x",), ("y",))))
    with pytest.raises(CompileError, match=message):
        linear()


@pytest.mark.usefixtures("xcrun")
def test_inspect_verify_and_extract_work(tmp_path):
    path = tmp_path / "model.pte"
    linear().save(path)
    for arguments in (["verify", path], ["extract", path], ["inspect", path, "--blobs"]):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
    for text in ("iOS16 or later", "input input_1: float16 [1, 64]", "only Core ML runs it", "model.mlmodelc: "):
        assert text in result.output
    (row,) = json.loads((tmp_path / "model/index.json").read_text())["blobs"]
    assert (tmp_path / "model" / row["unpacked"] / "model.mlmodelc/weights/weight.bin").is_file()


BLOB = pack(Package(b"specification", b"weights", ("input_1",), ("y", "z")))


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (
            json.dumps([DESCRIBED]),
            [
                "model: iOS16 or later (specification version 7)",
                "input input_1: float16 [1, 64]",
                "output y: float32 [1, 32] and other shapes",
                "output z",
            ],
        ),
        *(
            (text, ["model: for the system that the compatibility names", "input input_1", "output y", "output z"])
            for text in (
                "",
                "[",
                "{}",
                "[1]",
                "[{}]",
                "1",
                '[{"inputSchema": 1, "specificationVersion": "7"}]',
                "[" * 9999,
            )
        ),
    ],
)
def test_a_description_of_apple_is_used_if_it_can_be_read(described, expected):
    files = read_blob(BLOB, {})
    blob = write_blob({"metadata.json": files["metadata.json"], COMPILED + "metadata.json": described.encode()})
    lines = CoreMLCompiler().describe_blob(blob, {})
    assert [line for line in lines if line.startswith(("model: ", "input", "output"))] == expected
    assert lines[-1] == f"model.mlmodelc: {len(described):,} bytes"


def test_a_blob_with_both_models_is_rejected():
    blob = write_blob(read_blob(BLOB, {}) | {COMPILED + "model.mil": b""})
    with pytest.raises(FormatError, match="has model.mlpackage and model.mlmodelc, and readers could take either"):
        CoreMLCompiler().verify_blob(blob, {}, runtime="edgecore")


@pytest.mark.usefixtures("xcrun")
@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_the_stand_in_says_what_runs_the_model(tmp_path):
    program = linear()
    program.save(tmp_path / "model.pte")
    with pytest.raises(FormatError, match="the model is compiled, so only Core ML runs it, on a Mac, an iPhone"):
        StandIn(blob_of(program), {})
    standin = {"standin": sys.executable, "model_cache_folder": str(tmp_path / "cache")}
    with pytest.raises(ExecutionError, match="the model is compiled, so only Core ML runs it, on a Mac, an iPhone"):
        edgecore.load(tmp_path / "model.pte", options={"coreml": standin})
    with pytest.raises(ExecutionError, match="needs macOS, iOS, iPadOS or tvOS: run it on a Mac"):
        edgecore.load(tmp_path / "model.pte")
