// The C interface between the runtime (the host) and a backend, draft version 0. Plain C.
//
// The entry function of a backend returns its edgecore_backend: the table of its functions and properties. A shared
// library exports only this function, as edgecore_backend_v0. In a static build (EDGECORE_STATIC),
// EDGECORE_BACKEND(xnnpack) names this function edgecore_backend_v0_xnnpack; the application calls this function and
// passes the table to the runtime. No static initializer registers a backend.
//
// Handles (opaque pointers) and their lifetimes: driver (one per process) > program (one per loaded file) > delegate
// (one per blob of a method) > instance (execution state of a delegate). A state set (mutable buffers) also belongs to
// a program; instances use it. The host destroys each handle that it created. The host destroys children before their
// parent, and a state set after the instances that use the set. Unless a comment says otherwise, a function of the
// table may allocate, may call the host and may block as long as its work takes. A function that fails frees everything
// that it allocated.
#ifndef EDGECORE_BACKEND_H_
#define EDGECORE_BACKEND_H_

#include "edgecore/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct edgecore_driver edgecore_driver;        // the backend's devices; thread-safe
typedef struct edgecore_program edgecore_program;      // one loaded file, with its shared weights; thread-safe
typedef struct edgecore_delegate edgecore_delegate;    // the blob of one delegate of one method; thread-safe
typedef struct edgecore_state_set edgecore_state_set;  // mutable buffers of one session, see state_set_create
typedef struct edgecore_instance edgecore_instance;    // execution state of a delegate; used by one thread at a time

// --- Declarations: edgecore_backend.flags ----------------------------------------------------------------------------

#define EDGECORE_HOST_THREADS 1u          // the backend computes on the host's threads, through host->parallel_for
#define EDGECORE_OWN_THREADS 2u           // the backend has up to worker_count threads; none busy-waits after execute
#define EDGECORE_NO_THREADS 4u            // the backend computes on the calling thread or a device, and has no threads
#define EDGECORE_VALIDATES_BLOBS 8u       // the backend refuses a malformed blob without a crash, hang or stray access
#define EDGECORE_NEEDS_TRUSTED_BLOBS 16u  // a malformed blob may crash the backend: the host checks SHA-256 of blobs
#define EDGECORE_MAY_ALIAS_INPUT 32u      // execute works even if outputs lie in the memory of an input
#define EDGECORE_OWN_HEAP 64u  // the library has a heap of its own: the memory needs that it declares are estimates
#define EDGECORE_VENDOR_THREADS 128u  // a vendor's driver or library has threads that the backend cannot limit

// edgecore_backend.features: how the library was built. The host refuses a library that has a feature which the host
// lacks. For example, code built with a sanitizer needs the sanitizer's runtime in the process.
#define EDGECORE_FEATURE_ASAN 1u
#define EDGECORE_FEATURE_TSAN 2u
#define EDGECORE_FEATURE_FREE_THREADED 4u

// --- Options and compile specs ---------------------------------------------------------------------------------------

#define EDGECORE_OPTION_BOOL 0u
#define EDGECORE_OPTION_INT 1u
#define EDGECORE_OPTION_FLOAT 2u
#define EDGECORE_OPTION_STRING 3u
#define EDGECORE_OPTION_BYTES 4u
#define EDGECORE_OPTION_LIST 5u  // a JSON array

typedef struct edgecore_option {
  edgecore_str name;
  uint32_t type;
  uint32_t reserved;
  union {
    int64_t i;  // value of an option of type BOOL (0 or 1) or INT
    double d;
    edgecore_bytes bytes;  // STRING, BYTES, LIST
  } value;
} edgecore_option;

typedef struct edgecore_options {
  const edgecore_option *items;
  uint64_t count;
  uint32_t stride;
  uint32_t reserved;
} edgecore_options;

typedef struct edgecore_option_spec {
  edgecore_header header;
  edgecore_str name;
  uint32_t type;
  uint32_t when;  // EDGECORE_OPTION_AT_LOAD | EDGECORE_OPTION_AT_RUN
  edgecore_str help;
} edgecore_option_spec;

