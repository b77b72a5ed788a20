"""Taps: additional outputs of a program that show what a device computed inside of it.

An output in the wrong place changes the computation: a backend no longer fuses the operators before and after it. So
only values that an operation of a backend finishes are tapped, of quantized ones the value behind the dequantize node
that follows. Each tapped program must have the operations of the untapped one and compute the same outputs, bit by bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore import runtime
from edgecore.errors import BackendError, CompileError, ExecutionError, FallbackWarning
from edgecore.format import PteFile, get_meta
from edgecore.ir.graph import calls, operator_name
from edgecore.ir.op_sets import DATA_MOVEMENT
from edgecore.ir.program import copy_program, make_program
from edgecore.passes.pass_list import NamedPass, PassList
from edgecore.passes.quantized import is_dequantize, is_quantize, parameters_of

METHOD = "forward"
COMPILES = 24
"""The largest number of tapped programs that are compiled to find taps that change nothing."""

LARGEST_OPERATION = 8
"""An operation with more nodes is a whole network to its backend; then each operator may be tapped."""

EXPORTED_NAME = "exported_name"
"""The entry of `node.meta["custom"]` with the name of the node in the exported program, which lowering keeps."""

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
    """A place in the edge graph where the value of the device can be seen.

    Attributes:
        tap: Name of the node whose value becomes an output.
        value: Name of the node that computes it: a quantize node, if `tap` is the dequantize node behind it.
        source: Name of the node before the quantization; `value` if there is none.
        step: The scale of the quantization; None if the value is not quantized.
        backend: Id of the backend that computes it; empty for kernels of edgecore.
        bytes: Size of the value.
    """

    tap: str
    value: str
    source: str
    step: float | None
    backend: str
    bytes: int


class Snapshot:
    """A pass that keeps copies of the exported and of the edge program.

    Attributes:
        exported: The exported program, in whose calls `EXPORTED_NAME` was written.
        edge: The edge program.
    """

    def __init__(self) -> None:
        self.exported: ExportedProgram | None = None
        self.edge: ExportedProgram | None = None

    def passes(self, base: PassList) -> PassList:
        """Return the passes with this one at the beginning and at the end of the stage `edge`."""
        return with_last(_with_first(base, self._keep_exported), self._keep_edge)

    def _keep_exported(self, program: ExportedProgram) -> ExportedProgram:
        for node in calls(program.graph_module):
            node.meta["custom"] = {**(node.meta.get("custom") or {}), EXPORTED_NAME: node.name}
        self.exported = copy_program(program)
        return program

    def _keep_edge(self, program: ExportedProgram) -> ExportedProgram:
        self.edge = copy_program(program)
        return program


class Tap:
    """A pass that makes values outputs.

    Attributes:
        index: Name of each tapped node -> its index among the user's outputs. Nodes that the program lacks are missing.
    """

    def __init__(self, names: Sequence[str], *, only: bool = False) -> None:
        self.names = names
        self.only = only
        self.index: dict[str, int] = {}

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        """Add the outputs, behind the others. With `only` they replace the others, so that nothing else is computed."""
        graph, signature = program.graph, program.graph_signature
        output = graph.output_node()
        nodes = {node.name: node for node in graph.nodes}
        pairs = list(zip(_values(output), signature.output_specs, strict=True))
        if self.only:
            pairs = [pair for pair in pairs if pair[1].kind != OutputKind.USER_OUTPUT]
        present = {value for value, spec in pairs if spec.kind == OutputKind.USER_OUTPUT}
        for name in self.names:
            if name in nodes and nodes[name] not in present:
                pairs.append((nodes[name], OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name), None)))
        results = tuple(value for value, _ in pairs)
        output.args = (results,)
        output.meta["val"] = tuple(getattr(value, "meta", {}).get("val") for value in results)
        signature.output_specs[:] = [spec for _, spec in pairs]
        tapped = make_program(
            graph, signature, like=program, state_dict=program.state_dict, constants=program.constants,
            submodules=dict(program.graph_module.named_children()),
        )  # fmt: skip
        wanted = set(self.names)
        outputs = [value for value, spec in pairs if spec.kind == OutputKind.USER_OUTPUT]
        self.index = {
            value.name: i for i, value in enumerate(outputs) if isinstance(value, Node) and value.name in wanted
        }
        tapped.graph_module.graph.eliminate_dead_code()
        tapped.graph_module.recompile()
        return tapped


def with_last(base: PassList, function: Callable[[ExportedProgram], ExportedProgram]) -> PassList:
    """Return the passes with a function behind the last of the stage `edge`."""
    last = base.of_stage("edge")[-1].name
    return base.insert_after(last, NamedPass("compare_edge", function))


def _with_first(base: PassList, function: Callable[[ExportedProgram], ExportedProgram]) -> PassList:
    first = base.of_stage("exported")[0].name
    return base.insert_before(first, NamedPass("compare_exported", function, stage="exported"))


def _values(output: Node) -> Sequence[Any]:
    values = output.args[0]
    assert isinstance(values, (tuple, list))
    return values


def sites_of(edge: ExportedProgram, pte: PteFile) -> list[Site]:
    """List the places of an edge program whose values survive in the compiled file, in the order of the graph.

    Args:
        edge: The edge program, with the debug handles that lowering gives it.
        pte: The file.
    """
    nodes = {node.meta["debug_handle"]: node for node in calls(edge.graph_module) if "debug_handle" in node.meta}
    dependent = depends_on_inputs(edge)
    ends = dict[str, str]()  # name of a node -> id of its backend
    inside_of = dict[int, str]()
    for ids, handles, operations in _delegates(pte):
        inside_of |= dict.fromkeys(handles, ids)
        covered = [group for group in operations if len(group) <= LARGEST_OPERATION]
        named = {handle for group in covered for handle in group}
        last = [nodes[group[-1]] for group in covered if group[-1] in nodes]
        ends |= {node.name: ids for node in last if node.target not in DATA_MOVEMENT}  # their layout must not be forced
        if not named or any(len(group) > LARGEST_OPERATION for group in operations):
            whole = [nodes[handle] for handle in handles if handle in nodes and handle not in named]
            ends |= {node.name: ids for node in whole if _may_end(node)}
    ends |= {node.name: "" for handle, node in nodes.items() if handle not in inside_of and _may_end(node)}
    for value in _user_outputs(edge):  # they can be seen in any case
        if isinstance(value, Node) and value.op == "call_function" and not is_dequantize(value):
            ends.setdefault(value.name, inside_of.get(value.meta.get("debug_handle", -1), ""))
    found = dict[str, Site]()
    for node in calls(edge.graph_module):
        if node.name in ends and node in dependent:
            for site in _resolve(node, ends[node.name]):
                found.setdefault(site.tap, site)
    order = {node.name: number for number, node in enumerate(edge.graph.nodes)}
    return sorted(found.values(), key=lambda site: order[site.value])


def _user_outputs(edge: ExportedProgram) -> list[Any]:
    """Return the nodes of the user's outputs."""
    specs = edge.graph_signature.output_specs
    pairs = zip(_values(edge.graph.output_node()), specs, strict=True)
    return [value for value, spec in pairs if spec.kind == OutputKind.USER_OUTPUT]


