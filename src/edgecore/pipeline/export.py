"""Run `torch.export`, and turn its errors into sentences about the user's arguments and code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.failures import text_of
from edgecore.ir.graph import is_inside_torch

_PACKAGE = Path(__file__).parents[1]
_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")
"""Matches a size in a guard of torch: `L['x'].size()[0]`."""
_FIXED = re.compile(r"marked (\S+) as dynamic but your code specialized it to be a constant \((\d+)\)")
"""Matches the message of `torch.export` that a Dim can have only one size. Groups: name of the Dim, size."""
_GUARD = re.compile(r"Not all values of (\S+) = .* satisfy the generated guard (.*?)\.?$")
"""Matches the message of `torch.export` that a Dim must satisfy a condition. Groups: name of the Dim, condition."""

_MAX_QUOTE = 120
"""Number of characters of a symbolic expression to quote in an error message."""


@dataclass(frozen=True)
class _Dim:
    """A dim of an example input for which `dynamic_shapes` has a `torch.export.Dim` (`dim`)."""

    argument: str
    index: int
    size: int
    dim: Any

    @property
    def name(self) -> str:
        """The name of the `torch.export.Dim`; empty for hints such as `Dim.AUTO`."""
        return getattr(self.dim, "__name__", "")

    def __str__(self) -> str:
        return f"dim {self.index} of {self.argument!r}" + (f" ({self.name})" if self.name else "")


def export_model(
    model: torch.nn.Module,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    is_training: bool = False,
) -> ExportedProgram:
    """Export a module.

    Args:
        model: A module in eval mode. A wrapper in training mode is accepted if all modules inside it are in eval mode.
            For a module that `torch.export` made, the mode is ignored.
        example_inputs: A tuple with one entry per positional argument, the argument itself if there is only one, or a
            mapping of keyword arguments.
        example_kwargs: Additional keyword arguments; the inputs of the program have the order of the parameters of
            `forward`.
        dynamic_shapes: As for `torch.export.export`.
        is_training: True to export a module in training mode as it is.

    Raises:
        CompileError: The module cannot be exported, or the arguments do not match `forward`; the message names the
            argument, its dim, or the line of the model.
    """
    if not isinstance(model, torch.nn.Module):
        raise CompileError(f"model is a {type(model).__name__}; it must be a torch.nn.Module or an ExportedProgram")
    if example_inputs is None and not example_kwargs:
        raise CompileError(
            "example_inputs are needed to export a torch.nn.Module: pass a tuple with one entry per argument"
        )
    kwargs = dict(example_kwargs or {})
    if isinstance(example_inputs, Mapping):
        args: tuple[Any, ...] = ()
        kwargs = {**example_inputs, **kwargs}
    elif example_inputs is None:
        args = ()
    else:
        args = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    name = type(model).__name__
    if not is_training and is_in_training(model):
        raise CompileError(f"{name} is in training mode; call model.eval() before compiling")
    bound = _bound(model, args, kwargs)
    dims = list(_dims(bound, dynamic_shapes))
    kwargs = {key: kwargs[key] for key in sorted(kwargs, key=[*bound, *kwargs].index)}
    was_training, model.training = model.training, is_training
    try:
        return torch.export.export(model, args, kwargs or None, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise CompileError(f"torch.export could not export {name}: {_sentence(error, model, dims)}") from error
    finally:
        model.training = was_training


def dynamic_shapes_by_argument(model: torch.nn.Module | ExportedProgram, shapes: Any) -> Any:
    """Convert `dynamic_shapes` for `model` to `dynamic_shapes` for the module that its export makes.

    Quantization exports the exported module again. There, the tensors of a parameter `*args` are separate parameters:
    `args_0`, `args_1` and so on.
    """
    if shapes is None or isinstance(model, ExportedProgram):
        return shapes
    parameters = list(inspect.signature(model.forward).parameters.values())
    index = next((i for i, item in enumerate(parameters) if item.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if index is None:
        return shapes
    name = parameters[index].name
    if isinstance(shapes, Mapping):
        rest = {key: spec for key, spec in shapes.items() if key != name}
        return {**rest, **{f"{name}_{i}": spec for i, spec in enumerate(shapes.get(name, ()))}}
    return (*shapes[:index], *shapes[index], *shapes[index + 1 :])


def is_in_training(model: torch.nn.Module) -> bool:
    """Return True if a module, or a module inside it, is in training mode.

    The flag of an exported module is ignored: its operators have the mode of the export, and it has no `eval()`.
    """
    exported = [module for module in model.modules() if _is_exported(module)]
    fixed = {inner for module in exported for inner in module.modules()}
    inside = [module for module in list(model.modules())[1:] if module not in fixed]
    if not model.training or model in fixed:
        return False
    return any(module.training for module in inside) or not (inside or exported)


def _is_exported(module: torch.nn.Module) -> bool:
    """Return True for a module that `torch.export` made: a graph that calls no module but the check of its inputs.

    A graph from `torch.fx.symbolic_trace` calls modules.
    """
    if not isinstance(module, torch.fx.GraphModule):
        return False
    return all(node.target == "_guards_fn" for node in module.graph.nodes if node.op == "call_module")


def _bound(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the example input of each parameter of `forward`, by the name of the parameter.

    Raises:
        CompileError: The example inputs do not match the parameters.
    """
    signature = inspect.signature(model.forward)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        inputs = [f"{len(args)} positional", *kwargs]
        raise CompileError(
            f"{type(model).__name__}.forward{signature} does not accept the example inputs ({', '.join(inputs)}): "
            f"{error}"
        ) from error


