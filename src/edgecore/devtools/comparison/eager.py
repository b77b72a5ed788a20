"""Run an edge program in PyTorch from the model's inputs, or each operator on inputs that the device computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.devtools.comparison.sites import Site, depends_on_inputs, short_name
from edgecore.devtools.comparison.taps import EXPORTED_NAME, Sample
from edgecore.ir.dialect.op_sets import RESHAPES
from edgecore.ir.graph import calls, module_path, operator_name, source_line
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.lazy_constants import load
from edgecore.ir.program.outputs import is_result
from edgecore.numerics.evaluate import Evaluator
from edgecore.numerics.rounding import Rounding, chooses_scales
from edgecore.passes.quantized import is_quantize

_SHOWN_OPERATORS = 3  # maximum number of operator names in a row; "+ N more" stands for the rest
_UNNAMED = RESHAPES | {operator.getitem}

See = Callable[[Site, torch.Tensor, "torch.Tensor | None"], None]
"""A callback that receives a site, its value, and the value before quantization (None if unquantized)."""


@dataclass(frozen=True)
class Group:
    """The nodes that compute the value of one site (a place in the graph whose values are compared) from other sites.

    Attributes:
        nodes: The nodes, in the order of the graph.
        inputs: The sites, and inputs of the program, that these nodes read.
        operator: The names of the operators, such as `convolution + relu`.
        module: The qualified name of the module.
        source: The line of the model.
        rounds: True if a node inside the group quantizes a value that is not the value of a site.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    operator: str
    module: str
    source: str
    rounds: bool


class EagerEdge:
    """An edge program that PyTorch runs. Its constants are computed only once.

    Args:
        edge: The program.
        sites: Places in the graph whose values `run` reports to its callback.
        computes_in: The dtype to which floating-point results are rounded.
    """

    def __init__(self, edge: ExportedProgram, sites: Sequence[Site], computes_in: torch.dtype) -> None:
        self.edge = edge
        self.chooses_scales = chooses_scales(edge)
        self._dtype = computes_in
        self._sites = {site.value: site for site in sites}
        self._nodes = {node.name: node for node in edge.graph.nodes}
        self._results = sum(map(is_result, edge.graph_signature.output_specs))
        self._constants: dict[Node, Any] = {}
        self._buffers: dict[Node, torch.Tensor] = {}
        self._fold()

    def _fold(self) -> None:
        """Compute the constants: the weights, and all nodes that depend only on weights."""
        constants, dependent = Constants(self.edge), depends_on_inputs(self.edge)
        for spec in self.edge.graph_signature.input_specs:
            node = self._nodes[spec.arg.name]
            if constants.has(node):
                self._constants[node] = constants.get(node)
            elif spec.kind == InputKind.BUFFER:
                self._buffers[node] = load(self.edge.state_dict.get(spec.target, self.edge.constants.get(spec.target)))
            elif spec.kind != InputKind.USER_INPUT and spec.target in self.edge.constants:
                self._constants[node] = self.edge.constants[spec.target]
        evaluator = Evaluator(self.edge.graph_module, compute=Rounding(self._dtype))
        evaluator.env = self._constants
        with torch.no_grad():
            for node in self.edge.graph.nodes:
                if node.op in ("call_function", "get_attr") and node not in dependent:
                    if all(source in self._constants for source in node.all_input_nodes):
                        self._constants[node] = evaluator.run_node(node)

    def run(
        self,
        sample: Sample,
        see: See,
        device: Mapping[str, torch.Tensor] | None = None,
        *,
        by_row: bool = False,
        noise: float = 0.0,
        seed: int = 0,
    ) -> list[Any]:
        """Run the program and return the user's outputs.

        Args:
            sample: The flat inputs.
            see: Receives each site (a compared place in the graph), its value, and the value before quantization or
                None.
            device: Values of the device, by node name. Operators read them in place of PyTorch's values, so that each
                operator runs on the inputs that it had on the device.
            by_row: Choose dynamic scales for each row, as some backends do.
            noise: Amplitude of the random noise that is added before each rounding, in quantization steps.
            seed: Seed of the noise.
        """
        device = device or {}

        def show(node: Node, result: Any) -> Any:
            """Pass a site's value to `see`; return the device's value in its place, or `result` if there is none."""
            site = self._sites.get(node.name)
            if site is None:
                return result
            value = device.get(site.tap)
            if site.step is None:
                see(site, result, None)
                return result if value is None else value
            behind, before = self._nodes[site.tap], node.args[0]
            assert callable(behind.target) and callable(node.target) and isinstance(before, Node)
            see(site, behind.target(result, *behind.args[1:], **behind.kwargs), evaluator.env[before])
            # The device's values are exact multiples of the scale, so quantizing them again loses nothing.
            return result if value is None else node.target(value, *node.args[1:], **node.kwargs)

        rounding = Rounding(self._dtype, noise, seed, by_row=by_row)
        evaluator = Evaluator(self.edge.graph_module, see=show, compute=rounding)
        env = self._constants | {node: value.clone() for node, value in self._buffers.items()}
        with torch.no_grad():
            results = evaluator.run(*sample, initial_env=env, enable_io_processing=False)
        return list(results)[len(results) - self._results :]

    def groups(self, sites: Sequence[Site]) -> dict[str, Group]:
        """Map the node name of each compared value to the nodes that compute this value from other compared values."""
        ends = {site.value for site in sites}
        groups = {}
        for site in sites:
            inside, inputs, pending = set[Node](), dict[Node, None](), [self._nodes[site.value]]
            while pending:
                node = pending.pop()
                inside.add(node)
                for source in node.all_input_nodes:
                    if source in inside or source in self._constants:
                        continue
                    if self._is_end(source, ends):
                        inputs[source] = None
                    else:
                        pending.append(source)
            groups[site.tap] = _group(site, [node for node in self.edge.graph.nodes if node in inside], tuple(inputs))
        return groups

    def _is_end(self, node: Node, ends: set[str]) -> bool:
        return node.op == "placeholder" or node.name in ends


