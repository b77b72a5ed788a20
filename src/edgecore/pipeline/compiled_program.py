"""The result of `edgecore.compile`: a program in memory, its delegation report, and its comparison with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from edgecore.backend import Backend
from edgecore.pipeline.compare import Comparison, Reference, compare
from edgecore.pipeline.finished_program import FinishedProgram
from edgecore.quantize import Quantized, layer_qualities, warn_of_losses

if TYPE_CHECKING:
    from edgecore.executorch.devtools.etrecord.record import ETRecord
    from edgecore.pipeline.report import DelegationReport

Model = torch.nn.Module | ExportedProgram


class CompiledProgram(FinishedProgram):
    """The program that `edgecore.compile` returns, in memory; `save` writes it to a file.

    Attributes:
        seconds: The time for lowering and making the file, without export and quantization, in seconds.
        quantized: Method name -> the program before and after quantization; empty without `quantize`.
        backends: The backends with their options, including those that the recipes require.
    """

    def __init__(
        self,
        finished: FinishedProgram,
        seconds: float,
        quantized: Mapping[str, Quantized],
        references: Mapping[str, Reference],
        backends: Sequence[Backend],
        unheld: Sequence[str] = (),
    ) -> None:
        vars(self).update(vars(finished))
        self._report = replace(self._report, unheld=list(unheld))
        self._etrecord: ETRecord | None = None
        self.seconds = seconds
        self.quantized = quantized
        self.backends = list(backends)
        self._references = references

    def get_etrecord(self) -> ETRecord:
        """Return the record for ExecuTorch's developer tools.

        Raises:
            CompileError: The model was not compiled with `generate_etrecord=True`.

        Example:
            >>> program.get_etrecord().save("model.etrecord")
        """
        from edgecore.executorch.devtools.etrecord.record import ETRecord, present_record

        if self._etrecord is None and self.kept is not None:
            self._etrecord = ETRecord(self.kept.exported, self.kept.edge)
            self._etrecord.add_executorch_program(self)
        return present_record(self._etrecord)

    @property
    def computes_in(self) -> str:
        """The dtype in which the backends compute floating-point values: "float32" or "float16"."""
        return next(iter(self._references.values())).computes_in

    @property
    def steps(self) -> int:
        """The error, in quantization steps, that all recipes allow in an operator's result (`RecipeSupport.steps`)."""
        return next(iter(self._references.values())).steps

    def report(self, *, quantization: bool = False) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Args:
            quantization: True to add the loss of each layer of a quantized program: the SQNR in dB, measured on the
                first calibration sample, or on the example inputs without calibration. The first such call runs the
                model twice in eager mode.

        Raises:
            CompileError: The quantized program has neither a calibration sample nor example inputs.

        Example:
            >>> print(program.report(quantization=True))
        """
        if quantization and self._report.quantization is None:
            qualities = [layer_qualities(program, name) for name, program in self.quantized.items()]
            rows = sorted((row for rows in qualities for row in rows), key=lambda row: row.sqnr)
            self._report = replace(self._report, quantization=rows)
        return self._report

    def compare(
        self, model: Model | Mapping[str, Model], inputs: Any = None, *, tolerance: float | None = None
    ) -> Comparison:
        """Run the program on this machine and `model` in eager mode, and compare their outputs.

        For a program that a recipe quantized, each output has two differences: from `model` (the error of the recipe
        and of the runtime), and from the quantized program in PyTorch (the error of the runtime alone).

        `Comparison.ok` is True if the runtime's error stays within a bound for every output. In float32 the bound is
        1e-3 of the output's largest magnitude, which allows for summing in another order. The bound may be larger if
        the program rounds values, or if a backend declares that it computes in fp16 or that its integers may differ by
        some steps. It is then at least three times the change that noise of the size of these errors causes in eager
        mode (`edgecore.numerics.rounding.perturbed_eager`).

        Args:
            model: The model that was compiled: a module in eval mode, an ExportedProgram, or a mapping from names of
                methods to these.
            inputs: A tuple with one entry per argument, a tensor, or a list of these for several consecutive calls; for
                several methods a mapping by name. By default the example inputs; three times in a row if the program
                has state.
            tolerance: Another bound: the largest error of the runtime, relative to the largest magnitude of an output.
                Needed for a backend that computes in lower precision without declaring it.

        Returns:
            The comparison, for printing: a row for each output, the worst first, with its errors (relative to the
            largest magnitude, and as SQNR in dB). `ok` and `verdict` summarize the rows.

        Raises:
            BackendError: A backend that the program needs cannot run on this machine.
            CompileError: `model` or `inputs` do not match the program.
            ExecutionError: The program fails.

        Example:
            >>> assert program.compare(model).ok
        """
        comparison = compare(self, model, inputs, self._references, tolerance)
        ratios = {f"{row.method}, output {row.output}": row.eager.sqnr for row in comparison.rows if row.quantized}
        warn_of_losses(ratios, stacklevel=2)
        return comparison
