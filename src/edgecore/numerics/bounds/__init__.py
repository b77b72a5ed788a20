"""Error bounds for quantized programs: run the program in eager PyTorch, and compute an error bound with each value.

The bound is the largest difference that two correct implementations may have. Such implementations differ only where
they round.

A sum of K products in floating point has an error of up to K units in the last place of its terms (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1). This error is tiny, but quantization can enlarge it. Quantization
rounds the sum to a step, a multiple of the scale. If the sum is nearly in the middle between two steps, implementations
may round it to different steps, and then the results differ by a whole step. So each quantization is computed at both
ends of the interval that contains its input. Nearly always both ends give the same step, and the error is 0; otherwise
the error is one step. The following layers multiply errors by the magnitudes of their weights.

In float32 the bounds are strict: the errors of all terms of a sum are assumed to have the same sign. In float16 strict
bounds would be larger than the results after three layers. There an error is a root mean square instead: rounding
errors are assumed to be independent and of random sign, so the squares of the errors of a sum's terms add up. Terms
that share an error, such as the error of a layer norm's mean, are not independent. But the networks of the conformance
suite multiply them by random weights, whose signs differ, so the squares add up there, too. The bound of a result is
then `CONFIDENCE` times its error.
"""

from edgecore.numerics.bounds.evaluate import bounded_eager
from edgecore.numerics.bounds.model import Bounded, NoBound

__all__ = ["Bounded", "NoBound", "bounded_eager"]
