// Computes fp16 graphs in fp32 on processors for which XNNPACK has no fp16 kernels.
#ifndef EDGECORE_XNNPACK_FP16_H_
#define EDGECORE_XNNPACK_FP16_H_

#include "graph.h"

namespace edgecore::xnnpack {

// Returns true if XNNPACK has fp16 kernels for this processor: Arm with fp16 arithmetic, or x86 with AVX2.
bool has_fp16_kernels();

// On a processor without fp16 kernels, changes a checked graph so that it computes its fp16 parts in fp32. Inputs and
// outputs of the graph stay fp16; conversions are added.
void compute_in_fp32_if_needed(Graph *graph);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FP16_H_
