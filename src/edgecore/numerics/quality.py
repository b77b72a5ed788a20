"""Measure the accuracy loss of each layer: run the float and the quantized program on one calibration sample."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError, QuantizationWarning
from edgecore.ir.dialect.op_sets import EXPORTED_MOVEMENT_NAMES
from edgecore.ir.graph import calls, module_path, operator_name, source_line
from edgecore.ir.op_args import argument
from edgecore.ir.program.copying import unchanged_buffers
from edgecore.ir.program.outputs import written_buffers
from edgecore.ir.torch_compat import OpOverload, pytree, schema_of
from edgecore.numerics.decibels import decibels
from edgecore.numerics.evaluate import Evaluator, copied, first
from edgecore.numerics.metrics import has_signal, measure
from edgecore.passes.in_place import is_mutable, written_by
from edgecore.passes.quantized import dequantized_inputs, is_dequantize, is_quantize

MIN_SQNR = 10.0
"""Compiling warns about an output with a lower SQNR (in dB); at 10 dB the noise is about a third of the signal."""

STATE_CALLS = 3
"""A program with state is compared over this many consecutive calls."""

MIN_LAYER_SQNR = 3.0
"""Compiling warns about a layer whose result has a lower SQNR (in dB) than this while its inputs have a higher one."""

_LISTED = 3
"""Number of layers that the warning names."""

_RECURRENT = frozenset(
    f"aten.{cell}{form}"
    for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for form in (".input", ".data", "_cell.default")
)
_NO_INTEGERS = " (no recipe quantizes recurrent layers)"

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword inputs."""


@dataclass(frozen=True)
class LayerQuality:
    """The accuracy loss of one operator call of a quantized program.

    The SQNR (`edgecore.numerics.decibels`) compares the quantized program with the float program. It includes the
    losses of earlier layers.

    Attributes:
        method: The name of the method.
        module: The qualified name of the module.
        node: The name of the node.
        operator: The name of the operator.
        scheme: How weights, inputs and result are quantized, in words. If none of them is, the dtype of the
            computation, and the recipe's rule that excluded the call.
        sqnr: The SQNR of the result.
        inputs_sqnr: The lowest SQNR of the inputs.
        source: The line of the model's code, `file.py:12`.
    """

    method: str
    module: str
    node: str
    operator: str
    scheme: str
    sqnr: float
    inputs_sqnr: float
    source: str = ""

    @property
    def place(self) -> str:
        """The module, the operator with its node, and the source line of the model, as text."""
        module = f"{self.module}: " if self.module else ""
        return f"{module}{self.operator} ({self.node}{f', {self.source}' if self.source else ''})"

    def __str__(self) -> str:
        module = f"{self.module}: " if self.module else ""
        return (
            f"{decibels(self.sqnr)} (inputs {decibels(self.inputs_sqnr)})  "
            f"{module}{self.operator} ({self.node}): {self.scheme}"
        )


@dataclass(frozen=True)
class Quantized:
    """A program before and after quantization.

    Attributes:
        original: The float program.
        program: The quantized program.
        names: Name of a node of `program` -> name of the node of `original` that it comes from.
        inputs: One sample; None if there is none.
        computes_in: The dtype in which the backend computes floating-point values, which the nodes of `program` do not
            show.
        rules: Name of a node of `original` -> the rule that keeps it in floating point.
        weights: Name of a node of `original` -> storage of its weights, if the nodes of `program` do not show it.
    """

    original: ExportedProgram
    program: ExportedProgram
    names: Mapping[str, str]
    inputs: Inputs | None
    computes_in: str = "float32"
    rules: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)


