"""Sites: places in an edge program whose values a device can return while its other computations stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.format import PteFile, get_meta
from edgecore.ir.dialect.op_sets import DATA_MOVEMENT
from edgecore.ir.graph import calls, operator_name
from edgecore.ir.program.outputs import is_result, written_buffers
from edgecore.passes.quantized import is_dequantize, is_quantize, parameters_of

METHOD = "forward"

LARGEST_OPERATION = 8
"""The largest number of nodes that a backend fuses. If a backend reports an operation of more nodes, the operation is a
whole network, and any node of the network may become an output."""

_ACTIVATIONS = {
    "relu",
    "relu_",
    "hardtanh",
    "hardtanh_",
    "clamp",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
    "gelu",
}
_SIZES = ("sym_size", "_assert", "sym_constrain", "empty", "full", "arange")


@dataclass(frozen=True)
class Site:
    """A place in the edge graph where the device's value can be read.

    Attributes:
        tap: Name of the node whose value becomes an output.
        value: Name of the node that computes the value: the quantize node, if `tap` is the dequantize node after it.
        source: Name of the node that the quantize node reads; equal to `value` if the value is not quantized.
        step: The scale of the quantization; None if the value is not quantized.
        backend: Id of the backend that computes the value; empty for edgecore's kernels.
        bytes: Size of the value.
    """

    tap: str
    value: str
    source: str
    step: float | None
    backend: str
    bytes: int


def results_of(program: ExportedProgram) -> Sequence[Any]:
    """Return all results of a graph, in the order of its output specs."""
    results = program.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    return results


def sites_of(edge: ExportedProgram, pte: PteFile) -> list[Site]:
    """List the sites whose values exist in the compiled file, in the order of the graph.

    Args:
        edge: The edge program, whose nodes have the debug handles from lowering.
        pte: The file.
    """
    nodes = {node.meta["debug_handle"]: node for node in calls(edge.graph_module) if "debug_handle" in node.meta}
    dependent = depends_on_inputs(edge)
    ends = dict[str, str]()  # name of each node whose value exists on the device -> id of its backend
    inside_of = dict[int, str]()
    for ids, handles, operations in delegates_of(pte):
        inside_of |= dict.fromkeys(handles, ids)
        covered = [group for group in operations if len(group) <= LARGEST_OPERATION]
        named = {handle for group in covered for handle in group}
        last = [nodes[group[-1]] for group in covered if group[-1] in nodes]
        # Leave out data movement: a permute as an output would force the backend to store the permuted layout.
        ends |= {node.name: ids for node in last if node.target not in DATA_MOVEMENT}
        if not named or any(len(group) > LARGEST_OPERATION for group in operations):
            whole = [nodes[handle] for handle in handles if handle in nodes and handle not in named]
            ends |= {node.name: ids for node in whole if _may_end(node)}
    ends |= {node.name: "" for handle, node in nodes.items() if handle not in inside_of and _may_end(node)}
    for value in user_outputs(edge):  # outputs can always be read
        if isinstance(value, Node) and value.op == "call_function" and not is_dequantize(value):
            ends.setdefault(value.name, inside_of.get(value.meta.get("debug_handle", -1), ""))
    sites = dict[str, Site]()
    for node in calls(edge.graph_module):
        if node.name in ends and node in dependent:
            for site in _resolve(node, ends[node.name]):
                sites.setdefault(site.tap, site)
    order = {node.name: number for number, node in enumerate(edge.graph.nodes)}
    return sorted(sites.values(), key=lambda site: order[site.value])


def user_outputs(edge: ExportedProgram) -> list[Any]:
    """Return the user's outputs of the graph, without the new values of its mutable buffers."""
    specs = edge.graph_signature.output_specs
    pairs = zip(results_of(edge), specs, strict=True)
    return [value for value, spec in pairs if is_result(spec)]


def delegates_of(pte: PteFile) -> Iterator[tuple[str, Sequence[int], list[Sequence[int]]]]:
    """Yield for each delegate the id of its backend, its nodes' debug handles, and the handles of each operation."""
    meta = get_meta(pte)
    method = meta.method(METHOD) if meta else None
    plan = next(plan for plan in pte.program.execution_plan if plan.name == METHOD)
    for delegate, row in zip(plan.delegates, method.delegates if method else (), strict=True):
        yield delegate.id, row.handles, [operation.handles for operation in row.operations if operation.handles]


def depends_on_inputs(edge: ExportedProgram) -> set[Node]:
    """Return the nodes that depend on a user input or on a mutable buffer."""
    mutated = written_buffers(edge)
    starts = {
        spec.arg.name
        for spec in edge.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT or (spec.kind == InputKind.BUFFER and spec.target in mutated)
    }
    dependent = set[Node]()
    for node in edge.graph.nodes:
        if (node.op == "placeholder" and node.name in starts) or not dependent.isdisjoint(node.all_input_nodes):
            dependent.add(node)
    return dependent


def _may_end(node: Node) -> bool:
    """Guess whether a node's result exists on the device, if the backend does not declare which operators it fuses."""
    name = short_name(node)
    if is_quantize(node) or is_dequantize(node) or node.target in DATA_MOVEMENT or name.startswith(_SIZES):
        return False
    users = list(node.users)
    return not (len(users) == 1 and users[0].op == "call_function" and short_name(users[0]) in _ACTIVATIONS)


def short_name(node: Node) -> str:
    """Return the name of an operator without its namespace and overload: `convolution`."""
    parts = operator_name(node.target).split(".")
    return parts[1] if len(parts) > 2 else parts[0]


def _resolve(node: Node, backend: str) -> Iterator[Site]:
    """Yield the site at which a node's value can be read; for a quantized value, at the dequantize node after it."""
    if is_dequantize(node):
        inner = node.args[0]
        if isinstance(inner, Node) and is_quantize(inner) and _step(inner) is not None:
            yield _site(node, inner, backend)
        return
    quantized = [node] if is_quantize(node) else list(node.users)
    if quantized and all(map(is_quantize, quantized)):
        for quantize_node in quantized:
            behind = next((user for user in quantize_node.users if is_dequantize(user)), None)
            if behind is not None and _step(quantize_node) is not None:
                yield _site(behind, quantize_node, backend)
                return
        return  # skip a value with a dynamic scale, or whose integers an operator reads directly
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        yield _site(node, node, backend)
    elif isinstance(value, (tuple, list)):
        for user in node.users:
            if isinstance(user.meta.get("val"), torch.Tensor) and short_name(user) == "getitem":
                yield from _resolve(user, backend)


def _step(node: Node) -> float | None:
    parameters = parameters_of(node)
    return float(parameters.scale) if parameters and parameters.is_per_tensor else None  # type: ignore[arg-type]


def _site(tap: Node, value: Node, backend: str) -> Site:
    source = value.args[0] if is_quantize(value) else value
    assert isinstance(source, Node)
    size = 1
    for dim in tap.meta["val"].shape:
        size *= int(dim) if isinstance(dim, int) else 1
    step = _step(value) if is_quantize(value) else None
    return Site(tap.name, value.name, source.name, step, backend, size * tap.meta["val"].element_size())
