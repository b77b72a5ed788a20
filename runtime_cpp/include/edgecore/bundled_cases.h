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
  // Verifies a .bpte file. The bytes must not change as long as this object is used. Errors: those that bundled_program
  // returns.
  Status open(Bytes file, const Limits &limits, Error &error);

  // Return the names of the methods that have test cases, and the number of cases of a method.
  std::vector<std::string> methods() const;
  size_t count(StringView method) const;

  // Set the inputs, and the expected outputs, of a test case; a case that only supplies inputs has no outputs. Errors:
  // NOT_FOUND (no such case), INVALID_PROGRAM (damaged), MEMORY_ALLOCATION_FAILED.
  Status inputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const;
  Status expected_outputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const;

 private:
  const void *case_at(StringView method, size_t index, Error &error) const;

  Bytes file_;
};

// Sets the inputs of a test case for the next calls of Module::execute. Errors: those that BundledCases::inputs and
// Module::set_inputs return.
Status load_bundled_input(Module &module, const BundledCases &cases, StringView method, size_t index, Error &error);

// Check the outputs of a run with the inputs of a test case. Errors: INVALID_ARGUMENT (another number of outputs, and
// the first output that check_close refuses), NOT_FOUND (no such case, or one without expected outputs), and those that
// BundledCases::expected_outputs returns.
Status verify_method_outputs(const std::vector<Value> &outputs, const BundledCases &cases, StringView method,
                             size_t index, const Tolerance &tolerance, Error &error);
Status verify_method_outputs(const Method &method, const BundledCases &cases, size_t index, const Tolerance &tolerance,
                             Error &error);

}  // namespace edgecore

#endif  // EDGECORE_BUNDLED_CASES_H_
