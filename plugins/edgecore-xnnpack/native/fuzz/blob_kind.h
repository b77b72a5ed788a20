#ifndef EDGECORE_XNNPACK_FUZZ_BLOB_KIND_H_
#define EDGECORE_XNNPACK_FUZZ_BLOB_KIND_H_

#include "mutate_file.h"

namespace edgecore::xnnpack {

// Describes the format of a delegate's blob to the fuzzer: ExecuTorch's header XH00, a flatbuffer and constants, or a
// flatbuffer alone.
const fuzz::Kind &blob_kind();

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FUZZ_BLOB_KIND_H_