#define EDGECORE_OPTION_AT_LOAD 1u
#define EDGECORE_OPTION_AT_RUN 2u

typedef struct edgecore_compile_spec {
  edgecore_str key;
  edgecore_bytes value;
} edgecore_compile_spec;

// --- Memory ----------------------------------------------------------------------------------------------------------

#define EDGECORE_MEMORY_SCRATCH 0u     // kind of memory that lives for one call
#define EDGECORE_MEMORY_PERSISTENT 1u  // kind of memory that lives as long as the instance
#define EDGECORE_MEMORY_STAGING 2u     // kind of memory for copies between host and device

typedef struct edgecore_memory_need {
  edgecore_header header;
  uint32_t kind;
  uint32_t space;  // 0: host memory; other numbers: memories that the backend defines
  uint64_t bytes;
  uint64_t alignment;
  edgecore_str shared_group;  // memory needs with the same non-empty group may share a block: only the largest counts
} edgecore_memory_need;

typedef struct edgecore_memory_block {
  void *data;
  uint64_t bytes;
} edgecore_memory_block;

// Requirements that a delegate has for the memory of one argument.
typedef struct edgecore_buffer_requirement {
  edgecore_header header;
  uint64_t alignment;     // alignment in bytes, a power of two
  uint64_t tail_padding;  // bytes after the tensor's end that must be readable
  uint64_t granule;       // the size of the argument's memory must be a multiple of this many bytes; 1: any size
  uint32_t memory_kind;   // memory kind for buffer_create: 0 is host memory; the backend defines other numbers
  uint32_t reserved;
} edgecore_buffer_requirement;

// --- Structs that the host passes to the backend ---------------------------------------------------------------------

typedef struct edgecore_program_info {
  edgecore_header header;
  edgecore_scope *scope;
  edgecore_options options;  // options that the application set for this backend; the host has checked names and types
} edgecore_program_info;

typedef struct edgecore_delegate_info {
  edgecore_header header;
  edgecore_scope *scope;
  edgecore_str method;
  uint64_t delegate_index;
  edgecore_bytes blob;  // the delegate's blob, valid until the backend calls release_blob or the delegate is destroyed
  void(EDGECORE_CALL *release_blob)(edgecore_scope *scope);
  const edgecore_compile_spec *compile_specs;
  uint64_t compile_spec_count;
  uint32_t compile_spec_stride;
  uint32_t reserved;
  edgecore_str compatibility;  // string that the backend's compiler stored; empty if another toolchain made the file
} edgecore_delegate_info;

#define EDGECORE_INSTANCE_PROFILED 1u  // flag: the host records profile events; otherwise none need to be reported
// flag: the host records values of operations (host->event_value); reporting them is optional
#define EDGECORE_INSTANCE_VALUES 2u

typedef struct edgecore_instance_info {
  edgecore_header header;
  edgecore_scope *scope;  // scope of the instance, which carries the method's thread count
  uint32_t flags;         // EDGECORE_INSTANCE_*
  uint32_t reserved;
  edgecore_state_set *state_set;  // the session's state set, see state_set_create; outlives the instance; may be NULL
} edgecore_instance_info;

typedef struct edgecore_state_set_info {
  edgecore_header header;
  edgecore_scope *scope;
} edgecore_state_set_info;

// The description of one tensor of a state set. The backend fills in the description. The description's pointers stay
// valid until another instance is created with the set, or until the set is destroyed.
typedef struct edgecore_state_tensor {
  edgecore_header header;
  edgecore_str name;    // qualified name of the model's buffer, such as "layers.0.cache.k"; unique in the set
  int32_t scalar_type;  // element type: a number of the .pte's ScalarType
  int32_t ndim;
  const int64_t *shape;
  uint64_t bytes;  // bytes of the elements in row-major order without gaps
} edgecore_state_tensor;