def _delegates(pte: PteFile) -> Iterator[tuple[str, Sequence[int], list[Sequence[int]]]]:
    """Yield (id of the backend, debug handles of its nodes, those of each operation) of each delegate."""
    meta = get_meta(pte)
    method = meta.method(METHOD) if meta else None
    plan = next(plan for plan in pte.program.execution_plan if plan.name == METHOD)
    for delegate, row in zip(plan.delegates, method.delegates if method else (), strict=True):
        yield delegate.id, row.handles, [operation.handles for operation in row.operations if operation.handles]


def depends_on_inputs(edge: ExportedProgram) -> set[Node]:
    """Return the nodes that depend on an input of the user or on a mutable buffer."""
    mutated = set(edge.graph_signature.buffers_to_mutate.values())
    starts = {
        spec.arg.name
        for spec in edge.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT or (spec.kind == InputKind.BUFFER and spec.target in mutated)
    }
    found = set[Node]()
    for node in edge.graph.nodes:
        if (node.op == "placeholder" and node.name in starts) or any(one in found for one in node.all_input_nodes):
            found.add(node)
    return found


def _may_end(node: Node) -> bool:
    """Return True for an operator whose result survives where the backend does not say what it fuses."""
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
    """Yield the site of a node's value: behind the dequantize node that follows, if the value is quantized."""
    if is_dequantize(node):
        inner = node.args[0]
        if isinstance(inner, Node) and is_quantize(inner) and _step(inner) is not None:
            yield _site(node, inner, backend)
        return
    quantized = [node] if is_quantize(node) else list(node.users)
    if quantized and all(map(is_quantize, quantized)):
        for one in quantized:
            behind = next((user for user in one.users if is_dequantize(user)), None)
            if behind is not None and _step(one) is not None:
                yield _site(behind, one, backend)
                return
        return  # a scale that is chosen at run time, or integers that an operator takes
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


