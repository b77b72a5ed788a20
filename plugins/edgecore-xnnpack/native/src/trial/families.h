// Every kind of kernel that the delegate can use, run on small shapes and compared with a reference that is computed in
// double precision from the definition of the operation.
//
// The reference knows nothing of XNNPACK's way to compute. Where rounding is part of the result, inputs are chosen so
// that it is exact (dynamic quantization: rows of whole steps), or the comparison says by how much it may differ.
#ifndef EDGECORE_XNNPACK_TRIAL_FAMILIES_H_
#define EDGECORE_XNNPACK_TRIAL_FAMILIES_H_

#include <string>
#include <vector>

#include "trial/net.h"

namespace edgecore::xnnpack::trial {

enum class Extent {
  kShort,  // of a user's machine: all families in a second
  kQuick,  // of every test run
  kFull,
};

// What one family gave.
struct Outcome {
  std::string family;
  uint64_t cases = 0;  // shapes that were run
  uint64_t wrong = 0;
  std::string first;         // the first that was wrong: shape, element, number, reference
  bool unsupported = false;  // XNNPACK has no such kernels for this processor
};

// Collects what a family does.
class Trial {
 public:
  explicit Trial(Extent size) : extent(size) {}

  const Extent extent;
  Outcome outcome;

  // Deterministic numbers. Uniform: in [low, high). Whole: in [low, high].
  double uniform(double low, double high);
  int uniform_int(int low, int high);
  std::vector<double> uniforms(size_t count, double low, double high);

  // Compares an output with `expected`, each within `allowed`. NaN must be NaN, and infinities themselves.
  void compare(const std::string &shape, const Tensor &got, const std::vector<double> &expected,
               const std::vector<double> &allowed);
  // The same with one bound for all, in steps of a quantized output's scale.
  void compare_steps(const std::string &shape, const Tensor &got, const std::vector<double> &expected, double steps);
  // The graph did not build or run: unsupported hardware for the family, or wrong.
  void refused(const std::string &shape, xnn_status status);
  void wrong(const std::string &text);

 private:
  uint64_t state_ = 1;
};

struct Family {
  std::string name;
  void (*run)(Trial *trial);
};

// Adds a family for each type of an operation: "NAME f32", "NAME f16", "NAME int8" and "NAME uint8".
void add_each_type(const std::string &name, decltype(Family::run) f32, decltype(Family::run) f16,
                   decltype(Family::run) int8, decltype(Family::run) uint8, std::vector<Family> *families);

// All of them, of the files of this folder.
std::vector<Family> families();
std::vector<Family> matrix_families();
std::vector<Family> convolution_families();
std::vector<Family> elementwise_families();
std::vector<Family> binary_families();
std::vector<Family> movement_families();
std::vector<Family> pooling_families();

Outcome run(const Family &family, Extent extent);

// All of them, a line each: "NAME\tright\t12 cases\n", or "wrong" with the first that was, or "none".
std::string lines(Extent extent);

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_FAMILIES_H_
