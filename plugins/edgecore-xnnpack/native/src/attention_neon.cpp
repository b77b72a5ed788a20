#define EDGECORE_ATTENTION attention_neon
#include "attention_kernel.inc"
