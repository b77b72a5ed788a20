"""Check the backend's quantization recipes against quantized eager PyTorch.

The matrices have row and column counts near multiples of the tile sizes of micro-kernels, because errors at the edges
of tiles are common. A backend may declare configurations, such as sets of kernels for different processors, which
environment variables select. The checks then run with each configuration that this machine can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import compiled, delegated_calls, load
from edgecore.conformance.workers.process import call, results
from edgecore.conformance.workers.remote import LoadFailed
from edgecore.errors import ExecutionError, NothingToQuantize
from edgecore.ir.torch_compat import quantized_operators
from edgecore.numerics.bounds import Bounded, NoBound, bounded_eager
from edgecore.numerics.metrics import errors
from edgecore.numerics.rounding import chooses_scales
from edgecore.plugin import ConfigurableCompiler

_QUANTIZE = quantized_operators().quantize_per_tensor.default
MAX_ROWS = 40
"""Maximum number of matrix rows to test: more than twice the 16 rows of the highest known micro-kernel tile."""
STATIC = (1, 2, 3, 7, 8, 9, 14, 15, 16, 17, 31, 33, MAX_ROWS)
"""Numbers of matrix rows to compile for, one by one, if a backend does not support symbolic sizes."""
WIDTHS = (1, 2, 15, 16, 7, 8, 17, 9, 31, 33, 32, 63, 64, 65, 96)
"""Numbers of matrix columns to test. A quick run uses every third of them."""


class _Linear(nn.Module):
    """A model of parallel linear layers: one for each input width, and one with ReLU for each output width."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        widths = WIDTHS[::3] if quick else WIDTHS
        self.sizes = [size for width in widths for size in ((width, 17), (64, width))]
        self.layers = nn.ModuleList(nn.Linear(*size) for size in self.sizes)

    def forward(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        results = [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]
        return (*results[::2], *(torch.relu(y) for y in results[1::2]))

    def example(self) -> tuple[torch.Tensor, ...]:
        return tuple(_rows(seed, MAX_ROWS, width) for seed, (width, _) in enumerate(self.sizes))


class _Convolution(nn.Module):
    """A model of parallel convolutions of images with 1 to 35 pixels: 1x1, 3x3, depthwise, grouped and strided."""

    IMAGES = ((1, 1), (3, 5), (4, 4), (1, 17), (5, 7))

    def __init__(self, quick: bool) -> None:
        super().__init__()
        layers = [
            nn.Conv2d(15, 17, 1),
            nn.Conv2d(64, 33, 1),
            nn.Conv2d(7, 16, 3, padding=1),
            nn.Conv2d(32, 31, 3, padding=1),
            nn.Conv2d(17, 17, 3, padding=1, groups=17),
            nn.Conv2d(33, 33, 3, padding=1, stride=2, groups=33),
            nn.Conv2d(16, 34, 3, padding=1, groups=2),
            nn.Conv2d(9, 15, 3, padding=1, stride=2),
        ]
        self.layers = nn.ModuleList(layers)
        self.channels = [layer.in_channels for layer in layers] * (1 if quick else 2)

    def forward(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        results = [self.layers[index % len(self.layers)](x) for index, x in enumerate(inputs)]
        return (*results[::2], *(torch.relu(y) for y in results[1::2]))

    def example(self) -> tuple[torch.Tensor, ...]:
        return tuple(
            _rows(index, MAX_ROWS, channels, *self.IMAGES[index % len(self.IMAGES)])
            for index, channels in enumerate(self.channels)
        )


class _Attention(nn.Module):
    """The parts of a transformer block over 1 to 40 tokens: attention without and with its output layer, and the MLP.

    The parts are parallel outputs, not a sequence: error bounds grow with each layer, and after six layers they would
    hide any error.
    """

    def __init__(self, quick: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        length = x.shape[0]
        normal = self.norm(x)
        q, k, v = (layer(normal).view(1, length, 4, 16).transpose(1, 2) for layer in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(length, 64)
        return mixed, x + self.out(mixed), self.down(nn.functional.gelu(self.up(normal)))

    def example(self) -> tuple[torch.Tensor, ...]:
        return (_rows(0, MAX_ROWS, 64),)


class _Embedding(nn.Module):
    """A model of an embedding, two linear layers and an activation."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.hidden, self.head = nn.Linear(64, 33), nn.Linear(33, 17)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.relu(self.hidden(self.words(words))))
        return result

    def example(self) -> tuple[torch.Tensor, ...]:
        return (torch.randint(0, 100, (MAX_ROWS,), generator=torch.Generator().manual_seed(0)),)


NETWORKS: dict[str, type[Any]] = {
    "linear": _Linear,
    "convolution": _Convolution,
    "attention": _Attention,
    "embedding": _Embedding,
}


def _arguments(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments for `forward` of a test network: its only input, or a single list with all inputs."""
    return (inputs[0],) if len(inputs) == 1 else (list(inputs),)


def _rows(seed: int, *shape: int) -> torch.Tensor:
    """Make random rows with different ranges of values, so that a quantizer chooses a different scale for each row."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    row = torch.arange(shape[0]).reshape([-1] + [1] * (len(shape) - 1))
    return values * (0.3 + (row % 7) / 4) + (row % 5 - 2) * 0.3


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each recipe and network, and one for the configurations of the backend."""
    if isinstance(subject.compiler, ConfigurableCompiler):
        yield Check("recipes/configurations", _configurations, seconds=240, needs_run=True)
    for recipe, details in getattr(subject.compiler, "recipes", dict)().items():
        for network in NETWORKS:
            check = _Recipe(recipe, network, details.calibrates, details.steps)
            yield Check(f"recipes/{recipe}, {network}", check, seconds=240, needs_run=True)


class _Case:
    """A compiled program with its test data.

    The test data are an `.npz` file with inputs for each row count, and the expected results with error bounds.

    Args:
        file: The path of the `.pte` file to write.
        program: The compiled program of a quantized network.
        example: Inputs of the program, with the largest number of rows.
        rows: The row counts with which the program runs.
        steps: Quantization steps by which a result may be off, as the backend declares (`RecipeSupport.steps`).
        is_rounded: True if the backend may round its inputs to a lower precision; the inputs are then chosen so that
            rounding does not change their quantized values.
    """

    def __init__(
        self,
        file: Path,
        program: Any,
        example: Sequence[torch.Tensor],
        rows: Sequence[int],
        steps: int = 0,
        is_rounded: bool = False,
    ) -> None:
        self.file = file
        self.rows = rows
        self.steps = steps
        self.quantized = program.quantized["forward"]
        self.example = on_steps(self.quantized.program, example) if is_rounded else example
        file.write_bytes(program.buffer)
        arrays = {f"{rows} {index}": tensor.numpy() for rows, index, tensor in self._inputs()}
        np.savez(file.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        self._all_rows = self._results(max(rows), by_row=True)
        self._by_tensor: dict[int, list[Bounded]] = {}

    def _inputs(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        for rows in self.rows:
            for index, tensor in enumerate(self.example):
                yield rows, index, tensor[:rows].contiguous()

    def _results(self, rows: int, by_row: bool) -> list[Bounded]:
        arguments = _arguments([tensor[:rows] for tensor in self.example])
        try:
            return bounded_eager(
                self.quantized.program, arguments, self.quantized.computes_in, by_row=by_row, steps=self.steps
            )
        except NoBound as reason:
            raise Skipped(f"the suite has {reason}") from None

    def results_by_row(self, rows: int) -> list[Bounded]:
        """Return the expected results for inputs of `rows` rows if each row has its own dynamic quantization scale.

        No row depends on a later row, so these are the first rows of the results for the largest number of rows.
        """
        return [Bounded(result.value[:rows], result.error[:rows]) for result in self._all_rows]

    def results_by_tensor(self, rows: int) -> list[Bounded] | None:
        """Return the expected results if each tensor has one dynamic scale; None if no scale is dynamic."""
        if not chooses_scales(self.quantized.program):
            return None
        if rows not in self._by_tensor:
            self._by_tensor[rows] = self._results(rows, by_row=False)
        return self._by_tensor[rows]


def on_steps(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Round each input that the program quantizes with a constant scale to the nearest multiple (step) of the scale.

    Without this, a backend that reads inputs in a lower precision may round a number between two steps to the other
    step. A difference of one step in an input then changes results by several steps.
    """
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}

    def move(name: str, value: torch.Tensor) -> torch.Tensor:
        quantize = next((user for user in nodes[name].users if user.target is _QUANTIZE), None)
        if quantize is None:
            return value
        scale, zero, *rest = quantize.args[1:]
        moved: torch.Tensor = ((_QUANTIZE(value, scale, zero, *rest).int() - zero) * scale).float()
        return moved

    return [move(str(name), value) for name, value in zip(program.graph_signature.user_inputs, inputs, strict=True)]


class _Recipe:
    def __init__(self, recipe: str, network: str, calibrates: bool, steps: int) -> None:
        self.recipe = recipe
        self.network = network
        self.calibrates = calibrates
        self.steps = steps

    def __call__(self, subject: BackendUnderTest) -> str:
        cases, sizes = self._cases(subject)
        environments, _ = configurations(subject)
        tried, not_run, share = [], list[str](), 0.0
        for name, environment in environments.items():
            try:
                share = max([share, *(self._compare(subject, case, name, environment) for case in cases)])
            except _Refused as reason:
                if not environment:
                    raise Failed(str(reason)) from None
                not_run.append(f"{name} ({reason})")
            else:
                tried.append(name)
        rows = [row for case in cases for row in case.rows]
        text = f"{sizes}; {len(rows)} numbers of rows up to {max(rows)}; the largest error is {share:.0%} of its bound"
        text += f"; a result may be off by {self.steps} of its steps, as the backend declares" if self.steps else ""
        text += f"; kernels of {', '.join(filter(None, tried))}" if any(tried) else ""
        return text + (f"; NOT RUN: {', '.join(not_run)}" if not_run else "")

    def _cases(self, subject: BackendUnderTest) -> tuple[list[_Case], str]:
        torch.manual_seed(0)
        model = NETWORKS[self.network](subject.quick).eval().requires_grad_(False)
        example = model.example()
        size = torch.export.Dim("rows", min=1, max=MAX_ROWS)
        subject.trying(f"{self.network} with quantize={self.recipe!r} and 1 to {MAX_ROWS} rows")
        program = self._compiled(subject, model, example, size)
        if delegated_calls(subject, program):
            return [self._case(subject, program, example, range(1, MAX_ROWS + 1))], "symbolic sizes"
        cases = []
        for rows in STATIC[:: 4 if subject.quick else 1]:
            subject.trying(f"{self.network} with quantize={self.recipe!r} and {rows} rows")
            program = self._compiled(subject, model, [tensor[:rows] for tensor in example])
            if delegated_calls(subject, program):
                cases.append(self._case(subject, program, example, [rows]))
        if not cases:
            raise Skipped("the backend supports no layer of this network")
        return cases, "fixed sizes"

    def _compiled(self, subject: BackendUnderTest, model: Any, inputs: Sequence[torch.Tensor], size: Any = None) -> Any:
        """Compile the model. `size` is the `torch.export.Dim` of the rows, None for fixed sizes."""
        arguments = _arguments(inputs)
        shapes = None if size is None else _arguments([{0: size} for _ in inputs])
        samples = [arguments] if self.calibrates else None
        try:
            return compiled(subject, model, arguments, quantize=self.recipe, calibration=samples, dynamic_shapes=shapes)
        except NothingToQuantize as error:
            if self.network == "linear":  # raise, do not skip: every recipe must quantize linear layers
                raise
            raise Skipped(str(error)) from None

    def _case(
        self, subject: BackendUnderTest, program: Any, example: Sequence[torch.Tensor], rows: Sequence[int]
    ) -> _Case:
        file = subject.folder / f"{self.recipe}, {self.network}, {max(rows)}.pte"
        return _Case(file, program, example, rows, self.steps, is_rounded=subject.tolerance is not None)

    def _compare(self, subject: BackendUnderTest, case: _Case, name: str, environment: Mapping[str, str]) -> float:
        """Run a program with its test data; return the maximum of error / bound; raise `Failed` if the maximum is above
        1.

        A backend may choose dynamic scales for each row or for the whole tensor; either result passes.
        """
        description = f"{self.recipe}, {self.network}" + (f", kernels of {name}" if name else "")
        arrays = run_calls(subject, case.file, case.rows, description, environment)
        largest = 0.0
        for rows in case.rows:
            for index, by_row in enumerate(case.results_by_row(rows)):
                got, want = torch.from_numpy(arrays[f"{rows} {index}"]), by_row
                where = f"{description}, {rows} rows, result {index}"
                share = _share(where, got, want)
                if float(share.max()) > 1 and (by_tensor := case.results_by_tensor(rows)) is not None:
                    want = by_tensor[index]
                    share = _share(where, got, want)
                if not float(share.max()) <= 1:
                    raise Failed(f"{where}: {_worst(got, share, want)}")
                if not bool(want.error.isfinite().all()):
                    raise Skipped(f"{where}: the bound of an element is infinite, so the check decides nothing")
                largest = max(largest, float(share.max()))
        return largest


def _configurations(subject: BackendUnderTest) -> str:
    """Report which of the backend's configurations (sets of kernels) this machine can run, and which it cannot."""
    runs, absent = configurations(subject)
    text = f"tried: {', '.join(filter(None, runs)) or 'none'}"
    return text + (f"; NOT RUN: {', '.join(absent)}" if absent else "")


class _Refused(Exception):
    """The backend does not load a file with a configuration, because this machine cannot run the configuration.

    The exception's text is the runtime's error message.
    """


def _share(where: str, got: torch.Tensor, want: Bounded) -> torch.Tensor:
    """Return error / bound of each element: 0 if both values are equal or NaN, infinity if only one is NaN."""
    if got.shape != want.value.shape or got.dtype != want.value.dtype:
        raise Failed(f"{where}: {got.dtype} {list(got.shape)} instead of {want.value.dtype} {list(want.value.shape)}")
    error = errors(want.value, got)
    share = torch.where(error > 0, error / want.error.clamp(min=1e-30), 0.0)
    return share.nan_to_num(nan=torch.inf)


def _worst(got: torch.Tensor, share: torch.Tensor, want: Bounded) -> str:
    index = tuple(int(i) for i in torch.unravel_index(share.argmax(), share.shape))
    return (
        f"{int((share > 1).sum())} of {share.numel()} values differ from quantized eager by more than rounding "
        f"explains; at {index} {float(got[index]):.6g} instead of {float(want.value[index]):.6g}, "
        f"where rounding explains {float(want.error[index]):.2g}"
    )


QUICK = 3
"""Maximum number of kernel configurations that a quick run tries."""


def configurations(subject: BackendUnderTest) -> tuple[dict[str, Mapping[str, str]], list[str]]:
    """Find the configurations (sets of kernels) of the backend that this machine can run, once per worker process.

    Returns:
        First, the environment variables that select each configuration, by its name; at most `QUICK` in a quick run.
        The name "" stands for the backend's default, without variables. Second, each configuration that this machine
        cannot run, as `name (error message)`.
    """
    if "configurations" not in subject.cache:
        declared: Mapping[str, Mapping[str, str]] = {}
        if isinstance(subject.compiler, ConfigurableCompiler):
            declared = subject.compiler.configurations()
        runs, absent = dict[str, Mapping[str, str]](), []
        file = subject.folder / "configurations.pte"
        if declared:
            file.write_bytes(delegated(subject)[-1].buffer)
        for name, environment in declared.items():
            try:
                run_calls(subject, file, [], name, environment)
            except _Refused as reason:
                absent.append(f"{name} ({reason})")
            else:
                runs[name] = environment
        names = list(runs)
        if subject.quick and len(names) > QUICK:
            names = [names[round(index * (len(names) - 1) / (QUICK - 1))] for index in range(QUICK)]
        subject.cache["configurations"] = {"": {}, **{name: runs[name] for name in names}}, absent
    cached: tuple[dict[str, Mapping[str, str]], list[str]] = subject.cache["configurations"]
    return cached


def run_calls(
    subject: BackendUnderTest, file: Path, rows: Sequence[int], description: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Run a file in a child process, once for each number of rows; see `measure.run_calls`.

    Args:
        subject: The backend under test.
        file: The `.pte` file; the inputs are in the `.npz` file with the same name.
        rows: The row counts of the inputs.
        description: Text for error messages.
        environment: Additional environment variables of the child process.

    Returns:
        The outputs. The key `"3 1"` is output 1 of the run with 3 rows.

    Raises:
        _Refused: The file does not load with these environment variables.
        Failed: The process died.
    """
    if subject.runner is not None:
        return _run_calls_remotely(subject, file, rows, description, environment)
    results_file = file.with_suffix(".results.npz")
    arguments = {
        "file": str(file),
        "results": str(results_file),
        "rows": list(rows),
        "backend_id": subject.backend_id,
        "load_options": dict(subject.load_options),
    }
    events = call("edgecore.conformance.workers.measure:run_calls", arguments, seconds=120, environment=environment)
    if errors := results(events, lambda text: subject.trying(f"{description}: {text}")):
        raise _Refused(errors[0])
    with np.load(results_file) as arrays:
        return dict(arrays)


def _run_calls_remotely(
    subject: BackendUnderTest, file: Path, rows: Sequence[int], description: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Do the same as `run_calls` with the command `subject.runner`, which makes all calls in one process."""
    subject.trying(f"{description}: {len(rows)} numbers of rows")
    inputs = dict(np.load(file.with_suffix(".npz"))) if rows else {}
    count = len(inputs) // max(len(rows), 1)
    calls = [[inputs[f"{number} {index}"] for index in range(count)] for number in rows]
    try:
        results = load(subject, file.read_bytes(), environment=environment).call_each("forward", calls)
    except LoadFailed as error:
        raise _Refused(str(error)) from None
    except ExecutionError as error:
        raise Failed(f"{description}: {error}") from error
    return {
        f"{number} {index}": tensor.numpy()
        for number, tensors in zip(rows, results, strict=True)
        for index, tensor in enumerate(tensors)
    }
