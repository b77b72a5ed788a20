// Stands for a vendor's runtime in the tests of vendor.cpp.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *skeleton_create(const void *blob, uint64_t size, uint32_t threads) {
  float *factor = size == sizeof(float) && threads >= 1 ? malloc(sizeof(float)) : NULL;
  if (factor != NULL) memcpy(factor, blob, sizeof(float));
  return factor;
}

int32_t skeleton_run(void *context, const float *from, float *to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i] = from[i] * *(const float *)context;
  return 0;
}

void skeleton_destroy(void *context) { free(context); }
