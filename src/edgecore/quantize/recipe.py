"""From a model and a recipe to an exported program with quantize and dequantize nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import BackendCompiler, QuantizingCompiler
from edgecore.quantize.calibration import Calibration, samples


def quantize_model(
    exported: ExportedProgram, recipe: str, quantizer: Any, calibration: Calibration | None, dynamic_shapes: Any = None
) -> ExportedProgram:
    """`exported` with its values and weights quantized where `quantizer` (torchao's `Quantizer`) annotates them.

    Raises `CompileError` without calibration, when a sample does not fit the model, or when there is none.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if calibration is None:
        raise CompileError(
            f"quantize={recipe!r} needs calibration: inputs like those of real use, as an iterable, a folder of .npy "
            "files, or a function that calls the model it is given"
        )
    observed = prepare_pt2e(exported.module(), quantizer)
    with torch.no_grad():
        if callable(calibration):
            calibration(observed)
        else:
            _feed(observed, calibration)
    inputs = exported.example_inputs
    assert inputs is not None
    return torch.export.export(convert_pt2e(observed), inputs[0], inputs[1], dynamic_shapes=dynamic_shapes)


def _feed(observed: Callable[..., Any], calibration: Any) -> None:
    count = 0
    for count, sample in enumerate(samples(calibration), 1):
        try:
            observed(*sample)
        except Exception as error:
            given = ", ".join(f"{tuple(x.shape)} {x.dtype}" if isinstance(x, torch.Tensor) else repr(x) for x in sample)
            reason = str(error).strip().partition("\n")[0]
            raise CompileError(f"calibration sample {count} ({given}) does not fit the model: {reason}") from error
    if count == 0:
        raise CompileError("calibration has no samples")


def find_quantizer(recipe: str, compilers: Mapping[str, BackendCompiler]) -> Any:
    """A quantizer for `recipe` from the first of the backends (name -> compiler) that has quantizers.

    Raises `CompileError` if none has, or if it does not know the recipe.
    """
    for name, compiler in compilers.items():
        made = compiler.quantizers() if isinstance(compiler, QuantizingCompiler) else {}
        if recipe in made:
            return made[recipe]()
        if made:
            raise CompileError(f"backend {name!r} has no recipe {recipe!r}: it has {', '.join(sorted(made))}")
    asked = ", ".join(compilers) or "none"
    raise CompileError(f"quantize={recipe!r} needs a backend with quantizers; the backends asked for: {asked}")