def _group(site: Site, nodes: Sequence[Node], inputs: tuple[Node, ...]) -> Group:
    operators = [node for node in nodes if node.op == "call_function" and not _only_rounds(node)]
    shown = [node for node in operators if node.target not in _UNNAMED] or operators or list(nodes[-1:])
    names = [short_name(node).rstrip("_") for node in shown]
    rest = len(names) - _SHOWN_OPERATORS
    text = " + ".join(names if rest <= 0 else [*names[:_SHOWN_OPERATORS], f"{rest} more"])
    rounds = any(is_quantize(node) and node.name != site.value for node in nodes)
    return Group(tuple(nodes), inputs, text, module_path(shown[0]), source_line(shown[0]), rounds)


def _only_rounds(node: Node) -> bool:
    """Return True for a node that quantizes, dequantizes or chooses a scale."""
    name = operator_name((node.args[0] if node.target is operator.getitem else node).target)  # type: ignore[union-attr]
    return name.startswith("quantized_decomposed.")


def float_names(edge: ExportedProgram, sites: Sequence[Site]) -> dict[str, str]:
    """Map the node name of each compared value to the name of the value's node in the exported program.

    Lowering may decompose an exported node into several nodes. Only the last of them computes the exported node's
    value, so only this node is mapped. If a node has several results, such as `topk`, only the first result is mapped.
    """
    firsts = [node for node in calls(edge.graph_module) if node.target is not operator.getitem or node.args[1] == 0]
    name_of = {node.name: (node.meta.get("custom") or {}).get(EXPORTED_NAME) for node in firsts}
    last = {name: node for node, name in name_of.items() if name}
    names = {}
    for site in sites:
        name = name_of.get(site.source)
        if name is not None and last[name] == site.source:
            names[site.tap] = name
    return names
