"""Run a quantized program in PyTorch ("quantized eager"), exactly or with random noise before each quantization."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.ir.program.copying import module_to_run
from edgecore.ir.program.outputs import is_result
from edgecore.ir.torch_compat import OpOverload, quantized_operators, schema_of
from edgecore.numerics.evaluate import Evaluator

aten = torch.ops.aten
library = quantized_operators()

HALF_ULP = 2.0**-11
"""Largest relative error of one rounding to float16, whose significand has 11 bits."""

NOISE = 0.25
"""Amplitude of the noise that `perturbed_eager` adds before each quantization, in quantization steps."""

_PRODUCTS: dict[Any, int] = {
    aten.linear.default: 1,
    aten.conv1d.default: 1,
    aten.conv2d.default: 1,
    aten.conv2d.padding: 1,
    aten.conv3d.default: 1,
    aten.conv_transpose2d.input: 1,
    aten.convolution.default: 1,
    aten.addmm.default: 1,
    aten.matmul.default: 0,
    aten.bmm.default: 0,
    aten.mm.default: 0,
}
"""Operators that sum products -> index of the argument whose shape gives the number of products in a sum.

The argument with index 1 is mostly a weight [outputs, ...], whose rows have one element for each product (for a
transposed convolution this is an estimate). The argument with index 0 is a matrix [..., K]: K products.
"""

_ROUNDINGS = (
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_channel",
    "quantized_decomposed::quantize_per_token",
    "torchao::quantize_affine",
)
_BY_ROW = {
    library.quantize_per_tensor.tensor: library.quantize_per_token.default,
    library.dequantize_per_tensor.tensor: library.dequantize_per_token.default,
}
"""Operators with one dynamic scale for the tensor -> the same operators with one scale for each row."""


def rounds(program: ExportedProgram) -> bool:
    """Return True if a program quantizes activations, so that it rounds values that it computes."""
    return any(_schema_name(node.target) in _ROUNDINGS for node in program.graph.nodes)


def output_steps(program: ExportedProgram) -> list[float | None]:
    """Return for each output its quantization scale; None if the output is not quantized or has several scales."""
    output: Any = program.graph.output_node().args[0]
    count = sum(map(is_result, program.graph_signature.output_specs))
    nodes = output[len(output) - count :]
    return [_step(node) for node in nodes]


def _step(node: Any) -> float | None:
    is_dequantized = isinstance(node, Node) and _schema_name(node.target).startswith(
        "quantized_decomposed::dequantize_per_tensor"
    )
    scale = argument(node, "scale") if is_dequantized else None
    return float(scale) if isinstance(scale, (int, float)) else None


def chooses_scales(program: ExportedProgram) -> bool:
    """Return True if a program has a dynamic scale of a whole tensor, where a backend may use one for each row."""
    return any(node.target is library.choose_qparams.tensor for node in program.graph.nodes)


def quantized_eager(
    program: ExportedProgram, computes_in: str = "float32", *, by_row: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the exact results of a quantized program.

    Args:
        program: The program with quantize and dequantize operators.
        computes_in: The dtype to which floating-point results are rounded.
        by_row: True to choose dynamic scales for each row (along the last dim; for each image in convolutions) instead
            of for the whole tensor.

    Returns:
        A function of the inputs, in their order.
    """
    return _runner(program, computes_in, 0.0, 0, by_row)


def perturbed_eager(program: ExportedProgram, computes_in: str, seed: int, steps: int = 0) -> Callable[..., Any]:
    """Return a function that computes a quantized program with noise, to simulate the errors of another runtime.

    A runtime sums in another order and with other intermediate precision, so it may round a value halfway between two
    quantization steps to the other step. Therefore uniform noise of up to a quarter of a step in either direction is
    added before each quantization. For a device whose operators may be off by `steps` steps (`RecipeSupport.steps`),
    the noise is up to `steps` steps. If the program computes in fp16, noise is added to each floating-point result,
    too: one rounding error (`HALF_ULP`) relative to the element. For a sum of n products it is sqrt(n) rounding errors
    relative to the root mean square of the result, because n independent errors add up to sqrt(n) times one error.
    """
    return _runner(program, computes_in, max(NOISE, steps), seed, False)


