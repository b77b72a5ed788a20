// Compares tensors and values with expected ones, within a tolerance.
#ifndef EDGECORE_COMPARE_H_
#define EDGECORE_COMPARE_H_

#include <stdint.h>

#include "edgecore/value.h"

namespace edgecore {

// A float passes if it differs from the expected value by at most `absolute + relative * |expected|`, or if both are
// NaN or the same infinity. Integers and bools must be equal.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-5;
};

struct Difference {
  uint64_t count = 0;  // number of elements
  uint64_t wrong = 0;  // number of elements outside of the tolerance
  double max_absolute = 0;
  double max_relative = 0;  // maximum relative error, over elements whose expected value is not 0
};

// Check that a tensor or value has the expected type and shape, and elements within the tolerance. `difference`, unless
// it is NULL, receives the measured errors even if the check passes. For a list of tensors, these are the errors of the
// tensors up to the first one that fails.
// Errors: INVALID_ARGUMENT with the measured errors and the worst element, and the errors of Tensor::check.
Status check_close(const Tensor &got, const Tensor &expected, const Tolerance &tolerance, Error &error,
                   Difference *difference = nullptr);
Status check_close(const Value &got, const Value &expected, const Tolerance &tolerance, Error &error,
                   Difference *difference = nullptr);

}  // namespace edgecore

#endif  // EDGECORE_COMPARE_H_
