"""Tools for a backend's `Quantizer` of torchao's PT2E quantization: configurations of modules, and annotations of nodes.

Experimental: may change in any release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from edgecore.quantize.select import ANNOTATION

__all__ = [
    "CLAMPS",
    "NORMS",
    "OBSERVERS",
    "ModuleQuantizer",
    "fused_tail",
    "is_annotated",
    "is_float",
    "mark",
    "mark_fused",
    "mark_shared",
    "output_spec",
]

aten = torch.ops.aten

Config = TypeVar("Config")
Self = TypeVar("Self", bound="ModuleQuantizer[Any]")

NORMS = frozenset({aten.batch_norm.default})
CLAMPS = frozenset({
    aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default, aten.hardtanh.default,
    aten.hardtanh_.default, aten.clamp.default, aten.clamp_.default,
})  # fmt: skip
"""Operators of an exported model that are fused with the layer before them.

A clamp costs nothing there: the integers of its result hold only numbers between its limits.
"""

OBSERVERS: Mapping[str, Any] = {
    "histogram": HistogramObserver, "minmax": MinMaxObserver, "moving-average": MovingAverageMinMaxObserver,
}  # fmt: skip
"""The classes of torchao for the values of the parameter `observer` of `edgecore.Recipe`."""


class ModuleQuantizer(Quantizer, Generic[Config]):  # type: ignore[misc]
    """A `Quantizer` with a configuration for each module; a backend's subclass overrides `annotate_node`.

    A configuration for a module's name has precedence over one for its type, which has precedence over the global
    one. The configuration None leaves a module in floating point.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, Config | None] = {}
        self._types: dict[str, Config | None] = {}
        self._global: Config | None = None

    def set_global(self: Self, quantization_config: Config | None) -> Self:
        """Set the configuration of all operators that no other configuration applies to."""
        self._global = quantization_config
        return self

    def set_object_type(self: Self, object_type: type[torch.nn.Module], quantization_config: Config | None) -> Self:
        """Set the configuration of operators in modules of a type."""
        self._types[f"{object_type.__module__}.{object_type.__qualname__}"] = quantization_config
        return self

    def set_module_name(self: Self, module_name: str, quantization_config: Config | None) -> Self:
        """Set the configuration of operators in a module and its submodules; the name is as in `named_modules()`."""
        self._names[module_name] = quantization_config
        return self

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`.

        Nodes that are annotated already, results that are not float32, and nodes that read tensors without elements,
        whose range an observer cannot determine, stay as they are.
        """
        for node in model.graph.nodes:
            if node.op != "call_function" or is_annotated(node) or not is_float(node) or _reads_empty(node):
                continue
            config = self.config_of(node)
            if config is not None:
                self.annotate_node(node, config)
        return model

    def annotate_node(self, node: Node, config: Config) -> None:
        """Annotate a node, and the nodes that are fused with it."""
        raise NotImplementedError

    def validate(self, model: GraphModule) -> None:
        """Do nothing: an annotated operator that the backend cannot run on integers runs in floating point."""

    def config_of(self, node: Node) -> Config | None:
        """Return the configuration of the module that a node belongs to."""
        for name, kind in reversed(list(node.meta.get("nn_module_stack", {}).values())):
            plain = name.removeprefix("L['self'].").removeprefix("L__self___")
            if plain in self._names:
                return self._names[plain]
            text = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            if text in self._types:
                return self._types[text]
        return self._global


def is_float(node: Any) -> bool:
    """Return True for a node whose value is a float32 tensor with elements."""
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32 and 0 not in val.shape


def _reads_empty(node: Node) -> bool:
    vals = [source.meta.get("val") for source in node.all_input_nodes]
    return any(isinstance(val, torch.Tensor) and 0 in val.shape for val in vals)


def is_annotated(node: Node) -> bool:
    """Return True if a node has an annotation."""
    return ANNOTATION in node.meta


def output_spec(node: Any) -> QuantizationSpecBase | None:
    """Return the specification of a node's result; None if it stays in floating point."""
    annotation = node.meta.get(ANNOTATION) if isinstance(node, Node) else None
    return None if annotation is None else annotation.output_qspec


def mark(node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]) -> None:
    """Annotate a node with the specifications of its result and of its inputs.

    An input whose quantization parameters are fixed, such as the result of a sigmoid, is read with these parameters:
    otherwise it would be quantized twice.
    """
    specs = {source: _fixed_spec(source) or spec for source, spec in inputs.items()}
    node.meta[ANNOTATION] = QuantizationAnnotation(input_qspec_map=specs, output_qspec=output, _annotated=True)


def _fixed_spec(node: Node) -> FixedQParamsQuantizationSpec | None:
    """Return the specification of a node's result if its parameters are fixed, also through operators that share it."""
    spec = output_spec(node)
    while isinstance(spec, SharedQuantizationSpec) and isinstance(spec.edge_or_node, tuple):
        source, user = spec.edge_or_node
        spec = user.meta[ANNOTATION].input_qspec_map.get(source)
    return spec if isinstance(spec, FixedQParamsQuantizationSpec) else None


def fused_tail(node: Node, groups: Iterable[Collection[Any]]) -> Node:
    """Return the last of the operators that are fused with a node; the node itself if there is none.

    Args:
        node: The node.
        groups: Operators that are fused if they are the only user of what is before them: at most one of each group, in
            this order, such as a normalization and then a clamp.
    """
    for group in groups:
        users = list(node.users)
        if len(users) == 1 and users[0].target in group:
            node = users[0]
    return node


def mark_fused(
    tail: Node, node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]
) -> None:
    """Annotate a node's inputs, and the result of the last operator that is fused with it."""
    if tail is not node:
        mark(tail, output, {})
    mark(node, output if tail is node else None, inputs)


def mark_shared(node: Node, activation: QuantizationSpecBase, *, only_quantized: bool = True) -> None:
    """Annotate the inputs and the result of a node to share one observer.

    Args:
        node: The node, such as a view.
        activation: The specification of its first input.
        only_quantized: Annotate only if all inputs are quantized already. Backends without floating point use False.
    """
    sources = [source for source in node.all_input_nodes if is_float(source)]
    if not sources or (only_quantized and any(output_spec(source) is None for source in sources)):
        return
    first = sources[0]
    shared = SharedQuantizationSpec((first, node))
    specs: dict[Any, QuantizationSpecBase] = dict.fromkeys(sources, shared)
    specs[first] = activation
    mark(node, shared, specs)
