"""Compile spec, partitioner and quantizer for ExecuTorch scripts."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore_tosa.spec import TosaSpec
from edgecore_vgf import VgfCompileSpec, VgfPartitioner, VgfQuantizer
from edgecore_vgf.quantizer import get_symmetric_quantization_config

INPUTS = (torch.randn(1, 8, 4), torch.randn(1, 8, 4))


class Sub(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


@pytest.mark.usefixtures("device")
def test_a_program_is_lowered_as_in_the_documentation():
    compile_spec = VgfCompileSpec("TOSA-1.0+INT")
    quantizer = VgfQuantizer(compile_spec)
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Sub(), INPUTS).graph_module, quantizer)
    prepared(*INPUTS)
    quantized = torch.export.export(convert_pt2e(prepared), INPUTS)
    edge = edgecore.to_edge_transform_and_lower(quantized, partitioner=[VgfPartitioner(compile_spec)])
    assert "1 x VgfBackend" in str(edge.report())
    result = edgecore.load(edge.to_executorch().buffer).forward(*INPUTS)
    torch.testing.assert_close(torch.as_tensor(result), Sub()(*INPUTS), rtol=0, atol=0.1)


def test_the_documented_names_do_not_slow_down_the_import_of_the_package():
    code = "import sys, edgecore_vgf; assert not {'torch', 'pydantic'} & set(sys.modules); edgecore_vgf.VgfPartitioner"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def test_the_quantizer_leaves_a_module_in_floating_point():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid()).eval()
    inputs = (torch.randn(2, 4),)
    quantizer = VgfQuantizer(VgfCompileSpec())
    quantizer.set_global(get_symmetric_quantization_config()).set_module_type(torch.nn.Sigmoid, None)
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    names = [str(node.target) for node in convert_pt2e(prepared).graph.nodes if node.op == "call_function"]
    assert any("linear" in name for name in names) and names[-1] == "aten.sigmoid.default"
