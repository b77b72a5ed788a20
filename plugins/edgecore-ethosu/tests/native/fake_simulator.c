// The functions of the TOSA simulator, for test_delegate.py: they fail where FAKE_SIMULATOR says. A graph has
// the input and the output of the model `Conv` there.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t input[4] = {1, 2, 6, 6}, output[4] = {1, 4, 4, 4}, other_layout[4] = {1, 6, 6, 2};
static int model;

static int fails(const char *where) {
  const char *wanted = getenv("FAKE_SIMULATOR");
  return wanted != NULL && strcmp(wanted, where) == 0;
}

uint32_t edgecore_tosa_simulator_version(void) { return fails("version") ? 2 : 1; }

int edgecore_tosa_load(const void *graph, size_t size, void **out, char *error, size_t error_size) {
  (void)graph, (void)size;
  if (fails("load")) return snprintf(error, error_size, "no such graph");
  *out = &model;
  return 0;
}

void edgecore_tosa_destroy(void *of) { (void)of; }
size_t edgecore_tosa_input_count(const void *of) { return (void)of, fails("inputs") ? 2 : 1; }
size_t edgecore_tosa_output_count(const void *of) { return (void)of, fails("outputs") ? 0 : 1; }

static void describe(const int32_t *shape, uint32_t *dtype, const int32_t **dims, size_t *rank, size_t *bytes) {
  *dtype = fails("dtype") ? 6 : 3;
  *dims = shape;
  *rank = fails("shape") ? 3 : 4;
  *bytes = fails("bytes") ? 1 : (size_t)(shape[1] * shape[2] * (*rank == 4 ? shape[3] : 1));
}

int edgecore_tosa_input(const void *of, size_t index, uint32_t *dtype, const int32_t **dims, size_t *rank,
                        size_t *bytes) {
  (void)of, (void)index;
  describe(fails("layout") ? other_layout : input, dtype, dims, rank, bytes);
  return fails("describe");
}

int edgecore_tosa_output(const void *of, size_t index, uint32_t *dtype, const int32_t **dims, size_t *rank,
                         size_t *bytes) {
  (void)of, (void)index;
  describe(output, dtype, dims, rank, bytes);
  return 0;
}

int edgecore_tosa_run(void *of, const void *const *inputs, void *const *outputs, char *error, size_t error_size) {
  (void)of, (void)inputs, (void)outputs;
  return snprintf(error, error_size, "it divides by zero");
}
