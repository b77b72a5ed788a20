"""Names of a method's inputs and outputs, and the sizes that their dims may have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from edgecore import format as fmt
from edgecore.ir.tensors import Bounds


@dataclass(frozen=True)
class _Input:
    """`source`: how torch spells the input in its own tables (`L['past'][0]`); empty if that is not known."""

    name: str
    source: str
    val: Any

    def sizes(self) -> Iterator[tuple[str, sympy.Expr]]:
        """How torch spells each symbolic size, and its expression."""
        for dim, size in enumerate(getattr(self.val, "shape", ())):
            if isinstance(size, torch.SymInt):
                yield f"{self.source}.size()[{dim}]", size.node.expr


def describe_arguments(program: ExportedProgram) -> tuple[list[fmt.ArgumentMeta], list[fmt.ArgumentMeta]]:
    """Names and dims of all inputs and all outputs.

    An input is called after its parameter of `forward`, one within a container by its path from there: `past[0].key`. An
    output has the key or field of the container that the model returns, with the path from there, else `output_0`, ...
    """
    inputs = _inputs(program)
    sizes = _Sizes(program, inputs)
    taken = [fmt.ArgumentMeta(one.name, sizes.dims(one.val)) for one in inputs]
    output = program.graph.output_node().args[0]
    assert isinstance(output, (tuple, list))
    specs = program.graph_signature.output_specs
    results = [value for value, spec in zip(output, specs, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    vals = [value.meta.get("val") if isinstance(value, torch.fx.Node) else value for value in results]
    given = [
        fmt.ArgumentMeta(name, sizes.dims(val))
        for name, val in zip(_output_names(program, len(vals)), vals, strict=True)
    ]
    return taken, given


def _inputs(program: ExportedProgram) -> list[_Input]:
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = program.graph_signature.input_specs
    users = [nodes[spec.arg.name] for spec in specs if spec.kind == InputKind.USER_INPUT]
    names = _input_names(program, [node.name for node in users])
    return [_Input(name, source, node.meta.get("val")) for node, (name, source) in zip(users, names, strict=True)]


def _input_names(program: ExportedProgram, placeholders: Sequence[str]) -> list[tuple[str, str]]:
    """(name, source) of each input."""
    unknown = [(name, "") for name in placeholders]
    signature = program.module_call_graph[0].signature
    parameters = getattr(signature, "forward_arg_names", None)
    if signature is None or not parameters:
        return unknown
    args, kwargs = signature.in_spec.children()
    found: list[tuple[str, str]] = []
    for parameter, part in zip(parameters, [*args.children(), *kwargs.children()], strict=False):
        paths = _paths(part)
        if paths is None:
            found += unknown[len(found) : len(found) + part.num_leaves]
        else:
            found += [(parameter + _path_text(path), f"L['{parameter}']{pytree.keystr(tuple(path))}") for path in paths]
    return found if len({name for name, _ in found}) == len(placeholders) == len(found) else unknown


def _output_names(program: ExportedProgram, number: int) -> list[str]:
    signature = program.module_call_graph[0].signature
    paths = _paths(signature.out_spec) if signature is not None else None
    if paths is None or len(paths) != number:
        return [f"output_{index}" for index in range(number)]
    names = []
    for index, path in enumerate(paths):
        first, rest = (path[0], path[1:]) if path else (pytree.SequenceKey(index), ())
        key = first.key if isinstance(first, pytree.MappingKey) else getattr(first, "name", None)
        position = first.idx if isinstance(first, pytree.SequenceKey) else index
        names.append((key if isinstance(key, str) else f"output_{position}") + _path_text(rest))
    return names if len(set(names)) == number else [f"output_{index}" for index in range(number)]


def _paths(spec: pytree.TreeSpec) -> list[Sequence[Any]] | None:
    """The path of each leaf; None for a container that cannot be made of numbers, which only its own class knows."""
    try:
        tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
        leaves = pytree.tree_flatten_with_path(tree)[0]
    except Exception:
        return None
    return [path for path, _ in leaves] if len(leaves) == spec.num_leaves else None


def _path_text(path: Sequence[Any]) -> str:
    """`[0].key`: list items by number, keys and fields by name."""
    text = ""
    for entry in path:
        if isinstance(entry, pytree.SequenceKey):
            text += f"[{entry.idx}]"
        elif isinstance(entry, pytree.MappingKey):
            named = isinstance(entry.key, str) and entry.key.isidentifier()
            text += f".{entry.key}" if named else f"[{entry.key!r}]"
        else:
            text += f".{getattr(entry, 'name', entry)}"
    return text


class _Sizes:
    """The symbolic sizes of one method."""

    def __init__(self, program: ExportedProgram, inputs: Sequence[_Input]) -> None:
        self._bounds = Bounds(program)
        self._numbers: dict[sympy.Symbol, int] = {}  # in the order in which `dims` meets them
        self._names: dict[sympy.Symbol, str] = {}
        self._steps = _steps(program, inputs)
        self._declared: set[sympy.Expr] = set()  # sizes that the user gave a `torch.export.Dim`
        for size, name in _dim_names(inputs):
            self._declared.add(size)
            words = re.findall(r"[^\W\d]\w*", name)  # of "2*s + 1" as well
            if len(size.free_symbols) == 1 and words:
                self._names.setdefault(next(iter(size.free_symbols)), words[0])
        for one in inputs:  # a size of its own has an earlier number than one within an expression
            for _, size in one.sizes():
                if size.is_Symbol:
                    self._name(size)

    def dims(self, val: Any) -> list[fmt.DimMeta]:
        """The dims of a tensor, none if all are fixed."""
        sizes = getattr(val, "shape", ())
        return [] if all(isinstance(size, int) for size in sizes) else [self._dim(size) for size in sizes]

    def _dim(self, size: int | torch.SymInt) -> fmt.DimMeta:
        if isinstance(size, int):
            return fmt.DimMeta("", size)
        expr = size.node.expr
        ranges = self._bounds.ranges
        exact = expr in self._declared and expr in ranges
        minimum = int(ranges[expr].lower) if exact else self._bounds.lower(size)
        stepped = expr.subs({symbol: step * symbol for symbol, step in self._steps.items()})
        linear = _linear(stepped)
        name = self._text(stepped)
        if linear is None:
            return fmt.DimMeta(name, minimum)
        symbol, multiple, offset = linear
        number = self._numbers.setdefault(symbol, len(self._numbers))
        return fmt.DimMeta(name, minimum, number, multiple, offset)

    def _text(self, expr: sympy.Expr) -> str:
        """`expr` with the user's names of symbols; those without one are `s0`, `s1`, ..."""
        symbols = sorted(expr.free_symbols, key=str)
        return str(expr.subs({symbol: sympy.Symbol(self._name(symbol), integer=True) for symbol in symbols}))

    def _name(self, symbol: sympy.Symbol) -> str:
        if symbol not in self._names:
            taken = set(self._names.values())
            self._names[symbol] = next(name for k in count() if (name := f"s{k}") not in taken)
        return self._names[symbol]


