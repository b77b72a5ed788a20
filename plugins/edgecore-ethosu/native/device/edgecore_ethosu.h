// Settings that the application makes for the Ethos-U backend on a device. Plain C.
#ifndef EDGECORE_ETHOSU_H_
#define EDGECORE_ETHOSU_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Sets the SRAM that models in the memory mode Dedicated_Sram use as a cache: `size` bytes, which nothing else uses
// while a model runs. Address and size are multiples of 32, the size of a cache line. Call this function before a model
// is loaded: the model keeps this memory. NULL and 0 remove it for models that are loaded later. Models that share the
// memory must not run at the same time.
//
// The call is also needed for files of ExecuTorch, because they do not state whether they use such memory. It is needed
// even if the application passes a fast memory to Arm's ethosu_init; the driver then uses that memory, not `data`.
void edgecore_ethosu_set_fast_scratch(void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_ETHOSU_H_
