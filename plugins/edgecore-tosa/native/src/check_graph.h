// Checks a TOSA graph before Arm's libraries read it, because they rely on the checked properties.
#ifndef EDGECORE_TOSA_CHECK_GRAPH_H_
#define EDGECORE_TOSA_CHECK_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tosa_generated.h"

namespace edgecore::tosa {

// Returns the number of elements of a tensor. Throws Failure if a dim is not positive, or if the tensor is too large.
size_t element_count(const std::string &name, const std::vector<int32_t> &shape);

// Throws Failure if the flatbuffer is damaged, if a field is missing that Arm's libraries expect, or if the graph's
// version or a feature of the graph is not supported.
void check_graph(const uint8_t *bytes, size_t size);

}  // namespace edgecore::tosa

#endif
