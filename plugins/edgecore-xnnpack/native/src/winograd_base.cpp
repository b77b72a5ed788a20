#define EDGECORE_WINOGRAD winograd_base
#include "winograd_kernel.inc"
