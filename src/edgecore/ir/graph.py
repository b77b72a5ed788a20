"""Functions that walk an edge graph and edit it in place.

The `val` of a new node is computed when the node is inserted, so that no pass has to trace the whole graph again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules, is_control_flow
from edgecore.ir.delegate import is_delegate_call, module_of
from edgecore.ir.dialect.dim_orders import MEMORY_FORMATS, dim_order
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.dialect.edge_operators import VIEW_COPIES
from edgecore.ir.operators.mutating_operators import writer_of
from edgecore.ir.torch_compat import AUTOCAST_CALLS, FakeTensor, FakeTensorMode, OpOverload, schema_of

_VIEWS: dict[Any, Any] = {copied: view for view, copied in VIEW_COPIES.items()}
# Run `view_copy` as `reshape`, because `reshape` accepts inputs with any strides, but `view` does not.
_VIEWS[torch.ops.aten.view_copy.default] = torch.ops.aten.reshape.default

_TRANSFORMS = (torch.ops.aten._fft_r2c.default, torch.ops.aten._fft_c2r.default)

_TORCH = Path(torch.__file__).parent

CALL_NUMBER = "call_number"
"""The key in `node.meta` of the number of the call from which decomposition made the node. The calls of a method are
numbered before decomposition."""

PARTS_OF = "parts_of"
"""The key in `node.meta` of a list: the calls that a backend wants undecomposed, but whose decomposition made the node
(`lowering/whole_operators.py`)."""

REGIONS = (torch.ops.higher_order.wrap_with_set_grad_enabled, torch.ops.higher_order.wrap_with_autocast)
"""Operators for regions under `torch.no_grad()` and `torch.autocast()`, whose graphs torch's decomposition inlines."""

KEPT_META = (
    "stack_trace",
    "nn_module_stack",
    "source_fn_stack",
    "custom",
    "debug_handle",
    "unsupported_reasons",
    CALL_NUMBER,
    PARTS_OF,
)
"""Entries of `node.meta` that a node inherits from the node that it replaces."""


def calls(graph_module: GraphModule, *targets: Any) -> list[Node]:
    """List the call nodes, or only the calls of `targets`, in order. The graph may be edited during the iteration."""
    return _of_targets(list(graph_module.graph.nodes), targets)


def all_calls(graph_module: GraphModule, *targets: Any) -> list[Node]:
    """List the call nodes like `calls`, and also those in branches and loop bodies."""
    return _of_targets([node for part in graph_modules(graph_module) for node in part.graph.nodes], targets)


def _of_targets(nodes: list[Node], targets: Sequence[Any]) -> list[Node]:
    return [node for node in nodes if node.op == "call_function" and (not targets or node.target in targets)]


def fake_mode(graph_module: GraphModule) -> FakeTensorMode:
    """Return the `FakeTensorMode` of the graph's fake tensors; a new one for a graph without tensors."""
    for node in graph_module.graph.nodes:
        val = node.meta.get("val")
        for leaf in val if isinstance(val, (tuple, list)) else (val,):
            if isinstance(leaf, FakeTensor):
                return leaf.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def vals(args: Any) -> Any:
    """Return `args` with each node replaced by its fake value (`val`)."""
    return torch.fx.map_arg(args, lambda node: node.meta["val"])


