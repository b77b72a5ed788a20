"""Taps: additional outputs that show the values inside a program on a device.

An output in the wrong place changes the computation: the backend no longer fuses the operators around it. So taps are
only set where an operation of the backend ends; a quantized value is tapped at the dequantize node that follows it.
Each tapped program must contain all operations of the untapped program, and its outputs must be bit-identical.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore import runtime
from edgecore.devtools.comparison.sites import METHOD, Site, delegates_of, results_of
from edgecore.errors import BackendError, CompileError, ExecutionError, FallbackWarning
from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program, make_program
from edgecore.ir.program.outputs import is_result
from edgecore.ir.torch_compat import pytree, reorder_kwargs
from edgecore.passes.pass_list import NamedPass, PassList
from edgecore.runtime.nesting import leaves

FAILURES = 24
"""The number of tapped programs that may fail while the search isolates the taps that change the outputs."""

EXPORTED_NAME = "exported_name"
"""The key of `node.meta["custom"]` for the node's name in the exported program; lowering keeps this entry."""


class Snapshot:
    """A pass that keeps copies of the exported program and of the edge program.

    Attributes:
        exported: The exported program; each of its calls carries `EXPORTED_NAME`.
        edge: The edge program.
    """

    def __init__(self) -> None:
        self.exported: ExportedProgram | None = None
        self.edge: ExportedProgram | None = None

    def passes(self, base: PassList) -> PassList:
        """Return the list `base` with this pass before the stage `exported` and after the stage `edge`."""
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
    """A pass that turns the values of named nodes into outputs of the program.

    Attributes:
        index: Name of a tapped node -> its index among the user's outputs. Names that the program lacks are left out.
    """

    def __init__(self, names: Sequence[str], *, only: bool = False) -> None:
        self.names = names
        self.only = only
        self.index: dict[str, int] = {}

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        """Append the nodes' values to the outputs; with `only`, make them the only outputs and remove dead nodes."""
        graph, signature = program.graph, program.graph_signature
        output = graph.output_node()
        nodes = {node.name: node for node in graph.nodes}
        pairs = list(zip(results_of(program), signature.output_specs, strict=True))
        if self.only:
            pairs = [pair for pair in pairs if not is_result(pair[1])]
        present = {value for value, spec in pairs if is_result(spec)}
        for name in self.names:
            if name in nodes and nodes[name] not in present:
                pairs.append((nodes[name], OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name), None)))
        results = tuple(value for value, _ in pairs)
        output.args = (results,)
        output.meta["val"] = tuple(getattr(value, "meta", {}).get("val") for value in results)
        signature.output_specs[:] = [spec for _, spec in pairs]
        tapped = make_program(
            graph,
            signature,
            like=program,
            state_dict=program.state_dict,
            constants=program.constants,
            submodules=dict(program.graph_module.named_children()),
        )
        wanted = set(self.names)
        outputs = [value for value, spec in pairs if is_result(spec)]
        self.index = {
            value.name: i for i, value in enumerate(outputs) if isinstance(value, Node) and value.name in wanted
        }
        tapped.graph_module.graph.eliminate_dead_code()
        tapped.graph_module.recompile()
        return tapped


def with_last(base: PassList, function: Callable[[ExportedProgram], ExportedProgram]) -> PassList:
    """Return the passes with `function` as the last pass of the stage `edge`."""
    last = base.of_stage("edge")[-1].name
    return base.insert_after(last, NamedPass("compare_edge", function))


def _with_first(base: PassList, function: Callable[[ExportedProgram], ExportedProgram]) -> PassList:
    first = base.of_stage("exported")[0].name
    return base.insert_before(first, NamedPass("compare_exported", function, stage="exported"))


def chunks(sites: Iterable[Site], limit: int) -> list[list[Site]]:
    """Split sites into groups whose values have at most `limit` bytes together; a larger value has its own group."""
    groups: list[list[Site]] = []
    room = 0
    for site in sites:
        if not groups or site.bytes > room:
            groups.append([])
            room = limit
        groups[-1].append(site)
        room -= site.bytes
    return groups


Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The positional and keyword inputs of one run."""
Sample = tuple[Any, ...]
"""The inputs of one run as a flat tuple: the leaves of its `Call`."""


def in_order(number: int, call: Call, exported: ExportedProgram) -> Call:
    """Sort a sample's keyword arguments as in the exported program; raise `CompileError` if the inputs do not fit."""
    args, kwargs = call
    expected = exported.call_spec.in_spec
    try:
        ordered = args, reorder_kwargs(kwargs, expected)
        fits = pytree.tree_structure(ordered) == expected
    except ValueError:  # the keyword arguments have other names than the model's
        fits = False
    if not fits:
        raise CompileError(f"sample {number} has inputs of another number, names or structure than the model takes")
    return ordered


class Place(Protocol):
    """The machine that runs the programs of a comparison. Each run begins with the initial mutable buffers."""

    def load(self, compiled: Any) -> Callable[[Sample], Sequence[Any]]:
        """Return a function that runs a compiled program on one sample, and returns its outputs."""
        ...


