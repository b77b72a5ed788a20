// Inputs and outputs of methods as files and text.
#ifndef EDGECORE_TOOLS_VALUES_H_
#define EDGECORE_TOOLS_VALUES_H_

#include <string>
#include <vector>

#include "edgecore/method.h"
#include "npy.h"

namespace edgecore::tools {

// Sets the inputs of a method to the contents of files, or those that are no tensors to values, and the ones without
// either to zeros. If not `all`, sets only those that each run needs anew. `arrays` holds the values: it must live
// until the run has ended. Errors: INVALID_ARGUMENT (more files than inputs), those that read_npy and Method::set_input
// return.
Status set_inputs(Method &method, const std::vector<const char *> &files, bool all, std::vector<Array> &arrays,
                  Error &error);

// Prints a line about an output of the last run.
void print_output(const Method &method, size_t index);

// Writes an output of the last run to `prefix`INDEX.npy in row-major order: a number as an array without dims, a list
// with one dim; nothing for None. Errors: those that write_npy returns.
Status write_output(const Method &method, size_t index, const std::string &prefix, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_VALUES_H_
