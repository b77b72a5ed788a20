"""Describe a method's inputs and outputs: their names, and the sizes that their dims may have."""

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
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec

from edgecore import format as fmt
from edgecore.ir.program.outputs import is_result
from edgecore.ir.program.symbolic_sizes import Bounds
from edgecore.ir.torch_compat import guards_of, pytree


@dataclass(frozen=True)
class _Input:
    """An input of a method.

    `source` is the name of the input in torch's guards, such as `L['past'][0]`; empty if unknown. `node` is the name of
    the input's placeholder.
    """

    name: str
    source: str
    val: Any
    node: str

    def sizes(self) -> Iterator[tuple[str, sympy.Expr]]:
        """Yield each symbolic size of the input, as (name in torch's guards, sympy expression)."""
        for dim, size in enumerate(getattr(self.val, "shape", ())):
            if isinstance(size, torch.SymInt):
                yield f"{self.source}.size()[{dim}]", size.node.expr


def describe_arguments(program: ExportedProgram) -> tuple[list[fmt.ArgumentMeta], list[fmt.ArgumentMeta]]:
    """Return the names and dims of all inputs, and of all outputs.

    An input is named after its argument of `forward`, followed by the path inside the argument if this is a container:
    `past[0].key`. An output is named after its key or field in the container that the model returns, followed by the
    path inside that item; outputs without a key or field are `output_0`, `output_1`, ... The gradient of a parameter of
    the model is named after this parameter, followed by `.grad`. An input that the program writes is also listed as an
    output, under the input's name.
    """
    inputs = _inputs(program)
    sizes = _Sizes(program, inputs)
    described_inputs = [fmt.ArgumentMeta(input.name, sizes.dims(input.val)) for input in inputs]
    output = program.graph.output_node().args[0]
    assert isinstance(output, (tuple, list))
    specs = program.graph_signature.output_specs
    names = iter(_result_names(program, [spec for spec in specs if is_result(spec)]))
    by_node = {input.node: input for input in inputs}
    described_outputs = []
    for value, spec in zip(output, specs, strict=True):
        if is_result(spec):
            val = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
            described_outputs.append(fmt.ArgumentMeta(next(names), sizes.dims(val)))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            written = by_node[str(spec.target)]
            described_outputs.append(fmt.ArgumentMeta(written.name, sizes.dims(written.val)))
    return described_inputs, described_outputs


def _inputs(program: ExportedProgram) -> list[_Input]:
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = program.graph_signature.input_specs
    users = [nodes[spec.arg.name] for spec in specs if spec.kind == InputKind.USER_INPUT]
    names = _input_names(program, [node.name for node in users])
    return [
        _Input(name, source, node.meta.get("val"), node.name) for node, (name, source) in zip(users, names, strict=True)
    ]


