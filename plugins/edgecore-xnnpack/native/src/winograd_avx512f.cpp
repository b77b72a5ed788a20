#define EDGECORE_WINOGRAD winograd_avx512f
#include "winograd_kernel.inc"