def feeds_convolution(node: Node) -> bool:
    """Return True if a node chooses the scale of a convolution's input; a scale by row is then one for each image."""
    pending = [node]
    while pending:
        for user in pending.pop().users:
            name = _schema_name(user.target)
            if name.startswith("aten::conv"):
                return True
            if user.target is operator.getitem or name.startswith("quantized_decomposed::"):
                pending.append(user)
    return False


def choose_by_row(x: torch.Tensor, dtype: torch.dtype, has_images: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scales and zero points [..., 1] of the rows of x (last dim); with `has_images`, of whole images."""
    if not has_images:
        return library.choose_qparams_per_token_asymmetric(x, dtype)  # type: ignore[no-any-return]
    of_images = library.choose_qparams_per_token_asymmetric(x.flatten(1), dtype)
    ones = [1] * (x.dim() - 1)
    scale, zero_point = (part.reshape(-1, *ones).expand(*x.shape[:-1], 1).contiguous() for part in of_images)
    return scale, zero_point


def _runner(program: ExportedProgram, computes_in: str, noise: float, seed: int, by_row: bool) -> Callable[..., Any]:
    evaluator = Evaluator(
        module_to_run(program), compute=Rounding(getattr(torch, computes_in), noise, seed, by_row=by_row)
    )

    def run(*inputs: Any) -> Any:
        with torch.no_grad():
            return evaluator.run(*inputs)

    return run


class Rounding:
    """An `Evaluator` callback that rounds each floating-point result to `dtype`, and adds noise.

    Args:
        dtype: The dtype in which the backend computes.
        noise: Amplitude of the noise before quantization, in quantization steps; 0 for no noise. If it is not 0 and
            `dtype` is float16, the noise of `_fp16_error` is added to each floating-point result, too.
        seed: Seed of the noise.
        by_row: True to choose dynamic scales for each row, as for `quantized_eager`.
    """

    def __init__(self, dtype: torch.dtype, noise: float = 0.0, seed: int = 0, *, by_row: bool = False) -> None:
        self.dtype = dtype
        self.noise = noise
        self.generator = torch.Generator().manual_seed(seed)
        self.by_row = by_row

    def __call__(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target: Any = node.target
        if self.by_row and target is library.choose_qparams.tensor:
            return choose_by_row(args[0], args[4], feeds_convolution(node))
        if target in _BY_ROW and args[1].numel() > 1:
            target = _BY_ROW[target]
            args, kwargs = (*args, torch.float32) if target is library.dequantize_per_token.default else args, {}
        if self.noise and _schema_name(target) in _ROUNDINGS:
            noisy = args[0] + self._uniform(args[0]) * self.noise * _step_of(target, args)
            args = (noisy.to(args[0].dtype), *args[1:])
        result = target(*args, **kwargs)
        if self.dtype is torch.float32 or not isinstance(result, torch.Tensor) or result.dtype is not torch.float32:
            return result
        if self.noise:
            result = result + self._uniform(result) * _fp16_error(target, args, result)
        limit = torch.finfo(self.dtype).max
        # Clamp before the conversion, so that an overflow gives the largest number of `self.dtype`, not infinity.
        return result.clamp(-limit, limit).to(self.dtype).float()

    def _uniform(self, like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=self.generator) * 2 - 1


def _step_of(target: Any, args: tuple[Any, ...]) -> Any:
    """Return the scale (step) of a quantize operator: a number, or a tensor that broadcasts with the input."""
    name = _schema_name(target)
    if name == "torchao::quantize_affine":
        value, scale = args[0], args[2]
        return scale if scale.numel() == 1 else scale.reshape(*value.shape[:-1], -1)[..., :1]
    if name.endswith("per_channel"):
        shape = [1] * args[0].dim()
        shape[args[3]] = -1
        return args[1].reshape(shape)
    return args[1]


def _fp16_error(target: Any, args: tuple[Any, ...], result: torch.Tensor) -> Any:
    """Return the expected error of a result computed in fp16; see `perturbed_eager`."""
    index = _PRODUCTS.get(target)
    if index is None:
        return HALF_ULP * result.abs()
    terms = args[1][0].numel() if index else args[0].shape[-1]
    return HALF_ULP * max(terms, 1) ** 0.5 * result.square().mean().sqrt()


def _schema_name(target: Any) -> str:
    return str(schema_of(target).name) if isinstance(target, OpOverload) else ""
