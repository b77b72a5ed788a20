// The interface between the runtime core, which needs no operating system, and a host layer, which adds threads, a heap
// and shared libraries: services for plugins (backends and kernels), loaded backends, and event tracing.
#ifndef EDGECORE_HOST_H_
#define EDGECORE_HOST_H_

#include "edgecore/backend.h"
#include "edgecore/kernel.h"
#include "edgecore/program.h"

namespace edgecore {
class Method;
}

// The object behind the C interface's edgecore_scope pointer: tells the host which plugin object calls a service. The
// host layer creates the scopes of drivers and programs; the core creates the scopes of delegates, instances and kernel
// calls.
struct edgecore_scope {
  const edgecore::Program *program = nullptr;  // NULL for a driver
  edgecore::Method *method = nullptr;          // method that the scope belongs to; NULL for a driver or a program
  void *context = nullptr;  // the host layer's own pointer; in a method's scopes, it is MethodConfig::context
};

namespace edgecore {

// Returns the services for plugins that need no operating system. log, allocate and deallocate call the platform
// (edgecore/platform.h); allocate and deallocate are NULL if the platform has no heap. parallel_for computes the loop
// on the calling thread, so worker_count is 1; progress does nothing. A host layer copies the table, and replaces the
// members that its system can implement better.
edgecore_host core_services();

// A backend that is open for one program. The host layer creates the driver and then the program handle. The host layer
// keeps both while methods use the backend, and then destroys them in reverse order.
struct LoadedBackend {
  const edgecore_backend *table = nullptr;
  edgecore_driver *driver = nullptr;
  edgecore_program *program = nullptr;  // the backend's handle for the Program whose methods use the backend
};

// Returns the edgecore_header with which a struct of the C interface must start: its size and the interface version.
template <typename Struct>
constexpr edgecore_header header_of() {
  return {sizeof(Struct), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

struct AbiVersion {
  uint16_t major;
  uint16_t minor;
};

// The versions that a plugin (a backend or kernel library) declares: the interface version that it was built for, and
// the oldest host that it works with. Kernel libraries work with any host.
struct PluginVersions {
  AbiVersion built_for;
  AbiVersion min_host;
};

// The interface versions of a host. The host supports plugins that were built for version `oldest` or later. The
// structs that the host fills in have the members of version `newest`.
struct HostVersions {
  AbiVersion oldest;
  AbiVersion newest;
};

constexpr AbiVersion kAbiVersion = {EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
constexpr HostVersions kHostVersions = {kAbiVersion, kAbiVersion};

enum class Fit : uint8_t { kFits, kUpdateHost, kUpdatePlugin };

// Returns kFits if plugin and host work together; kUpdateHost or kUpdatePlugin names the side that is too old. If the
// major number of either is 0, both versions must be the same. From 1.0 on, the plugin's version must be at least
// host.oldest, and a plugin of a newer minor version runs if the host's version is at least plugin.min_host. A plugin
// of a newer major version never runs.
Fit negotiate(const PluginVersions &plugin, const HostVersions &host);

// Fails unless negotiate() returns kFits. The message names both versions, `where` (the path of the library), and the
// package to update. `package` may be empty. Errors: NOT_SUPPORTED.
Status check_versions(const PluginVersions &plugin, const HostVersions &host, StringView package, StringView where,
                      Error &error);

// Checks that this host can use `backend`: the table is not NULL, its version is supported, required members are set,
// flags do not contradict each other, and the library has no build feature outside `host_features`
// (EDGECORE_FEATURE_*). Errors name `where`, the path or package of the library. Must be called before any function of
// the table. Errors: NOT_SUPPORTED.
Status check_backend(const edgecore_backend *backend, uint32_t host_features, StringView where, Error &error);

// Checks that this host can use a kernel library: the table is not NULL, and its version is supported. Errors name
// `where`, the path or package of the library. Errors: NOT_SUPPORTED.
Status check_kernel_library(const edgecore_kernel_library *library, StringView where, Error &error);

enum class EventKind : uint8_t { kExecute, kKernel, kDelegate, kPrepare, kCopy, kBackend };

// Receives the begin and end of each profile event of a method. All calls come from the thread that executes the
// method. Events are properly nested.
class EventTracer {
 public:
  // Begins an event and returns its number, for end(). `instruction` is the index of the method's instruction, and
  // `debug_id` the backend's identifier of an operator (for kBackend) or -1.
  virtual uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) = 0;
  virtual void end(uint64_t event) = 0;
  // Adds an event (kBackend) that a backend measured in its current call of execute or prepare. Times are nanoseconds
  // since the start of that call.
  virtual void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) = 0;

 protected:
  ~EventTracer() = default;
};

// Receives the values that a run computes. All calls come from the thread that executes the method. A value is valid
// only during the call; a value in device memory has no data address.
class ValueListener {
 public:
  // Called for an operation inside of a delegate. `delegate` is the index of the delegate in the method, `debug_id` the
  // backend's identifier of the operation.
  virtual void value(size_t delegate, StringView name, int64_t debug_id, const edgecore_tensor &value) = 0;
  // result() is called for the result of a kernel and for each output of a delegate, output() for each output of the
  // method when the run has ended.
  virtual void result(size_t instruction, const edgecore_value &value) { (void)instruction, (void)value; }
  virtual void output(const edgecore_value &value) { (void)value; }

 protected:
  ~ValueListener() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_H_
