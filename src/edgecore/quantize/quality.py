"""How much a quantized program loses, layer by layer: both programs run once on a calibration sample, side by side."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

from edgecore.errors import CompileError, QuantizationWarning
from edgecore.ir.graph import module_path, operator_name, source_line
from edgecore.ir.op_args import argument
from edgecore.ir.op_sets import EXPORTED_MOVEMENT_NAMES
from edgecore.passes.quantized import is_dequantize, is_quantize

LITTLE = 10.0
"""dB: noise of a third of the signal."""

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword ones."""


@dataclass(frozen=True)
class LayerQuality:
    """One operator call of a quantized program.

    `sqnr` is the signal to quantization noise ratio of its result in dB, 10 log10(sum(x^2) / sum((x - q)^2)) for x of the
    float program and q of the quantized one, infinite where nothing is lost; what was lost before counts too, so
    `inputs_sqnr` is the minimum over its inputs. `scheme` says which of weights, inputs and result are rounded to what.
    """

    method: str
    module: str
    node: str
    operator: str
    scheme: str
    sqnr: float
    inputs_sqnr: float
    source: str = ""

    def __str__(self) -> str:
        place = f"{self.module}: " if self.module else ""
        return (
            f"{decibels(self.sqnr)} (inputs {decibels(self.inputs_sqnr)})  "
            f"{place}{self.operator} ({self.node}): {self.scheme}"
        )


def decibels(value: float) -> str:
    """A ratio as text."""
    return "exact" if value == math.inf else f"{value:.1f} dB"


@dataclass(frozen=True)
class Quantized:
    """A program before and after quantization.

    `names`: of a node of `program`, that of the node of `original` that it was; `inputs`: one sample. `computes_in`: the
    dtype of floating-point values when the program runs, which no node of `program` shows.
    """

    original: ExportedProgram
    program: ExportedProgram
    names: Mapping[str, str]
    inputs: Inputs | None
    computes_in: str = "float32"


def layer_qualities(quantized: Quantized, method: str = "forward") -> list[LayerQuality]:
    """The calls of the quantized program, the one with the lowest `sqnr` first. Runs both programs once.

    Without those that only move data, those whose result is no float tensor or zero, and those that the original lacks.
    Raises `CompileError` without a sample.
    """
    if quantized.inputs is None:
        raise CompileError("the quantization report needs a sample: export the program again, with example inputs")
    original, program = quantized.original.module(), quantized.program.module()
    assert isinstance(original, GraphModule) and isinstance(program, GraphModule)
    counterparts = dict(_counterparts(original, program, quantized.names))
    args, kwargs = quantized.inputs
    with torch.no_grad():
        first = _Reference(original, set(counterparts.values()))
        first.run(*args, *kwargs.values())
        second = _Comparison(program, counterparts, first.values, getattr(torch, quantized.computes_in))
        second.run(*args, *kwargs.values())
    rows = [
        _row(node, sqnr, second.ratios, quantized.computes_in, method)
        for node, sqnr in second.ratios.items()
        if _is_layer(node) and not math.isnan(sqnr)
    ]
    return sorted(rows, key=lambda row: row.sqnr)


def warn_of_losses(ratios: Mapping[str, float], stacklevel: int) -> None:
    """Warn of outputs, by name with their ratios in dB, of which little is left."""
    lost = {name: ratio for name, ratio in ratios.items() if ratio < LITTLE}
    if lost:
        named = ", ".join(f"{name} {decibels(ratio)}" for name, ratio in lost.items())
        warnings.warn(
            f"quantization leaves less than {LITTLE:g} dB of {len(lost)} of {len(ratios)} outputs ({named}); "
            "report(quantization=True) says which layers lose it, worst first",
            QuantizationWarning,
            stacklevel=stacklevel + 1,
        )


def output_ratios(quantized: Quantized, method: str) -> dict[str, float]:
    """The ratio of each floating-point output in dB, on the first sample. Runs both programs once; {} without a sample."""
    if quantized.inputs is None:
        return {}
    args, kwargs = quantized.inputs
    with torch.no_grad():
        wants, gots = (
            [value.clone() if isinstance(value, torch.Tensor) else value for value in tree_leaves(run(*args, **kwargs))]
            for run in (quantized.original.module(), quantized.program.module())
        )
    pairs = [
        (index, want, got)
        for index, (want, got) in enumerate(zip(wants, gots, strict=True))
        if isinstance(want, torch.Tensor) and want.is_floating_point()
    ]
    ratios = {f"{method}, output {index}": signal_to_noise(want, got) for index, want, got in pairs}
    return {name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}


