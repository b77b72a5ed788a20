"""The base class of quantizers, and the annotations of nodes; `edgecore.sdk.annotations` offers both to backends."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.fake_quantize import FakeQuantize
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from edgecore.errors import QuantizationWarning
from edgecore.ir.graph import describe
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.passes.in_place import functional_form, is_mutable, written_by
from edgecore.passes.quantized import SMALLEST_SCALE
from edgecore.passes.written_views import aliased
from edgecore.quantize.roles import LAYERS
from edgecore.quantize.select import ANNOTATION

aten = torch.ops.aten

Config = TypeVar("Config")
Self = TypeVar("Self", bound="ModuleQuantizer[Any]")

OBSERVERS: Mapping[str, Any] = {
    "histogram": HistogramObserver,
    "minmax": MinMaxObserver,
    "moving-average": MovingAverageMinMaxObserver,
}
"""The values of the parameter `observer` of `edgecore.Recipe`, and their observer classes of torchao."""


class ModuleQuantizer(Quantizer, Generic[Config]):  # type: ignore[misc]
    """A `Quantizer` with a configuration for each module. A backend's subclass overrides `annotate_node`.

    Configurations take precedence in this order: for a module's name, for a module's type, for a function, global. The
    configuration None leaves a module in floating point.
    """

    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32,)
    """`annotate_node` receives only nodes whose results have one of these dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, Config | None] = {}
        self._types: dict[str, Config | None] = {}
        self._functions: dict[str, Config | None] = {}
        self._global: Config | None = None
        self._is_branch = False  # True if the graph is a branch of a model: it need not call all configured modules

    def set_global(self: Self, quantization_config: Config | None) -> Self:
        """Set the configuration of all operators for which no other configuration is set."""
        self._global = quantization_config
        return self

    def set_object_type(
        self: Self, object_type: type[torch.nn.Module] | Callable[..., Any], quantization_config: Config | None
    ) -> Self:
        """Set the configuration of operators in modules of a type, or of the operators that a torch function becomes.

        The configuration of a function, such as `torch.nn.functional.linear`, also applies to modules that call the
        function.
        """
        if not isinstance(object_type, type):
            self._functions[object_type.__name__] = quantization_config
            return self
        self._types[f"{object_type.__module__}.{object_type.__qualname__}"] = quantization_config
        return self

    def set_module_name(self: Self, module_name: str, quantization_config: Config | None) -> Self:
        """Set the configuration of operators in a module and its submodules; the name is as in `named_modules()`."""
        self._names[module_name] = quantization_config
        return self

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Return `model` unchanged.

        Warns:
            QuantizationWarning: The model writes a tensor in a way whose effect torchao would lose.
        """
        for node in model.graph.nodes:
            if _is_lost(node):
                warnings.warn(
                    f"torchao loses the write of {describe(node)}; quantize a functional module: "
                    "torch.export.export(model, inputs).run_decompositions({}).module()",
                    QuantizationWarning,
                    stacklevel=3,
                )
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`.

        Some nodes are skipped: nodes that already have an annotation; nodes whose result has a dtype outside of
        `dtypes`; nodes that read tensors without elements, which have no range to observe; linear layers with a vector
        as weight, because their result has no channels.

        Raises:
            ValueError: A configured function, type or name occurs nowhere in the model.
        """
        if not self._is_branch:
            self._check_settings(model)
        for node in model.graph.nodes:
            if (
                node.op != "call_function"
                or is_annotated(node)
                or not is_float(node, self.dtypes)
                or _reads_empty(node)
            ):
                continue
            if node.target is aten.linear.default and argument(node, "weight").meta["val"].dim() < 2:
                continue
            config = self.config_of(node)
            if config is not None:
                self.annotate_node(node, config)
        return model

    def annotate_node(self, node: Node, config: Config) -> None:
        """Annotate a node, and the nodes that the backend fuses with it."""
        raise NotImplementedError

    def validate(self, model: GraphModule) -> None:
        """Accept every annotation: an annotated operator that the backend cannot run on integers runs in float."""

    def config_of(self, node: Node) -> Config | None:
        """Return the configuration that applies to a node; None to leave it in floating point."""
        for name, kind in _modules_of(node):
            if name in self._names:
                return self._names[name]
            if kind in self._types:
                return self._types[kind]
        return next((self._functions[name] for name in _functions_of(node) if name in self._functions), self._global)

    def _check_settings(self, model: GraphModule) -> None:
        """Raise a `ValueError` if a configured function, type or name occurs nowhere in the model."""
        nodes = [node for graph in _graphs(model) for node in graph.graph.nodes]
        modules = {module for node in nodes for module in _modules_of(node)}
        names, types = {name for name, _ in modules}, {kind for _, kind in modules}
        if unused := sorted(set(self._functions) - {name for node in nodes for name in _functions_of(node)}):
            raise ValueError(f"set_object_type got {unused[0]}, a function that the model calls nowhere")
        if unused := sorted(set(self._types) - types):
            raise ValueError(f"set_object_type got {unused[0]}, a type of which the model calls no module")
        if unused := sorted(set(self._names) - names):
            near = get_close_matches(unused[0], names, 1, 0)
            hint = f"; the nearest is {near[0]!r}" if near and near[0] else ""
            raise ValueError(f"set_module_name got {unused[0]!r}, a module that the model does not call{hint}")