def compute_val(mode: FakeTensorMode, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute the fake result of `target` from the `val`s of its arguments.

    Uses the Python dispatcher: C++ implementations of some composite operators would replace symbolic sizes by numbers.
    """
    return compute_val_of(mode, target, vals(args), vals(kwargs))


def compute_val_of(mode: FakeTensorMode, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Compute the fake result of `target` like `compute_val`, but from fake arguments instead of nodes."""
    from edgecore.ir.torch_compat import enable_python_dispatcher

    with mode, enable_python_dispatcher():
        view = _VIEWS.get(target)
        if view is not None:
            return dense(view(*args, **kwargs))
        result = target(*args, **kwargs)
        return _representable(result) if target in _TRANSFORMS else result


def _representable(val: torch.Tensor) -> torch.Tensor:
    """Make `val` contiguous if its strides match no dim order, as after an FFT over inner dims in eager mode."""
    return val if dim_order(val) is not None else val.contiguous()


def dense(val: Any) -> Any:
    """Give the result of a view (a tensor or a list of tensors) the strides of its copy variant.

    `contiguous()` is not enough, because it keeps the strides of dims of size 1. PyTorch's convolutions derive the dim
    order of their result from all strides.
    """
    if isinstance(val, (list, tuple)):
        return [dense(item) for item in val]
    return val.clone(memory_format=torch.contiguous_format)


class Editor:
    """Inserts new nodes directly before the node `origin`; the new nodes inherit the source location of `origin`.

    Attributes:
        graph: The graph.
        origin: The node before which new nodes are inserted.
        mode: The fake mode for the `val` of new nodes.
        created: The new nodes.
    """

    def __init__(self, graph_module: GraphModule, origin: Node, mode: FakeTensorMode) -> None:
        self.graph = graph_module.graph
        self.origin = origin
        self.mode = mode
        self.created: list[Node] = []

    def call(self, target: Callable[..., Any], *args: Any, val: Any = None, **kwargs: Any) -> Node:
        """Insert a `call_function` node. Computes its `val`, unless the caller passes it."""
        with self.graph.inserting_before(self.origin):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {key: self.origin.meta[key] for key in KEPT_META if key in self.origin.meta}
        node.meta["val"] = compute_val(self.mode, target, args, kwargs) if val is None else val
        self.created.append(node)
        return node


def replace(node: Node, replacement: Node) -> None:
    """Replace all uses of `node` by `replacement` and erase `node`."""
    node.replace_all_uses_with(replacement)
    node.graph.erase_node(node)


def handles_of(node: Node) -> list[int]:
    """Return the debug handles of a node: one, several for a delegate call, or none."""
    handle = node.meta.get("debug_handle", [])
    return handle if isinstance(handle, list) else [handle]


def has_result(node: Node) -> bool:
    """Return False for a call of an operator without results, such as `aten._assert_tensor_metadata`."""
    return not isinstance(node.target, OpOverload) or bool(schema_of(node.target).returns)


def take_graph(graph_module: GraphModule, source: GraphModule) -> None:
    """Move a graph from another module into a graph module, with the attributes that this graph reads."""
    for node in source.graph.find_nodes(op="get_attr"):
        name = str(node.target)
        if "." not in name and getattr(graph_module, name, None) is not getattr(source, name):
            setattr(graph_module, name, getattr(source, name))
    graph_module.graph = source.graph


def refresh_vals(graph_module: GraphModule, changed: set[Node], mode: FakeTensorMode) -> None:
    """Recompute the fake value (`val`) of nodes that read `changed` nodes.

    If the shape, strides or dtype of a node change, the node is added to `changed`, so that its users are recomputed,
    too. A delegate requires the dim orders for which it was compiled, so operands with other dim orders are copied.
    """
    for node in list(graph_module.graph.nodes):
        if is_delegate_call(node):
            _keep_operands(graph_module, node, changed, mode)
            continue
        if node.op != "call_function" or changed.isdisjoint(node.all_input_nodes) or is_control_flow(node):
            continue  # skip control flow: its results are contiguous, whatever the layout of its operands
        before = node.meta.get("val")
        if before is None:
            continue  # skip an assertion: it has no result
        node.meta["val"] = after = compute_val(mode, node.target, node.args, node.kwargs)
        if not same_layout(before, after):
            changed.add(node)


def _keep_operands(graph_module: GraphModule, node: Node, changed: set[Node], mode: FakeTensorMode) -> None:
    """Copy the changed operands of a delegate call back to the dim orders for which the delegate was compiled."""
    for operand, compiled in zip(node.args[1:], module_of(node).operands, strict=True):
        if operand in changed and dim_order(operand.meta["val"]) != dim_order(compiled):  # type: ignore[union-attr]
            format_ = MEMORY_FORMATS.get(dim_order(compiled) or (), torch.contiguous_format)
            copy = Editor(graph_module, node, mode).call(torch.ops.aten.clone.default, operand, memory_format=format_)
            node.replace_input_with(operand, copy)  # type: ignore[arg-type]


def same_layout(a: Any, b: Any) -> bool:
    """Return True if two fake values agree in shapes, dtypes and strides."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and same_sizes(a.shape, b.shape) and same_sizes(a.stride(), b.stride())
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_layout(x, y) for x, y in zip(a, b, strict=True))
    return bool(a is b)


def same_sizes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return True if two lists of sizes are equal.

    Symbolic sizes are compared by their expressions, because `==` would add a guard, which torch refuses for a size
    that depends on data.
    """
    return len(a) == len(b) and all(_expression(x) == _expression(y) for x, y in zip(a, b, strict=True))


def view_sizes(shape: Sequence[Any]) -> list[int] | None:
    """Return the sizes for a view to `shape`, with -1 for a symbolic size; None if a view could not infer this size.

    A view can infer a single size, and none at all if another size is 0, because any number would fit.
    """
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    unknown = sizes.count(-1)
    return None if unknown > 1 or (unknown and 0 in sizes) else sizes


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


@cache  # cached, because stack traces repeat the same few paths, and pathlib takes microseconds for each path
def is_inside_torch(path: str) -> bool:
    """Return True if a source file is in the package torch itself, not in torchvision or another package."""
    return Path(path).is_relative_to(_TORCH)


def source_line(node: Node) -> str:
    """Return the line of the model from which a node comes, such as `file.py:12`; empty if unknown.

    This is the innermost frame outside torch: for a layer such as `torch.nn.Conv2d`, the line that calls the layer.
    """
    frames = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    for line in reversed(frames):
        path, _, rest = line.removeprefix('File "').partition('", line ')
        if line.startswith("File ") and "<eval_with_key>" not in path and not is_inside_torch(path):
            return f"{path}:{rest.partition(',')[0]}"
    return ""


def module_path(node: Node) -> str:
    """Return the qualified name of the innermost module that made a node, such as `encoder.layers.3`; "" if unknown."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    name = str(stack[-1][0]) if stack else ""
    for prefix in ("L['self'].", "L__self___"):
        name = name.removeprefix(prefix)
    return name


def describe(node: Node) -> str:
    """Describe a node for messages: `aten.add.Tensor (node add_3, module encoder.layers.3, model.py:12)`."""
    module = module_path(node)
    locations = [f"node {node.name}", f"module {module}" if module else "", source_line(node)]
    return f"{operator_name(node.target)} ({', '.join(filter(None, locations))})"


def dtypes_of(node: Node) -> tuple[str, ...]:
    """List the dtype names of a call's inputs and results, each once: `("float32", "int64")`."""
    values = [source.meta.get("val") for source in node.all_input_nodes]
    results = node.meta.get("val")
    values += results if isinstance(results, (tuple, list)) else [results]
    return tuple(sorted({dtype_name(value.dtype) for value in values if isinstance(value, torch.Tensor)}))


def operator_name(target: Any) -> str:
    """Return the name of a call's target: `aten.add.Tensor` for an operator, `floordiv` for a Python function."""
    writer = writer_of(target)
    target = writer.operator if writer is not None else target
    return str(target) if isinstance(target, OpOverload) else getattr(target, "__name__", str(target))


def for_each(value: Any, count: int) -> list[Any]:
    """Return an argument such as a stride as a list of `count` numbers, one for each dim.

    A single number, or a list with one number, is repeated.
    """
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * count if len(values) == 1 else values


_NAMED = (TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument)
"""The kinds of arguments in a signature that refer to a node by its name."""


@contextmanager
def edit(program: ExportedProgram) -> Iterator[GraphModule]:
    """Edit the graph of `program` in a `with` block.

    At the end of the block, unused nodes are removed, the code is compiled again, and the signature is updated to the
    names of the returned nodes.
    """
    graph_module = program.graph_module
    yield graph_module
    for part in graph_modules(graph_module):
        part.graph.eliminate_dead_code(is_impure_node=_has_effect)
        if part is not graph_module:
            part.recompile()
    results = graph_module.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    for spec, result in zip(program.graph_signature.output_specs, results, strict=True):
        if isinstance(spec.arg, _NAMED) and isinstance(result, Node):
            spec.arg = type(spec.arg)(result.name)
    graph_module.recompile()


def _has_effect(node: Node) -> bool:
    """Return True for a node that stays even without users: an input, the output, or a call that writes."""
    if is_delegate_call(node):
        return module_of(node).writes_state
    # A region under `torch.no_grad()` or `torch.autocast()` may write tensors, so keep its call even without users.
    return (
        node.op in ("placeholder", "output")
        or node.target in REGIONS
        or node.target in AUTOCAST_CALLS
        or (isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable)
    )
