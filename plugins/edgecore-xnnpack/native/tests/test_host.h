// A minimal replacement of edgecore's runtime for tests: it loads one delegate, and provides the backend with a thread
// pool and named data (constants under a key). The functions are plain C, so that the Python tests can call them with
// ctypes.
#ifndef EDGECORE_XNNPACK_TEST_HOST_H_
#define EDGECORE_XNNPACK_TEST_HOST_H_

#include "edgecore/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct edgecore_test_data {
  const char *key;
  const uint8_t *data;
  uint64_t size;
} edgecore_test_data;

typedef struct edgecore_test_tensor {
  void *data;
  uint64_t capacity;  // bytes at data
  int32_t scalar_type;
  int32_t ndim;
  int64_t shape[8];  // a run sets the shapes of outputs
  uint8_t dim_order[8];
} edgecore_test_tensor;

typedef struct edgecore_test_session edgecore_test_session;

// Loads a blob and creates an instance, with a state set if the backend keeps state. `blob` and the named data must
// stay valid until the session is closed. Returns NULL on failure, with the message in `error` and the code in `code`.
edgecore_test_session *edgecore_test_open(const edgecore_backend *backend, uint32_t threads, const uint8_t *blob,
                                          uint64_t size, const edgecore_test_data *named, uint64_t named_count,
                                          int32_t *code, char *error, uint64_t error_size);
// Loads a blob as edgecore_test_open does, with the backend in the library at `path`, opened by dlopen.
edgecore_test_session *edgecore_test_open_library(const char *path, uint32_t threads, const uint8_t *blob,
                                                  uint64_t size, const edgecore_test_data *named, uint64_t named_count,
                                                  int32_t *code, char *error, uint64_t error_size);
// Loads a blob as edgecore_test_open does, with the function table `host` instead of edgecore_test_host(), and with
// load options (may be NULL).
edgecore_test_session *edgecore_test_open_with_host(const edgecore_backend *backend, const edgecore_host *host,
                                                    uint32_t threads, const uint8_t *blob, uint64_t size,
                                                    const edgecore_test_data *named, uint64_t named_count,
                                                    const edgecore_options *options, int32_t *code, char *error,
                                                    uint64_t error_size);
// Runs the delegate; prepares it first if a shape or dim order changed since the last run. Returns the error code.
int32_t edgecore_test_run(edgecore_test_session *session, edgecore_test_tensor *tensors, uint64_t count, char *error,
                          uint64_t error_size);
uint64_t edgecore_test_argument_count(edgecore_test_session *session);
// Returns the state set of the session; NULL if the backend keeps no state.
edgecore_state_set *edgecore_test_state(edgecore_test_session *session);
void edgecore_test_close(edgecore_test_session *session);

// The functions that this host offers to a backend, and a scope (the context object that a caller passes to each of
// these functions) with a pool of `threads` threads. The scope is for tests that call the functions without a session.
const edgecore_host *edgecore_test_host(void);
edgecore_scope *edgecore_test_scope_new(uint32_t threads);
void edgecore_test_scope_delete(edgecore_scope *scope);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_XNNPACK_TEST_HOST_H_
