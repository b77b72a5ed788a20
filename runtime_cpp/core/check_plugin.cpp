// Whether a backend's or kernel library's table can be used by this host.
#include "edgecore/host.h"

namespace edgecore {
namespace {

Status check_version(const edgecore_header &header, StringView what, StringView where, Error &error) {
  if (header.major == EDGECORE_ABI_MAJOR && header.minor == EDGECORE_ABI_MINOR) return Status();
  return fail(error, EDGECORE_NOT_SUPPORTED, what, " in ", where, " was built for version ", header.major, ".",
              header.minor, " of the native interface, this runtime has ", EDGECORE_ABI_MAJOR, ".", EDGECORE_ABI_MINOR,
              ": install releases that belong together.");
}

bool exactly_one(uint32_t flags) { return flags != 0 && (flags & (flags - 1)) == 0; }

}  // namespace

Status check_backend(const edgecore_backend *backend, uint32_t host_features, StringView where, Error &error) {
  if (backend == nullptr) return fail(error, EDGECORE_NOT_SUPPORTED, "The library ", where, " gives no backend table.");
  EDGECORE_TRY(check_version(backend->header, "The backend", where, error));
  if (backend->header.struct_size < offsetof(edgecore_backend, buffer_create)) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend table in ", where, " has ", backend->header.struct_size,
                " bytes, less than version 0 of the interface.");
  }
  const StringView id(backend->backend_id);
  if (backend->driver_create == nullptr || backend->driver_destroy == nullptr || backend->program_open == nullptr ||
      backend->program_close == nullptr || backend->delegate_load == nullptr || backend->delegate_destroy == nullptr ||
      backend->argument_count == nullptr || backend->instance_create == nullptr ||
      backend->instance_destroy == nullptr || backend->prepare == nullptr || backend->execute == nullptr ||
      id.empty()) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id, "' in ", where, " lacks a required function.");
  }
  const uint32_t threads = backend->flags & (EDGECORE_HOST_THREADS | EDGECORE_OWN_THREADS | EDGECORE_NO_THREADS);
  const uint32_t trust = backend->flags & (EDGECORE_VALIDATES_BLOBS | EDGECORE_NEEDS_TRUSTED_BLOBS);
  if (!exactly_one(threads) || !exactly_one(trust)) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id, "' in ", where, " has flags ", backend->flags,
                ": it must declare one way of threading, and whether it validates blobs or needs trusted ones.");
  }
  const uint32_t foreign = backend->features & ~host_features;
  if (foreign != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id, "' in ", where, " was built with features ",
                foreign, " (1 address sanitizer, 2 thread sanitizer, 4 free threading) that this process lacks.");
  }
  return Status();
}

Status check_kernel_library(const edgecore_kernel_library *library, StringView where, Error &error) {
  if (library == nullptr) return fail(error, EDGECORE_NOT_SUPPORTED, "The library ", where, " gives no kernel table.");
  EDGECORE_TRY(check_version(library->header, "The kernel library", where, error));
  const bool readable = library->header.struct_size >= sizeof(edgecore_kernel_library) &&
                        (library->kernel_count == 0 ||
                         (library->kernels != nullptr && library->kernel_stride >= sizeof(edgecore_kernel)));
  if (!readable) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The kernel table in ", where, " is smaller than version 0 of it.");
  }
  return Status();
}

}  // namespace edgecore