def layer_qualities(quantized: Quantized, method: str = "forward") -> list[LayerQuality]:
    """Measure the accuracy loss of each operator call, from one run of each of the two programs.

    Some calls are left out: calls that only move data, calls whose result is not a float tensor or is all zeros, and
    calls that the original program does not have.

    Args:
        quantized: The two programs and a sample.
        method: The name of the method, for the rows.

    Returns:
        The calls, the lowest SQNR first.

    Raises:
        CompileError: There is no sample.
    """
    if quantized.inputs is None:
        raise CompileError(
            "the quantization report needs a sample, but the exported program has no example inputs; export the model "
            "again with example inputs"
        )
    ratios = _ratios(quantized, has_static_scale=False).ratios
    rows = [_row(node, ratio, ratios, quantized, method) for node, ratio in ratios.items() if _is_layer(node)]
    return sorted(rows, key=lambda row: row.sqnr)


def warn_of_losses(ratios: Mapping[str, float], stacklevel: int) -> None:
    """Warn if outputs (name -> SQNR in dB) are below `MIN_SQNR`.

    Args:
        ratios: The SQNR of each output.
        stacklevel: As for `warnings.warn`, counted from the caller.
    """
    low = {name: ratio for name, ratio in ratios.items() if ratio < MIN_SQNR}
    if low:
        listed = ", ".join(f"{name} {decibels(ratio)}" for name, ratio in low.items())
        warnings.warn(
            f"quantization leaves less than {MIN_SQNR:g} dB of {len(low)} of {len(ratios)} outputs ({listed}); "
            "report(quantization=True) lists the layers with the largest losses first",
            QuantizationWarning,
            stacklevel=stacklevel + 1,
        )


def output_ratios(quantized: Quantized, method: str) -> dict[str, float]:
    """Return the SQNR in dB of each floating-point output; {} without a sample.

    The original and the quantized program run the sample once. Programs with state run it `STATE_CALLS` times in a row,
    and the lowest SQNR counts.
    """
    if quantized.inputs is None:
        return {}
    ratios: dict[str, float] = {}
    programs = quantized.original, quantized.program
    modules = [program.module() for program in programs]
    with torch.no_grad(), unchanged_buffers(*programs):
        for _ in range(calls_of(quantized.program)):
            wanted, got = (
                [copied(leaf) for leaf in pytree.tree_leaves(_call(module, quantized.inputs))] for module in modules
            )
            for index, (want, value) in enumerate(zip(wanted, got, strict=True)):
                if isinstance(want, torch.Tensor) and want.is_floating_point() and has_signal(want):
                    name = f"{method}, output {index}"
                    ratios[name] = min(measure(want, value).sqnr, ratios.get(name, math.inf))
    return ratios


def calls_of(program: ExportedProgram) -> int:
    """Return the number of consecutive calls with which a program is compared: more than one if it has state."""
    buffers = program.graph_signature.inputs_to_buffers
    nodes = [node for node in calls(program.graph_module) if is_mutable(node)]
    writes_buffer = any(tensor.name in buffers for node in nodes for tensor in written_by(node))
    return STATE_CALLS if writes_buffer or written_buffers(program) else 1


def _call(function: Callable[..., Any], inputs: Inputs) -> Any:
    """Call a function with copies of the inputs, because the function may write to its inputs."""
    args, kwargs = pytree.tree_map(copied, inputs)
    return function(*args, **kwargs)


def _counterparts(original: GraphModule, program: GraphModule, names: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    """Yield each node of `program` with the name of the node of `original` that computes the same value.

    A convolution into which a batch norm was fused corresponds to the batch norm.
    """
    nodes = {node.name: node for node in original.graph.nodes if node.op == "call_function"}
    remaining = {names.get(node.name) for node in program.graph.nodes}
    for node in program.graph.nodes:
        counterpart = nodes.get(names.get(node.name, ""))
        if counterpart is None or node.op != "call_function":
            continue
        users = list(counterpart.users)
        if len(users) == 1 and users[0].target is torch.ops.aten.batch_norm.default and users[0].name not in remaining:
            counterpart = users[0]
        yield node, counterpart.name


class FloatReference:
    """The float program from which a quantized program was made, prepared to run on several samples.

    Args:
        quantized: The two programs.
        nodes: Names of nodes of the quantized program; `run` returns their values in the original program.
    """

    def __init__(self, quantized: Quantized, nodes: Collection[str]) -> None:
        self._programs = quantized.original, quantized.program
        module = quantized.original.module()
        pairs = _counterparts(module, quantized.program.graph_module, quantized.names)
        self._names = {node.name: name for node, name in pairs if node.name in nodes}
        self._recorder = _Recorder(self._names.values())
        self._evaluator = Evaluator(module, see=self._recorder)

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, torch.Tensor]]:
        """Return the original program's outputs, and its value for each of `nodes` by the name of the node."""
        self._recorder.values = {}
        with torch.no_grad(), unchanged_buffers(*self._programs):
            leaves = pytree.tree_leaves(self._evaluator.run(*args, *kwargs.values()))
            results = [copied(leaf) for leaf in leaves]
        values = self._recorder.values
        return results, {node: values[name] for node, name in self._names.items() if name in values}


