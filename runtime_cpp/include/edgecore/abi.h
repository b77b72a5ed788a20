// Types of the C interface between the host (the runtime) and plugins (backends and kernel libraries), and the services
// that the host offers to plugins. backend.h and kernel.h include this file. Plain C, no dependencies.
//
// Layout rules, so that a plugin works with a host of another version: every struct that later versions may extend
// starts with edgecore_header. Before reading a member of a struct that the other side filled in, test that the
// struct's struct_size covers the member (EDGECORE_HAS). Arrays of structs are passed with a stride in bytes. Integers
// have fixed widths; there is no enum, bool, long, size_t or bit-field. Strings and bytes are a pointer and a length;
// strings need not end with a NUL.
#ifndef EDGECORE_ABI_H_
#define EDGECORE_ABI_H_

#include <stddef.h>
#include <stdint.h>

// Version 0 is a draft: host and plugin must have exactly the same major and minor number. From 1.0 on, a minor version
// only adds members to structs. From then on, a host loads an older plugin if the host still supports the plugin's
// major number. The host loads a plugin of a newer minor version if the plugin declares that it also works with this
// host (edgecore_backend.min_host_*).
#define EDGECORE_ABI_MAJOR 0
#define EDGECORE_ABI_MINOR 11

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
  uint32_t struct_size;  // sizeof the struct in the code that filled in the struct
  uint16_t major;        // interface version of the code that filled in the struct: EDGECORE_ABI_MAJOR and _MINOR
  uint16_t minor;
} edgecore_header;

// EDGECORE_HAS is true if the struct at `pointer` has `member`: the code that filled in the struct knew the member, and
// struct_size covers it. Before using a member that is a pointer, also check that it is not NULL.
#define EDGECORE_HAS(pointer, member) \
  ((pointer)->header.struct_size >= (uint64_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)))

typedef struct edgecore_str {
  const char *data;  // text in UTF-8; text that comes from a file may hold any bytes
  uint64_t size;
} edgecore_str;

typedef struct edgecore_bytes {
  const uint8_t *data;
  uint64_t size;
} edgecore_bytes;

// ---------------------------------------------------------------------------------------------------------------------
// Errors: functions return a code and write a message into an edgecore_error that the caller passes. The numbers of the
// codes are the same as in ExecuTorch, the reference runtime for .pte files, so that a code in a log means the same for
// both runtimes.

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

// An edgecore_error receives the message of a failed call. Opaque to plugins; valid only during that call. A function
// that fails stores its message with one call of host->fail, and returns the code that host->fail returns.
typedef struct edgecore_error edgecore_error;

// ---------------------------------------------------------------------------------------------------------------------
// Tensors and values.

// edgecore_dl_dtype and edgecore_dl_tensor have the memory layouts of DLPack 1.x's DLDataType and DLTensor, with one
// difference: the device type is an int32 here. In DLPack the device type is the enum DLDeviceType, whose size depends
// on the compiler. Compilers for machines with an operating system make the enum as large as an int32, so the layouts
// are the same there.
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
  void *data;  // the elements begin at data + byte_offset; NULL: they are in device memory (edgecore_tensor.buffer)
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  edgecore_dl_dtype dtype;
  int64_t *shape;    // ndim sizes
  int64_t *strides;  // the tensor's ndim strides, in elements; never NULL
  uint64_t byte_offset;
} edgecore_dl_tensor;

#define EDGECORE_DEVICE_CPU 1
#define EDGECORE_DEVICE_EXTENSION 12  // device_type of a tensor in a backend's device memory (edgecore_tensor.buffer)

#define EDGECORE_TENSOR_READ_ONLY 1u  // flag of a tensor that must not be written
#define EDGECORE_TENSOR_STATE 2u      // flag of a mutable buffer: keeps its content between calls of the method
#define EDGECORE_TENSOR_CONSTANT 4u   // flag of a tensor with the same bytes at every call of the method
#define EDGECORE_TENSOR_RESIZABLE 8u  // flag: host->resize may change the tensor's shape within `capacity`
#define EDGECORE_TENSOR_GROWABLE 16u  // flag: host->resize may also move the tensor to larger memory at another address

