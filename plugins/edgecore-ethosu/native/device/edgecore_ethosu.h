// What an application with the Ethos-U backend for a device sets. Plain C.
#ifndef EDGECORE_ETHOSU_H_
#define EDGECORE_ETHOSU_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Gives the backend the SRAM that a model in the memory mode Dedicated_Sram uses as a cache: `size` bytes at a multiple
// of 16, which nothing else uses while a model runs. Call it before a model is loaded; NULL and 0 take it back. If the
// application gives a fast memory to Arm's ethosu_init as well, the driver uses that one.
void edgecore_ethosu_set_fast_scratch(void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_ETHOSU_H_
