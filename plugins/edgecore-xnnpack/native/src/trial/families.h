// Trials (tests) of XNNPACK's kernels. They run, on small shapes, every kind of kernel that the delegate can use, and
// compare the results with a reference that is computed in double precision from the definition of the operation. A
// family is an operation with the types of its inputs and outputs.
//
// The reference does not imitate XNNPACK's computation. Where a kernel rounds, either the inputs are chosen so that the
// rounding is exact (with dynamic quantization, every element is an integer multiple of its row's scale), or the
// comparison allows an error, whose bound is derived in a comment.
#ifndef EDGECORE_XNNPACK_TRIAL_FAMILIES_H_
#define EDGECORE_XNNPACK_TRIAL_FAMILIES_H_

#include <string>
#include <vector>

#include "trial/test_graph.h"

namespace edgecore::xnnpack::trial {

enum class Extent {
  kShort,  // few shapes, for `edgecore doctor`: tests all families in a second
  kQuick,  // more shapes than kShort, for every run of the test suite
  kFull,   // every shape: takes minutes
};

// The result of the tests of one family (an operation with the types of its inputs and outputs).
struct Outcome {
  std::string family;
  uint64_t cases = 0;  // number of shapes that were run
  uint64_t errors = 0;
  std::string first_error;   // description of the first error: shape, index of the element, wrong number, reference
  bool unsupported = false;  // true if XNNPACK has no such kernels for this processor
};

// The running test of one family: draws random inputs, compares results with the reference, and records cases and
// errors in `outcome`.
class Trial {
 public:
  explicit Trial(Extent trial_extent) : extent(trial_extent) {}

  const Extent extent;
  Outcome outcome;

  // Draw pseudo-random numbers: reals from [low, high), integers from [low, high]. Every run of the program draws the
  // same numbers.
  double uniform(double low, double high);
  int uniform_int(int low, int high);
  std::vector<double> uniforms(size_t count, double low, double high);

  // Compares each element of an output with `expected`; the difference may be at most `allowed`, which has an entry per
  // element. Infinities must be equal, and the result must be NaN if the reference is NaN.
  void compare(const std::string &shape, const Tensor &got, const std::vector<double> &expected,
               const std::vector<double> &allowed);
  // Compares a quantized output with `expected`, limited to the numbers that the type can represent. `steps` is the
  // allowed difference in multiples of the output's scale.
  void compare_steps(const std::string &shape, const Tensor &got, const std::vector<double> &expected, double steps);
  // Records why XNNPACK could not run a graph. `status` tells if it has no such kernels for this processor, or failed.
  void add_failure(const std::string &shape, xnn_status status);
  void add_error(const std::string &text);

 private:
  uint64_t state_ = 1;
};

struct Family {
  std::string name;
  void (*run)(Trial *trial);
};

// Adds four kernel tests of an operation to `families`: "NAME f32", "NAME f16", "NAME int8" and "NAME uint8".
void add_each_type(const std::string &name, decltype(Family::run) f32, decltype(Family::run) f16,
                   decltype(Family::run) int8, decltype(Family::run) uint8, std::vector<Family> *families);

// families() returns all families of kernels. Each of the other functions returns the families that one file in this
// folder tests.
std::vector<Family> families();
std::vector<Family> matrix_families();
std::vector<Family> convolution_families();
std::vector<Family> elementwise_families();
std::vector<Family> binary_families();
std::vector<Family> movement_families();
std::vector<Family> pooling_families();
std::vector<Family> sum_families();

Outcome run(const Family &family, Extent extent);

// Tests all families. Returns a line for each: "NAME\tright\t12 cases\n", "NAME\twrong\tFIRST ERROR\n", or
// "NAME\tnone\t0 cases\n" if XNNPACK has no such kernels for this processor.
std::string run_all(Extent extent);

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_FAMILIES_H_
