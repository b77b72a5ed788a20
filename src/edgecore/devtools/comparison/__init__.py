"""Compare a model on the device with PyTorch, operator by operator.

An engine runs the model on both sides; taps or a bisection yield rows, plain data; the report shows them.
"""

from edgecore.devtools.comparison.by_operator import compare
from edgecore.devtools.comparison.report import CompareReport, Culprit
from edgecore.devtools.comparison.rows import CompareRow

__all__ = ["CompareReport", "CompareRow", "Culprit", "compare"]
