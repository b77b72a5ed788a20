"""Compare a model on the device with PyTorch, operator by operator.

`Engine` runs the model on the device and in PyTorch. Taps (additional outputs) or a bisection read
the values inside the model. The report shows a row of figures for each value.
"""

from edgecore.devtools.comparison.by_operator import compare
from edgecore.devtools.comparison.report import CompareReport, Culprit
from edgecore.devtools.comparison.rows import CompareRow

__all__ = ["CompareReport", "CompareRow", "Culprit", "compare"]
