"""Compare two files: sizes, signature, placement of operators, weights, memory and time."""

from edgecore.devtools.file_diff.files import Diff, diff
from edgecore.devtools.file_diff.time import FEWEST, NOTICEABLE, difference, measured_runs

__all__ = ["FEWEST", "NOTICEABLE", "Diff", "diff", "difference", "measured_runs"]
