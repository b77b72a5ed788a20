// The part of ONNX Runtime's C interface that edgecore-qnn uses. ONNX Runtime's library is not linked, but opened by
// absolute path when the first .pte file that needs QNN is loaded. So this plugin stays small and uses no C++ type of
// ONNX Runtime, and on a machine without ONNX Runtime an error says what to install.
//
// The library exports OrtGetApiBase, which returns a table of function pointers. Releases of ONNX Runtime only append
// functions to the table, so the indexes and signatures here are valid for API version 22 (ONNX Runtime 1.22) and all
// later ones. ort_api_test.cpp calls each function and checks its effect.
#ifndef EDGECORE_QNN_ORT_API_H_
#define EDGECORE_QNN_ORT_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "edgecore/backend.hpp"

namespace edgecore::qnn {

struct OrtEnv;
struct OrtEpDevice;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtValue;

constexpr uint32_t kOrtApiVersion = 22;
// Values of enumerators in ONNX Runtime's C interface.
constexpr int32_t kOrtLogError = 3;
constexpr int32_t kOrtNoOptimization = 0;
constexpr int32_t kOrtArenaAllocator = 1;
constexpr int32_t kOrtDefaultMemory = 0;

using OrtLog = void (*)(void *user, int32_t level, const char *category, const char *id, const char *location,
                        const char *message);

// X(index in the table, name of the function, types of its parameters...). Each returns a status: null for success.
#define EDGECORE_QNN_ORT_FUNCTIONS(X)                                                                                 \
  X(4, CreateEnvWithCustomLogger, OrtLog, void *user, int32_t level, const char *id, OrtEnv **)                       \
  X(8, CreateSessionFromArray, const OrtEnv *, const void *model, size_t, const OrtSessionOptions *, OrtSession **)   \
  X(9, Run, OrtSession *, const OrtRunOptions *, const char *const *input_names, const OrtValue *const *inputs,       \
    size_t, const char *const *output_names, size_t, OrtValue **outputs)                                              \
  X(10, CreateSessionOptions, OrtSessionOptions **)                                                                   \
  X(14, EnableProfiling, OrtSessionOptions *, const char *prefix)                                                     \
  X(23, SetSessionGraphOptimizationLevel, OrtSessionOptions *, int32_t level)                                         \
  X(24, SetIntraOpNumThreads, OrtSessionOptions *, int32_t)                                                           \
  X(49, CreateTensorWithDataAsOrtValue, const OrtMemoryInfo *, void *, size_t bytes, const int64_t *shape,            \
    size_t rank, int32_t type, OrtValue **)                                                                           \
  X(69, CreateCpuMemoryInfo, int32_t allocator, int32_t memory, OrtMemoryInfo **)                                     \
  X(130, AddSessionConfigEntry, OrtSessionOptions *, const char *key, const char *value)                              \
  X(301, RegisterExecutionProviderLibrary, OrtEnv *, const char *name, const char *path)                              \
  X(303, GetEpDevices, const OrtEnv *, const OrtEpDevice *const **, size_t *)                                         \
  X(304, SessionOptionsAppendExecutionProvider_V2, OrtSessionOptions *, OrtEnv *, const OrtEpDevice *const *, size_t, \
    const char *const *keys, const char *const *values, size_t)

// X(index, name of the function, type of the object that it releases)
#define EDGECORE_QNN_ORT_RELEASES(X)      \
  X(93, ReleaseStatus, OrtStatus)         \
  X(94, ReleaseMemoryInfo, OrtMemoryInfo) \
  X(95, ReleaseSession, OrtSession)       \
  X(96, ReleaseValue, OrtValue)           \
  X(100, ReleaseSessionOptions, OrtSessionOptions)

// Pointers to the functions that the two macros above list, and to GetErrorMessage and EpDevice_EpName. open_ort sets
// them.
struct OrtApi {
#define EDGECORE_QNN_MEMBER(index, name, ...) OrtStatus *(*name)(__VA_ARGS__);
  EDGECORE_QNN_ORT_FUNCTIONS(EDGECORE_QNN_MEMBER)
#undef EDGECORE_QNN_MEMBER
#define EDGECORE_QNN_MEMBER(index, name, type) void (*name)(type *);
  EDGECORE_QNN_ORT_RELEASES(EDGECORE_QNN_MEMBER)
#undef EDGECORE_QNN_MEMBER
  const char *(*GetErrorMessage)(const OrtStatus *);
  const char *(*EpDevice_EpName)(const OrtEpDevice *);
  std::string version;  // for example 1.31.1

  // If a call returned a status, releases it and throws edgecore::backend::Failure with `code`. The message consists of
  // `what` (the failed action), ONNX Runtime's own message, and `remedy` (the user's action).
  void check(OrtStatus *status, int32_t code, const std::string &what, const char *remedy) const;
};

// Opens ONNX Runtime's library at an absolute path, once per process. If the path is empty or the library is older than
// 1.22, throws an edgecore::backend::Failure with the command that installs ONNX Runtime. Also throws a Failure if
// another path was opened before. Thread-safe.
const OrtApi &open_ort(std::string_view path);

// Returns the functions of the library that open_ort has opened.
const OrtApi &ort();

// A deleter for std::unique_ptr that calls one of the release functions.
template <typename T, void (*OrtApi::*release)(T *)>
struct Release {
  void operator()(T *pointer) const { (ort().*release)(pointer); }
};
using MemoryInfo = std::unique_ptr<OrtMemoryInfo, Release<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>>;
using SessionOptions = std::unique_ptr<OrtSessionOptions, Release<OrtSessionOptions, &OrtApi::ReleaseSessionOptions>>;
using Value = std::unique_ptr<OrtValue, Release<OrtValue, &OrtApi::ReleaseValue>>;

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_ORT_API_H_