def chunks(sites: Iterable[Site], limit: int) -> list[list[Site]]:
    """Split sites into groups whose values have at most `limit` bytes; a larger value is a group of its own."""
    groups: list[list[Site]] = []
    room = 0
    for site in sites:
        if not groups or site.bytes > room:
            groups.append([])
            room = limit
        groups[-1].append(site)
        room -= site.bytes
    return groups


Sample = tuple[Any, ...]
"""The flat inputs of one run."""


class DeviceProgram:
    """A compiled program, and where its taps are among its outputs."""

    def __init__(self, compiled: Any, index: Mapping[str, int], *, has_state: bool) -> None:
        self.compiled = compiled
        self.index = index
        self._has_state = has_state
        self._loaded: Any = None

    def run(self, sample: Sample) -> list[torch.Tensor]:
        """Return copies of all outputs. Mutable buffers have their initial values in each run."""
        if self._loaded is None:
            self._loaded = runtime.load(self.compiled, trust=True)
        elif self._has_state:
            self._loaded.reset()
        results = self._loaded[METHOD](*sample)
        results = results if isinstance(results, (list, tuple)) else [results]
        return [torch.as_tensor(result).detach().clone() for result in results]

    def operations(self) -> set[tuple[int, ...]]:
        """Return the debug handles of each operation that a backend computes, and of each delegate as a whole."""
        delegates = _delegates(self.compiled.pte)
        return {tuple(group) for _, handles, operations in delegates for group in (handles, *operations)}


class TapPrograms:
    """Tapped programs that have the operations of the untapped one and compute the same outputs, bit by bit.

    Attributes:
        programs: The programs.
        seen: The sites whose values they give.
        changed: The sites that were left out, because their taps changed the outputs or failed to compile.
        compiles: The number of tapped programs that were compiled.
        expected: The outputs of the untapped program for each sample.
    """

    def __init__(
        self,
        compile_with: Callable[[Tap], Any],
        untapped: DeviceProgram,
        samples: Sequence[Sample],
        *,
        has_state: bool,
    ) -> None:
        self.programs: list[DeviceProgram] = []
        self.seen: list[Site] = []
        self.changed: list[Site] = []
        self.compiles = 0
        self._compile = compile_with
        self._operations = untapped.operations()
        self._samples = samples
        self._has_state = has_state
        self.expected = [untapped.run(sample) for sample in samples]

    def add(self, sites: Sequence[Site]) -> None:
        """Tap the sites; if that changes the outputs, halve them until the ones that do are left out."""
        pending = [list(sites)]
        while pending:
            group = pending.pop(0)
            if self.compiles == COMPILES:
                self.changed += group
                continue
            program = self._try(group)
            if program is not None:
                self.programs.append(program)
                found = [site for site in group if site.tap in program.index]
                self.seen += found
                self.changed += [site for site in group if site not in found]
            elif len(group) == 1:
                self.changed += group
            else:
                middle = len(group) // 2
                pending += [group[:middle], group[middle:]]

    def _try(self, group: Sequence[Site]) -> DeviceProgram | None:
        self.compiles += 1
        tap = Tap([site.tap for site in group])
        program = tapped_program(self._compile, tap, has_state=self._has_state)
        if program is None or not self._operations <= program.operations():
            return None  # the backend fuses other operators, which need not be seen in the outputs
        try:
            for sample, expected in zip(self._samples, self.expected, strict=True):
                if not same_bits(program.run(sample)[: len(expected)], expected):
                    return None
        except ExecutionError:
            return None
        return program

    def values(self, sample: Sample) -> dict[str, torch.Tensor]:
        """Return the values of all sites that can be seen, by the names of their taps."""
        found: dict[str, torch.Tensor] = {}
        for program in self.programs:
            results = program.run(sample)
            found |= {name: results[index] for name, index in program.index.items()}
        return found


def tapped_program(compile_with: Callable[[Tap], Any], tap: Tap, *, has_state: bool) -> DeviceProgram | None:
    """Compile a program with taps; None if that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # the untapped program has given it already
            compiled = compile_with(tap)
    except (CompileError, BackendError):
        return None
    return DeviceProgram(compiled, tap.index, has_state=has_state)


def same_bits(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Return True if two lists of tensors are equal, bit by bit: also NaN equals NaN."""
    return len(first) == len(second) and all(
        a.shape == b.shape and a.dtype == b.dtype and bytes_of(a) == bytes_of(b)
        for a, b in zip(first, second, strict=True)
    )


def bytes_of(value: torch.Tensor) -> bytes:
    """Return the elements of a tensor as bytes, in the order of its dims."""
    return bytes(value.contiguous().flatten().view(torch.uint8).numpy()) if value.numel() else b""
