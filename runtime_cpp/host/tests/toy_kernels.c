#include "edgecore/kernel.h"

static int32_t EDGECORE_CALL nothing(const edgecore_call *call) {
  (void)call;
  return EDGECORE_OK;
}

#define HEADER(type) \
  { sizeof(type), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR }

static const edgecore_kernel kernels[] = {
    {HEADER(edgecore_kernel), {"toy::nothing", 12}, {"out", 3}, 0, nothing},
};
static const edgecore_kernel_library library = {HEADER(edgecore_kernel_library), {"toy", 3}, {"1", 1}, kernels, 1,
                                                sizeof(edgecore_kernel),         0};

EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void);
const edgecore_kernel_library *edgecore_kernels_v0(void) { return &library; }
