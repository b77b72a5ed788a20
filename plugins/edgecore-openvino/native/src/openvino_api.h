// OpenVINO's C interface. OpenVINO's library is not linked, but opened by absolute path when the first .pte file that
// needs OpenVINO is loaded. So this plugin stays small, an error says what to install on a machine without OpenVINO,
// and this plugin uses no C++ type or exception of OpenVINO. The signatures follow openvino/c/*.h of OpenVINO 2026.4.
//
// The values of OpenVINO's enum of element types have changed between releases, so delegate.cpp asks the model for the
// element type of each input and output. Only the types of the weights' buffer and of models without a header are
// constants; if these change to types of another size, make_tensor fails because the number of bytes differs.
#ifndef EDGECORE_OPENVINO_API_H_
#define EDGECORE_OPENVINO_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "edgecore/backend.hpp"

namespace edgecore::openvino {

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
struct ov_profiling_info {
  int status;                   // kExecuted if the node ran, otherwise another number
  int64_t real_time, cpu_time;  // microseconds
  const char *node_name, *exec_type, *node_type;
};
constexpr int kExecuted = 2;
struct ov_profiling_list {
  ov_profiling_info *infos;
  size_t size;
};
struct ov_available_devices {
  char **devices;
  size_t size;
};
struct ov_version {
  const char *build_number;
  const char *description;
};

// X(name of the C function, types of its parameters...). Each function returns a status, 0 for success.
#define EDGECORE_OPENVINO_FUNCTIONS(X)                                                                               \
  X(ov_get_openvino_version, ov_version *)                                                                           \
  X(ov_core_create, ov_core **)                                                                                      \
  X(ov_core_get_available_devices, const ov_core *, ov_available_devices *)                                          \
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
  X(ov_infer_request_get_profiling_info, const ov_request *, ov_profiling_list *)                                    \
  X(ov_shape_free, ov_shape *)

// X(name of the C function, type of its parameter). These functions return nothing and release an object.
#define EDGECORE_OPENVINO_RELEASES(X)                  \
  X(ov_version_free, ov_version *)                     \
  X(ov_core_free, ov_core *)                           \
  X(ov_available_devices_free, ov_available_devices *) \
  X(ov_model_free, ov_model *)                         \
  X(ov_compiled_model_free, ov_compiled *)             \
  X(ov_infer_request_free, ov_request *)               \
  X(ov_tensor_free, ov_tensor *)                       \
  X(ov_output_const_port_free, ov_port *)              \
  X(ov_profiling_info_list_free, ov_profiling_list *)  \
  X(ov_free, const char *)

// Pointers to the C functions that the two macros above list; open_library reads them from OpenVINO's library.
struct Api {
#define EDGECORE_OPENVINO_MEMBER(name, ...) int (*name)(__VA_ARGS__);
  EDGECORE_OPENVINO_FUNCTIONS(EDGECORE_OPENVINO_MEMBER)
#undef EDGECORE_OPENVINO_MEMBER
#define EDGECORE_OPENVINO_MEMBER(name, ...) void (*name)(__VA_ARGS__);
  EDGECORE_OPENVINO_RELEASES(EDGECORE_OPENVINO_MEMBER)
#undef EDGECORE_OPENVINO_MEMBER
  const char *(*ov_get_last_err_msg)();
  std::string version;  // the build number of OpenVINO, such as 2026.4.1-22055-f47d2e1ff3a

  // If the status of a call is not 0, throws edgecore::backend::Failure with `code`. The message names the failed
  // action, `what`, and includes OpenVINO's own message.
  void check(int status, int32_t code, const char *what) const;
};

// Opens OpenVINO's C library at an absolute path, once per process. Throws edgecore::backend::Failure if another path
// was opened before. Also throws it, with the command that installs OpenVINO, if the path is empty, or if the library
// is not OpenVINO 2026.4 or a later release of 2026. Thread-safe.
void open_library(std::string_view path);

// Returns the functions of the library that open_library has opened.
const Api &api();

// A deleter for std::unique_ptr that calls one of the release functions.
template <typename T, void (*Api::*release)(T *)>
struct Release {
  void operator()(T *pointer) const { (api().*release)(pointer); }
};
using Model = std::unique_ptr<ov_model, Release<ov_model, &Api::ov_model_free>>;
using Compiled = std::unique_ptr<ov_compiled, Release<ov_compiled, &Api::ov_compiled_model_free>>;
using Request = std::unique_ptr<ov_request, Release<ov_request, &Api::ov_infer_request_free>>;
using Tensor = std::unique_ptr<ov_tensor, Release<ov_tensor, &Api::ov_tensor_free>>;
using Port = std::unique_ptr<ov_port, Release<ov_port, &Api::ov_output_const_port_free>>;

}  // namespace edgecore::openvino

#endif  // EDGECORE_OPENVINO_API_H_
