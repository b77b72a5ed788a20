#define EDGECORE_WINOGRAD winograd_neon
#include "winograd_kernel.inc"
