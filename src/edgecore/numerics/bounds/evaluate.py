"""Run a quantized program in PyTorch with an error bound for each value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.program.copying import module_to_run
from edgecore.ir.torch_compat import pytree, quantized_operators
from edgecore.numerics.bounds import elementwise, layers, quantization
from edgecore.numerics.bounds.model import Bounded, ErrorModel, NoBound
from edgecore.numerics.evaluate import Evaluator
from edgecore.numerics.rounding import feeds_convolution

aten = torch.ops.aten
library = quantized_operators()


def bounded_eager(
    program: ExportedProgram,
    inputs: Sequence[Any],
    computes_in: str = "float32",
    *,
    by_row: bool = False,
    steps: int = 0,
) -> list[Bounded]:
    """Compute the outputs of a quantized program with their error bounds.

    Args:
        program: The quantized program.
        inputs: Its inputs, in order.
        computes_in: The dtype to which floating-point results are rounded.
        by_row: True to choose dynamic scales for each row (along the last dim) instead of for the whole tensor.
        steps: For results with a constant scale: the number of quantization steps by which a backend's result may
            differ in addition to rounding (`RecipeSupport.steps`).

    Raises:
        NoBound: There is no rule for an operator of the program.
    """
    model = ErrorModel(computes_in == "float16", by_row, steps)

    def see(node: Node, result: Any) -> Any:
        return model.exact(result) if node.op in ("placeholder", "get_attr") else result

    def compute(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target: Any = node.target
        leaves = pytree.tree_leaves((args, kwargs))
        if target is operator.getitem or not any(isinstance(leaf, Bounded) for leaf in leaves):
            return target(*args, **kwargs)
        if target is aten.sym_size.int:
            return target(args[0].value, args[1])
        rule = _RULES.get(target)
        if rule is None:
            raise NoBound(f"no error bound for {target}")
        model.has_images = target is library.choose_qparams.tensor and feeds_convolution(node)
        result = rule(model, target, args, kwargs)
        needs_rounding = isinstance(result, Bounded) and rule not in _EXACT
        return model.rounded(result) if needs_rounding else result

    evaluator = Evaluator(module_to_run(program, check_guards=False), see=see, compute=compute)
    with torch.no_grad():
        results = evaluator.run(*inputs)
    leaves = pytree.tree_leaves(results, is_leaf=lambda leaf: isinstance(leaf, Bounded))
    return [Bounded(leaf.value, leaf.error * model.worst) for leaf in leaves if isinstance(leaf, Bounded)]


_EXACT = (elementwise.move, elementwise.join, elementwise.look_up, elementwise.fill)
"""Rules of operators that only copy values, so that float16 programs need not round their results."""

_OPERATORS: tuple[tuple[Callable[..., Any], Any, str], ...] = (
    (elementwise.move, aten, "view.default reshape.default flatten.using_ints permute.default transpose.int t.default"),
    (elementwise.move, aten, "unsqueeze.default squeeze.dim select.int slice.Tensor expand.default clone.default"),
    (elementwise.move, aten, "contiguous.default alias.default detach.default dropout.default unflatten.int"),
    (elementwise.keep_error, aten, "to.dtype _to_copy.default"),
    (elementwise.keep_error, aten, "relu.default relu_.default hardtanh.default clamp.default"),
    (elementwise.join, aten, "cat.default"),
    (elementwise.look_up, aten, "embedding.default"),
    (elementwise.fill, aten, "masked_fill.Scalar"),
    (elementwise.add, aten, "add.Tensor sub.Tensor"),
    (elementwise.multiply, aten, "mul.Tensor"),
    (elementwise.average, aten, "mean.dim adaptive_avg_pool2d.default"),
    (elementwise.function(0.25), aten, "sigmoid.default"),
    (elementwise.function(1.0), aten, "tanh.default"),
    (elementwise.function(1.1), aten, "silu.default"),
    (elementwise.function(1.13), aten, "gelu.default"),
    (elementwise.function(1.5), aten, "hardswish.default hardswish_.default"),
    (layers.weighted_sum, aten, "linear.default conv1d.default conv2d.default conv2d.padding convolution.default"),
    (layers.matmul, aten, "matmul.default bmm.default mm.default"),
    (layers.attention, aten, "scaled_dot_product_attention.default"),
    (layers.softmax, aten, "softmax.int _softmax.default"),
    (layers.layer_norm, aten, "layer_norm.default"),
    (quantization.quantize, library, "quantize_per_tensor.default quantize_per_tensor.tensor"),
    (quantization.quantize, library, "quantize_per_channel.default quantize_per_token.default"),
    (quantization.dequantize, library, "dequantize_per_tensor.default dequantize_per_tensor.tensor"),
    (quantization.dequantize, library, "dequantize_per_channel.default dequantize_per_token.default"),
    (quantization.dequantize, library, "dequantize_per_channel_group.default"),
    (quantization.choose_parameters, library, "choose_qparams.tensor choose_qparams_per_token_asymmetric.default"),
)
"""Error rules: (rule, namespace, names of the operators that it applies to)."""


def _operator(namespace: Any, name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(namespace, base), overload)


_RULES = {_operator(namespace, name): rule for rule, namespace, names in _OPERATORS for name in names.split()}
