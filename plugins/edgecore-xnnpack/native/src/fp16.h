// Computes fp16 graphs in fp32 on processors for which XNNPACK has no fp16 kernels.
#ifndef EDGECORE_XNNPACK_FP16_H_
#define EDGECORE_XNNPACK_FP16_H_

#include "graph.h"

namespace edgecore::xnnpack {

// Returns true if XNNPACK has kernels in fp16 for this processor: Arm with arithmetic in fp16, x86 with AVX2.
bool has_fp16_kernels();

// If there are no fp16 kernels, makes a checked graph compute its fp16 parts in fp32. Inputs and outputs stay fp16, and
// are converted.
void compute_in_fp32_if_needed(Graph *graph);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FP16_H_
