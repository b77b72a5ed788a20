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

// The object behind the C interface's edgecore_scope pointer. The host layer makes the scopes of drivers and programs,
// the core makes those of delegates, instances and kernels.
struct edgecore_scope {
  const edgecore::Program *program = nullptr;  // NULL for a driver
  edgecore::Method *method = nullptr;          // NULL for a driver and a program
  void *context = nullptr;                     // of the host layer; in scopes of a method it is MethodConfig::context
};

namespace edgecore {

// Returns a table with the services that need no operating system: fail, scratch, named_data, resize, event_begin,
// event_end and event_add; log and progress, which do nothing; parallel_for, which computes the loop on the calling
// thread, and worker_count, worker_index and is_worker for that. allocate and deallocate are NULL. A host layer copies
// the table and replaces the members that its system supports better.
edgecore_host core_services();

// A backend that is open for a program. The host layer creates driver and program handle, keeps them while methods use
// them, and destroys them in reverse order.
struct LoadedBackend {
  const edgecore_backend *table = nullptr;
  edgecore_driver *driver = nullptr;
  edgecore_program *program = nullptr;  // the backend's handle for the Program whose methods use this
};

// Returns the header of a struct of the C interface, for the version of this build.
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

// A host supports plugins that were built for `oldest` or later. It provides the members of `newest`.
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

// Checks that this host can use `backend`: the table is not NULL, its version is supported, required members are set,
// flags do not contradict each other, and the library has no build feature outside `host_features`
// (EDGECORE_FEATURE_*). Errors name `where`, the path or package of the library. Must be called before any function of
// the table. Errors: NOT_SUPPORTED.
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
  // Adds an event of the backend whose function is running (kBackend). Times are nanoseconds since the begin of that
  // call.
  virtual void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) = 0;

 protected:
  ~EventTracer() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_H_