// The result of prepare, which the backend fills in. The result's arrays belong to the instance and live until the next
// call of prepare.
typedef struct edgecore_prepared {
  edgecore_header header;
  const edgecore_memory_need *needs;
  uint64_t need_count;
  uint32_t need_stride;
  uint32_t reserved;
} edgecore_prepared;

typedef void(EDGECORE_CALL *edgecore_completion_fn)(void *arg, int32_t code, edgecore_str text);

typedef struct edgecore_execute_info {
  edgecore_header header;
  const edgecore_memory_block *memory;  // one block for each memory need of the last prepare, in the same order
  uint64_t memory_count;
  edgecore_completion_fn completion;  // called when pending work ends; NULL: execute must not return EDGECORE_PENDING
  void *completion_arg;
} edgecore_execute_info;

// execute returns this code if the work continues after it has returned. The backend then calls the completion function
// exactly once, from any thread, possibly before execute has returned. The backend passes a code and, if the code is
// not EDGECORE_OK, a message, which the host copies. Until that call, arguments and memory blocks stay valid and do not
// move, and the only function that the host calls with this instance is instance_destroy. `info` and `error` are valid
// only during execute. instance_destroy waits until the device no longer uses arguments and memory; after
// instance_destroy has returned, the completion function must not be called.
#define EDGECORE_PENDING 0x40

#define EDGECORE_COMPATIBLE 0
#define EDGECORE_COMPATIBLE_RECOMPILE 1  // the blob works, but slower or after a recompilation; `error` may say why
#define EDGECORE_INCOMPATIBLE 2

#define EDGECORE_HANDLE_ADDRESS 1u   // address of host memory
#define EDGECORE_HANDLE_DMA_BUF 2u   // file descriptor
#define EDGECORE_HANDLE_WIN32_NT 3u  // NT handle
#define EDGECORE_HANDLE_AHARDWAREBUFFER 4u

// --- The functions of a backend --------------------------------------------------------------------------------------

