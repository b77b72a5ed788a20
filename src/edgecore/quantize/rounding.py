"""Quantized eager: a quantized program in torch, as it is, or with what it rounds moved at random by part of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from edgecore.ir.op_args import argument

library = torch.ops.quantized_decomposed

UNIT = 2.0**-11
"""Half the distance of two float16 numbers around 1: the relative error of one rounding."""

_PRODUCTS = {
    torch.ops.aten.linear.default: 1, torch.ops.aten.conv1d.default: 1, torch.ops.aten.conv2d.default: 1,
    torch.ops.aten.conv2d.padding: 1, torch.ops.aten.conv3d.default: 1, torch.ops.aten.conv_transpose2d.input: 1,
    torch.ops.aten.convolution.default: 1, torch.ops.aten.matmul.default: 0, torch.ops.aten.bmm.default: 0,
    torch.ops.aten.mm.default: 0, torch.ops.aten.addmm.default: 1,
}  # fmt: skip
"""Operators that add up products, and the argument whose size says how many."""

_ROUNDINGS = (
    "quantized_decomposed::quantize_per_tensor", "quantized_decomposed::quantize_per_channel",
    "quantized_decomposed::quantize_per_token", "torchao::quantize_affine",
)  # fmt: skip
_BY_ROW = {
    library.quantize_per_tensor.tensor: library.quantize_per_token.default,
    library.dequantize_per_tensor.tensor: library.dequantize_per_token.default,
}
"""Operators of a scale found at run time, and those of a scale for each row."""


def rounds(program: ExportedProgram) -> bool:
    """Tell a program that rounds values that it computes."""
    return any(_schema_name(node.target) in _ROUNDINGS for node in program.graph.nodes)


def output_steps(program: ExportedProgram) -> list[float | None]:
    """For each output, the scale with which it was rounded last; None for an output that was not, or with several."""
    output: Any = program.graph.output_node().args[0]
    count = len(program.graph_signature.user_outputs)
    nodes = output[len(output) - count :]
    return [_step(node) for node in nodes]


def _step(node: Any) -> float | None:
    is_read_back = isinstance(node, Node) and _schema_name(node.target).startswith(
        "quantized_decomposed::dequantize_per_tensor"
    )
    scale = argument(node, "scale") if is_read_back else None
    return float(scale) if isinstance(scale, (int, float)) else None


def chooses_scales(program: ExportedProgram) -> bool:
    """Tell a program that finds a scale for a whole tensor at run time; a backend may find one for each row."""
    return any(node.target is library.choose_qparams.tensor for node in program.graph.nodes)


def quantized_eager(
    program: ExportedProgram, computes_in: str = "float32", *, by_row: bool = False
) -> Callable[..., Any]:
    """A function of the inputs, in order, with the results of `program` as the recipe means them.

    `by_row`: scales that are found at run time are those of rows (the last dim), not of tensors.
    """
    return _runner(program, computes_in, 0.0, 0, by_row)


def perturbed_eager(program: ExportedProgram, computes_in: str, seed: int) -> Callable[..., Any]:
    """As `quantized_eager`, with noise that stands for the arithmetic of another implementation.

    A runtime computes the same sums in another order and with other intermediate precision, so a value that lies between
    two steps may go to the other one. Before each rounding, noise that is uniform within a quarter of a step is added.
    Results in float16 move by one rounding error, those of n products by sqrt(n) of the result's root mean square,
    which is what the errors of n independent roundings add up to.
    """
    return _runner(program, computes_in, 0.25, seed, False)


def _runner(program: ExportedProgram, computes_in: str, noise: float, seed: int, by_row: bool) -> Callable[..., Any]:
    module = program.module()
    assert isinstance(module, GraphModule)
    interpreter = _Rounding(module, getattr(torch, computes_in), noise, seed, by_row)

    def run(*inputs: Any) -> Any:
        with torch.no_grad():
            return interpreter.run(*inputs)

    return run


class _Rounding(Interpreter):
    """Rounds each result to `dtype` where that is not float32, and adds noise, in steps, before each rounding."""

    def __init__(self, module: GraphModule, dtype: torch.dtype, noise: float, seed: int, by_row: bool) -> None:
        super().__init__(module)
        self.dtype = dtype
        self.noise = noise
        self.generator = torch.Generator().manual_seed(seed)
        self.by_row = by_row

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.by_row and target is library.choose_qparams.tensor:
            return library.choose_qparams_per_token_asymmetric(args[0], args[4])
        if target in _BY_ROW and args[1].numel() > 1:
            target = _BY_ROW[target]
            args, kwargs = (*args, torch.float32) if target is library.dequantize_per_token.default else args, {}
        if self.noise and _schema_name(target) in _ROUNDINGS:
            moved = args[0] + self._uniform(args[0]) * self.noise * _step_of(target, args)
            args = (moved.to(args[0].dtype), *args[1:])
        result = super().call_function(target, args, kwargs)
        if self.dtype is torch.float32 or not isinstance(result, torch.Tensor) or result.dtype is not torch.float32:
            return result
        if self.noise:
            result = result + self._uniform(result) * _half_error(target, args, result)
        limit = torch.finfo(self.dtype).max
        return result.clamp(-limit, limit).to(self.dtype).float()

    def _uniform(self, like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=self.generator) * 2 - 1


def _step_of(target: Any, args: tuple[Any, ...]) -> Any:
    """The scale of a rounding: a number, or a tensor that broadcasts against the value."""
    name = _schema_name(target)
    if name == "torchao::quantize_affine":
        value, scale = args[0], args[2]
        return scale if scale.numel() == 1 else scale.reshape(*value.shape[:-1], -1)[..., :1]
    if name.endswith("per_channel"):
        shape = [1] * args[0].dim()
        shape[args[3]] = -1
        return args[1].reshape(shape)
    return args[1]


def _half_error(target: Any, args: tuple[Any, ...], result: torch.Tensor) -> Any:
    place = _PRODUCTS.get(target)
    if place is None:
        return UNIT * result.abs()
    terms = args[1][0].numel() if place else args[0].shape[-1]
    return UNIT * max(terms, 1) ** 0.5 * result.square().mean().sqrt()


def _schema_name(target: Any) -> str:
    return str(target._schema.name) if isinstance(target, torch._ops.OpOverload) else ""
