"""The base class of quantizers, and annotations of nodes, which `edgecore.sdk.annotations` gives to backends."""

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
from edgecore.passes.in_place import functional_form, is_mutable, written_by
from edgecore.passes.quantized import SMALLEST_SCALE
from edgecore.passes.written_views import aliased
from edgecore.quantize.roles import LAYERS
from edgecore.quantize.select import ANNOTATION

aten = torch.ops.aten

Config = TypeVar("Config")
Self = TypeVar("Self", bound="ModuleQuantizer[Any]")

OBSERVERS: Mapping[str, Any] = {
    "histogram": HistogramObserver, "minmax": MinMaxObserver, "moving-average": MovingAverageMinMaxObserver,
}  # fmt: skip
"""The classes of torchao for the values of the parameter `observer` of `edgecore.Recipe`."""


class ModuleQuantizer(Quantizer, Generic[Config]):  # type: ignore[misc]
    """A `Quantizer` with a configuration for each module; a backend's subclass overrides `annotate_node`.

    A configuration for a module's name has precedence over one for its type, this over one for a function, and this
    over the global one. The configuration None leaves a module in floating point.
    """

    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32,)
    """The dtypes of the results of nodes that `annotate_node` gets."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, Config | None] = {}
        self._types: dict[str, Config | None] = {}
        self._functions: dict[str, Config | None] = {}
        self._global: Config | None = None
        self._is_branch = False  # a branch of a model need not have all modules that have a configuration

    def set_global(self: Self, quantization_config: Config | None) -> Self:
        """Set the configuration of all operators that no other configuration applies to."""
        self._global = quantization_config
        return self

    def set_object_type(
        self: Self, object_type: type[torch.nn.Module] | Callable[..., Any], quantization_config: Config | None
    ) -> Self:
        """Set the configuration of operators in modules of a type, or of calls of a function.

        The function is one of torch, such as `torch.nn.functional.linear`; modules call these functions, too.
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
        """Return `model` as it is.

        Warns:
            QuantizationWarning: The model of a script writes in a way that torchao loses.
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

        Nodes that are annotated already, results that have none of `dtypes`, nodes that read tensors without elements,
        whose range an observer cannot determine, and linear layers with a vector as weight, whose result has no
        channels, stay as they are.

        Raises:
            ValueError: A function, type or name that has a configuration occurs nowhere in the model.
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
        """Annotate a node, and the nodes that are fused with it."""
        raise NotImplementedError

    def validate(self, model: GraphModule) -> None:
        """Do nothing: an annotated operator that the backend cannot run on integers runs in floating point."""

    def config_of(self, node: Node) -> Config | None:
        """Return the configuration of the module that a node belongs to."""
        for name, kind in _modules_of(node):
            if name in self._names:
                return self._names[name]
            if kind in self._types:
                return self._types[kind]
        return next((self._functions[name] for name in _functions_of(node) if name in self._functions), self._global)

    def _check_settings(self, model: GraphModule) -> None:
        """Raise a `ValueError` if a function, type or name that has a configuration occurs nowhere in the model."""
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
    """Return a graph and those of its branches and loops."""
    return [module for module in model.modules() if isinstance(module, GraphModule)]


def _modules_of(node: Node) -> Iterator[tuple[str, str]]:
    """Yield name and type of each module that a node belongs to, the innermost first.

    Lists of modules are among them, with an empty type: nothing calls them, so torch does not record them.
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
    """Return the names of the function of torch that the model called, and of the operator that it became."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    name = node.target._schema.name.partition("::")[2]
    return [str(node.meta.get("torch_fn", ("", ""))[1]).rpartition(".")[2], name, name.removesuffix("_")]


def is_float(node: Any, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Return True for a node whose value is a tensor of one of `dtypes` with elements."""
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype in dtypes and 0 not in val.shape


def float_args(node: Node) -> list[Node]:
    """List the positional arguments of a node whose values are float32 tensors with elements."""
    return [arg for arg in node.args if isinstance(arg, Node) and is_float(arg)]


def channel_dim(node: Node) -> int | None:
    """Return the dim of the weight of one of `LAYERS` that has all output channels; None if no dim has all of them.

    No dim of a transposed weight has them if the layer has groups.
    """
    axis = LAYERS[node.target]
    if node.target is aten.convolution.default and argument(node, "transposed"):
        axis = 1
    return None if axis == 1 and argument(node, "groups") != 1 else axis


