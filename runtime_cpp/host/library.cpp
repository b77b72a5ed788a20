#include "host/library.h"

#include <dlfcn.h>

#include "edgecore/host.h"

namespace edgecore {

uint32_t host_features() {
  uint32_t features = 0;
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  features |= EDGECORE_FEATURE_ASAN;
#endif
#if __has_feature(thread_sanitizer)
  features |= EDGECORE_FEATURE_TSAN;
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
  features |= EDGECORE_FEATURE_ASAN;
#endif
#if defined(__SANITIZE_THREAD__)
  features |= EDGECORE_FEATURE_TSAN;
#endif
  return features;
}

namespace {

// Returns the address of the symbol `name` in the library at `path`. The error message uses `what` ("backend" or
// "kernel").
Result<void *> symbol_of(const char *path, const char *what, const char *name, Error &error) {
  if (path[0] != '/') {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The ", what, " library ", path,
                " is not given by an absolute path; libraries are never searched for.");
  }
  // For a file that is already loaded, dlopen returns the same handle and does not run initializers again.
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fail(error, EDGECORE_ACCESS_FAILED, "The ", what, " library ", path, " cannot be loaded: ", dlerror(), ".");
  }
  void *symbol = dlsym(handle, name);
  if (symbol == nullptr) {
    return fail(error, EDGECORE_NOT_FOUND, "The library ", path, " exports no ", name, ": it is no ", what,
                " library, or one for another version of the native interface (this edgecore has ", EDGECORE_ABI_MAJOR,
                ".", EDGECORE_ABI_MINOR, ").");
  }
  return symbol;
}

}  // namespace

Result<const edgecore_backend *> load_backend_library(const char *path, StringView backend_id, Error &error) {
  const Result<void *> symbol = symbol_of(path, "backend", EDGECORE_BACKEND_SYMBOL, error);
  EDGECORE_TRY(symbol.status());
  const edgecore_backend *table = reinterpret_cast<edgecore_backend_fn>(*symbol)();
  EDGECORE_TRY(check_backend(table, host_features(), path, error));
  if (!backend_id.empty() && StringView(table->backend_id) != backend_id) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The library ", path, " is the backend ", table->backend_id, ", not ",
                backend_id, " as its package declares.");
  }
  return table;
}

Result<const edgecore_kernel_library *> load_kernel_library(const char *path, Error &error) {
  const Result<void *> symbol = symbol_of(path, "kernel", EDGECORE_KERNELS_SYMBOL, error);
  EDGECORE_TRY(symbol.status());
  const edgecore_kernel_library *library = reinterpret_cast<edgecore_kernels_fn>(*symbol)();
  EDGECORE_TRY(check_kernel_library(library, path, error));
  return library;
}

}  // namespace edgecore
