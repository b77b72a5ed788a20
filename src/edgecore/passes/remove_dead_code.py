"""What no result depends on goes away."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore.ir.constants import Constants
from edgecore.ir.graph import edit


def remove_dead_code(program: ExportedProgram) -> ExportedProgram:
    """Drop calls without users, those in branches and loop bodies too, and constants that nothing reads. In-place
    operators and inputs stay.
    """
    with edit(program):
        pass  # the end of every edit removes unused calls
    Constants(program).drop_unused()
    return program
