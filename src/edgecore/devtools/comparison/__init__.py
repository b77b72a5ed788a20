"""Compare a model on the device with PyTorch, operator by operator.

`Engine` runs the model on the device and in PyTorch. Taps (additional outputs that show inner values), or a bisection,
yield rows of figures, which the report shows.
"""

from edgecore.devtools.comparison.by_operator import compare
from edgecore.devtools.comparison.report import CompareReport, Culprit
from edgecore.devtools.comparison.rows import CompareRow

__all__ = ["CompareReport", "CompareRow", "Culprit", "compare"]
