"""Sixteen networks, each one delegate: the stand-in for Core ML computes what eager does.

`benchmarks/lowering.py` measures the time that lowering takes.
"""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml_standin.interpreter import StandIn

zoo = pytest.importorskip("zoo", reason="the tests of edgecore itself are not here")

QUICK = ("mobilenet_v3_small", "shufflenet_v2_x1_0", "bert_mini")
TOLERANCE = 1e-4
"""Largest difference from eager, relative to the largest output."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in zoo.ALL]
)
def test_a_network_is_one_delegate_that_computes_what_eager_does(name, monkeypatch, record_property):
    try:
        model, inputs = zoo.make(name)
    except ImportError as error:
        pytest.skip(str(error))
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES", raising=False)
    backend = edgecore.Backend("coreml", required=True, lower_full_graph=True)
    program = edgecore.compile(torch.export.export(model, inputs), backends=[backend])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    results, expected = StandIn(bytes(blob), {})(*inputs), model(*inputs)
    difference = (results[0] - expected).abs().max() / expected.abs().max()
    record_property("difference", float(difference))  # --junit-xml=FILE
    assert difference < TOLERANCE
