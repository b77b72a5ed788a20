// The shape of a delegate over a vendor's runtime: a library of its own, found when the driver is created and never
// unloaded, with contexts and threads of its own. It multiplies float32 by the factor that the blob holds.
#include <dlfcn.h>

#include <utility>

#include "edgecore/backend.hpp"

namespace {

using namespace edgecore::backend;

// What the vendor's header would declare.
constexpr const char *kRuntime = "libskeleton_runtime.so.2";
struct Runtime {
  void *(*create)(const void *blob, uint64_t size, uint32_t threads);  // NULL: the blob is not valid
  int32_t (*run)(void *context, const float *from, float *to, uint64_t count);
  void (*destroy)(void *context);
};

template <typename Function>
bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

struct Driver {
  // The loader searches where the system, or this library's RUNPATH, says; a file name with no folder is not taken from
  // the current directory.
  static void probe(const Host &) {
    if (dlopen(kRuntime, RTLD_NOW | RTLD_LOCAL) == nullptr) {
      fail(EDGECORE_NOT_FOUND, "the runtime %s is not installed (%s); get it from the vendor.", kRuntime, dlerror());
    }
  }
  explicit Driver(const Host &) {
    void *library = dlopen(kRuntime, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || !find(library, "skeleton_create", runtime.create) ||
        !find(library, "skeleton_run", runtime.run) || !find(library, "skeleton_destroy", runtime.destroy)) {
      fail(EDGECORE_NOT_FOUND, "the runtime %s cannot be used: %s.", kRuntime, dlerror());
    }
  }
  int32_t check_compatibility(std::string_view made_for) {
    if (made_for == "skeleton 2") return EDGECORE_COMPATIBLE;
    if (made_for == "skeleton 1") return EDGECORE_COMPATIBLE_RECOMPILE;
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the runtime takes what was compiled for 'skeleton 1' or 2.");
  }
  Runtime runtime = {};
};

struct Program {
  Program(Driver &driver, const Host &, const Options &) : runtime(driver.runtime) {}
  const Runtime &runtime;
};

// The blob stays borrowed: each instance gives it to the runtime.
struct Delegate {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info)
      : runtime(program.runtime), blob(info.blob) {}
  uint64_t argument_count() const noexcept { return 2; }
  const Runtime &runtime;
  edgecore_bytes blob;
};

struct Instance {
  // The runtime's threads: as many as the host would use itself.
  Instance(Delegate &delegate, const Host &host)
      : runtime(delegate.runtime),
        context(runtime.create(delegate.blob.data, delegate.blob.size, host.worker_count())) {
    if (context == nullptr) fail(EDGECORE_INVALID_PROGRAM, "the runtime does not take the blob.");
  }
  Instance(Instance &&other) noexcept : runtime(other.runtime), context(std::exchange(other.context, nullptr)) {}
  ~Instance() {
    if (context != nullptr) runtime.destroy(context);
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &arguments) {
    const edgecore_dl_tensor &input = arguments.tensor(0).dl;
    arguments.tensor(1);
    arguments.resize(1, input.shape, input.ndim);
    return {memory_need(EDGECORE_MEMORY_PERSISTENT, 0)};  // an estimate, for OWN_HEAP: the runtime allocates itself
  }
  void execute(const Arguments &arguments, const Memory &) {
    const edgecore_dl_tensor &input = arguments.tensor(0).dl;
    uint64_t count = 1;
    for (int32_t d = 0; d < input.ndim; ++d) count *= static_cast<uint64_t>(input.shape[d]);
    if (runtime.run(context, arguments.data<float>(0), arguments.data<float>(1), count) != 0) {
      fail(EDGECORE_INTERNAL, "the runtime failed.");
    }
  }

  const Runtime &runtime;
  void *context;
};

}  // namespace

extern "C" EDGECORE_BACKEND(vendor) {
  static const edgecore_backend table = make_table<Driver, Program, Delegate, Instance>(
      {"VendorSkeleton", "edgecore-vendor-skeleton", "1.0",
       EDGECORE_OWN_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS | EDGECORE_OWN_HEAP});
  return &table;
}
