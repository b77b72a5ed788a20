// The vocabulary of the native interface: what backend.h and kernel.h share. Plain C, no dependency.
//
// Layout rules: every struct that may grow starts with edgecore_header; a member exists if struct_size covers it and it
// is not NULL. Arrays of structs travel with a stride. Integers have fixed widths; there is no enum, bool, long, size_t
// or bit-field. Strings and bytes are pointer and length, never NUL-terminated by contract.
#ifndef EDGECORE_ABI_H_
#define EDGECORE_ABI_H_

#include <stddef.h>
#include <stdint.h>

// Version 0 is a draft: host and plugin must have the same major and minor number, exactly. From 1.0 on members are
// only added: a host takes what was built for an older release of a major version that it knows, and what was built for
// a newer minor version that names it as new enough (edgecore_backend.min_host_*).
#define EDGECORE_ABI_MAJOR 0
#define EDGECORE_ABI_MINOR 3

#if defined(_WIN32)
#define EDGECORE_CALL __cdecl
#define EDGECORE_EXPORT __declspec(dllexport)
#else
#define EDGECORE_CALL
#define EDGECORE_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct edgecore_header {
  uint32_t struct_size;  // sizeof the struct in the code that filled it in
  uint16_t major;        // EDGECORE_ABI_MAJOR and _MINOR of that code
  uint16_t minor;
} edgecore_header;

// Whether `member` of the struct behind `pointer` was known to whoever filled it in. A function or object pointer must
// also be compared with NULL.
#define EDGECORE_HAS(pointer, member) \
  ((pointer)->header.struct_size >= (uint64_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)))

typedef struct edgecore_str {
  const char *data;  // UTF-8; may hold any byte when it comes from a file
  uint64_t size;
} edgecore_str;

typedef struct edgecore_bytes {
  const uint8_t *data;
  uint64_t size;
} edgecore_bytes;

// ---------------------------------------------------------------------------------------------------------------------
// Errors: a code by value, the text in an object of the caller. The codes are those of the .pte field's reference
// runtime, so that a log line means the same on both.

#define EDGECORE_OK 0x00
#define EDGECORE_INTERNAL 0x01
#define EDGECORE_INVALID_STATE 0x02
#define EDGECORE_END_OF_METHOD 0x03
#define EDGECORE_ALREADY_LOADED 0x04
#define EDGECORE_NOT_SUPPORTED 0x10
#define EDGECORE_NOT_IMPLEMENTED 0x11
#define EDGECORE_INVALID_ARGUMENT 0x12
#define EDGECORE_INVALID_TYPE 0x13
#define EDGECORE_OPERATOR_MISSING 0x14
#define EDGECORE_REGISTRATION_EXCEEDING_MAX 0x15
#define EDGECORE_REGISTRATION_ALREADY_REGISTERED 0x16
#define EDGECORE_NOT_FOUND 0x20
#define EDGECORE_MEMORY_ALLOCATION_FAILED 0x21
#define EDGECORE_ACCESS_FAILED 0x22
#define EDGECORE_INVALID_PROGRAM 0x23
#define EDGECORE_INVALID_EXTERNAL_DATA 0x24
#define EDGECORE_OUT_OF_RESOURCES 0x25
#define EDGECORE_DELEGATE_INVALID_COMPATIBILITY 0x30
#define EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED 0x31
#define EDGECORE_DELEGATE_INVALID_HANDLE 0x32

// Receives the sentence of a failure; its content belongs to the host. Valid for the call that it is passed to. A
// callee that fails calls host->fail once and returns the code that it gives back.
typedef struct edgecore_error edgecore_error;

// ---------------------------------------------------------------------------------------------------------------------
// Tensors and values.

// Layout of DLPack 1.x's DLTensor (with DLDeviceType as the int32 that it is on hosted platforms).
typedef struct edgecore_dl_dtype {
  uint8_t code;  // EDGECORE_DL_*
  uint8_t bits;
  uint16_t lanes;
} edgecore_dl_dtype;

#define EDGECORE_DL_INT 0
#define EDGECORE_DL_UINT 1
#define EDGECORE_DL_FLOAT 2
#define EDGECORE_DL_BFLOAT 4
#define EDGECORE_DL_COMPLEX 5
#define EDGECORE_DL_BOOL 6

typedef struct edgecore_dl_tensor {
  void *data;  // NULL, and not an address, when the tensor's buffer is not NULL
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  edgecore_dl_dtype dtype;
  int64_t *shape;    // ndim sizes
  int64_t *strides;  // ndim strides in elements; never NULL
  uint64_t byte_offset;
} edgecore_dl_tensor;

#define EDGECORE_DEVICE_CPU 1
#define EDGECORE_DEVICE_EXTENSION 12  // memory of a backend: edgecore_tensor.buffer says where

#define EDGECORE_TENSOR_READ_ONLY 1u  // writing to data is an error
#define EDGECORE_TENSOR_STATE 2u      // keeps its content between calls
#define EDGECORE_TENSOR_CONSTANT 4u   // the same bytes at every call
#define EDGECORE_TENSOR_RESIZABLE 8u  // host->resize may change its shape within capacity
#define EDGECORE_TENSOR_GROWABLE 16u  // host->resize may also move it to more memory

typedef struct edgecore_buffer edgecore_buffer;  // memory of a device; see edgecore_backend.buffer_*

typedef struct edgecore_tensor {
  edgecore_header header;
  uint32_t flags;
  int32_t scalar_type;  // number of the .pte's ScalarType (finer than dl.dtype for quantised types)
  edgecore_dl_tensor dl;
  const uint8_t *dim_order;  // ndim entries, outermost first
  const int64_t *max_shape;  // ndim sizes: the maximum shape, which the memory was planned for
  uint64_t capacity;         // bytes from data + byte_offset that may be used
  edgecore_buffer *buffer;   // NULL: dl.data is a host address
} edgecore_tensor;

