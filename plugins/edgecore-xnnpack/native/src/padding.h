// The rule by which arguments are followed by readable bytes.
#ifndef EDGECORE_XNNPACK_PADDING_H_
#define EDGECORE_XNNPACK_PADDING_H_

#include "graph.h"

namespace edgecore::xnnpack {

// Window elements that the first pass of XNNPACK's max pooling kernels covers, on every processor: first_pass_tile_size
// in its maxpool-config.c. third_party/footprint/calls_window.py has the same number, which a test compares.
constexpr uint64_t kMaxPoolFirstPass = 9;

// Returns true if kernels read bytes after the last element of an external value. Each kernel reads whole vectors of
// its inputs. A max pooling of more window elements than kMaxPoolFirstPass also reads its output back, in whole
// vectors: later passes take the maximum with the result of the first one.
// third_party/padding.py checks each kernel against this rule when XNNPACK is built.
bool kernels_read_past_end(const Graph &graph, uint32_t value);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_PADDING_H_
