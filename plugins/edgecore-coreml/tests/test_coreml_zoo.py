"""Sixteen networks, each one delegate: the stand-in for Core ML computes what eager does; the time that lowering takes."""

from __future__ import annotations

import time

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml import convert
from edgecore_coreml.standin.interpreter import StandIn

zoo = pytest.importorskip("zoo", reason="the tests of edgecore itself are not here")

QUICK = ("mobilenet_v3_small", "shufflenet_v2_x1_0", "bert_mini")
TOLERANCE = 1e-4
"""Largest difference from eager, relative to the largest output."""
SECONDS = 3.0
"""Largest processor time of lowering, without that of coremltools."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in zoo.ALL]
)
def test_a_network_is_one_delegate_that_computes_what_eager_does(name, monkeypatch):
    try:
        model, inputs = zoo.make(name)
    except ImportError as error:
        pytest.skip(str(error))
    spent, original = 0.0, convert._convert

    def timed(*args):
        nonlocal spent
        begun = time.process_time()
        package = original(*args)
        spent += time.process_time() - begun
        return package

    monkeypatch.setattr(convert, "_convert", timed)
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES", raising=False)
    exported = torch.export.export(model, inputs)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    begun = time.process_time()
    backend = edgecore.Backend("coreml", required=True, lower_full_graph=True)
    program = edgecore.compile(exported, backends=[backend])
    own = time.process_time() - begun - spent
    torch.set_num_threads(threads)
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    results, expected = StandIn(bytes(blob), {})(*inputs), model(*inputs)
    assert (results[0] - expected).abs().max() / expected.abs().max() < TOLERANCE
    assert own < SECONDS
