"""Remove nodes and constants on which no result depends."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore.ir.graph import edit
from edgecore.ir.program.constants import Constants


def remove_dead_code(program: ExportedProgram) -> ExportedProgram:
    """Remove calls without users, including those in branches and loop bodies, and constants that nothing reads.

    In-place operators and inputs stay.
    """
    with edit(program):
        pass  # the end of an `edit` block removes unused calls
    Constants(program).drop_unused()
    return program