def _linear(expr: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """(symbol, multiple, offset) of multiple * symbol + offset; None for other expressions."""
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    multiple = expr.coeff(symbol)
    offset = expr - multiple * symbol
    if not (multiple.is_Integer and multiple > 0 and offset.is_Integer):
        return None
    return symbol, int(multiple), int(offset)


def _dim_names(inputs: Sequence[_Input]) -> Iterator[tuple[sympy.Expr, str]]:
    """Sizes that were given a `Dim`, and its name, which torch keeps in the shape environment alone."""
    for one in inputs:
        for source, size in one.sizes():
            environment = getattr(one.val, "fake_mode", None) and one.val.fake_mode.shape_env
            name = getattr(environment, "source_name_to_debug_name", {}).get(source)
            if name:
                yield size, str(name)


def _steps(program: ExportedProgram, inputs: Sequence[_Input]) -> dict[sympy.Symbol, int]:
    """Symbols that must be multiples of a number, and that number, by the guards that torch.export left.

    A guard is text such as `(L['x'].size()[0] % 8) == 0`. From here on such a symbol stands for its part of the number.
    """
    sizes = dict(pair for one in inputs for pair in one.sizes())
    steps: dict[sympy.Symbol, int] = {}
    for guard in getattr(program, "_guards_code", None) or ():
        match ast.parse(guard, mode="eval").body:
            case ast.Compare(
                left=ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(step))),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ):
                size = sizes.get(ast.unparse(left))
                if size is not None and size.is_Symbol and step > 0:
                    steps[size] = step
    return steps