typedef struct edgecore_buffer edgecore_buffer;  // a block of device memory, see edgecore_backend.buffer_*

typedef struct edgecore_tensor {
  edgecore_header header;
  uint32_t flags;
  int32_t scalar_type;  // element type: a number of the .pte's ScalarType; dl.dtype cannot express quantized types
  edgecore_dl_tensor dl;
  const uint8_t *dim_order;  // the tensor's dims in the order of memory, outermost first; ndim entries
  const int64_t *max_shape;  // maximum shape of the tensor, for which its memory was planned; ndim sizes
  uint64_t capacity;         // number of usable bytes from dl.data + dl.byte_offset on
  edgecore_buffer *buffer;   // device memory that holds the tensor; NULL if dl.data is a host address
} edgecore_tensor;

#define EDGECORE_TAG_NONE 0u
#define EDGECORE_TAG_INT 1u
#define EDGECORE_TAG_DOUBLE 2u
#define EDGECORE_TAG_BOOL 3u
#define EDGECORE_TAG_TENSOR 4u
// Lists and strings are arguments of kernels only: the host refuses a file that passes them to a delegate.
#define EDGECORE_TAG_STRING 5u
#define EDGECORE_TAG_INT_LIST 6u
#define EDGECORE_TAG_DOUBLE_LIST 7u
#define EDGECORE_TAG_BOOL_LIST 8u
#define EDGECORE_TAG_TENSOR_LIST 9u  // list of tensors; an entry that is None (in a Tensor?[]) is NULL

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

#define EDGECORE_VALUE_UNKNOWN 1u  // flag of a number argument in prepare: its value is known only when the method runs

typedef struct edgecore_value {
  uint32_t tag;
  uint32_t flags;  // EDGECORE_VALUE_*
  union {
    int64_t i;
    double d;
    int64_t b;  // 0 or 1
    edgecore_tensor *tensor;
    const edgecore_list *list;
  } as;
} edgecore_value;

// ---------------------------------------------------------------------------------------------------------------------
// Services of the host. A plugin links no symbol of the host: the plugin calls the host through this table, which
// outlives every object that the plugin makes. Unless a comment says otherwise, a member may be called from any thread
// and does not block.

// Identifies the object that calls the host: a driver, program, state set, delegate or instance of a backend (see
// backend.h), or a kernel call. The host passes a scope to the plugin when it creates such an object; the plugin passes
// the scope back whenever it calls a service for that object.
typedef struct edgecore_scope edgecore_scope;

// A loop body that the plugin writes: computes the items [begin, end) of a parallel loop. `worker` identifies the
// thread (0 <= worker < worker_count), so that each thread can have memory of its own.
typedef void(EDGECORE_CALL *edgecore_loop_fn)(void *arg, uint64_t begin, uint64_t end, uint32_t worker);

#define EDGECORE_LOG_DEBUG 0
#define EDGECORE_LOG_INFO 1
#define EDGECORE_LOG_WARNING 2
#define EDGECORE_LOG_ERROR 3