def _input_names(program: ExportedProgram, placeholders: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, name in torch's guards) of each input; (placeholder's name, "") if no signature is usable."""
    unknown = [(name, "") for name in placeholders]
    signature = program.module_call_graph[0].signature
    parameters = getattr(signature, "forward_arg_names", None)
    if signature is None or not parameters:
        return unknown
    args, kwargs = signature.in_spec.children()
    names: list[tuple[str, str]] = []
    for parameter, part in zip(parameters, [*args.children(), *kwargs.children()], strict=False):
        paths = _paths(part)
        if paths is None:
            names += unknown[len(names) : len(names) + part.num_leaves]
        else:
            names += [(parameter + _path_text(path), f"L['{parameter}']{pytree.keystr(tuple(path))}") for path in paths]
    return names if len({name for name, _ in names}) == len(placeholders) == len(names) else unknown


def _result_names(program: ExportedProgram, specs: Sequence[OutputSpec]) -> list[str]:
    of_model = [spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT) for spec in specs]
    model_names = iter(_output_names(program, sum(of_model)))
    names = []
    for index, (spec, is_of_model) in enumerate(zip(specs, of_model, strict=True)):
        is_gradient = spec.kind == OutputKind.GRADIENT_TO_PARAMETER
        names.append(next(model_names) if is_of_model else f"{spec.target}.grad" if is_gradient else f"output_{index}")
    return names if len(set(names)) == len(names) else [f"output_{index}" for index in range(len(names))]


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
    """Return the path of each leaf of a nested container; None for a user's container class that cannot be built.

    To find the paths, the container is built with a number at each leaf, which a class may refuse.
    """
    try:
        tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
        leaves = pytree.tree_flatten_with_path(tree)[0]
    except Exception:
        return None
    return [path for path, _ in leaves] if len(leaves) == spec.num_leaves else None


def _path_text(path: Sequence[Any]) -> str:
    """Return a path as text such as `[0].key`: list items by number, keys and fields by name."""
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
    """Describes the symbolic sizes of one method by the names that the user gave to `torch.export.Dim`."""

    def __init__(self, program: ExportedProgram, inputs: Sequence[_Input]) -> None:
        self._bounds = Bounds(program)
        # symbol -> its number in the file; `dims` numbers the symbols as it meets them
        self._numbers: dict[sympy.Symbol, int] = {}
        self._names: dict[sympy.Symbol, str] = {}
        self._steps = _steps(program, inputs)
        self._declared: set[sympy.Expr] = set()  # sizes for which the user declared a `torch.export.Dim`
        for size, name in _dim_names(inputs):
            self._declared.add(size)
            words = re.findall(r"[^\W\d]\w*", name)  # the first word is the symbol: `s` in "2*s + 1", a derived dim
            if len(size.free_symbols) == 1 and words:
                self._names.setdefault(next(iter(size.free_symbols)), words[0])
        for input in inputs:  # number plain sizes such as `s0` first, then expressions such as `2*s1`
            for _, size in input.sizes():
                if size.is_Symbol:
                    self._name(size)

    def dims(self, val: Any) -> list[fmt.DimMeta]:
        """Describe the dims of a tensor for the file; return an empty list if all sizes are fixed."""
        sizes = getattr(val, "shape", ())
        return [] if all(isinstance(size, int) for size in sizes) else [self._dim(size) for size in sizes]

    def _dim(self, size: int | torch.SymInt) -> fmt.DimMeta:
        if isinstance(size, int):
            return fmt.DimMeta("", size)
        expr = size.node.expr
        ranges = self._bounds.ranges
        # A minimum that the user declared is exact. For other sizes a minimum of 1 or 2 counts as 0, because
        # `torch.export` assumes it only while it traces; see `Bounds.lower`.
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
        """Format `expr` with the user's names of symbols; unnamed symbols are `s0`, `s1`, ..."""
        symbols = sorted(expr.free_symbols, key=str)
        return str(expr.subs({symbol: sympy.Symbol(self._name(symbol), integer=True) for symbol in symbols}))

    def _name(self, symbol: sympy.Symbol) -> str:
        if symbol not in self._names:
            used = set(self._names.values())
            self._names[symbol] = next(name for k in count() if (name := f"s{k}") not in used)
        return self._names[symbol]


def _linear(expr: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """Split multiple * symbol + offset into (symbol, multiple, offset); return None for other expressions."""
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    multiple = expr.coeff(symbol)
    offset = expr - multiple * symbol
    if not (multiple.is_Integer and multiple > 0 and offset.is_Integer):
        return None
    return symbol, int(multiple), int(offset)


def _dim_names(inputs: Sequence[_Input]) -> Iterator[tuple[sympy.Expr, str]]:
    """Yield each symbolic size with the name of its `Dim`, which torch records only in the shape environment."""
    for input in inputs:
        for source, size in input.sizes():
            environment = getattr(input.val, "fake_mode", None) and input.val.fake_mode.shape_env
            name = getattr(environment, "source_name_to_debug_name", {}).get(source)
            if name:
                yield size, str(name)


def _steps(program: ExportedProgram, inputs: Sequence[_Input]) -> dict[sympy.Symbol, int]:
    """Return symbol -> step, for each symbol that a guard of `torch.export` requires to be a multiple of a step.

    A guard is text such as `(L['x'].size()[0] % 8) == 0`. The metadata then describes the size `s` as `8 * s`, so that
    each integer value of the new `s` gives a valid size.
    """
    sizes = dict(pair for input in inputs for pair in input.sizes())
    steps: dict[sympy.Symbol, int] = {}
    for guard in guards_of(program):
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
