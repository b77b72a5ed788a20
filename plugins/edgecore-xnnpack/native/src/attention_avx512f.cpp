#define EDGECORE_ATTENTION attention_avx512f
#include "attention_kernel.inc"