typedef struct edgecore_host {
  edgecore_header header;

  // Stores the message `text` in `error` (which may be NULL) and returns `code`.
  int32_t(EDGECORE_CALL *fail)(edgecore_error *error, int32_t code, edgecore_str text);
  void(EDGECORE_CALL *log)(edgecore_scope *scope, int32_t level, edgecore_str text);

  // allocate and deallocate use the host's heap; both are NULL on a system without a heap. allocate returns NULL if no
  // memory is left.
  void *(EDGECORE_CALL *allocate)(edgecore_scope *scope, uint64_t size, uint64_t alignment);
  void(EDGECORE_CALL *deallocate)(edgecore_scope *scope, void *data, uint64_t size, uint64_t alignment);

  // Allocates memory that lives until the current execute or kernel call returns. Returns NULL if no memory is left.
  // May be called only with the scope of an instance or a kernel call, and only on the thread on which the host called
  // the plugin.
  void *(EDGECORE_CALL *scratch)(edgecore_scope *scope, uint64_t size, uint64_t alignment);

  // Splits the items [0, n) into ranges of at least `grain` items (0: the host chooses), calls fn for each range, and
  // returns when all ranges are done. Uses at most the method's number of threads. Re-entrant: if the threads are busy
  // with another loop, or if fn itself calls parallel_for, the calling thread computes the whole loop instead of
  // waiting for a lock. May be called only with the scope of an instance or a kernel call. `flags` is reserved: pass 0.
  void(EDGECORE_CALL *parallel_for)(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg,
                                    uint32_t flags);
  uint32_t(EDGECORE_CALL *worker_count)(edgecore_scope *scope);  // at least 1
  uint32_t(EDGECORE_CALL *worker_index)(edgecore_scope *scope);  // index of the thread; 0 outside parallel_for
  int32_t(EDGECORE_CALL *is_worker)(edgecore_scope *scope);  // 1 while the calling thread runs the fn of a parallel_for

  // Finds the bytes stored under `key` in the .pte file, or in a .ptd file that was loaded with it. The bytes stay
  // valid at the same address until the program is closed. May be called with any scope except a driver's, which
  // belongs to no file.
  int32_t(EDGECORE_CALL *named_data)(edgecore_scope *scope, edgecore_str key, edgecore_bytes *out,
                                     edgecore_error *error);

  // Sets the shape of an output; the rank stays the same. May change dl.data if the tensor is GROWABLE. Every kernel,
  // and every delegate in prepare, must call resize for each output before it writes, even if the shape is right
  // already, because resize also refuses an output that is READ_ONLY. resize fails, and leaves the tensor unchanged, if
  // the shape exceeds capacity or max_shape, or if the shape changes while another argument of the call is the same
  // tensor. May be called only with the scope of an instance or a kernel call, and only on the thread on which the host
  // called the plugin.
  int32_t(EDGECORE_CALL *resize)(edgecore_scope *scope, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                                 edgecore_error *error);

  // Begin and end a profile event of an instance or a kernel; events must be properly nested. Report events only if the
  // method is traced, and test this before building `name`. If the method is not traced, event_begin and event_end are
  // NULL in the table that a kernel receives, and an instance's edgecore_instance_info.flags lack
  // EDGECORE_INSTANCE_PROFILED.
  uint64_t(EDGECORE_CALL *event_begin)(edgecore_scope *scope, edgecore_str name, int64_t debug_id);
  void(EDGECORE_CALL *event_end)(edgecore_scope *scope, uint64_t event);

  // Reports the progress of slow work, such as a recompilation in prepare: `done` of `total` steps are done. `total` is
  // 0 if the number of steps is unknown.
  void(EDGECORE_CALL *progress)(edgecore_scope *scope, edgecore_str what, uint64_t done, uint64_t total);

  // Adds an event whose times are known only afterwards, for example from the profile of a library or a device. `begin`
  // and `end` are nanoseconds since the start of the current call (execute, prepare or kernel), measured by any clock.
  // This member is NULL if event_begin is NULL.
  void(EDGECORE_CALL *event_add)(edgecore_scope *scope, edgecore_str name, int64_t debug_id, uint64_t begin,
                                 uint64_t end);

  // For debugging, passes to the host a value that an operation inside of a delegate has computed. `name` and
  // `debug_id` identify the operation, as in event_begin. `value` is a dense tensor in host memory. Its dims are listed
  // from outermost to innermost in memory. The host copies the value. May be called only with the scope of an instance
  // that has EDGECORE_INSTANCE_VALUES in edgecore_instance_info.flags, during execute, on the thread on which the host
  // called the plugin.
  void(EDGECORE_CALL *event_value)(edgecore_scope *scope, edgecore_str name, int64_t debug_id,
                                   const edgecore_tensor *value);
} edgecore_host;

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_ABI_H_
