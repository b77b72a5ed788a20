// Checks that this runtime can use a plugin's table: the functions and properties that a backend or kernel library
// exports.
#include "edgecore/host.h"

namespace edgecore {
namespace {

bool exactly_one(uint32_t flags) { return flags != 0 && (flags & (flags - 1)) == 0; }

}  // namespace

Fit negotiate(const PluginVersions &plugin, const HostVersions &host) {
  const auto order = [](AbiVersion version) { return uint32_t{version.major} << 16 | version.minor; };
  const uint32_t built_for = order(plugin.built_for);
  if (plugin.built_for.major == 0 || host.newest.major == 0) {
    if (built_for == order(host.newest)) return Fit::kFits;
    return built_for > order(host.newest) ? Fit::kUpdateHost : Fit::kUpdatePlugin;
  }
  if (built_for < order(host.oldest)) return Fit::kUpdatePlugin;
  if (plugin.built_for.major > host.newest.major || order(plugin.min_host) > order(host.newest)) {
    return Fit::kUpdateHost;
  }
  return Fit::kFits;
}

Status check_versions(const PluginVersions &plugin, const HostVersions &host, StringView package, StringView where,
                      Error &error) {
  const Fit fit = negotiate(plugin, host);
  if (fit == Fit::kFits) return Status();
  (void)fail(error, EDGECORE_NOT_SUPPORTED, "The plugin ", package, package.empty() ? "in " : " in ", where,
             " was built for version ", plugin.built_for.major, ".", plugin.built_for.minor,
             " of the native interface");
  const bool names_min = plugin.built_for.major != 0 && plugin.built_for.major == host.newest.major;
  if (names_min && fit == Fit::kUpdateHost) {
    (void)extend(error, " and needs at least ", plugin.min_host.major, ".", plugin.min_host.minor);
  }
  (void)extend(error, "; this edgecore has ", host.newest.major, ".", host.newest.minor);
  if (names_min || host.oldest.major != host.newest.major || host.oldest.minor != host.newest.minor) {
    (void)extend(error, " and works with plugins of ", host.oldest.major, ".", host.oldest.minor, " or later");
  }
  if (fit == Fit::kUpdateHost) return extend(error, ": update the package edgecore.");
  return extend(error, ": update ", package.empty() ? "the package that the plugin belongs to" : "the package ",
                package, ".");
}

Status check_backend(const edgecore_backend *backend, uint32_t host_features, StringView where, Error &error) {
  if (backend == nullptr) return fail(error, EDGECORE_NOT_SUPPORTED, "The library ", where, " gives no backend table.");
  const bool named = backend->header.struct_size >= offsetof(edgecore_backend, options);
  PluginVersions versions = {{backend->header.major, backend->header.minor}, {0, 0}};
  if (named) versions.min_host = {backend->min_host_major, backend->min_host_minor};
  EDGECORE_TRY(
      check_versions(versions, kHostVersions, named ? StringView(backend->distribution) : StringView(), where, error));
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
  const int state_members = (backend->state_set_create != nullptr) + (backend->state_set_destroy != nullptr) +
                            (backend->state_count != nullptr) + (backend->state_describe != nullptr) +
                            (backend->reset != nullptr) + (backend->export_state != nullptr) +
                            (backend->import_state != nullptr);
  if (state_members != 0 && state_members != 7) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id, "' in ", where, " has ", state_members,
                " of the 7 functions for state sets: it must have all of them or none.");
  }
  const uint32_t threads =
      backend->flags & (EDGECORE_HOST_THREADS | EDGECORE_OWN_THREADS | EDGECORE_NO_THREADS | EDGECORE_VENDOR_THREADS);
  const uint32_t trust = backend->flags & (EDGECORE_VALIDATES_BLOBS | EDGECORE_NEEDS_TRUSTED_BLOBS);
  if (!exactly_one(threads) || !exactly_one(trust)) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id, "' in ", where, " has flags ", backend->flags,
                ": it must declare one way of threading, and whether it validates blobs or trusts them.");
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
  const bool named = library->header.struct_size >= offsetof(edgecore_kernel_library, kernels);
  const AbiVersion version = {library->header.major, library->header.minor};
  EDGECORE_TRY(check_versions({version, {0, 0}}, kHostVersions, named ? StringView(library->package) : StringView(),
                              where, error));
  const bool readable = library->header.struct_size >= sizeof(edgecore_kernel_library) &&
                        (library->kernel_count == 0 ||
                         (library->kernels != nullptr && library->kernel_stride >= sizeof(edgecore_kernel)));
  if (!readable) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The kernel table in ", where, " is smaller than in version 0.");
  }
  return Status();
}

}  // namespace edgecore
