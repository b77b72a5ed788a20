"""Compare a model on the device with PyTorch, operator by operator."""

from edgecore.devtools.comparison.engine import compare
from edgecore.devtools.comparison.metrics import measure
from edgecore.devtools.comparison.report import CompareReport, CompareRow

__all__ = ["CompareReport", "CompareRow", "compare", "measure"]