#define EDGECORE_TAG_NONE 0u
#define EDGECORE_TAG_INT 1u
#define EDGECORE_TAG_DOUBLE 2u
#define EDGECORE_TAG_BOOL 3u
#define EDGECORE_TAG_TENSOR 4u
// Lists and strings reach kernels, never delegates.
#define EDGECORE_TAG_STRING 5u
#define EDGECORE_TAG_INT_LIST 6u
#define EDGECORE_TAG_DOUBLE_LIST 7u
#define EDGECORE_TAG_BOOL_LIST 8u
#define EDGECORE_TAG_TENSOR_LIST 9u  // entries of an optional tensor list may be NULL

typedef struct edgecore_list {
  union {
    const char *chars;
    const int64_t *ints;
    const double *doubles;
    const uint8_t *bools;
    edgecore_tensor *const *tensors;
  } items;
  uint64_t count;
} edgecore_list;

typedef struct edgecore_value {
  uint32_t tag;
  uint32_t reserved;
  union {
    int64_t i;
    double d;
    int64_t b;  // 0 or 1
    edgecore_tensor *tensor;
    const edgecore_list *list;
  } as;
} edgecore_value;

// ---------------------------------------------------------------------------------------------------------------------
// Services of the host. A plugin links no symbol of the host: everything comes through this table, which outlives every
// handle. Each function takes the scope that the plugin was given with the object on whose behalf it calls: driver,
// program, instance, or kernel call. Unless said otherwise a member may be called from any thread and does not block.

typedef struct edgecore_scope edgecore_scope;

// Runs part of a parallel loop: items [begin, end) on worker `worker`, 0 <= worker < worker_count.
typedef void(EDGECORE_CALL *edgecore_loop_fn)(void *arg, uint64_t begin, uint64_t end, uint32_t worker);

#define EDGECORE_LOG_DEBUG 0
#define EDGECORE_LOG_INFO 1
#define EDGECORE_LOG_WARNING 2
#define EDGECORE_LOG_ERROR 3

typedef struct edgecore_host {
  edgecore_header header;

  // Stores the sentence `text` in `error` (which may be NULL) and returns `code`.
  int32_t(EDGECORE_CALL *fail)(edgecore_error *error, int32_t code, edgecore_str text);
  void(EDGECORE_CALL *log)(edgecore_scope *scope, int32_t level, edgecore_str text);

  // Heap of the host; NULL members on a system without one. allocate returns NULL when there is no memory.
  void *(EDGECORE_CALL *allocate)(edgecore_scope *scope, uint64_t size, uint64_t alignment);
  void(EDGECORE_CALL *deallocate)(edgecore_scope *scope, void *data, uint64_t size, uint64_t alignment);

  // Memory that lives until the current execute or kernel call returns; NULL when there is none left.
  // Instance and kernel scopes only, from the calling thread.
  void *(EDGECORE_CALL *scratch)(edgecore_scope *scope, uint64_t size, uint64_t alignment);

  // Calls fn over [0, n) in pieces of at least `grain` items (0: the host chooses) and returns when all are done.
  // Re-entrant: runs inline when the workers are busy or the caller is one. Never waits for a lock. Instance and kernel
  // scopes; the thread count is the method's.
  void(EDGECORE_CALL *parallel_for)(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg,
                                    uint32_t flags);
  uint32_t(EDGECORE_CALL *worker_count)(edgecore_scope *scope);  // at least 1
  uint32_t(EDGECORE_CALL *worker_index)(edgecore_scope *scope);  // of the calling thread; 0 outside parallel_for
  int32_t(EDGECORE_CALL *is_worker)(edgecore_scope *scope);      // 1 within a body of parallel_for

  // The bytes stored under `key` in the file, or in external data given at load. They stay valid, unmoved, until the
  // program is closed. Program and narrower scopes.
  int32_t(EDGECORE_CALL *named_data)(edgecore_scope *scope, edgecore_str key, edgecore_bytes *out,
                                     edgecore_error *error);

  // Gives an output its shape (ndim unchanged); may change data when the tensor is GROWABLE. Every kernel, and every
  // delegate in prepare, calls it for each output before anything is written, with the same shape too: it refuses an
  // output that is READ_ONLY. Past capacity or max_shape, and for a new shape of a tensor that is another argument of
  // the call as well, it fails and leaves the tensor unchanged. Instance and kernel scopes, from the calling thread.
  int32_t(EDGECORE_CALL *resize)(edgecore_scope *scope, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                                 edgecore_error *error);

  // Profile events of an instance or a kernel, properly nested. A kernel's table has NULL when nobody listens (test
  // before building a name); an instance learns it from edgecore_instance_info.flags.
  uint64_t(EDGECORE_CALL *event_begin)(edgecore_scope *scope, edgecore_str name, int64_t debug_id);
  void(EDGECORE_CALL *event_end)(edgecore_scope *scope, uint64_t event);

  // Reports slow work (a recompilation in prepare): `done` of `total` steps, total 0 if unknown.
  void(EDGECORE_CALL *progress)(edgecore_scope *scope, edgecore_str what, uint64_t done, uint64_t total);

  // An event whose times are known only afterwards, as those of a library or a device are: nanoseconds since the call
  // of execute, kernel or prepare that is running began, by any clock. NULL as event_begin is.
  void(EDGECORE_CALL *event_add)(edgecore_scope *scope, edgecore_str name, int64_t debug_id, uint64_t begin,
                                 uint64_t end);
} edgecore_host;

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_ABI_H_
