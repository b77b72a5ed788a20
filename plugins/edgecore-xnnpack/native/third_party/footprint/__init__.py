"""The bytes that a micro-kernel of XNNPACK touches, found by running the arithmetic of its addresses alone.

A kernel's C source is read (`source`), whatever computes values is left out, and what computes addresses, masks and
conditions becomes a Python function (`values`, `writer`). It runs on addresses without memory behind them (`memory`);
each access is noted by buffer. So a kernel of any instruction set is examined on any machine, and no range is guessed
from a vector's width. `calls` has the arguments that XNNPACK's operators give. What the source does that is not
understood raises `NotUnderstood`: nothing is passed over in silence.
"""
