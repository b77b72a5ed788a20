"""Options of the backend, and `VgfCompileSpec` and `VgfQuantizer` with the documented arguments."""

from __future__ import annotations

import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore_tosa.spec import TosaSpec
from edgecore_vgf.executorch import VgfCompileSpec, VgfQuantizer
from edgecore_vgf.options import VgfOptions
from edgecore_vgf.quantizer import get_symmetric_quantization_config


def test_the_methods_of_a_compile_spec_are_the_documented_ones():
    spec = VgfCompileSpec("TOSA-1.0+FP", compiler_flags=["--emit-debug-info"])
    assert spec.options.tosa_spec == "TOSA-1.0+FP" and spec.options.compiler_flags == ("--emit-debug-info",)
    assert spec.get_intermediate_path() is None
    assert spec.dump_intermediate_artifacts_to("folder") is spec
    assert spec.get_intermediate_path() == spec.options.dump_intermediate_artifacts_to == "folder"
    assert VgfCompileSpec.get_output_format() == "vgf"


def test_a_specification_may_be_a_text_or_an_object():
    assert VgfCompileSpec(TosaSpec.parse("TOSA-1.0+INT+int16")).options == VgfCompileSpec("TOSA-1.0+INT+int16").options
    default = TosaSpec.parse(VgfCompileSpec().options.tosa_spec)
    assert default.integer and default.floating and default.extensions == {"int16", "int4"}


def test_compile_specs_keep_the_options_under_the_keys_of_executorch():
    options = VgfOptions(
        tosa_spec="TOSA-1.0+INT+int16",
        compiler_flags=["--type-narrowing full", "--emit-debug-info"],
        dump_intermediate_artifacts_to="folder",
    )
    specs = {spec.key: spec.value for spec in options.to_specs()}
    assert specs == {
        "tosa_spec": b"TOSA-1.0+INT+int16",
        "compile_flags": b"--type-narrowing full --emit-debug-info",
        "output_format": b"vgf",
        "debug_artifact_path": b"folder",
    }
    assert VgfOptions.from_specs(options.to_specs()) == options
    assert VgfOptions.from_specs(VgfOptions().to_specs()) == VgfOptions()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tosa_spec": "TOSA-2.0+FP"}, "only version 1 of TOSA is supported"),
        ({"tosa_spec": "TOSA-1.0"}, "has no profile"),
        ({"tosa_spec": "TOSA-1.0+INT+u55"}, "u55 is for Ethos-U55, whose backend is edgecore-ethosu"),
        ({"compiler_flags": ["--output=x.vgf"]}, "edgecore-vgf sets --output itself"),
        ({"compiler_flags": ["--tosa-flatbuffer"]}, "with --tosa-flatbuffer the converter writes no VGF file"),
    ],
)
def test_an_impossible_choice_is_one_error(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        VgfCompileSpec(**arguments)


def test_an_impossible_choice_stops_the_compilation():
    backend = edgecore.Backend("vgf", tosa_spec="TOSA-1.0")
    with pytest.raises(edgecore.errors.CompileError, match="has no profile"):
        edgecore.compile(torch.nn.ReLU().eval(), (torch.ones(2),), backends=[backend])


def test_a_profile_of_integers_refuses_a_model_that_is_not_quantized():
    backend = edgecore.Backend("vgf", required=True, tosa_spec="TOSA-1.0+INT")
    with pytest.raises(
        edgecore.errors.CompileError, match=r"is not quantized, and TOSA-1\.0\+INT computes with integers only"
    ):
        edgecore.compile(torch.nn.ReLU().eval(), (torch.ones(2),), backends=[backend])


def test_the_quantizer_leaves_a_module_in_floating_point():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid()).eval()
    inputs = (torch.randn(2, 4),)
    quantizer = VgfQuantizer(VgfCompileSpec())
    quantizer.set_global(get_symmetric_quantization_config()).set_module_type(torch.nn.Sigmoid, None)
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    names = [str(node.target) for node in convert_pt2e(prepared).graph.nodes if node.op == "call_function"]
    assert any("linear" in name for name in names) and names[-1] == "aten.sigmoid.default"
