"""The compiler: supported operators, refusals, reports, descriptions and checks."""

from __future__ import annotations

import re

import pytest
import torch
from ethosu_models import CONV_INPUTS, Conv, blob_of, compiled

import edgecore
from edgecore.errors import CompileError, FallbackWarning
from edgecore_ethosu import backend
from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions
from edgecore_tosa.graph import Graph


def test_operators_that_a_target_never_takes_are_not_listed_for_it():
    u55, u65, u85 = (
        {row.operator: row for row in EthosUCompiler().operator_support_with(EthosUOptions(target=f"ethos-{name}-256"))}
        for name in ("u55", "u65", "u85")
    )
    assert u55 == u65
    assert {"aten.gt.Tensor", "aten.where.self", "aten.bitwise_and.Tensor", "aten.gather.default"} <= set(u85) - set(
        u55
    )
    assert u85["aten.embedding.default"].constraints != u55["aten.embedding.default"].constraints
    real = {"aten._to_copy.default", "aten.addmm.default", "aten.scaled_dot_product_attention.default"}
    assert not real & {*u55, *u85}, "the NPUs compute with integers"


class Difference(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def test_a_model_that_is_not_quantized_is_refused_with_the_operator_and_the_reason():
    backend = edgecore.Backend("ethosu", required=True)
    with pytest.raises(
        CompileError,
        match=r"aten\.sub\.Tensor .* EthosUBackend: input x is not quantized, and TOSA-1\.0\+INT.* computes with integers",
    ):
        edgecore.compile(Difference().eval(), (torch.ones(2, 3), torch.ones(2, 3)), backends=[backend])


def test_the_report_has_the_estimates_of_each_delegate():
    text = str(compiled(Conv(), CONV_INPUTS).report())
    assert "delegate 0: ethos-u55-128, NPU operations" in text
    assert "CPU operations 0" in text and "cycles" in text and "SRAM" in text and "flash" in text


def test_the_report_says_where_the_cycles_go():
    text = str(compiled(Conv(), CONV_INPUTS).report())
    assert re.search(r"delegate 0: \d+% of the cycles in .*conv", text), text


def test_a_graph_that_vela_refuses_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(Graph, "to_bytes", lambda graph: b"no graph")
    backend = edgecore.Backend("ethosu", dump_intermediate_artifacts_to=str(tmp_path))
    with pytest.warns(FallbackWarning, match="Vela cannot compile the TOSA graph for ethos-u55-128"):
        edgecore.compile(Conv().eval(), CONV_INPUTS, backends=[backend])
    (folder,) = tmp_path.iterdir()
    assert (folder / "graph.tosa").read_bytes() == b"no graph"


def test_the_description_says_whether_the_tosa_graph_is_stored():
    stored = compiled(Conv(), CONV_INPUTS)
    blob = blob_of(bytes(stored.buffer))
    assert EthosUCompiler().describe_blob(blob, {})[-1] == "TOSA graph: not in the file"
    text = "\n".join(EthosUCompiler().describe_blob(blob, {key_of(bytes(stored.buffer)): b""}))
    assert "TOSA graph: in the file as ethosu-tosa-" in text


def key_of(content: bytes) -> str:
    start = content.index(b"ethosu-tosa-")
    return content[start : start + 28].decode()


def test_the_check_of_the_package_names_what_is_missing(monkeypatch):
    assert list(EthosUCompiler().check()) == []
    monkeypatch.setattr(backend, "simulator_library", lambda: None)
    (simulator,) = EthosUCompiler().check()
    assert simulator.remedy == "pip install edgecore-tosa"