def _graphs(model: GraphModule) -> list[GraphModule]:
    """Return a graph and the graphs of its branches and loops."""
    return [module for module in model.modules() if isinstance(module, GraphModule)]


def _modules_of(node: Node) -> Iterator[tuple[str, str]]:
    """Yield name and type of each module that contains a node, the innermost first.

    Containers such as `ModuleList` have an empty type: torch does not record them, because nothing calls them.
    """
    stack = [
        (name.removeprefix("L['self'].").removeprefix("L__self___"), kind)
        for name, kind in reversed(node.meta.get("nn_module_stack", {}).values())
    ]
    for (name, kind), (outer, _) in zip(stack, [*stack[1:], ("", "")], strict=False):
        yield name, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        while (name := name.rpartition(".")[0]) not in ("", outer):
            yield name, ""


def _functions_of(node: Node) -> list[str]:
    """Return the name of the torch function that the model called, and the names of the operator that it became."""
    if not isinstance(node.target, OpOverload):
        return []
    name = schema_of(node.target).name.partition("::")[2]
    return [str(node.meta.get("torch_fn", ("", ""))[1]).rpartition(".")[2], name, name.removesuffix("_")]


def is_float(node: Any, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Return True for a node whose value is a nonempty tensor with one of `dtypes`."""
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype in dtypes and 0 not in val.shape


def float_args(node: Node) -> list[Node]:
    """List the positional arguments of a node whose values are nonempty float32 tensors."""
    return [arg for arg in node.args if isinstance(arg, Node) and is_float(arg)]


def channel_dim(node: Node) -> int | None:
    """Return the dim of a layer's weight that has one index per output channel; None if there is no such dim.

    The layer is a call of one of `LAYERS`. The weight of a transposed convolution with groups has no such dim.
    """
    axis = LAYERS[node.target]
    if node.target is aten.convolution.default and argument(node, "transposed"):
        axis = 1
    return None if axis == 1 and argument(node, "groups") != 1 else axis


def weight_spec(
    dtype: torch.dtype, low: int, high: int, axis: int | None, *, is_qat: bool, eps: float = SMALLEST_SCALE
) -> QuantizationSpec:
    """Return the quantization specification of a weight with the zero point 0.

    Args:
        dtype: The integer type.
        low: The smallest integer.
        high: The largest integer.
        axis: The dim in which each index has its own scale; None for a single scale.
        is_qat: True to insert fake quantization for quantization-aware training.
        eps: The smallest scale.
    """
    is_per_tensor = axis is None
    scheme = torch.per_tensor_symmetric if is_per_tensor else torch.per_channel_symmetric
    if is_qat:
        inner = MovingAverageMinMaxObserver if is_per_tensor else MovingAveragePerChannelMinMaxObserver
        observer: Any = FakeQuantize.with_args(observer=inner, eps=eps)
    else:
        observer = (MinMaxObserver if is_per_tensor else PerChannelMinMaxObserver).with_args(eps=eps)
    return QuantizationSpec(dtype, observer, low, high, scheme, axis)


def activation_observer(observer: Any, low: int, high: int, *, is_qat: bool, eps: float = SMALLEST_SCALE) -> Any:
    """Return the constructor of an activation's observer, or of its fake quantization for training.

    Args:
        observer: The class of torchao that chooses the range; not used for training.
        low: The smallest integer.
        high: The largest integer.
        is_qat: True to insert fake quantization for quantization-aware training.
        eps: The smallest scale.
    """
    if not is_qat:
        return observer.with_args(eps=eps)
    # Do not use torchao's fused module: it ignores `eps` (its scales are at least 6.1e-5), and is never symmetric.
    return FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=low, quant_max=high, eps=eps)


def _is_lost(node: Node) -> bool:
    """Return True for a call whose write torchao loses: through a view, to a tensor with views, or to a buffer.

    torchao preserves a `copy_` to a buffer or input: a functional module writes back its state by `copy_`.
    """
    if node.op != "call_function" or not is_mutable(node) or functional_form(node.target) is None:
        return False
    (mutated,) = written_by(node)
    if mutated.op in ("get_attr", "placeholder") and node.target is aten.copy_.default:
        return False
    if mutated.op == "get_attr":
        return not str(mutated.target).endswith("num_batches_tracked")
    views = [user for user in mutated.users if aliased(user) is mutated and not is_mutable(user)]
    return bool(views) or (aliased(mutated) is not None and not is_mutable(mutated))


def _reads_empty(node: Node) -> bool:
    vals = [source.meta.get("val") for source in node.all_input_nodes]
    return any(isinstance(val, torch.Tensor) and 0 in val.shape for val in vals)


def is_annotated(node: Node) -> bool:
    """Return True if a node has a quantization annotation."""
    return ANNOTATION in node.meta


def output_spec(node: Any) -> QuantizationSpecBase | None:
    """Return the quantization specification of a node's result; None if it stays in floating point."""
    annotation = node.meta.get(ANNOTATION) if isinstance(node, Node) else None
    return None if annotation is None else annotation.output_qspec


def mark(
    node: Node,
    output: QuantizationSpecBase | None,
    inputs: Mapping[Any, QuantizationSpecBase],
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
) -> None:
    """Annotate a node with the quantization specifications of its result and its inputs.

    If the operator that computes an input fixes its scale and zero point, as a sigmoid does, the fixed specification
    replaces the input's specification, because two specifications would quantize the value twice. Inputs whose dtype is
    not in `dtypes` are skipped, because an operator such as `sigmoid` may read integers.
    """
    specs = {source: _fixed_spec(source) or spec for source, spec in inputs.items() if is_float(source, dtypes)}
    node.meta[ANNOTATION] = QuantizationAnnotation(input_qspec_map=specs, output_qspec=output, _annotated=True)


def _fixed_spec(node: Node) -> FixedQParamsQuantizationSpec | None:
    """Return the specification of a node's result if the operator, or an input, fixes its scale and zero point."""
    spec = output_spec(node)
    while isinstance(spec, SharedQuantizationSpec) and isinstance(spec.edge_or_node, tuple):
        source, user = spec.edge_or_node
        spec = user.meta[ANNOTATION].input_qspec_map.get(source)
    return spec if isinstance(spec, FixedQParamsQuantizationSpec) else None


def fused_tail(node: Node, groups: Iterable[Collection[Any]]) -> Node:
    """Return the last of the operators that the backend fuses with a node; the node itself if there is none.

    Args:
        node: The node.
        groups: Groups of fusible operators, such as normalizations, then clamps. The groups are fused in this order, at
            most one operator of each group, and only if the operator is the only user of the node before it.
    """
    for group in groups:
        users = list(node.users)
        if len(users) == 1 and users[0].target in group:
            node = users[0]
    return node


def mark_fused(
    tail: Node, node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]
) -> None:
    """Annotate the inputs of `node`, and the result of `tail`, the last operator that is fused with `node`."""
    if tail is not node:
        mark(tail, output, {})
    mark(node, output if tail is node else None, inputs)


