#define EDGECORE_WINOGRAD winograd_int8_avx2
#include "winograd_int8_kernel.inc"
