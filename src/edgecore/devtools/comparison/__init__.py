"""Compare a model on the device with PyTorch, operator by operator.

`Engine` runs the model on the device and in PyTorch. Inner values are read by taps (additional outputs) or by a
bisection. The report shows a row of figures for each.
"""

from edgecore.devtools.comparison.by_operator import compare
from edgecore.devtools.comparison.report import CompareReport, Culprit
from edgecore.devtools.comparison.rows import CompareRow

__all__ = ["CompareReport", "CompareRow", "Culprit", "compare"]
