// The models in the firmware. CMakeLists.txt writes their definition.
#ifndef MODELS_H_
#define MODELS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct model {
  const char *name;
  const uint8_t *pte;  // at a multiple of 16
  size_t size;
};

extern const struct model models[];
extern const size_t model_count;

#ifdef __cplusplus
}
#endif

#endif  // MODELS_H_
