// Graphs in fp16 on processors whose kernels for fp16 XNNPACK lacks.
#ifndef EDGECORE_XNNPACK_FP16_H_
#define EDGECORE_XNNPACK_FP16_H_

#include "graph.h"

namespace edgecore::xnnpack {

// Returns true if XNNPACK has kernels in fp16 for this processor: Arm with arithmetic in fp16, x86 with AVX2.
bool has_fp16_kernels();

// Makes a checked graph compute in fp32 what the blob has in fp16, if there are no kernels in fp16. Inputs and outputs
// stay fp16, and are converted.
void compute_in_fp32_if_needed(Graph *graph);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FP16_H_
