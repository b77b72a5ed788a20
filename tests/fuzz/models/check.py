"""Compile a drawn model for one target, run it several times, and compare with eager PyTorch.

Floating point is compared with the user's module. A quantized file is compared twice: with the quantized program in
eager mode, which the runtime must equal within a step, and, more coarsely, this program with the user's module: a write
that the quantized program has lost makes both wrong in the same way.
"""

from __future__ import annotations

import copy
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from fuzz.check import Finding
from fuzz.models.draw import Model
from torch.utils._pytree import tree_leaves

import edgecore
from edgecore.errors import EdgecoreError, NothingToQuantize
from edgecore.ir.program.outputs import written_inputs
from edgecore.numerics.rounding import output_steps, quantized_eager
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import QuantizingCompiler, RecipeSupport, registry
from edgecore.quantize.kernels import RECIPES as KERNEL_RECIPES

KERNELS = "kernels"
"""The name of edgecore's own kernels among the backends."""

EXPECTED = ("torch.export could not export",)
"""Parts of the sentences that say that PyTorch itself does not take a drawn model."""

RELATIVE = {"float32": 2e-5, "float16": 1e-2}
"""The largest error of floating-point results, relative to the largest value of the result, by the dtype of the
computation."""

SHARE_OF_RANGE = 0.01
"""The largest error of the runtime beside quantized eager, relative to the range of the result (with 0),
if that is more than a step."""

LOSS = {"int4-weights": 0.4}
MAX_LOSS = 0.15
"""The largest error of quantized eager beside the user's model, relative to its largest value. Lost writes cost more than
this in most drawn models; the noise of three or four quantized layers of 8 bits costs less."""


@dataclass(frozen=True)
class Target:
    """A way to compile a model: a backend (None: no backend), and one of its recipes (None: floating point)."""

    backend: str | None
    recipe: str | None = None

    def __str__(self) -> str:
        return f"{self.backend or 'no backend'}, {self.recipe or 'floating point'}"


def _recipes(backend: str) -> Mapping[str, RecipeSupport]:
    if backend == KERNELS:
        return KERNEL_RECIPES
    compiler = compiler_of(registry.find_by_name(backend))
    assert isinstance(compiler, QuantizingCompiler)
    return compiler.recipes()


def targets(seed: int, backends: Sequence[str], count: int = 2) -> list[Target]:
    """Return the targets of a seed: each backend in floating point and with `count` of its recipes; and no backend."""
    choices = random.Random(seed)
    chosen = [Target(None)]
    for backend in backends:
        if backend != KERNELS:
            chosen.append(Target(backend))
        names = sorted(_recipes(backend))
        chosen += [Target(backend, name) for name in choices.sample(names, min(count, len(names)))]
    return chosen


def check(model: Model, target: Target) -> bool:
    """Check one target; return False if PyTorch cannot export the model, or the recipe finds nothing to quantize.

    Raises:
        Finding: A wrong number, a changed module, a bare exception or an error that nobody expects.
    """
    module = model.make()
    before = {name: value.detach().clone() for name, value in module.state_dict().items()}
    inputs = model.inputs()
    with _named(model, target), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = _compile(module, inputs, target)
        except NothingToQuantize:
            return False
        except EdgecoreError as error:
            if any(part in str(error) for part in EXPECTED):
                return False
            raise
        for name, value in module.state_dict().items():
            if not torch.equal(value, before[name]):
                raise Finding(f"compile changed {name} of the user's module")
        if not torch.equal(inputs[0], model.inputs()[0]):
            raise Finding("compile changed the example input")
        with tempfile.TemporaryDirectory() as folder:
            needs = {delegate.id for method in program.pte.program.execution_plan for delegate in method.delegates}
            standin = {"coreml": {"standin": sys.executable, "model_cache_folder": folder}}
            loaded = edgecore.load(program.buffer, threads=1, options=standin if "CoreMLBackend" in needs else None)
            made = [[torch.as_tensor(y).clone() for y in tree_leaves(loaded.forward(x.clone()))] for x in inputs]
            del loaded
    writes_input = bool(written_inputs(program.exported_program()))
    want = _calls(copy.deepcopy(module), inputs, writes_input)
    with _named(model, target):
        if target.recipe is None:
            relative = RELATIVE["float16" if target.backend == "qnn" else "float32"]
            _compare("eager", made, want, [relative] * len(want[0]), [0.0] * len(want[0]))
        else:
            _check_quantized(program.quantized["forward"], target, inputs, writes_input, made, want)
    return True


