"""Compile spec, partitioner and quantizer for ExecuTorch scripts."""

from __future__ import annotations

import subprocess
import sys

import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore_ethosu import EthosUCompileSpec, EthosUPartitioner, EthosUQuantizer
from edgecore_ethosu.quantizer import get_symmetric_quantization_config

INPUTS = (torch.randn(1, 8, 4), torch.randn(1, 8, 4))


class Sub(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def test_a_program_is_lowered_as_in_the_documentation():
    compile_spec = EthosUCompileSpec("ethos-u55-128", extra_flags=["--output-format=raw", "--debug-force-regor"])
    quantizer = EthosUQuantizer(compile_spec)
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Sub(), INPUTS).graph_module, quantizer)
    prepared(*INPUTS)
    quantized = torch.export.export(convert_pt2e(prepared), INPUTS)
    edge = edgecore.to_edge_transform_and_lower(quantized, partitioner=[EthosUPartitioner(compile_spec)])
    assert "1 x EthosUBackend" in str(edge.report())
    result = edgecore.load(edge.to_executorch().buffer).forward(*INPUTS)
    torch.testing.assert_close(torch.as_tensor(result), Sub()(*INPUTS), rtol=0, atol=0.1)


def test_the_documented_names_do_not_slow_down_the_import_of_the_package():
    code = "import sys, edgecore_ethosu; assert not {'torch', 'pydantic'} & set(sys.modules); edgecore_ethosu.EthosUPartitioner"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_methods_of_a_compile_spec_are_the_documented_ones():
    spec = EthosUCompileSpec("ethos-u55-128", extra_flags=["--output-format=raw", "--debug-force-regor"])
    assert spec.get_intermediate_path() is None
    assert spec.dump_intermediate_artifacts_to("folder") is spec
    assert spec.get_intermediate_path() == spec.options.dump_intermediate_artifacts_to == "folder"
    assert EthosUCompileSpec.get_output_format() == "vela"
