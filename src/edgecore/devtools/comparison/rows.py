"""The rows of a comparison with PyTorch: plain data about operators, outputs and conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

import torch

from edgecore.devtools.comparison.eager import Group
from edgecore.devtools.comparison.judgement import Judgement
from edgecore.devtools.comparison.sites import Site
from edgecore.numerics.metrics import Difference


@dataclass(frozen=True)
class CompareRow:
    """Figures of the worst sample for one operator, or for several operators that the backend fuses into one.

    Attributes:
        site: The place of the value in the graph.
        group: The nodes that compute the value.
        dtype: The dtype of the value.
        shape: The shape of the value.
        accumulated: The error since the model's inputs, against PyTorch (quantized, if the model was quantized).
        local: The error of this operator alone, against PyTorch on the inputs that the operator had on the device.
        judgement: The local error relative to its limit.
        of_quantized: The SQNR of quantized PyTorch against the float model; None if the model was not quantized.
        of_device: The SQNR of the device against the float model; None if the model was not quantized.
    """

    site: Site
    group: Group
    dtype: torch.dtype
    shape: tuple[int, ...]
    accumulated: Difference
    local: Difference
    judgement: Judgement
    of_quantized: float | None = None
    of_device: float | None = None

    @property
    def module(self) -> str:
        """The qualified name of the operator's module, such as `features.3.conv`."""
        return self.group.module

    @property
    def operator(self) -> str:
        """The names of the operators that the row stands for, such as `convolution + relu`."""
        return self.group.operator

    @property
    def source(self) -> str:
        """The line of the model's source that calls the operator, such as `/home/me/net.py:12`; empty if unknown."""
        return self.group.source

    @property
    def backend(self) -> str:
        """The id of the backend that ran the operator; `edgecore` for edgecore's own kernels."""
        return self.site.backend or "edgecore"

    @property
    def wrong(self) -> bool:
        """True if the operator's own error on the device is larger than rounding explains."""
        return self.judgement.ratio > 1

    def worst_of(self, other: CompareRow) -> CompareRow:
        """Merge the rows of one operator for two samples: return a row with the worse figures of both."""
        local = max(self, other, key=lambda row: (row.judgement.ratio, -row.local.sqnr))
        return replace(
            local,
            accumulated=min(self.accumulated, other.accumulated, key=lambda gap: gap.sqnr),
            of_quantized=_lower(self.of_quantized, other.of_quantized),
            of_device=_lower(self.of_device, other.of_device),
        )

    def __str__(self) -> str:
        module = f"{self.module}: " if self.module else ""
        place = f" ({short_source(self.source)})" if self.source else ""
        reason = f": {self.judgement.why}" if self.wrong else f": {self.local}"
        return f"{module}{self.operator}{place} on {self.backend}{reason}"


@dataclass(frozen=True)
class CompareOutput:
    """Errors of one output of the model in the worst sample.

    Attributes:
        index: The number of the output.
        own: Error of the device against the edge program in PyTorch.
        of_device: Error of the device against the float model.
        of_reference: Error of the edge program in PyTorch against the float model.
        lowering: The error that lowering caused, as a sentence fragment; empty if none.
    """

    index: int
    own: Difference
    of_device: Difference
    of_reference: Difference
    lowering: str = ""

    def worst_of(self, other: CompareOutput) -> CompareOutput:
        """Return an output with the larger errors of two samples."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("own", "of_device", "of_reference"))
        own, of_device, of_reference = (min(pair, key=lambda gap: gap.sqnr) for pair in pairs)
        return CompareOutput(self.index, own, of_device, of_reference, other.lowering or self.lowering)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a comparison: the backends, the samples, and the way in which values were read.

    Attributes:
        backends: The names of the backends.
        quantized: True if the model was quantized.
        samples: The number of samples.
        origin: The source of the samples: `inputs`, `calibration` or `example`.
        cut: True if the program was cut into parts, because taps returned no values or the caller of `compare`
            requested it.
        sites: The number of values that could be compared.
        programs: The number of tapped programs.
        left_out: The number of values without a row, because a program that taps them has other outputs or does not
            compile.
        lowering: The error that lowering caused, as a sentence fragment; empty if none.
        device: The device that ran the programs, such as "ssh:pi@host"; empty for this machine.
    """

    backends: tuple[str, ...]
    quantized: bool
    samples: int
    origin: str
    cut: bool
    sites: int
    programs: int
    left_out: int
    lowering: str
    device: str = ""

    @property
    def way(self) -> str:
        """A sentence that says how the values were read from the device, and which operators therefore have no row."""
        if self.cut:
            return "the program was cut instead of tapped: only the operator that was searched for has a row"
        if not self.sites:
            return "no value inside of the program can be seen"
        if not self.programs:
            return "only outputs of the program are seen, not values inside of it"
        programs = "1 program" if self.programs == 1 else f"{self.programs} programs"
        text = f"taps in {programs} changed nothing: the outputs are bit-equal with and without them"
        if self.left_out:
            text += f"; {self.left_out} of {self.sites} values have no row, because taps on them change what they show"
        return text


def short_source(source: str) -> str:
    """Shorten a source line to the name of its file: `net.py:12`."""
    return PurePath(source).name


def _lower(first: float | None, second: float | None) -> float | None:
    return min((value for value in (first, second) if value is not None), default=None)
