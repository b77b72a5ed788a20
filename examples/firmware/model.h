#ifndef MODEL_H_
#define MODEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const uint8_t model[];  // the .pte
extern const size_t model_size;

#ifdef __cplusplus
}
#endif

#endif  // MODEL_H_
