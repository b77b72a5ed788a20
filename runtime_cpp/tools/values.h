// Reads inputs of methods from files and text, and writes outputs to files and text.
#ifndef EDGECORE_TOOLS_VALUES_H_
#define EDGECORE_TOOLS_VALUES_H_

#include <string>
#include <vector>

#include "edgecore/method.h"
#include "npy.h"

namespace edgecore::tools {

// Sets the inputs: tensors to the contents of the files that `files` names, other inputs to the values that the entries
// of `files` spell, and inputs without an entry to zeros. If `all` is false, sets only the inputs that must be set
// again before each run. `arrays` receives the values, and must live until the run has ended. Errors: INVALID_ARGUMENT
// (more files than inputs), and as read_npy and set_input.
Status set_inputs(Method &method, const std::vector<const char *> &files, bool all, std::vector<Array> &arrays,
                  Error &error);

// Prints a line that describes output `index` of the last run.
void print_output(const Method &method, size_t index);

// Writes output `index` of the last run to the file `prefix`INDEX.npy in row-major order: a number as an array without
// dims, a list as an array with one dim. Writes nothing for None. Errors: as write_npy.
Status write_output(const Method &method, size_t index, const std::string &prefix, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_VALUES_H_
