"""Compare a model on the device with PyTorch, operator by operator.

The engine runs the model on both sides. Taps, or a bisection, yield plain rows of figures, which the report shows.
"""

from edgecore.devtools.comparison.by_operator import compare
from edgecore.devtools.comparison.report import CompareReport, Culprit
from edgecore.devtools.comparison.rows import CompareRow

__all__ = ["CompareReport", "CompareRow", "Culprit", "compare"]
