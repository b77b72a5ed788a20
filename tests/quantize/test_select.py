"""Annotations of several quantizers, of which each quantizes only the nodes of its recipe."""

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")
from torchao.quantization.pt2e.observer import MinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from edgecore.quantize.select import ANNOTATION, SelectingQuantizer

aten = torch.ops.aten
SPEC = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)


class Everything(Quantizer):
    """Quantizes each linear layer, and shares the parameters of its result with those of the relu and sigmoid behind it."""

    def __init__(self):
        self.calls = []

    def transform_for_annotation(self, model):
        self.calls.append("transform")
        return model

    def annotate(self, model):
        for node in model.graph.nodes:
            if node.target is aten.linear.default:
                specs = {node.args[0]: SPEC, node.args[1]: SPEC}
                node.meta[ANNOTATION] = QuantizationAnnotation(specs, SPEC, _annotated=True)
            elif node.target in (aten.relu.default, aten.sigmoid.default):
                source = node.args[0]
                shared = SharedQuantizationSpec(source)
                node.meta[ANNOTATION] = QuantizationAnnotation({source: shared}, shared, _annotated=True)
        return model

    def validate(self, model):
        self.calls.append("validate")


def annotated(*selections):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sigmoid(), nn.Linear(4, 4)).eval()
    module = torch.export.export(model, (torch.randn(2, 4),)).module()
    quantizer = SelectingQuantizer(
        [(Everything(), lambda node, names=names: node.name in names) for names in selections]
    )
    quantizer.annotate(quantizer.transform_for_annotation(module))
    quantizer.validate(module)
    assert all(one.calls == ["transform", "validate"] for one, _ in quantizer.quantizers)
    return {node.name for node in module.graph.nodes if ANNOTATION in node.meta}


def test_only_selected_nodes_stay_annotated():
    everything = {"linear", "relu", "sigmoid", "linear_1"}
    assert annotated(everything) == everything
    assert annotated({"linear_1"}) == {"linear_1"}
    assert annotated({"linear"}, {"linear_1"}) == {"linear", "linear_1"}
    assert annotated(set()) == set()


def test_an_annotation_that_shares_parameters_with_a_dropped_one_is_dropped_too():
    assert annotated({"relu", "sigmoid", "linear_1"}) == {"linear_1"}  # relu shares with linear, sigmoid with relu
    assert annotated({"relu", "sigmoid"}, {"linear"}) == {"linear", "relu", "sigmoid"}