def _dims(inputs: Mapping[str, Any], dynamic_shapes: Any) -> Iterator[_Dim]:
    """Yield the dims for which `dynamic_shapes` has a `torch.export.Dim`.

    Raises:
        CompileError: An input lacks the dim, or the size of the dim is outside the bounds of the `Dim`.
    """
    if isinstance(dynamic_shapes, Mapping):
        pairs = [(name, inputs[name], spec) for name, spec in dynamic_shapes.items() if name in inputs]
    elif isinstance(dynamic_shapes, (tuple, list)):
        pairs = [(name, value, spec) for (name, value), spec in zip(inputs.items(), dynamic_shapes)]
    else:
        pairs = []
    for name, value, spec in pairs:
        yield from _dims_of(name, value, spec)


def _dims_of(name: str, value: Any, spec: Any) -> Iterator[_Dim]:
    if isinstance(value, torch.Tensor):
        dims = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        for index, dim in dims:
            if not isinstance(index, int) or not 0 <= index < value.dim():
                raise CompileError(
                    f"dynamic_shapes: {name!r} has no dim {index!r}; the example has the shape {tuple(value.shape)}"
                )
            size, minimum, maximum = value.shape[index], getattr(dim, "min", None), getattr(dim, "max", None)
            if isinstance(minimum, int) and isinstance(maximum, int) and not minimum <= size <= maximum:
                raise CompileError(
                    f"dynamic_shapes: dim {index} of {name!r} is {size} in the example, which is not between the "
                    f"bounds {minimum} and {maximum} of Dim {getattr(dim, '__name__', '')!r}"
                )
            if dim is not None:
                yield _Dim(name, index, size, dim)
    elif isinstance(value, (tuple, list)) and isinstance(spec, (tuple, list)):
        for index, (item, item_spec) in enumerate(zip(value, spec)):
            yield from _dims_of(f"{name}[{index}]", item, item_spec)
    elif isinstance(value, Mapping) and isinstance(spec, Mapping):
        for key, item_spec in spec.items():
            if key in value:
                yield from _dims_of(f"{name}[{key!r}]", value[key], item_spec)