def smallest(model: Model, target: Target) -> tuple[Model, Finding]:
    """Return the smallest model, of those with fewer statements, that still has a finding, and the finding."""
    finding = _finding(model, target)
    assert finding is not None
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in model.smaller():
            try:
                with torch.no_grad():
                    _calls(smaller.make(), smaller.inputs(), False)
            except Exception:  # a statement that needs the one left out
                continue
            if (other := _finding(smaller, target)) is not None:
                model, finding, is_smaller = smaller, other, True
                break
    return model, finding


def _finding(model: Model, target: Target) -> Finding | None:
    try:
        check(model, target)
    except Finding as finding:
        return finding
    return None


def _compile(module: torch.nn.Module, inputs: Sequence[torch.Tensor], target: Target) -> Any:
    settings: dict[str, Any] = {"backends": [target.backend] if target.backend not in (None, KERNELS) else []}
    if target.backend == KERNELS:
        settings["runtime"] = "edgecore"
    if target.recipe is not None:
        settings["quantize"] = target.recipe
        if _calibrates(target):

            def calibrate(observed: Callable[..., Any]) -> None:
                for x in inputs:
                    observed(x.clone())

            settings["calibration"] = calibrate
    return edgecore.compile(module, (inputs[0],), **settings)


def _calibrates(target: Target) -> bool:
    assert target.backend is not None and target.recipe is not None
    return bool(_recipes(target.backend)[target.recipe].calibrates)


def _calls(module: Callable[..., Any], inputs: Sequence[torch.Tensor], writes_input: bool) -> list[list[torch.Tensor]]:
    """Return the results of calls one after the other. An input that a file writes is its first result."""
    calls = []
    with torch.no_grad():
        for x in inputs:
            written = x.clone()
            results = tree_leaves(module(written))
            calls.append([value.detach().clone() for value in [*[written] * writes_input, *results]])
    return calls


def _check_quantized(
    quantized: Any,
    target: Target,
    inputs: Sequence[torch.Tensor],
    writes_input: bool,
    made: Any,
    want: list[list[torch.Tensor]],
) -> None:
    program = copy.deepcopy(quantized.program)  # its buffers change with each call
    expected = _calls(quantized_eager(program, quantized.computes_in), inputs, writes_input)
    steps = [0.0] * writes_input + [step or 0.0 for step in output_steps(quantized.program)]
    ranges = [_range(results) for results in zip(*expected, strict=True)]
    bounds = [max(step * 1.01, SHARE_OF_RANGE * size) for step, size in zip(steps, ranges, strict=True)]
    _compare("quantized eager", made, expected, [0.0] * len(steps), bounds)
    loss = LOSS.get(target.recipe or "", MAX_LOSS)
    _compare("the user's model, by the quantized program in eager mode,", expected, want, [loss] * len(steps), steps)


def _range(results: Sequence[torch.Tensor]) -> float:
    """Return the range of the values of one result in all calls, with 0."""
    values = torch.stack(tuple(results)).double()
    return float(values.max().clamp(min=0) - values.min().clamp(max=0))


def _compare(
    name: str,
    made: Sequence[Sequence[torch.Tensor]],
    want: Sequence[Sequence[torch.Tensor]],
    relative: Sequence[float],
    absolute: Sequence[float],
) -> None:
    for call, (results, expected) in enumerate(zip(made, want, strict=True)):
        if len(results) != len(expected):
            raise Finding(f"{len(results)} results instead of {len(expected)}")
        for index, (got, wanted) in enumerate(zip(results, expected, strict=True)):
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                raise Finding(
                    f"call {call}, result {index}: {got.dtype} {list(got.shape)} instead of {wanted.dtype} "
                    f"{list(wanted.shape)}"
                )
            size = max(float(run[index].abs().max()) for run in want)
            bound = max(relative[index] * max(size, 1e-3), absolute[index])
            error = float((got - wanted).abs().nan_to_num(torch.inf).max())
            if not error <= bound:
                raise Finding(
                    f"call {call}, result {index}: differs from {name} by {error:.3g}, more than {bound:.3g} (values up "
                    f"to {size:.3g})"
                )


@contextmanager
def _named(model: Model, target: Target) -> Iterator[None]:
    """Give findings, and exceptions that nobody expects, the target and the code of the model."""
    layout = ".to(memory_format=torch.channels_last)" if model.channels_last else ""
    code = f"{target}\n{model}# seed {model.seed}, x {list(model.shape)}{layout}"
    try:
        yield
    except Finding as error:
        raise Finding(f"{error}\n{code}") from error
    except EdgecoreError as error:
        raise Finding(f"{type(error).__name__}: {error}\n{code}") from error
    except Exception as error:
        raise Finding(f"bare {type(error).__name__}: {error}\n{code}") from error
