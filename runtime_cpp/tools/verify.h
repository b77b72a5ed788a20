// Checks a program with the test cases in its .bpte file, for `edgecore-run --verify`.
#ifndef EDGECORE_TOOLS_VERIFY_H_
#define EDGECORE_TOOLS_VERIFY_H_

#include "edgecore/bundled_cases.h"

namespace edgecore::tools {

// Runs the test cases of all methods, or of one method, in the .bpte file at `path`. Prints a line for each output. The
// same file must be open in `module`. Errors: as BundledCases::open, NOT_FOUND (no test case), and INVALID_STATE if a
// case has failed.
Status verify(Module &module, const char *path, const char *method, const Tolerance &tolerance, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_VERIFY_H_
