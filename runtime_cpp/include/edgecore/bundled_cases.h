// The test cases of a .bpte file, for programs that check models on a device.
#ifndef EDGECORE_BUNDLED_CASES_H_
#define EDGECORE_BUNDLED_CASES_H_

#include <string>
#include <vector>

#include "edgecore/bundled.h"
#include "edgecore/compare.h"
#include "edgecore/module.h"

namespace edgecore {

class BundledCases {
 public:
  // Verifies a .bpte file. The bytes must not change as long as this object is used. Errors: as bundled_program.
  Status open(Bytes file, const Limits &limits, Error &error);

  // Return the names of the methods that have test cases, and the number of cases of a method.
  std::vector<std::string> methods() const;
  size_t count(StringView method) const;

  // Set `values` to the inputs, or to the expected outputs, of a test case; the outputs are empty for a case that
  // supplies only inputs. Errors: NOT_FOUND (no such case), INVALID_PROGRAM (damaged), MEMORY_ALLOCATION_FAILED.
  Status inputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const;
  Status expected_outputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const;

 private:
  const void *case_at(StringView method, size_t index, Error &error) const;

  Bytes file_;
};

// Sets the inputs of a test case for the next calls of Module::execute. Errors: as BundledCases::inputs and
// Module::set_inputs.
Status load_bundled_input(Module &module, const BundledCases &cases, StringView method, size_t index, Error &error);

// Compares the outputs of a run with the expected outputs of a test case. The run must have had the inputs of the same
// case. Errors: INVALID_ARGUMENT (a different number of outputs, or an output outside of the tolerance), NOT_FOUND (no
// such case, or no expected outputs), and the errors of BundledCases::expected_outputs.
Status verify_method_outputs(const std::vector<Value> &outputs, const BundledCases &cases, StringView method,
                             size_t index, const Tolerance &tolerance, Error &error);
Status verify_method_outputs(const Method &method, const BundledCases &cases, size_t index, const Tolerance &tolerance,
                             Error &error);

}  // namespace edgecore

#endif  // EDGECORE_BUNDLED_CASES_H_
