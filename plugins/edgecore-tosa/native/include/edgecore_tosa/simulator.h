// Runs TOSA graphs on the host with Arm's reference model: the results of integer graphs are those that every
// implementation of TOSA must have. Plain C (C99), no dependencies; libedgecore_tosa_simulator.so exports these
// functions and nothing else, so it can be linked or opened at run time.
//
// A function that can fail returns EDGECORE_TOSA_OK or another code, and then writes one sentence that says what is
// wrong into `error`, if `error_size` is not 0; the text is cut to error_size - 1 bytes and ends with a NUL. One thread
// at a time uses a model; different threads may use different models.
//
// Nothing here prints. A graph that is damaged or breaks a rule of TOSA is an error, but the reference model is not
// made for malicious bytes: run a graph from an untrusted source in a process of its own.
#ifndef EDGECORE_TOSA_SIMULATOR_H_
#define EDGECORE_TOSA_SIMULATOR_H_

#include <stddef.h>
#include <stdint.h>

#define EDGECORE_TOSA_SIMULATOR_VERSION 1

#define EDGECORE_TOSA_OK 0
#define EDGECORE_TOSA_INVALID_GRAPH 1  // the bytes are damaged, or the graph breaks a rule of TOSA
#define EDGECORE_TOSA_NOT_SUPPORTED 2  // a graph that this library cannot run: another version, a dtype, a variable
#define EDGECORE_TOSA_RUN_FAILED 3     // a valid graph whose result is not defined for these inputs
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

// Returns the EDGECORE_TOSA_SIMULATOR_VERSION of the library. It changes when a function of this header does.
EDGECORE_TOSA_EXPORT uint32_t edgecore_tosa_simulator_version(void);

// Loads the graph, a TOSA flatbuffer (the file identifier is "TOSA") of version 1.0 or of the draft of 1.1, and checks
// its operators. `graph` may be released afterwards. On success the caller owns `*model`.
EDGECORE_TOSA_EXPORT int edgecore_tosa_load(const void *graph, size_t size, edgecore_tosa_model **model, char *error,
                                            size_t error_size);

// Releases a model; NULL is allowed.
EDGECORE_TOSA_EXPORT void edgecore_tosa_destroy(edgecore_tosa_model *model);

// The inputs and outputs of the graph, in the order of the first block of its first region.
EDGECORE_TOSA_EXPORT size_t edgecore_tosa_input_count(const edgecore_tosa_model *model);
EDGECORE_TOSA_EXPORT size_t edgecore_tosa_output_count(const edgecore_tosa_model *model);

// Describes an input or output: its DType of the TOSA schema, its shape, which belongs to the model, and the size of
// its buffer in bytes. In a buffer each element of BOOL and INT4 has one byte, and of INT48 eight bytes
// (sign-extended). Fails if `index` is not less than the count.
EDGECORE_TOSA_EXPORT int edgecore_tosa_input(const edgecore_tosa_model *model, size_t index, uint32_t *dtype,
                                             const int32_t **dims, size_t *rank, size_t *bytes);
EDGECORE_TOSA_EXPORT int edgecore_tosa_output(const edgecore_tosa_model *model, size_t index, uint32_t *dtype,
                                              const int32_t **dims, size_t *rank, size_t *bytes);

// Runs the graph. `inputs` and `outputs` have a buffer for each input and output, with the bytes that
// edgecore_tosa_input and edgecore_tosa_output say: row-major elements without gaps, at any alignment. If it fails, the
// contents of `outputs` are undefined, and the model can be run again.
EDGECORE_TOSA_EXPORT int edgecore_tosa_run(edgecore_tosa_model *model, const void *const *inputs, void *const *outputs,
                                           char *error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
