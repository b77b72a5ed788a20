"""`--input-shape`: replace a model's example inputs by inputs with other shapes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from edgecore.errors import CompileError

if TYPE_CHECKING:
    import torch

_SHAPE = re.compile(r"[1-9]\d*([x,][1-9]\d*)*")


def parse_shapes(texts: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Parse `1x3x224x224` and `mask=1,16` into (name of the input, shape); the name may be empty.

    Raises:
        typer.BadParameter: A value does not have this form.
    """
    shapes = []
    for text in texts:
        name, _, sizes = text.rpartition("=")
        if not _SHAPE.fullmatch(sizes):
            raise typer.BadParameter(
                f"{text!r} is not [NAME=]SHAPE with sizes above 0, such as 1x3x224x224 or mask=1x16",
                param_hint="--input-shape",
            )
        shapes.append((name, tuple(int(size) for size in re.split("[x,]", sizes))))
    return shapes


def reshaped(model: str, source: Any, inputs: Any, texts: Sequence[str]) -> Any:
    """Return example inputs with the shapes of `--input-shape`; the model runs on them once, to report a wrong shape.

    A new input has the dtype of the model's own example and random values: normally distributed, or integers in the
    range of the example.

    Args:
        model: The model as the user names it, for messages.
        source: The loaded model.
        inputs: Its own example inputs: a tuple, a tensor, or a mapping by name.
        texts: The values of `--input-shape`. Values without a name apply to the tensors in order.

    Raises:
        typer.BadParameter: A value is not a shape.
        CompileError: The model was exported already, has no such input, or does not accept the shapes.
    """
    import torch

    shapes = parse_shapes(texts)
    if not isinstance(source, torch.nn.Module):
        raise CompileError(f"{model} was exported with fixed shapes, so --input-shape has no effect; export it again")
    named = _by_name(source, inputs)
    tensors = [name for name, value in named.items() if isinstance(value, torch.Tensor)]
    unnamed = iter(tensors)
    for name, shape in shapes:
        chosen = name or next(unnamed, "")
        if chosen not in tensors:
            raise CompileError(
                f"--input-shape: {model} has no {f'input {name!r}' if name else 'further input'}; "
                f"its tensors are {', '.join(tensors) or 'none'}"
            )
        named[chosen] = _random_like(named[chosen], shape)
    changed: Any = named if isinstance(inputs, Mapping) else tuple(named.values())
    try:
        with torch.no_grad():
            source(**changed) if isinstance(changed, Mapping) else source(*changed)
    except Exception as error:
        shown = ", ".join(f"{name}={'x'.join(map(str, named[name].shape))}" for name in tensors)
        reason = str(error).strip().partition("\n")[0]
        raise CompileError(f"{model} does not accept the input shape {shown}: {reason}") from error
    return changed


def _by_name(source: torch.nn.Module, inputs: Any) -> dict[str, Any]:
    """Return the example inputs by the names of the parameters of `forward`."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    values = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    names = list(inspect.signature(source.forward).parameters)
    return {names[index] if index < len(names) else f"input{index}": value for index, value in enumerate(values)}


def _random_like(example: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed(0)
    if example.is_floating_point() or example.is_complex():
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(example.dtype)
    low, high = (int(example.min()), int(example.max())) if example.numel() else (0, 0)
    return torch.randint(low, high + 1, shape, generator=generator).to(example.dtype)
