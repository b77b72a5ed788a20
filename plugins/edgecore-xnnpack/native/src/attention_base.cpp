#define EDGECORE_ATTENTION attention_base
#include "attention_kernel.inc"
