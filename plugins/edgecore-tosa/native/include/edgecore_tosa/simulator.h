// Runs TOSA graphs on the host with Arm's reference model. For integer graphs, every implementation of TOSA must have
// the same results as this model. Plain C (C99), no dependencies; libedgecore_tosa_simulator.so exports these functions
// and nothing else, so it can be linked or opened at run time.
//
// A function that can fail returns EDGECORE_TOSA_OK or another code. On failure it writes one sentence with the reason
// to `error`, unless `error_size` is 0; the text is cut to error_size - 1 bytes and ends with a NUL. A model is used by
// one thread at a time; different threads may use different models.
//
// These functions print nothing. A graph that is damaged or violates a rule of TOSA is an error, but the reference
// model is not made for malicious bytes: run a graph from an untrusted source in a separate process.
#ifndef EDGECORE_TOSA_SIMULATOR_H_
#define EDGECORE_TOSA_SIMULATOR_H_

#include <stddef.h>
#include <stdint.h>

#define EDGECORE_TOSA_SIMULATOR_VERSION 1

#define EDGECORE_TOSA_OK 0
#define EDGECORE_TOSA_INVALID_GRAPH 1  // error: the bytes are damaged, or the graph violates a rule of TOSA
#define EDGECORE_TOSA_NOT_SUPPORTED 2  // error: another version of TOSA, or an unsupported dtype or variable
#define EDGECORE_TOSA_RUN_FAILED 3     // error: the result of a valid graph is not defined for these inputs
#define EDGECORE_TOSA_OUT_OF_MEMORY 4

#if defined(__GNUC__)
#define EDGECORE_TOSA_EXPORT __attribute__((visibility("default")))
#else
#define EDGECORE_TOSA_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct edgecore_tosa_model edgecore_tosa_model;

// Returns the EDGECORE_TOSA_SIMULATOR_VERSION of the library, which is raised when a function of this header changes.
EDGECORE_TOSA_EXPORT uint32_t edgecore_tosa_simulator_version(void);

// Loads the graph, a TOSA flatbuffer (the file identifier is "TOSA") of version 1.0 or of the draft of 1.1, and checks
// its operators. `graph` may be released afterwards. On success the caller owns `*model`.
EDGECORE_TOSA_EXPORT int edgecore_tosa_load(const void *graph, size_t size, edgecore_tosa_model **model, char *error,
                                            size_t error_size);

// Releases a model; NULL is allowed.
EDGECORE_TOSA_EXPORT void edgecore_tosa_destroy(edgecore_tosa_model *model);

// Return the number of inputs, or of outputs, of the graph. Their order is the order in the first block of the graph's
// first region.
EDGECORE_TOSA_EXPORT size_t edgecore_tosa_input_count(const edgecore_tosa_model *model);
EDGECORE_TOSA_EXPORT size_t edgecore_tosa_output_count(const edgecore_tosa_model *model);

// Describes an input or output: its DType in the TOSA schema, its shape, which belongs to the model, and the size of
// its buffer in bytes. In a buffer, a BOOL or INT4 element takes one byte, and an INT48 element eight bytes
// (sign-extended). Fails if `index` is not less than the count.
EDGECORE_TOSA_EXPORT int edgecore_tosa_input(const edgecore_tosa_model *model, size_t index, uint32_t *dtype,
                                             const int32_t **dims, size_t *rank, size_t *bytes);
EDGECORE_TOSA_EXPORT int edgecore_tosa_output(const edgecore_tosa_model *model, size_t index, uint32_t *dtype,
                                              const int32_t **dims, size_t *rank, size_t *bytes);

// Runs the graph. `inputs` and `outputs` have one buffer for each input and output, of the size that
// edgecore_tosa_input and edgecore_tosa_output return: row-major elements without gaps, at any alignment. After a
// failure the contents of `outputs` are undefined, and the model can be run again.
EDGECORE_TOSA_EXPORT int edgecore_tosa_run(edgecore_tosa_model *model, const void *const *inputs, void *const *outputs,
                                           char *error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