// The functions and properties of a backend. The members up to `version` keep their offsets in every version of the
// interface, so that a host that refuses a backend can still read `distribution` and name the package to the user. Only
// functions marked (optional) may be NULL.
typedef struct edgecore_backend {
  edgecore_header header;   // header.major and minor are the interface version that the library was built for
  uint16_t min_host_major;  // interface version of the oldest host that the library works with
  uint16_t min_host_minor;
  uint32_t flags;
  uint32_t features;
  uint32_t reserved;
  edgecore_str backend_id;    // name of the backend in the .pte: "XnnpackBackend"
  edgecore_str distribution;  // pip package
  edgecore_str version;
  const edgecore_option_spec *options;
  uint64_t option_count;
  uint32_t option_stride;
  uint32_t reserved2;

  // (optional) Returns EDGECORE_OK if the device and its driver are present on this machine. Must be cheap and allocate
  // nothing. Called from any thread.
  int32_t(EDGECORE_CALL *probe)(const edgecore_host *host, edgecore_scope *scope, edgecore_error *error);

  int32_t(EDGECORE_CALL *driver_create)(const edgecore_host *host, edgecore_scope *scope, edgecore_driver **out,
                                        edgecore_error *error);
  void(EDGECORE_CALL *driver_destroy)(edgecore_driver *driver);

  // (optional) Returns EDGECORE_COMPATIBLE, EDGECORE_COMPATIBLE_RECOMPILE or EDGECORE_INCOMPATIBLE for a blob.
  // `compatibility` is the string that the backend's compiler (preprocess) stored with the blob, such as the name of
  // the device for which the blob was compiled. For INCOMPATIBLE the reason is stored in `error`. Called before the
  // blob is read.
  int32_t(EDGECORE_CALL *check_compatibility)(edgecore_driver *driver, edgecore_str compatibility,
                                              edgecore_error *error);

  int32_t(EDGECORE_CALL *program_open)(edgecore_driver *driver, const edgecore_program_info *info,
                                       edgecore_program **out, edgecore_error *error);
  void(EDGECORE_CALL *program_close)(edgecore_program *program);

  int32_t(EDGECORE_CALL *delegate_load)(edgecore_program *program, const edgecore_delegate_info *info,
                                        edgecore_delegate **out, edgecore_error *error);
  void(EDGECORE_CALL *delegate_destroy)(edgecore_delegate *delegate);

  // Returns the number of arguments (inputs, then outputs) that execute expects. Does not allocate or fail.
  uint64_t(EDGECORE_CALL *argument_count)(edgecore_delegate *delegate);
  // (optional) Sets the requirements for the memory of argument `index`. On entry `out` has the defaults: alignment 16,
  // granule 1, no tail padding, host memory. Does not fail.
  void(EDGECORE_CALL *buffer_requirement)(edgecore_delegate *delegate, uint64_t index,
                                          edgecore_buffer_requirement *out);

  int32_t(EDGECORE_CALL *instance_create)(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                          edgecore_instance **out, edgecore_error *error);
  void(EDGECORE_CALL *instance_destroy)(edgecore_instance *instance);

  // Prepares the instance for the shapes of `args`. The host calls prepare before the first execute, and again whenever
  // a shape, a tensor's flags or a number argument has changed. The dtype, rank and dim order of an argument never
  // change. When a method is loaded, tensors have their maximum shapes, and numbers are meaningless and have the flag
  // EDGECORE_VALUE_UNKNOWN; before execute, prepare is called again with the actual numbers. prepare checks dtypes,
  // ranks and shapes of all arguments, calls host->resize for each output (even if the shape is right already, because
  // resize also refuses read-only outputs), and returns the memory that execute needs. Tensors may have no data yet
  // (NULL). After a failure the host may call prepare again.
  int32_t(EDGECORE_CALL *prepare)(edgecore_instance *instance, const edgecore_value *args, uint64_t arg_count,
                                  uint32_t arg_stride, edgecore_prepared *out, edgecore_error *error);

  // Runs the delegate once. Arguments have the shapes of the last prepare, and their memory does not overlap (unless
  // the backend has MAY_ALIAS_INPUT). The backend must not keep pointers to the arguments, and should not allocate.
  // After a failure the content of the outputs is undefined, and the host may call execute again.
  int32_t(EDGECORE_CALL *execute)(edgecore_instance *instance, const edgecore_execute_info *info,
                                  const edgecore_value *args, uint64_t arg_count, uint32_t arg_stride,
                                  edgecore_error *error);

  // (optional: all seven or none) Functions for mutable buffers of the model that the backend keeps, such as a KV
  // cache. A state set holds the buffers of one session (a loaded file with its own history of calls). The host creates
  // the set before the first instance. The host passes the set to instance_create for all delegates of the session, or
  // only for the delegates of one method if the methods do not share their state. instance_create adds the buffers of
  // its delegate that are not in the set yet; their initial values are in the blob or in named data. Delegates that use
  // the same buffer name share one buffer. If the application provides no memory for state (StateStore), the host
  // passes no state set; instance_create must then fail for a delegate that needs one. All functions that take a state
  // set, and prepare and execute of its instances, are called by one thread at a time, and never while an execution is
  // pending.
  int32_t(EDGECORE_CALL *state_set_create)(edgecore_program *program, const edgecore_state_set_info *info,
                                           edgecore_state_set **out, edgecore_error *error);
  void(EDGECORE_CALL *state_set_destroy)(edgecore_state_set *state_set);
  // state_count returns the number of tensors in the set; state_describe describes the tensor `index`. Neither
  // allocates nor fails.
  uint64_t(EDGECORE_CALL *state_count)(edgecore_state_set *state_set);
  void(EDGECORE_CALL *state_describe)(edgecore_state_set *state_set, uint64_t index, edgecore_state_tensor *out);
  // Gives all tensors of the set their initial values. After a failed execution, or after a failure of reset or
  // import_state, the host calls reset, or import_state for each tensor, before the next execution with the set.
  int32_t(EDGECORE_CALL *reset)(edgecore_state_set *state_set, edgecore_error *error);
  // export_state copies a tensor of the set to row-major bytes. import_state sets the tensor from row-major bytes.
  // state_describe returns the number of these bytes. The host checks names, dtypes and shapes before the first
  // import_state, so import_state fails only if the device fails.
  int32_t(EDGECORE_CALL *export_state)(edgecore_state_set *state_set, uint64_t index, edgecore_memory_block out,
                                       edgecore_error *error);
  int32_t(EDGECORE_CALL *import_state)(edgecore_state_set *state_set, uint64_t index, edgecore_bytes in,
                                       edgecore_error *error);

  // (optional) Sets an option that the backend declares with EDGECORE_OPTION_AT_RUN. Called only while the instance is
  // not executing.
  int32_t(EDGECORE_CALL *set_option)(edgecore_instance *instance, const edgecore_option *option, edgecore_error *error);

  // (optional) Functions for tensors in device memory. If edgecore_tensor.buffer is not NULL, the tensor is in a buffer
  // of the device: its data is NULL, and byte_offset counts from the start of the buffer. A value stays on the device
  // if only delegates of this backend use it, all with the same memory_kind. Such a value has one device buffer. A
  // mutable buffer of the model has two: a run reads the old content from one and writes the new content to the other,
  // and the two swap roles after the run. If a kernel, another backend or the caller also uses a value, the host copies
  // the value between a buffer and host memory; for these copies a backend must set buffer_create, buffer_destroy,
  // buffer_map and buffer_unmap. If buffer_flush and buffer_invalidate are not NULL, the host calls flush after writing
  // to mapped memory, and invalidate before reading from it. `bytes` is the size at the maximum shape, with granule and
  // tail padding. A buffer has at most one mapping at a time, and none while an execution that uses the buffer is
  // pending. Buffers are destroyed after the instances that used them.
  int32_t(EDGECORE_CALL *buffer_create)(edgecore_driver *driver, uint64_t bytes, uint64_t alignment,
                                        uint32_t memory_kind, edgecore_buffer **out, edgecore_error *error);
  void(EDGECORE_CALL *buffer_destroy)(edgecore_buffer *buffer);
  int32_t(EDGECORE_CALL *buffer_map)(edgecore_buffer *buffer, uint64_t offset, uint64_t bytes, void **out,
                                     edgecore_error *error);
  int32_t(EDGECORE_CALL *buffer_unmap)(edgecore_buffer *buffer, edgecore_error *error);
  int32_t(EDGECORE_CALL *buffer_flush)(edgecore_buffer *buffer, edgecore_error *error);
  int32_t(EDGECORE_CALL *buffer_invalidate)(edgecore_buffer *buffer, edgecore_error *error);

  // (optional) Share buffers with other users of the device. buffer_export returns a handle of kind EDGECORE_HANDLE_*,
  // which the caller owns. buffer_import makes a buffer from a handle's memory, which must outlive the buffer. Both
  // return NOT_SUPPORTED for a kind that the backend does not support.
  int32_t(EDGECORE_CALL *buffer_export)(edgecore_buffer *buffer, uint32_t kind, uint64_t *out, edgecore_error *error);
  int32_t(EDGECORE_CALL *buffer_import)(edgecore_driver *driver, uint32_t kind, uint64_t handle, uint64_t bytes,
                                        uint32_t memory_kind, edgecore_buffer **out, edgecore_error *error);
} edgecore_backend;

typedef const edgecore_backend *(EDGECORE_CALL *edgecore_backend_fn)(void);

#define EDGECORE_BACKEND_SYMBOL "edgecore_backend_v0"

#if defined(EDGECORE_STATIC)
#define EDGECORE_BACKEND(name) const edgecore_backend *EDGECORE_CALL edgecore_backend_v0_##name(void)
#else
#define EDGECORE_BACKEND(name) EDGECORE_EXPORT const edgecore_backend *EDGECORE_CALL edgecore_backend_v0(void)
#endif

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_BACKEND_H_
