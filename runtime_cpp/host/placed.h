// Whether every tensor that a method uses gets memory.
#ifndef EDGECORE_HOST_PLACED_H_
#define EDGECORE_HOST_PLACED_H_

#include "edgecore/program.h"

namespace edgecore {

// A tensor that instructions use must have a place in an arena or data in the file, be an input or output, or be bound
// to another's memory by an instruction. The core finds one that lacks it when a run comes to it; this says so before.
// Errors: NOT_SUPPORTED, with the instruction and the value.
Status check_placed(const Program &program, size_t method, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_PLACED_H_
