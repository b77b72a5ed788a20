"""Adapt programs to torchao's PT2E flow, and convert its result.

PT2E needs programs without in-place operators. It inserts quantize and dequantize nodes between a tensor and its views,
so that a write through a view would be lost. The constant folding of PT2E executes writes, and does not recognize all
operators that write.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import all_calls, calls
from edgecore.ir.program.constants import PART_OF, Constants, parameter_of
from edgecore.ir.program.copying import copy_program
from edgecore.ir.program.mutable_state import mutable_buffers
from edgecore.ir.program.outputs import written_buffers
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.in_place import is_mutable, written_by
from edgecore.passes.library.functionalize import functionalize

_ORIGIN = "edgecore_origin"
"""Key in `node.meta["custom"]` whose value is the node's name in the original program.

A functional operator that replaces an in-place one keeps the metadata, so that the name survives functionalization.
"""


def functional_copy(program: ExportedProgram, *, statistics: bool = True) -> tuple[ExportedProgram, dict[str, str]]:
    """Return an equivalent program without in-place operators, with copies of the buffers that it writes.

    Args:
        program: The exported program. It is not changed, and a run of the copy does not change its tensors.
        statistics: False to let batch norms in training write their running statistics, as in `functionalize`.

    Returns:
        The copy, and a map from the names of its calls to the names of the calls of `program` that they replace.
    """
    copied = copy_program(program)
    for node in all_calls(copied.graph_module):
        node.meta["custom"] = {**(node.meta.get("custom") or {}), _ORIGIN: node.name}
    functional = copy_program(functionalize(copied, statistics=statistics))
    origins = {}
    for node in all_calls(functional.graph_module):
        custom = dict(node.meta.get("custom") or {})
        if _ORIGIN in custom:
            origins[node.name] = custom.pop(_ORIGIN)
        node.meta["custom"] = custom
    clones: dict[int, torch.Tensor] = {}
    for name in written_buffers(functional):
        holder = functional.state_dict if name in functional.state_dict else functional.constants
        buffer = holder[name]
        holder[name] = clones.setdefault(id(buffer), buffer.detach().clone())
    return functional, origins


def counter_reads(program: ExportedProgram) -> list[Node]:
    """List the floating-point calls that read a counter: a value that depends only on the number of runs so far.

    Counters are constants and buffers whose update never depends on an input, and values computed from these. Samples
    cannot show the range of a counter, which grows with each run. A call that uses an integer counter only as an index,
    such as the position of a token, does not count, because an index has no range to observe.

    Args:
        program: A functional program.
    """
    counters = {
        buffer.node: buffer.update for buffer in mutable_buffers(program) if buffer.node.meta["val"].dtype != torch.bool
    }
    constants = Constants(program)
    while True:
        from_input: dict[Node, bool] = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                from_input[node] = node not in counters and not constants.has(node)
            else:
                from_input[node] = any(from_input[source] for source in node.all_input_nodes)
        driven = [node for node, update in counters.items() if from_input[update]]
        if not driven:
            break
        for node in driven:
            del counters[node]
    counts = set(counters)
    reads = []
    for node in calls(program.graph_module):
        is_elementwise = isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags
        if any(source in counts and (is_elementwise or _is_float(source)) for source in node.all_input_nodes):
            if _is_float(node):
                reads.append(node)
            if not from_input[node]:
                counts.add(node)
    return reads


def written_weights(program: ExportedProgram) -> list[Node]:
    """List the linear layers and convolutions whose weight is a buffer that the program writes.

    Such a weight changes at run time, so it cannot be quantized in advance.

    Args:
        program: A functional program.
    """
    written = {buffer.node for buffer in mutable_buffers(program)}
    layers = []
    for node in program.graph.nodes:
        if isinstance(node.target, OpOverload) and node.target.__name__.startswith(("linear.", "conv")):
            weight = node.args[1]
            while isinstance(weight, Node) and weight.op == "call_function":
                weight = weight.args[0]
            if weight in written:
                layers.append(node)
    return layers


def _is_float(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.is_floating_point()


def convert(prepared: GraphModule) -> GraphModule:
    """Convert a module with observers or fake quantization by torchao, without changing the content of buffers.

    Weights become integers. The name of a constant that is computed from a parameter is the parameter's name, `PART_OF`
    and the kind of the constant: `head.weight:int8`, `head.weight:scale`.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    converted: GraphModule = convert_pt2e(prepared, fold_quantize=False)
    _fold(converted)
    return converted


