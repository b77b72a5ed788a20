"""A torchao quantizer that restricts each backend's quantizer to the nodes of its recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)

from edgecore.plugin import Selects

ANNOTATION = "quantization_annotation"


class SelectingQuantizer(Quantizer):  # type: ignore[misc]
    """Runs several quantizers, and keeps from each only annotations of nodes that the quantizer's recipe selects."""

    def __init__(self, quantizers: Sequence[tuple[Any, Selects]]) -> None:
        super().__init__()
        self.quantizers = quantizers

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        for quantizer, _ in self.quantizers:
            model = quantizer.transform_for_annotation(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`.

        While a quantizer runs, the nodes of other recipes are marked as annotated, so that the quantizer does not
        quantize values only for these nodes. If it annotates such a node nevertheless, the annotation is dropped.
        """
        kept: dict[Node, Any] = {}
        for quantizer, selects in self.quantizers:
            for node in model.graph.nodes:
                if node.op == "call_function" and not selects(node):
                    node.meta[ANNOTATION] = QuantizationAnnotation(_annotated=True)
            quantizer.annotate(model)
            for node in model.graph.nodes:
                annotation = node.meta.pop(ANNOTATION, None)
                if annotation is not None and selects(node):
                    kept[node] = annotation
        while dangling := [node for node, annotation in kept.items() if not _is_complete(annotation, kept)]:
            for node in dangling:
                del kept[node]
        for node, annotation in kept.items():
            node.meta[ANNOTATION] = annotation
        return model

    def validate(self, model: GraphModule) -> None:
        for quantizer, _ in self.quantizers:
            quantizer.validate(model)


class OutsideBodies(Quantizer):  # type: ignore[misc]
    """Runs a quantizer only on a module's outer graph, although torchao also passes control-flow bodies.

    Backends do not run the bodies quantized, and torch.export does not keep the scales of the bodies' weights.
    """

    def __init__(self, quantizer: Quantizer, module: GraphModule) -> None:
        super().__init__()
        self.quantizer = quantizer
        self.bodies = set(module.modules()) - {module}

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        return model if model in self.bodies else self.quantizer.transform_for_annotation(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        return model if model in self.bodies else self.quantizer.annotate(model)

    def validate(self, model: GraphModule) -> None:
        if model not in self.bodies:
            self.quantizer.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, edge_or_node_to_obs_or_fq: Any) -> None:
        if model not in self.bodies:
            self.quantizer.prepare_obs_or_fq_callback(model, edge_or_node_to_obs_or_fq)


def _is_complete(annotation: Any, kept: dict[Node, Any]) -> bool:
    """Return True if `kept` annotates each value with which `annotation` shares quantization parameters."""
    for value in _references(annotation):
        if isinstance(value, Node):
            if value not in kept or kept[value].output_qspec is None:
                return False
        else:
            source, user = value
            if user not in kept or kept[user].input_qspec_map.get(source) is None:
                return False
    return True


def _references(annotation: Any) -> Iterator[Any]:
    """Yield the values whose scale an annotation shares: a node for its result, or (source, user) for an input."""
    for spec in (*annotation.input_qspec_map.values(), annotation.output_qspec):
        if isinstance(spec, SharedQuantizationSpec):
            yield spec.edge_or_node
        elif isinstance(spec, DerivedQuantizationSpec):
            yield from spec.derived_from
