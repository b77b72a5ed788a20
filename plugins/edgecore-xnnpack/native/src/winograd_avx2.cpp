#define EDGECORE_WINOGRAD winograd_avx2
#include "winograd_kernel.inc"
