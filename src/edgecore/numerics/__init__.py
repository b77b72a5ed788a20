"""The numerical engine: error metrics and limits, node-by-node evaluation, the rounding model and its error bounds.

`compile --compare`, `compare`, `conformance` and the quantization report all use it, so that their verdicts agree.
"""