def weight_spec(
    dtype: torch.dtype, low: int, high: int, axis: int | None, *, is_qat: bool, eps: float = SMALLEST_SCALE
) -> QuantizationSpec:
    """Return the specification of a weight with the zero point 0.

    Args:
        dtype: The type of the integers.
        low: Their minimum.
        high: Their maximum.
        axis: The dim whose indices have a scale each; None for a single scale.
        is_qat: Insert fake quantization for quantization-aware training.
        eps: Minimum scale.
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
    """Return the constructor of the observer of an activation's range, or of the fake quantization for training.

    Args:
        observer: Class of torchao that chooses the range; not used for training.
        low: Minimum of the integers.
        high: Maximum of the integers.
        is_qat: Insert fake quantization for quantization-aware training.
        eps: Minimum scale.
    """
    if not is_qat:
        return observer.with_args(eps=eps)
    # Not torchao's fused module: it computes scales itself, of at least 6.1e-5 whatever `eps` is, and affine ones only.
    return FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=low, quant_max=high, eps=eps)


def _is_lost(node: Node) -> bool:
    """Return True for a call that writes through a view, a tensor with views, or a buffer other than by `copy_`."""
    if node.op != "call_function" or not is_mutable(node) or functional_form(node.target) is None:
        return False
    (written,) = written_by(node)
    if written.op in ("get_attr", "placeholder") and node.target is aten.copy_.default:
        return False  # the form of a functional module
    if written.op == "get_attr":
        return not str(written.target).endswith("num_batches_tracked")
    views = [user for user in written.users if aliased(user) is written and not is_mutable(user)]
    return bool(views) or (aliased(written) is not None and not is_mutable(written))


def _reads_empty(node: Node) -> bool:
    vals = [source.meta.get("val") for source in node.all_input_nodes]
    return any(isinstance(val, torch.Tensor) and 0 in val.shape for val in vals)


def is_annotated(node: Node) -> bool:
    """Return True if a node has an annotation."""
    return ANNOTATION in node.meta


def output_spec(node: Any) -> QuantizationSpecBase | None:
    """Return the specification of a node's result; None if it stays in floating point."""
    annotation = node.meta.get(ANNOTATION) if isinstance(node, Node) else None
    return None if annotation is None else annotation.output_qspec


def mark(
    node: Node,
    output: QuantizationSpecBase | None,
    inputs: Mapping[Any, QuantizationSpecBase],
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
) -> None:
    """Annotate a node with the specifications of its result and of its inputs.

    An input whose quantization parameters are fixed, such as the result of a sigmoid, is read with these parameters:
    otherwise it would be quantized twice. An input that has none of `dtypes` stays as it is: `sigmoid` takes integers
    too.
    """
    specs = {source: _fixed_spec(source) or spec for source, spec in inputs.items() if is_float(source, dtypes)}
    node.meta[ANNOTATION] = QuantizationAnnotation(input_qspec_map=specs, output_qspec=output, _annotated=True)


def _fixed_spec(node: Node) -> FixedQParamsQuantizationSpec | None:
    """Return the specification of a node's result if its parameters are fixed, also through operators that share it."""
    spec = output_spec(node)
    while isinstance(spec, SharedQuantizationSpec) and isinstance(spec.edge_or_node, tuple):
        source, user = spec.edge_or_node
        spec = user.meta[ANNOTATION].input_qspec_map.get(source)
    return spec if isinstance(spec, FixedQParamsQuantizationSpec) else None


def fused_tail(node: Node, groups: Iterable[Collection[Any]]) -> Node:
    """Return the last of the operators that are fused with a node; the node itself if there is none.

    Args:
        node: The node.
        groups: Operators that are fused if they are the only user of what is before them: at most one of each group, in
            this order, such as a normalization and then a clamp.
    """
    for group in groups:
        users = list(node.users)
        if len(users) == 1 and users[0].target in group:
            node = users[0]
    return node


def mark_fused(
    tail: Node, node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]
) -> None:
    """Annotate a node's inputs, and the result of the last operator that is fused with it."""
    if tail is not node:
        mark(tail, output, {})
    mark(node, output if tail is node else None, inputs)


def mark_shared(node: Node, activation: QuantizationSpecBase, *, only_quantized: bool = True) -> None:
    """Annotate the inputs and the result of a node to share one observer.

    An input whose parameters are fixed keeps them, and the result shares those of the others. If all inputs have fixed
    parameters, but not the same, the result gets its own.

    Args:
        node: The node, such as a view.
        activation: The specification of an input.
        only_quantized: Annotate only if all inputs are quantized already. Backends without floating point use False.
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
    """Annotate a `getitem` of one of `splits`, and the split, to have the parameters of what is split.

    Returns:
        False if the node is a part of another operator's result, which stays as it is.
    """
    split = part.args[0]
    assert isinstance(split, Node)
    source = split.args[0]
    if split.target not in splits or not isinstance(source, Node):
        return False
    mark(split, None, {source: activation})
    mark(part, SharedQuantizationSpec((source, split)), {})
    return True
