#define EDGECORE_ATTENTION attention_avx2
#include "attention_kernel.inc"
