#define EDGECORE_WINOGRAD winograd_int8_avx512skx
#include "winograd_int8_kernel.inc"
