"""The numerical engine: error metrics and limits, graphs run node by node, the rounding model and its error bounds.

`compile --compare`, `compare`, `conformance` and the quantization report all measure with it, so that they agree.
"""
