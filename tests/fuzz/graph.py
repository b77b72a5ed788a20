"""A small graph of ATen calls as data: run eagerly, made an `ExportedProgram` without tracing, printed as code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._export.verifier import load_verifier
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Ref:
    """A leaf, the result of a step, or one of its several results (`item`)."""

    name: str
    item: int | None = None

    def __repr__(self) -> str:
        return self.name if self.item is None else f"{self.name}[{self.item}]"


@dataclass(frozen=True)
class Leaf:
    """A tensor that the graph starts from: an input, or a constant of the model. `code` is an expression for it."""

    name: str
    tensor: torch.Tensor
    constant: bool
    code: str


@dataclass(frozen=True)
class Step:
    """One call; a `Ref` among the arguments, also within lists, stands for a tensor."""

    name: str
    target: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """Leaves, steps in their order, and the tensors that the model returns."""

    leaves: list[Leaf]
    steps: list[Step]
    outputs: list[Ref]

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors to call the model with."""
        return tuple(leaf.tensor for leaf in self.leaves if not leaf.constant)

    @property
    def operators(self) -> list[str]:
        """The operators in the order of their calls."""
        return [str(step.target) for step in self.steps]

    def __str__(self) -> str:
        constants = [leaf for leaf in self.leaves if leaf.constant]
        inputs = [leaf for leaf in self.leaves if not leaf.constant]
        lines = ["class Model(torch.nn.Module):"]
        if constants:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        self.{leaf.name} = torch.nn.Buffer({leaf.code})" for leaf in constants]
        lines += [f"    def forward(self, {', '.join(leaf.name for leaf in inputs)}):"]
        lines += [f"        {leaf.name} = self.{leaf.name}" for leaf in constants]
        lines += [f"        {step.name} = torch.ops.{step.target}({_arguments(step)})" for step in self.steps]
        lines += [f"        return ({', '.join(map(repr, self.outputs))},)"]
        lines += [f"inputs = ({' '.join(f'{leaf.code},' for leaf in inputs)})"]
        return "\n".join(lines)


def _arguments(step: Step) -> str:
    return ", ".join([*map(repr, step.args), *(f"{key}={value!r}" for key, value in step.kwargs.items())])


def fill(value: Any, of: Callable[[Ref], Any]) -> Any:
    """`value` with `of(ref)` in the place of each `Ref`."""
    if isinstance(value, Ref):
        return of(value)
    return [fill(one, of) for one in value] if isinstance(value, list) else value


def refs(value: Any) -> Iterator[Ref]:
    """The references among arguments."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from refs(one)


class Module(torch.nn.Module):
    """A graph as a module whose forward takes its inputs, for `torch.export`."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        for leaf in graph.leaves:
            if leaf.constant:
                self.register_buffer(leaf.name, leaf.tensor)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(inputs)
        values: dict[str, Any] = {
            leaf.name: getattr(self, leaf.name) if leaf.constant else next(rest) for leaf in self.graph.leaves
        }

        def get(ref: Ref) -> Any:
            return values[ref.name] if ref.item is None else values[ref.name][ref.item]

        for step in self.graph.steps:
            kwargs = {key: fill(value, get) for key, value in step.kwargs.items()}
            values[step.name] = step.target(*fill(list(step.args), get), **kwargs)
        return tuple(get(ref) for ref in self.graph.outputs)


def joined(graphs: Sequence[Graph]) -> Graph:
    """Independent graphs as one, so that what a compilation costs is paid once."""
    whole = Graph([], [], [])
    for index, graph in enumerate(graphs):

        def rename(ref: Ref, prefix: str = f"g{index}_") -> Ref:
            return Ref(prefix + ref.name, ref.item)

        prefix = f"g{index}_"
        whole.leaves += [Leaf(prefix + leaf.name, leaf.tensor, leaf.constant, leaf.code) for leaf in graph.leaves]
        whole.steps += [
            Step(
                prefix + step.name, step.target, tuple(fill(list(step.args), rename)),
                {key: fill(value, rename) for key, value in step.kwargs.items()},
            )
            for step in graph.steps
        ]  # fmt: skip
        whole.outputs += [rename(ref) for ref in graph.outputs]
    return whole


def exported(graph: Graph, results: dict[str, Any]) -> ExportedProgram:
    """The program that `torch.export` makes of the graph, put together directly.

    `results`: the eager result of each step by name; the `val` of a node has its shape, strides and dtype. Tracing takes
    a hundred times as long as this.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fx = FxGraph()
    nodes: dict[Ref, Any] = {}
    inputs, state, used = [], {}, _used(graph)
    for leaf in sorted(graph.leaves, key=lambda leaf: not leaf.constant):
        node = fx.placeholder(f"b_{leaf.name}" if leaf.constant else leaf.name)
        node.meta["val"] = _fake(mode, leaf.tensor)
        nodes[Ref(leaf.name)] = node
        kind = InputKind.BUFFER if leaf.constant else InputKind.USER_INPUT
        target = leaf.name if leaf.constant else None
        inputs.append(InputSpec(kind, TensorArgument(node.name), target, True if leaf.constant else None))
        if leaf.constant:
            state[leaf.name] = leaf.tensor
    for step in graph.steps:
        kwargs = {key: fill(value, nodes.__getitem__) for key, value in step.kwargs.items()}
        node = fx.call_function(step.target, tuple(fill(list(step.args), nodes.__getitem__)), kwargs)
        made = results[step.name]
        node.meta["val"] = pytree.tree_map_only(torch.Tensor, lambda one: _fake(mode, one), made)
        nodes[Ref(step.name)] = node
        for item in range(len(made) if isinstance(made, (tuple, list)) else 0):
            if Ref(step.name, item) in used:
                part = fx.call_function(operator.getitem, (node, item))
                part.meta["val"] = node.meta["val"][item]
                nodes[Ref(step.name, item)] = part
    fx.output(tuple(nodes[ref] for ref in graph.outputs))
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(nodes[ref].name), None) for ref in graph.outputs]
    example: tuple[Any, dict[str, Any]] = (graph.inputs, {})
    user = [TensorArgument(spec.arg.name) for spec in inputs if spec.kind == InputKind.USER_INPUT]
    signature = ModuleCallSignature(
        list(user),
        [TensorArgument(nodes[ref].name) for ref in graph.outputs],
        pytree.tree_structure(example),
        pytree.tree_structure(tuple(graph.outputs)),
    )
    return ExportedProgram(
        root=GraphModule(torch.nn.Module(), fx),
        graph=fx,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=state,
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", signature)],
        example_inputs=example,
        constants={},
        verifiers=[load_verifier("TRAINING")],
    )


def _used(graph: Graph) -> set[Ref]:
    return {
        *graph.outputs,
        *(ref for step in graph.steps for ref in refs([*step.args, *step.kwargs.values()])),
    }


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
