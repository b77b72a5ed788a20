"""The base classes of names for ExecuTorch scripts, with a backend that has no compiler."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from pydantic import BaseModel, field_validator
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore.plugin import CompileSpec
from edgecore_tosa.executorch import SpecPartitioner, SpecQuantizer, TosaCompileSpec
from edgecore_tosa.quantizer import get_symmetric_quantization_config
from edgecore_tosa.spec import TosaSpec

INPUTS = (torch.randn(1, 8, 4), torch.randn(1, 8, 4))


class Options(BaseModel):
    dump_intermediate_artifacts_to: str | None = None
    operators: tuple[str, ...] = ()
    min_operators: int = 1

    @property
    def spec(self) -> TosaSpec:
        return TosaSpec.parse("TOSA-1.0+INT")

    @field_validator("min_operators")
    @classmethod
    def _positive(cls, count: int) -> int:
        if count < 1:
            raise ValueError(f"min_operators is {count}")
        return count

    def to_specs(self) -> list[CompileSpec]:
        return []

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> Options:
        return cls()


class Partitioner(SpecPartitioner):
    backend_id = "TosaTestBackend"


class Flattened(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).flatten()


class Views(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.transpose(1, 2).flatten(), *y.split(4, 1)]


class NoSub:
    """A user's check, with the interface of `torch.fx.passes.operator_support`."""

    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return "sub" not in str(node.target)


def lowered(model: torch.nn.Module, **arguments: object) -> edgecore.EdgeProgramManager:
    """Quantize and lower as the documentation of ExecuTorch does."""
    compile_spec = TosaCompileSpec(Options, {})
    quantizer = SpecQuantizer(compile_spec).set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, INPUTS).graph_module, quantizer)
    prepared(*INPUTS)
    quantized = torch.export.export(convert_pt2e(prepared), INPUTS)
    return edgecore.to_edge_transform_and_lower(quantized, partitioner=[Partitioner(compile_spec, **arguments)])


def test_a_check_of_the_user_keeps_nodes_outside():
    edge = lowered(Flattened(), additional_checks=[NoSub()])
    assert "refused by the check NoSub" in str(edge.report())
    assert edge.report().delegates == {}


def test_views_of_integers_are_no_delegate():
    edge = lowered(Views())
    assert edge.report().delegates == {}
    assert "in a partition with only data movement" in str(edge.report())


def test_an_impossible_option_is_one_sentence_without_the_words_of_pydantic():
    with pytest.raises(ValueError, match=r"^min_operators is 0$"):
        TosaCompileSpec(Options, {"min_operators": 0})