class Here:
    """Runs the programs of a comparison in this process."""

    def __init__(self, *, has_state: bool) -> None:
        self._has_state = has_state

    def load(self, compiled: Any) -> Callable[[Sample], Sequence[Any]]:
        """Return a function that runs a compiled program on one sample, and returns its outputs."""
        loaded = runtime.load(compiled, trust=True)

        def run(sample: Sample) -> Sequence[Any]:
            if self._has_state:
                loaded.reset()
            return leaves(loaded[METHOD](*sample))

        return run


class DeviceProgram:
    """A compiled program, and the index of each inner value among its outputs, by node name."""

    def __init__(self, compiled: Any, index: Mapping[str, int], place: Place) -> None:
        self.compiled = compiled
        self.index = index
        self._place = place
        self._run: Callable[[Sample], Sequence[Any]] | None = None

    def run(self, sample: Sample) -> list[torch.Tensor]:
        """Reset mutable buffers to their initial values, run the program, and return copies of all outputs."""
        if self._run is None:
            self._run = self._place.load(self.compiled)
        return [as_tensor(result).detach().clone() for result in self._run(sample)]

    def operations(self) -> set[tuple[int, ...]]:
        """Return the debug handles of each operation that a backend reports, and of each delegate as a whole."""
        delegates = delegates_of(self.compiled.pte)
        return {tuple(group) for _, handles, operations in delegates for group in (handles, *operations)}


class TapPrograms:
    """Programs with taps (additional outputs): each has all operations of the untapped program, and equal outputs.

    Attributes:
        programs: The tapped programs.
        seen: The sites whose values the tapped programs return.
        changed: The sites that were left out, because their taps changed the outputs or failed to compile.
        failures: The number of tapped programs that failed.
        expected: The outputs of the untapped program for each sample.
    """

    def __init__(
        self,
        compile_with: Callable[[Tap], Any],
        untapped: DeviceProgram,
        samples: Sequence[Sample],
        place: Place,
    ) -> None:
        self.programs: list[DeviceProgram] = []
        self.seen: list[Site] = []
        self.changed: list[Site] = []
        self.failures = 0
        self._compile = compile_with
        self._untapped = untapped
        self._operations = untapped.operations()
        self._samples = samples
        self._place = place
        self.expected = [untapped.run(sample) for sample in samples]

    def add(self, sites: Sequence[Site]) -> None:
        """Compile a program that also outputs `sites`. If that fails or changes outputs, try each half of `sites`."""
        pending = [list(sites)]
        while pending:
            group = pending.pop(0)
            if self.failures >= FAILURES:
                self.changed += group
                continue
            program = self._try(group)
            if program is not None:
                self.programs.append(program)
                seen = [site for site in group if site.tap in program.index]
                self.seen += seen
                self.changed += [site for site in group if site not in seen]
                continue
            self.failures += 1
            if len(group) == 1:
                self.changed += group
            else:
                middle = len(group) // 2
                pending += [group[:middle], group[middle:]]

    def _try(self, group: Sequence[Site]) -> DeviceProgram | None:
        tap = Tap([site.tap for site in group])
        program = tapped_program(self._compile, tap, self._place)
        if program is None or not self._operations <= program.operations():
            return None  # reject taps that change which operators the backend fuses
        try:
            for sample, expected in zip(self._samples, self.expected, strict=True):
                if not same_bits(program.run(sample)[: len(expected)], expected):
                    return None
        except ExecutionError:
            return None
        return program

    def values(self, sample: Sample) -> dict[str, torch.Tensor]:
        """Run all programs on one sample; return the values of the sites among their outputs, by node name."""
        values: dict[str, torch.Tensor] = {}
        for program in (self._untapped, *self.programs):
            results = program.run(sample)
            values |= {name: results[index] for name, index in program.index.items()}
        return values


def tapped_program(compile_with: Callable[[Tap], Any], tap: Tap, place: Place) -> DeviceProgram | None:
    """Compile a program with taps (additional outputs); return None if the compilation fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # compiling without taps has issued these warnings already
            compiled = compile_with(tap)
    except (CompileError, BackendError):
        return None
    return DeviceProgram(compiled, tap.index, place)


def as_tensor(value: Any) -> torch.Tensor:
    """Return a result as a tensor; a number becomes a tensor without dims, None an empty tensor."""
    return torch.empty(0) if value is None else torch.as_tensor(value)


def same_bits(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Return True if two lists of tensors are equal bit by bit, so that NaN equals the same NaN."""
    return len(first) == len(second) and all(
        a.shape == b.shape and a.dtype == b.dtype and bytes_of(a) == bytes_of(b)
        for a, b in zip(first, second, strict=True)
    )


def bytes_of(value: torch.Tensor) -> bytes:
    """Return the elements of a tensor as bytes, in row-major order."""
    return bytes(value.contiguous().flatten().view(torch.uint8).numpy()) if value.numel() else b""