def mark_shared(node: Node, activation: QuantizationSpecBase, *, only_quantized: bool = True) -> None:
    """Annotate a node so that its inputs and its result share one observer.

    An input with a fixed scale and zero point, as from a sigmoid, keeps them; the result shares the observer of the
    other inputs. If all inputs have fixed scales that differ, the result has its own observer.

    Args:
        node: The node, such as a view.
        activation: The specification of an input.
        only_quantized: Annotate only if all inputs are quantized already; False for backends without floating point.
    """
    sources = [source for source in node.all_input_nodes if is_float(source)]
    if not sources or (only_quantized and any(output_spec(source) is None for source in sources)):
        return
    fixed = [_fixed_spec(source) for source in sources]
    if None not in fixed and any(spec != fixed[0] for spec in fixed):
        mark(node, activation, dict.fromkeys(sources, activation))
        return
    first = sources[fixed.index(None) if None in fixed else 0]
    shared = SharedQuantizationSpec((first, node))
    specs: dict[Any, QuantizationSpecBase] = dict.fromkeys(sources, shared)
    specs[first] = activation
    mark(node, shared, specs)


def mark_split(part: Node, activation: QuantizationSpecBase, splits: Collection[Any]) -> bool:
    """Annotate `part`, a `getitem` of a split, to share the quantization parameters of the split's input.

    Returns:
        False if `part` does not belong to one of the `splits` operators; then nothing is annotated.
    """
    split = part.args[0]
    assert isinstance(split, Node)
    source = split.args[0]
    if split.target not in splits or not isinstance(source, Node):
        return False
    mark(split, None, {source: activation})
    mark(part, SharedQuantizationSpec((source, split)), {})
    return True