def _counterparts(original: GraphModule, program: GraphModule, names: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    """Nodes of `program` with the name of the node of `original` that computes the same.

    Of a convolution that took in its batch norm, that is the batch norm.
    """
    known = {node.name: node for node in original.graph.nodes if node.op == "call_function"}
    kept = {names.get(node.name) for node in program.graph.nodes}
    for node in program.graph.nodes:
        same = known.get(names.get(node.name, ""))
        if same is None or node.op != "call_function":
            continue
        users = list(same.users)
        if len(users) == 1 and users[0].target is torch.ops.aten.batch_norm.default and users[0].name not in kept:
            same = users[0]
        yield node, same.name


class _Reference(Interpreter):
    """Keeps the results of the nodes with these names; copies, since a later node may write into one."""

    def __init__(self, module: GraphModule, names: set[str]) -> None:
        super().__init__(module)
        self.names = names
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.name in self.names and isinstance(result, torch.Tensor) and result.is_floating_point():
            self.values[n.name] = result.clone()
        return result


class _Comparison(Interpreter):
    """Compares each result as it comes: `ratios` in dB by node; a result that is quantized counts as what is read back."""

    def __init__(
        self,
        module: GraphModule,
        counterparts: Mapping[Node, str],
        values: Mapping[str, torch.Tensor],
        dtype: torch.dtype,
    ) -> None:
        super().__init__(module)
        self.counterparts = counterparts
        self.values = values
        self.dtype = dtype
        self.ratios: dict[Node, float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        if self.dtype != torch.float32 and result.dtype == torch.float32 and n.op != "placeholder":
            limit = torch.finfo(self.dtype).max
            result = result.clamp(-limit, limit).to(self.dtype).float()
        source = _rounded(n) or n
        want = self.values.get(self.counterparts.get(source, ""))
        if want is not None and want.shape == result.shape:
            self.ratios[source] = signal_to_noise(want, result)
        return result


def _rounded(node: Node) -> Node | None:
    """The node whose result `node` reads back, rounded with known scales; else the rounding is part of the reader."""
    quantized = node.args[0] if is_dequantize(node) else None
    if not isinstance(quantized, Node) or not is_quantize(quantized) or isinstance(quantized.args[1], Node):
        return None
    return quantized.all_input_nodes[0]


def signal_to_noise(want: torch.Tensor, got: torch.Tensor) -> float:
    """In dB, over what is finite; NaN for a signal of zero."""
    signal, noise = _norm(want), _norm(want - got)
    if not math.isfinite(signal + noise):
        finite = want.isfinite() & got.isfinite()
        signal, noise = _norm(want[finite]), _norm((want - got)[finite])
    if signal == 0:
        return math.nan
    return 20 * math.log10(signal / noise) if noise else math.inf


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def _is_layer(node: Node) -> bool:
    is_call = isinstance(node.target, OpOverload) and node.target is not operator.getitem
    return is_call and str(node.target._schema.name).rpartition("::")[2].rstrip("_") not in EXPORTED_MOVEMENT_NAMES  # type: ignore[union-attr]


def _row(node: Node, sqnr: float, ratios: Mapping[Node, float], computes_in: str, method: str) -> LayerQuality:
    inputs = [ratios[source] for source in map(_origin, node.all_input_nodes) if source in ratios]
    worst = min((one for one in inputs if not math.isnan(one)), default=math.inf)
    return LayerQuality(
        method,
        module_path(node),
        node.name,
        operator_name(node.target),
        _scheme(node, computes_in),
        sqnr,
        worst,
        source_line(node),
    )


def _origin(node: Node) -> Node:
    """The node whose result `node` reads back or moves."""
    while node.op == "call_function" and (is_dequantize(node) or is_quantize(node)):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _scheme(node: Node, computes_in: str) -> str:
    """In words, such as `weights int8 per channel, inputs int8, result int8`."""
    parts: dict[str, None] = {}
    for source in filter(is_dequantize, node.all_input_nodes):
        kind = "weights" if _origin(source).op == "get_attr" else "inputs"
        parts[f"{kind} {_rounding(source)}"] = None
    for user in filter(is_quantize, node.users):
        if not isinstance(user.args[1], Node):  # else the next layer rounds its inputs
            parts[f"result {_rounding(user)}"] = None
    return ", ".join(parts) or computes_in


def _rounding(node: Node) -> str:
    """What a quantize or dequantize node rounds to: `int8`, `int8 per channel`, `int4 in groups of 32`."""
    name = str(node.target.__name__)  # type: ignore[union-attr]
    low, high = (int(argument(node, limit)) for limit in ("quant_min", "quant_max"))
    text = f"{'int' if low < 0 else 'uint'}{(high - low).bit_length()}"
    if "group" in name:
        return f"{text} in groups of {argument(node, 'group_size')}"
    if "per_channel" in name:
        return f"{text} per channel"
    if "per_token" in name:
        return f"{text} per row at run time"
    return f"{text} at run time" if name.endswith(".tensor") else text
