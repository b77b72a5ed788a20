// Makes the calls that a file lists, for `edgecore-run --calls`.
#ifndef EDGECORE_TOOLS_CALLS_H_
#define EDGECORE_TOOLS_CALLS_H_

#include "edgecore/module.h"

namespace edgecore::tools {

// Makes the calls that the file at `path` lists, one per line (see the usage of edgecore-run). If a call fails, reports
// the failure and continues with the next call. Writes the outputs into `output_dir`, unless it is NULL. Errors:
// ACCESS_FAILED, and INVALID_STATE if a call has failed.
Status make_calls(Module &first, const char *path, const char *output_dir, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_CALLS_H_
