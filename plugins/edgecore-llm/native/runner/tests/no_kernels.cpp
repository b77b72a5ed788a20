// The unit tests run no model: this table without kernels replaces the runtime's kernels.
#include "edgecore/kernels.h"

extern "C" const edgecore_kernel_library *edgecore_kernels_library(void) {
  static const edgecore_kernel_library library = {
      {sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
      {"none", 4},
      {"0", 1},
      nullptr,
      0,
      sizeof(edgecore_kernel),
      0};
  return &library;
}