class _Recorder:
    """Records copies of nodes' float results by node name, because a later in-place node may change a result."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = set(names)
        self.values: dict[str, torch.Tensor] = {}

    def __call__(self, node: Node, result: Any) -> Any:
        value = first(result)
        if node.name in self.names and isinstance(value, torch.Tensor) and value.is_floating_point():
            self.values[node.name] = value.clone()
        return result


class _Ratios:
    """Records in `ratios` the SQNR in dB of each node of the quantized program whose float result has a signal.

    `values` has the float program's results, by node name. A quantized result is compared after its dequantization.
    `single` collects the nodes whose quantized result has equal elements, although the elements of the float result
    differ. Results are rounded to `dtype`, as on the device.
    """

    def __init__(
        self, counterparts: Mapping[Node, str], values: Mapping[str, torch.Tensor], dtype: torch.dtype
    ) -> None:
        self.counterparts = counterparts
        self.values = values
        self.dtype = dtype
        self.ratios: dict[Node, float] = {}
        self.single = set[Node]()

    def __call__(self, node: Node, result: Any) -> Any:
        value = first(result)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return result
        if self.dtype != torch.float32 and value.dtype == torch.float32 and node.op != "placeholder":
            limit = torch.finfo(self.dtype).max
            value = torch.where(value.isinf(), value, value.clamp(-limit, limit)).to(self.dtype).float()
            result = value if isinstance(result, torch.Tensor) else result
        source = _rounded(node) or node
        want = self.values.get(self.counterparts.get(source, ""))
        if want is not None and want.shape == value.shape and has_signal(want):
            self.ratios[source] = measure(want, value).sqnr
            if source is not node and want.numel() > 1 and _is_single(value) and not _is_single(want):
                self.single.add(source)
        return result


def _ratios(quantized: Quantized, *, has_static_scale: bool) -> _Ratios:
    """Run both programs on the sample, and compare all results, or only the results quantized with a static scale."""
    assert quantized.inputs is not None
    original, program = quantized.original.module(), quantized.program.module()
    pairs = _counterparts(original, program, quantized.names)
    counterparts = {node: name for node, name in pairs if not has_static_scale or any(map(_rounded, _readers(node)))}
    reference = _Recorder(counterparts.values())
    compared = _Ratios(counterparts, reference.values, getattr(torch, quantized.computes_in))
    with torch.no_grad(), unchanged_buffers(quantized.original, quantized.program):
        for module, see in ((original, reference), (program, compared)):
            args, kwargs = pytree.tree_map(copied, quantized.inputs)
            Evaluator(module, see=see).run(*args, *kwargs.values())
    return compared


def _rounded(node: Node) -> Node | None:
    """Return x if `node` is dequantize(quantize(x)) with a static scale; otherwise None.

    With a dynamic scale, the pair quantizes an input of the next layer, not the result of the layer before it.
    """
    quantized = node.args[0] if is_dequantize(node) else None
    if not isinstance(quantized, Node) or not is_quantize(quantized) or isinstance(quantized.args[1], Node):
        return None
    return quantized.all_input_nodes[0]


def _is_single(values: torch.Tensor) -> bool:
    low, high = values.aminmax()
    return bool(low == high)


def _is_layer(node: Node) -> bool:
    is_call = isinstance(node.target, OpOverload) and node.target is not operator.getitem
    return is_call and str(schema_of(node.target).name).rpartition("::")[2].rstrip("_") not in EXPORTED_MOVEMENT_NAMES


def _row(node: Node, ratio: float, ratios: Mapping[Node, float], quantized: Quantized, method: str) -> LayerQuality:
    inputs = [ratios[source] for source in map(_origin, node.all_input_nodes) if source in ratios]
    worst = min(inputs, default=math.inf)
    name = quantized.names.get(node.name, "")
    rule, weights = quantized.rules.get(name), quantized.weights.get(name)
    parts = [*([f"{quantized.computes_in} by {rule}"] if rule else []), *([weights] if weights else [])]
    if not parts and operator_name(node.target) in _RECURRENT:
        parts.append(quantized.computes_in + _NO_INTEGERS)
    scheme = ", ".join([*parts, *_scheme(node)]) or quantized.computes_in
    return LayerQuality(
        method, module_path(node), node.name, operator_name(node.target), scheme, ratio, worst, source_line(node)
    )


def _origin(node: Node) -> Node:
    """Walk back over a chain of quantize and dequantize nodes that ends in `node`; return the node before it."""
    while node.op == "call_function" and (is_dequantize(node) or is_quantize(node)):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _scheme(node: Node) -> list[str]:
    """Describe the quantized values of a call: `weights int8 per channel`, `inputs int8`, `result int8`."""
    parts: dict[str, None] = {}
    for source in dequantized_inputs(node):
        kind = "weights" if _origin(source).op == "get_attr" else "inputs"
        rounding = _rounding(source)
        parts[f"{kind} {rounding}{' per tensor' if kind == 'weights' and ' ' not in rounding else ''}"] = None
    for user in filter(is_quantize, node.users):
        if not isinstance(user.args[1], Node):  # skip a dynamic scale: it quantizes the inputs of the next layer
            parts[f"result {_rounding(user)}"] = None
    return list(parts)


def _rounding(node: Node) -> str:
    """Describe the dtype of a quantize or dequantize node: `int8`, `int8 per channel`, `int4 in groups of 32`."""
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


def warn_of_lost_layers(rows: Collection[LayerQuality], stacklevel: int) -> None:
    """Warn of the layers that `lost_layers` returned; `stacklevel` as for `warnings.warn`, counted from the caller."""
    if rows:
        listed = [f"{row.place} with {decibels(row.sqnr)}" for row in list(rows)[:_LISTED]]
        more = [f"{len(rows) - _LISTED} more"] if len(rows) > _LISTED else []
        warnings.warn(
            f"quantization leaves nothing of {len(rows)} layer{'s' * (len(rows) > 1)}: {', '.join([*listed, *more])}; "
            "calibrate with samples in which their results vary, or keep these modules in floating point by skip=[...] "
            "of the recipe",
            QuantizationWarning,
            stacklevel=stacklevel + 1,
        )


def lost_layers(quantized: Quantized, method: str) -> list[LayerQuality]:
    """Return the calls whose result quantization destroys; [] without a sample.

    Either the SQNR of the result is below `MIN_LAYER_SQNR` while the SQNR of the inputs is higher, or all elements of
    the result are equal, although they differ in the float program. Only values with static scales are compared.
    """
    if quantized.inputs is None:
        return []
    compared = _ratios(quantized, has_static_scale=True)
    rows = [
        _row(node, ratio, compared.ratios, quantized, method)
        for node, ratio in compared.ratios.items()
        if _is_layer(node) and (ratio < MIN_LAYER_SQNR or node in compared.single)
    ]
    return [row for row in rows if row.inputs_sqnr >= MIN_LAYER_SQNR]


def _readers(node: Node) -> list[Node]:
    """Return the dequantize nodes that read a node's quantized result."""
    return [reader for user in node.users if is_quantize(user) for reader in user.users if is_dequantize(reader)]
