// Describes the processor and the build of XNNPACK. The format of packed weights depends on them.
#ifndef EDGECORE_XNNPACK_ENVIRONMENT_H_
#define EDGECORE_XNNPACK_ENVIRONMENT_H_

#include <cstdint>
#include <vector>

namespace edgecore::xnnpack {

// Appends to `words` the processor's features, by which XNNPACK chooses its kernels, and the build id of the binary
// that contains this code and XNNPACK. Returns false if that binary has no build id.
bool describe_environment(std::vector<uint64_t> *words);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_ENVIRONMENT_H_
