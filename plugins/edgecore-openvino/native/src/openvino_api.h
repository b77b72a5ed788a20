// OpenVINO's C interface, opened by absolute path when the first file needs it. Nothing is linked: this library
// stays small, a machine without OpenVINO gets a sentence instead of a loader's error, and no C++ type or exception of
// OpenVINO crosses. Signatures: openvino/c/*.h of 2026.4. Element types are never named by number except for bytes,
// which a check of the size guards: they are read from the model's ports.
#ifndef EDGECORE_OPENVINO_API_H_
#define EDGECORE_OPENVINO_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "edgecore/backend.hpp"

namespace edgecore_openvino {

struct ov_core;
struct ov_model;
struct ov_compiled;
struct ov_request;
struct ov_tensor;
struct ov_port;

struct ov_shape {
  int64_t rank;
  int64_t *dims;
};
struct ov_dimension {
  int64_t min, max;
};
struct ov_partial_shape {
  ov_dimension rank;
  ov_dimension *dims;
};
struct ov_property {
  const char *key;
  const void *value;  // a NUL-terminated string
};
struct ov_version {
  const char *build_number;
  const char *description;
};

// name of the C function, then its parameters; each returns a status, 0 for success
#define EDGECORE_OPENVINO_FUNCTIONS(X)                                                                               \
  X(ov_get_openvino_version, ov_version *)                                                                           \
  X(ov_core_create, ov_core **)                                                                                      \
  X(ov_core_set_properties, const ov_core *, const char *device, size_t, const ov_property *)                        \
  X(ov_core_read_model_from_memory_buffer, const ov_core *, const char *, size_t, const ov_tensor *, ov_model **)    \
  X(ov_core_compile_model_props, const ov_core *, const ov_model *, const char *device, size_t, const ov_property *, \
    ov_compiled **)                                                                                                  \
  X(ov_core_import_model, const ov_core *, const char *, size_t, const char *device, ov_compiled **)                 \
  X(ov_model_reshape_by_port_indexes, const ov_model *, const size_t *, const ov_partial_shape *, size_t)            \
  X(ov_model_const_output_by_index, const ov_model *, size_t, ov_port **)                                            \
  X(ov_compiled_model_inputs_size, const ov_compiled *, size_t *)                                                    \
  X(ov_compiled_model_outputs_size, const ov_compiled *, size_t *)                                                   \
  X(ov_compiled_model_input_by_index, const ov_compiled *, size_t, ov_port **)                                       \
  X(ov_compiled_model_output_by_index, const ov_compiled *, size_t, ov_port **)                                      \
  X(ov_compiled_model_create_infer_request, const ov_compiled *, ov_request **)                                      \
  X(ov_const_port_get_shape, const ov_port *, ov_shape *)                                                            \
  X(ov_port_get_element_type, const ov_port *, uint32_t *)                                                           \
  X(ov_tensor_create_from_host_ptr, uint32_t, ov_shape, void *, ov_tensor **)                                        \
  X(ov_tensor_get_byte_size, const ov_tensor *, size_t *)                                                            \
  X(ov_infer_request_set_input_tensor_by_index, ov_request *, size_t, const ov_tensor *)                             \
  X(ov_infer_request_set_output_tensor_by_index, ov_request *, size_t, const ov_tensor *)                            \
  X(ov_infer_request_infer, ov_request *)                                                                            \
  X(ov_shape_free, ov_shape *)

// functions that return nothing
#define EDGECORE_OPENVINO_RELEASES(X)      \
  X(ov_version_free, ov_version *)         \
  X(ov_core_free, ov_core *)               \
  X(ov_model_free, ov_model *)             \
  X(ov_compiled_model_free, ov_compiled *) \
  X(ov_infer_request_free, ov_request *)   \
  X(ov_tensor_free, ov_tensor *)           \
  X(ov_output_const_port_free, ov_port *)  \
  X(ov_free, const char *)

struct Api {
#define EDGECORE_OPENVINO_MEMBER(name, ...) int (*name)(__VA_ARGS__);
  EDGECORE_OPENVINO_FUNCTIONS(EDGECORE_OPENVINO_MEMBER)
#undef EDGECORE_OPENVINO_MEMBER
#define EDGECORE_OPENVINO_MEMBER(name, ...) void (*name)(__VA_ARGS__);
  EDGECORE_OPENVINO_RELEASES(EDGECORE_OPENVINO_MEMBER)
#undef EDGECORE_OPENVINO_MEMBER
  const char *(*ov_get_last_err_msg)();
  std::string version;  // the build number, such as 2026.4.1-22055-f47d2e1ff3a

  // Throws a sentence with OpenVINO's own text if a call failed: `what` says what could not be done.
  void check(int status, int32_t code, const char *what) const;
};

// Opens the C library at an absolute path, once per process. Throws a sentence with the command that mends it if there
// is none (an empty path), if it is not OpenVINO 2026.4, or if another one is open. Thread-safe.
void open_library(std::string_view path);

// The functions, after open_library.
const Api &api();

template <typename T, void (*Api::*release)(T *)>
struct Release {
  void operator()(T *pointer) const { (api().*release)(pointer); }
};
using Model = std::unique_ptr<ov_model, Release<ov_model, &Api::ov_model_free>>;
using Compiled = std::unique_ptr<ov_compiled, Release<ov_compiled, &Api::ov_compiled_model_free>>;
using Request = std::unique_ptr<ov_request, Release<ov_request, &Api::ov_infer_request_free>>;
using Tensor = std::unique_ptr<ov_tensor, Release<ov_tensor, &Api::ov_tensor_free>>;
using Port = std::unique_ptr<ov_port, Release<ov_port, &Api::ov_output_const_port_free>>;

}  // namespace edgecore_openvino

#endif  // EDGECORE_OPENVINO_API_H_
