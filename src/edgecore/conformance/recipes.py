"""The backend's quantization recipes: every row of their results against quantized eager, over numbers of rows and widths
around the edges of tiles, with each set of kernels that this processor can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from edgecore.conformance.bounds import Bounded, bounded_eager
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.networks import delegated
from edgecore.conformance.process import call, results
from edgecore.conformance.programs import compiled, delegated_calls
from edgecore.plugin import ConfigurableCompiler
from edgecore.quantize.rounding import chooses_scales

MOST = 40
"""Rows: beyond twice the tallest tile of the kernels that we know, 16."""
STATIC = (1, 2, 3, 7, 8, 9, 14, 15, 16, 17, 31, 33, MOST)
"""Numbers of rows for a backend that takes no symbolic sizes."""
WIDTHS = (1, 2, 15, 16, 7, 8, 17, 9, 31, 33, 32, 63, 64, 65, 96)
"""Every third one for `quick`."""


class _Linear(nn.Module):
    """A linear layer for each input width, and one with an activation for each output width."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        widths = WIDTHS[::3] if quick else WIDTHS
        self.sizes = [size for width in widths for size in ((width, 17), (64, width))]
        self.layers = nn.ModuleList(nn.Linear(*size) for size in self.sizes)

    def forward(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        made = [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]
        return (*made[::2], *(torch.relu(one) for one in made[1::2]))

    def example(self) -> tuple[torch.Tensor, ...]:
        return tuple(_rows(seed, MOST, width) for seed, (width, _) in enumerate(self.sizes))


class _Convolution(nn.Module):
    """Convolutions of images of 1 to 35 pixels: of single pixels, of neighbours, by channel, in groups, with strides."""

    IMAGES = ((1, 1), (3, 5), (4, 4), (1, 17), (5, 7))

    def __init__(self, quick: bool) -> None:
        super().__init__()
        layers = [
            nn.Conv2d(15, 17, 1), nn.Conv2d(64, 33, 1), nn.Conv2d(7, 16, 3, padding=1), nn.Conv2d(32, 31, 3, padding=1),
            nn.Conv2d(17, 17, 3, padding=1, groups=17), nn.Conv2d(33, 33, 3, padding=1, stride=2, groups=33),
            nn.Conv2d(16, 34, 3, padding=1, groups=2), nn.Conv2d(9, 15, 3, padding=1, stride=2),
        ]  # fmt: skip
        self.layers = nn.ModuleList(layers)
        self.channels = [layer.in_channels for layer in layers] * (1 if quick else 2)

    def forward(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        made = [self.layers[index % len(self.layers)](x) for index, x in enumerate(inputs)]
        return (*made[::2], *(torch.relu(one) for one in made[1::2]))

    def example(self) -> tuple[torch.Tensor, ...]:
        return tuple(
            _rows(index, MOST, channels, *self.IMAGES[index % len(self.IMAGES)])
            for index, channels in enumerate(self.channels)
        )


class _Attention(nn.Module):
    """The halves of a transformer's block over 1 to 40 words: attention, also before its last layer, and two layers.

    They stand side by side: bounds grow with each layer, and after six layers in a row they would explain any error.
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
        return (_rows(0, MOST, 64),)


class _Embedding(nn.Module):
    """Words, two layers and an activation."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.hidden, self.head = nn.Linear(64, 33), nn.Linear(33, 17)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(torch.relu(self.hidden(self.words(words))))
        return made

    def example(self) -> tuple[torch.Tensor, ...]:
        return (torch.randint(0, 100, (MOST,), generator=torch.Generator().manual_seed(0)),)


NETWORKS: dict[str, type[Any]] = {
    "linear": _Linear, "convolution": _Convolution, "attention": _Attention, "embedding": _Embedding,
}  # fmt: skip


def _arguments(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """One input, or a list of several."""
    return (inputs[0],) if len(inputs) == 1 else (list(inputs),)


def _rows(seed: int, *shape: int) -> torch.Tensor:
    """Random numbers; rows have ranges of their own, and with them scales and zero points."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    row = torch.arange(shape[0]).reshape([-1] + [1] * (len(shape) - 1))
    return values * (0.3 + (row % 7) / 4) + (row % 5 - 2) * 0.3


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for each recipe and network, and one for the configurations of the backend."""
    if isinstance(subject.compiler, ConfigurableCompiler):
        yield Check("recipes/configurations", _configurations, seconds=240, needs_run=True)
    for recipe, details in getattr(subject.compiler, "recipes", dict)().items():
        for network in NETWORKS:
            check = _Recipe(recipe, network, getattr(details, "calibrates", False))
            yield Check(f"recipes/{recipe}, {network}", check, seconds=240, needs_run=True)


class _Case:
    """A compiled file, its inputs for each number of rows in a file beside it, and what it may give for them."""

    def __init__(self, file: Path, program: Any, example: Sequence[torch.Tensor], rows: Sequence[int]) -> None:
        self.file = file
        self.rows = rows
        self.quantized = program.quantized["forward"]
        self.example = example
        file.write_bytes(program.buffer)
        arrays = {f"{rows} {index}": one.numpy() for rows, index, one in self._inputs()}
        np.savez(file.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        self._longest = self._results(max(rows), by_row=True)
        self._others: dict[int, list[Bounded]] = {}

    def _inputs(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        for rows in self.rows:
            for index, one in enumerate(self.example):
                yield rows, index, one[:rows].contiguous()

    def _results(self, rows: int, by_row: bool) -> list[Bounded]:
        given = _arguments([one[:rows] for one in self.example])
        return bounded_eager(self.quantized.program, given, self.quantized.computes_in, by_row=by_row)

    def results(self, rows: int) -> list[Bounded]:
        """Results with scales found at run time for each row: no row depends on a later one."""
        return [Bounded(one.value[:rows], one.error[:rows]) for one in self._longest]

    def others(self, rows: int) -> list[Bounded] | None:
        """Those with scales of tensors, where the program has such; None if it has not."""
        if not chooses_scales(self.quantized.program):
            return None
        if rows not in self._others:
            self._others[rows] = self._results(rows, by_row=False)
        return self._others[rows]


class _Recipe:
    def __init__(self, recipe: str, network: str, calibrates: bool) -> None:
        self.recipe = recipe
        self.network = network
        self.calibrates = calibrates

    def __call__(self, subject: BackendUnderTest) -> str:
        cases, taken = self._cases(subject)
        environments, _ = configurations(subject)
        run, refused, share = [], list[str](), 0.0
        for name, environment in environments.items():
            try:
                share = max([share, *(self._compare(subject, case, name, environment) for case in cases)])
            except _Refused as reason:
                if not environment:
                    raise Failed(str(reason)) from None
                refused.append(f"{name} ({reason})")
            else:
                run.append(name)
        rows = [row for case in cases for row in case.rows]
        told = f"{taken}; {len(rows)} numbers of rows up to {max(rows)}; the largest error is {share:.0%} of its bound"
        told += f"; kernels of {', '.join(filter(None, run))}" if any(run) else ""
        return told + (f"; NOT RUN: {', '.join(refused)}" if refused else "")

    def _cases(self, subject: BackendUnderTest) -> tuple[list[_Case], str]:
        torch.manual_seed(0)
        model = NETWORKS[self.network](subject.quick).eval().requires_grad_(False)
        example = model.example()
        size = torch.export.Dim("rows", min=1, max=MOST)
        subject.trying(f"{self.network} with quantize={self.recipe!r} and 1 to {MOST} rows")
        program = self._compiled(subject, model, example, size)
        if delegated_calls(subject, program):
            return [_Case(self._file(subject, MOST), program, example, range(1, MOST + 1))], "symbolic sizes"
        cases = []
        for rows in STATIC[:: 4 if subject.quick else 1]:
            subject.trying(f"{self.network} with quantize={self.recipe!r} and {rows} rows")
            program = self._compiled(subject, model, [one[:rows] for one in example])
            if delegated_calls(subject, program):
                cases.append(_Case(self._file(subject, rows), program, example, [rows]))
        if not cases:
            raise Skipped("the backend takes no layer of this network")
        return cases, "fixed sizes"

    def _compiled(self, subject: BackendUnderTest, model: Any, inputs: Sequence[torch.Tensor], size: Any = None) -> Any:
        """`size`: a symbolic one for the rows."""
        given = _arguments(inputs)
        shapes = None if size is None else _arguments([{0: size} for _ in inputs])
        samples = [given] if self.calibrates else None
        return compiled(subject, model, given, quantize=self.recipe, calibration=samples, dynamic_shapes=shapes)

    def _file(self, subject: BackendUnderTest, rows: int) -> Path:
        return subject.folder / f"{self.recipe}, {self.network}, {rows}.pte"

    def _compare(self, subject: BackendUnderTest, case: _Case, name: str, environment: Mapping[str, str]) -> float:
        """The largest error as a part of its bound. Raises `Failed` for one beyond it."""
        what = f"{self.recipe}, {self.network}" + (f", kernels of {name}" if name else "")
        made = run_calls(subject, case.file, case.rows, what, environment)
        largest = 0.0
        for rows in case.rows:
            for index, by_row in enumerate(case.results(rows)):
                got, want, where = (
                    torch.from_numpy(made[f"{rows} {index}"]),
                    by_row,
                    f"{what}, {rows} rows, result {index}",
                )
                share = _share(where, got, want)
                if float(share.max()) > 1 and (others := case.others(rows)) is not None:
                    want = others[index]
                    share = _share(where, got, want)
                if not float(share.max()) <= 1:
                    raise Failed(f"{where}: {_worst(got, share, want)}")
                largest = max(largest, float(share.max()))
        return largest


def _configurations(subject: BackendUnderTest) -> str:
    """Which of them this machine can run."""
    runs, absent = configurations(subject)
    told = f"tried: {', '.join(filter(None, runs)) or 'none'}"
    return told + (f"; NOT RUN: {', '.join(absent)}" if absent else "")


class _Refused(Exception):
    """The file does not load in this environment: the sentence."""


def _share(what: str, got: torch.Tensor, want: Bounded) -> torch.Tensor:
    """Errors as parts of their bounds."""
    if got.shape != want.value.shape or got.dtype != want.value.dtype:
        raise Failed(f"{what}: {got.dtype} {list(got.shape)} instead of {want.value.dtype} {list(want.value.shape)}")
    error = (got.double() - want.value.double()).abs()
    share = torch.where(error == 0, 0.0, error / want.error.clamp(min=1e-30))
    return share.nan_to_num(nan=torch.inf)


def _worst(got: torch.Tensor, share: torch.Tensor, want: Bounded) -> str:
    place = tuple(int(index) for index in torch.unravel_index(share.argmax(), share.shape))
    return (
        f"{int((share > 1).sum())} of {share.numel()} values differ from quantized eager by more than roundings explain; "
        f"at {place} {float(got[place]):.6g} instead of {float(want.value[place]):.6g}, "
        f"where {float(want.error[place]):.2g} is explained"
    )


QUICK = 3


def configurations(subject: BackendUnderTest) -> tuple[dict[str, Mapping[str, str]], list[str]]:
    """Environments by name, this one named by nothing, and those that this machine cannot run, each with the reason.

    With `quick` three of those that it can run, spread over their order.
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
    found: tuple[dict[str, Mapping[str, str]], list[str]] = subject.cache["configurations"]
    return found


def run_calls(
    subject: BackendUnderTest, file: Path, rows: Sequence[int], what: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Results by number of rows and index, of a process with this environment. Raises `_Refused` or `Failed`."""
    done = file.with_suffix(".results.npz")
    arguments = {
        "file": str(file),
        "results": str(done),
        "rows": list(rows),
        "backend_id": subject.backend_id,
        "load_options": dict(subject.load_options),
    }
    events = call("edgecore.conformance.measure:run_calls", arguments, seconds=120, environment=environment)
    if refused := results(events, lambda text: subject.trying(f"{what}: {text}")):
        raise _Refused(refused[0])
    with np.load(done) as made:
        return dict(made)
