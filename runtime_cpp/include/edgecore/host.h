// The interface between the core and a host layer: scopes, the services that the core provides, loaded backends, and
// event tracing.
#ifndef EDGECORE_HOST_H_
#define EDGECORE_HOST_H_

#include "edgecore/backend.h"
#include "edgecore/kernel.h"
#include "edgecore/program.h"

namespace edgecore {
class Method;
}

// The object behind the C interface's edgecore_scope pointer. The host layer makes those of drivers and programs, the
// core those of delegates, instances and kernels.
struct edgecore_scope {
  const edgecore::Program *program = nullptr;  // NULL for a driver
  edgecore::Method *method = nullptr;          // NULL for a driver and a program
  void *context = nullptr;                     // the host layer's own; MethodConfig::context in a method's scopes
};

namespace edgecore {

// A table with every service that needs no operating system: fail, log (drops), scratch, parallel_for (inline),
// worker_count (1), worker_index, is_worker, named_data (of the file), resize, event_begin, event_end, event_add,
// progress (drops). allocate and deallocate are NULL. A host layer overwrites what it does better (allocate, log,
// parallel_for and the worker members, named_data with external files), and keeps the rest.
edgecore_host core_services();

// A backend that is open for a program. The host layer opens driver and program handle, keeps them while methods use
// them, and closes them in reverse.
struct LoadedBackend {
  const edgecore_backend *table = nullptr;
  edgecore_driver *driver = nullptr;
  edgecore_program *program = nullptr;  // of the Program whose methods get this
};

// The header of a struct of the C interface, for the version of this build.
template <typename Struct>
constexpr edgecore_header header_of() {
  return {sizeof(Struct), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

struct AbiVersion {
  uint16_t major;
  uint16_t minor;
};

// The interface version that a plugin was built for, and the oldest host that it works with. Kernel libraries work with
// any host.
struct PluginVersions {
  AbiVersion built_for;
  AbiVersion min_host;
};

// A host works with plugins that were built for `oldest` or later. It provides the members of `newest`.
struct HostVersions {
  AbiVersion oldest;
  AbiVersion newest;
};

constexpr AbiVersion kAbiVersion = {EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
constexpr HostVersions kHostVersions = {kAbiVersion, kAbiVersion};

enum class Fit : uint8_t { kFits, kUpdateHost, kUpdatePlugin };

// Decides if the two work together, or else which of them is too old. Versions of major number 0 must be equal.
// From 1.0 on a plugin of a newer minor version runs on a host that is not older than `min_host`. A plugin of a newer
// major version never runs.
Fit negotiate(const PluginVersions &plugin, const HostVersions &host);

// Like negotiate, with an error that names both versions and the package to update. `package` may be empty.
// Errors: NOT_SUPPORTED.
Status check_versions(const PluginVersions &plugin, const HostVersions &host, StringView package, StringView where,
                      Error &error);

// Checks that this host can use `backend`: table present, versions, required members, no contradicting flags, and no
// build feature outside `host_features` (EDGECORE_FEATURE_*). Errors name `where`, the library's path or package. Call
// it before any member of the table. Errors: NOT_SUPPORTED.
Status check_backend(const edgecore_backend *backend, uint32_t host_features, StringView where, Error &error);

// Checks that this host can use a kernel library. Errors: NOT_SUPPORTED.
Status check_kernel_library(const edgecore_kernel_library *library, StringView where, Error &error);

enum class EventKind : uint8_t { kExecute, kKernel, kDelegate, kPrepare, kCopy, kBackend };

// Receives the begin and end of each event of a method. Calls come from the thread that executes, properly nested.
class EventTracer {
 public:
  // `instruction` is the index in the method's chain, `debug_id` the backend's identifier (kBackend) or -1.
  virtual uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) = 0;
  virtual void end(uint64_t event) = 0;
  // An event of the backend that is called, in nanoseconds since that call began (kBackend).
  virtual void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) = 0;

 protected:
  ~EventTracer() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_H_