def _sentence(error: Exception, model: torch.nn.Module, dims: Sequence[_Dim]) -> str:
    """Explain an error of `torch.export` in terms of the user's model and arguments."""
    text, line = str(error).strip(), _user_line(error)
    at = f"at {line} " if line else ""
    if "Constraints violated" in text:
        return _violated(text, model, dims)
    if "data-dependent" in text.partition("\n")[0]:
        return (
            f"{at}the model branches on the content of a tensor, but an exported program does the same for all "
            "contents. Use torch.where or torch.cond, or compile the model up to this line and do the rest (such as "
            "the selection of boxes after a detector) in the application. torch said: "
            f"{_short(text.partition(' (unhinted')[0])}"
        )
    if "dynamic_shapes" in text.partition("\n")[0]:
        return f"dynamic_shapes does not match the inputs: {text.partition(chr(10))[0]}"
    return (
        f"{at}the model raised {text_of(error).rstrip('.')}. If the model runs on these example inputs without "
        "edgecore, this line does something that torch.export cannot capture, and must change; or pass an "
        "ExportedProgram to edgecore"
    )


def _violated(text: str, model: torch.nn.Module, dims: Sequence[_Dim]) -> str:
    """Explain why dims in the user's `dynamic_shapes` cannot be dynamic, and add torch's suggestions."""
    problems = []
    for line in (line.strip(" -") for line in text.splitlines() if line.startswith("  - ")):
        if fixed := _FIXED.search(line):
            problems.append(_fixed(fixed[1], int(fixed[2]), model, dims))
        elif guard := _GUARD.search(line):
            problems.append(f"{_named(guard[1], dims)} must satisfy {_short(_SIZE.sub(_shape, guard[2]))}")
        else:
            problems.append(_short(_SIZE.sub(_shape, line)).rstrip("."))
    _, _, after = text.partition("Suggested fixes:\n")
    fixes = [line.strip() for line in after.partition("\n\n")[0].splitlines() if not re.search(r"= \d+$", line)]
    advice = f"; use in dynamic_shapes: {'; '.join(fixes)}" if fixes else ""
    shown = list(dict.fromkeys(problems))[:2]
    return f"the model does not support every size that dynamic_shapes allows: {'; '.join(shown)}{advice}"


def _fixed(name: str, size: int, model: torch.nn.Module, dims: Sequence[_Dim]) -> str:
    """Explain that the model fixes the size of a dim."""
    subject = _named(name, dims)
    if size == 1 and any(dim.name == name and dim.size == 1 for dim in dims):
        return f"{subject} is 1 in the example, which torch treats as a constant; use an example of size 2 or more"
    layers = [path for path, module in model.named_modules() if isinstance(module, torch.nn.RNNBase)]
    reason = f" (torch.export unrolls recurrent layers such as {layers[0] or 'this one'!r})" if layers else ""
    return (
        f"{subject} is always {size} in this model{reason}, so leave it out of dynamic_shapes, or change the code that "
        "fixes it"
    )


def _named(name: str, dims: Sequence[_Dim]) -> str:
    """Describe the dims of inputs that have the `torch.export.Dim` called `name`; return `name` if there are none."""
    return " and ".join(str(dim) for dim in dims if dim.name == name) or name


def _shape(size: re.Match[str]) -> str:
    """Write a size in a guard as users write it: `x.shape[0]`."""
    return f"{size[1]}{size[2]}.shape[{size[3]}]"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE else f"{text[:_MAX_QUOTE]}..."


def _user_line(error: BaseException) -> str:
    """Return the innermost line of the traceback outside of torch and edgecore, `model.py:12`; empty without one."""
    line, step = "", error.__traceback__
    while step is not None:
        path = step.tb_frame.f_code.co_filename
        if not is_inside_torch(path) and not Path(path).is_relative_to(_PACKAGE) and not path.startswith("<"):
            line = f"{path}:{step.tb_lineno}"
        step = step.tb_next
    return line
