"""The verifier of the edge dialect names the node, the rule and the line of the model."""

import pytest
import torch
from edge_programs import export

from edgecore.ir.dialect.verifier import VerificationError, verify
from edgecore.pipeline import to_edge


def test_the_verifier_names_node_rule_and_line(monkeypatch):
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES")  # the verifier at the end, not the one after a pass
    program = export(lambda s, x: torch.special.airy_ai(x), torch.randn(3))
    with pytest.raises(VerificationError, match=r"special_airy_ai.*node .*edge_programs\.py:\d+.*not an operator"):
        to_edge(program)


def test_the_verifier_refuses_views_and_in_place_operators():
    for function, text in (
        (lambda s, x: x.view(-1), "not an operator of the edge dialect"),
        (lambda s, x: x.sin().relu_(), "not an operator of the edge dialect"),
    ):
        with pytest.raises(VerificationError, match=text):
            verify(export(function, torch.randn(2, 3)))