def _fold(module: GraphModule) -> None:
    """Replace each quantize node that depends only on constants by a constant; remove the unused constants."""
    written = {tensor.target for node in calls(module) if is_mutable(node) for tensor in written_by(node)}
    constant: dict[Node, bool] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            constant[node] = node.target not in written and isinstance(_value(module, node), torch.Tensor)
        else:
            sources = node.all_input_nodes
            constant[node] = bool(sources) and _is_pure(node) and all(constant[source] for source in sources)
    for node in [node for node in calls(module) if constant[node] and _quantizes(node)]:
        _replace_by_integers(module, node)
    module.graph.eliminate_dead_code()
    used = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name in {name for name, _ in tensors} - used:
        holder, _, attribute = name.rpartition(".")
        delattr(module.get_submodule(holder), attribute)
    module.recompile()


def _replace_by_integers(module: GraphModule, node: Node) -> None:
    """Replace a quantize node by a constant; name the constant and the node's scales after the quantized parameter."""
    parameter = _parameter(node)
    with torch.no_grad():
        integers = _evaluate(module, node, {})
    name, meta = node.name, node.meta
    with module.graph.inserting_before(node):
        folded = module.graph.get_attr(
            _register(module, parameter, str(integers.dtype).removeprefix("torch."), integers)
        )
    folded.meta.update(meta)
    for what, source in zip(("scale", "zero_point"), node.args[1:3], strict=True):
        if isinstance(source, Node) and source.op == "get_attr" and PART_OF not in str(source.target):
            source.target = _register(module, parameter, what, _value(module, source))
    node.replace_all_uses_with(folded)
    module.graph.erase_node(node)
    folded.name = name


def _parameter(node: Node) -> str:
    """Return the name of the first parameter or buffer from which a node is computed."""
    while node.op != "get_attr":
        node = node.all_input_nodes[0]
    return parameter_of(str(node.target))


def _register(module: GraphModule, parameter: str, what: str, value: torch.Tensor) -> str:
    """Add a buffer, and return its name, which ends with a number if a tied weight is quantized several times."""
    holder, _, attribute = parameter.rpartition(".")
    owner, name, count = module.get_submodule(holder), f"{attribute}{PART_OF}{what}", 0
    while hasattr(owner, name):
        count += 1
        name = f"{attribute}{PART_OF}{what}_{count}"
    owner.register_buffer(name, value)
    return f"{holder}.{name}" if holder else name


def _value(module: GraphModule, node: Node) -> Any:
    return attrgetter(str(node.target))(module)


def _evaluate(module: GraphModule, node: Node, values: dict[Node, Any]) -> Any:
    if node.op == "get_attr":
        return _value(module, node)
    if node not in values:
        for source in node.all_input_nodes:
            _evaluate(module, source, values)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda source: _evaluate(module, source, values))
        assert callable(node.target)
        values[node] = node.target(*args, **kwargs)
    return values[node]


def _is_pure(node: Node) -> bool:
    """Return True if a call may be folded: its result depends only on its inputs, and it does not dequantize."""
    if not isinstance(node.target, OpOverload) or _named(node, "dequantize"):
        return False
    return not is_mutable(node) and torch.Tag.nondeterministic_seeded not in node.target.tags


def _quantizes(node: Node) -> bool:
    return _named(node, "quantize")


def _named(node: Node, prefix: str) -> bool:
    """Return True for an operator of torch or torchao whose name begins with `prefix` and an underscore."""
    target = node.target
    quantizes = isinstance(target, OpOverload) and target.namespace in ("quantized_decomposed", "torchao")
    return quantizes and target.__name__.startswith(f"{prefix}_")  # type: ignore[union-attr]
