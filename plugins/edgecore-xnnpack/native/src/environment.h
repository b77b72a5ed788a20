// What packed weights in a file depend on besides their contents.
#ifndef EDGECORE_XNNPACK_ENVIRONMENT_H_
#define EDGECORE_XNNPACK_ENVIRONMENT_H_

#include <cstdint>
#include <vector>

namespace edgecore::xnnpack {

// Appends the processor's features, which decide on XNNPACK's kernels, and the build id of the binary that this code
// and XNNPACK are linked into. False if it has none.
bool DescribeEnvironment(std::vector<uint64_t> *words);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_ENVIRONMENT_H_
