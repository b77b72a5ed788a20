#include "host/backends.h"

#include <memory>
#include <mutex>
#include <vector>

#include "host/services.h"

namespace edgecore {
namespace {

struct Driver {
  const edgecore_backend *table;
  HostContext context;
  edgecore_scope scope;
  edgecore_driver *handle = nullptr;
};

constexpr const char *kTypeNames[] = {"bool", "int", "float", "string", "bytes", "list"};

const char *type_name(uint32_t type) { return type <= EDGECORE_OPTION_LIST ? kTypeNames[type] : "unknown type"; }

const edgecore_option_spec *find_option(const edgecore_backend *table, uint32_t when, StringView name) {
  const auto *at = reinterpret_cast<const uint8_t *>(table->options);
  for (uint64_t i = 0; i < table->option_count; ++i, at += table->option_stride) {
    const auto *spec = reinterpret_cast<const edgecore_option_spec *>(at);
    if ((spec->when & when) != 0 && StringView(spec->name) == name) return spec;
  }
  return nullptr;
}

Status unknown_option(const edgecore_backend *table, uint32_t when, StringView name, Error &error) {
  const Status status =
      fail(error, EDGECORE_INVALID_ARGUMENT, "The backend ", table->backend_id, " has no option '", name,
           when == EDGECORE_OPTION_AT_LOAD ? "' for loading; it has: " : "' that can be set after loading; it has: ");
  const auto *at = reinterpret_cast<const uint8_t *>(table->options);
  const char *separator = "";
  for (uint64_t i = 0; i < table->option_count; ++i, at += table->option_stride) {
    const auto *spec = reinterpret_cast<const edgecore_option_spec *>(at);
    if ((spec->when & when) == 0) continue;
    append(error, separator);
    append(error, spec->name);
    separator = ", ";
  }
  append(error, *separator == '\0' ? "none." : ".");
  return status;
}

}  // namespace

Result<edgecore_driver *> driver_of(const edgecore_backend *table, Error &error) {
  // The list of drivers (process-wide state of the backends) is never destroyed, because threads that outlive static
  // objects may still use drivers while the process ends.
  static auto &mutex = *new std::mutex();
  static auto &drivers = *new std::vector<std::unique_ptr<Driver>>();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto &driver : drivers) {
    if (driver->table == table) return driver->handle;
  }
  auto driver = std::make_unique<Driver>();
  driver->table = table;
  driver->scope.context = &driver->context;
  error.clear();
  if (EDGECORE_HAS(table, probe) && table->probe != nullptr) {
    EDGECORE_TRY(Status(table->probe(host_services(), &driver->scope, &error)));
  }
  EDGECORE_TRY(Status(table->driver_create(host_services(), &driver->scope, &driver->handle, &error)));
  drivers.push_back(std::move(driver));
  return drivers.back()->handle;
}

Status check_options(const edgecore_backend *table, uint32_t when, Span<edgecore_option> options, Error &error) {
  for (edgecore_option &option : options) {
    const edgecore_option_spec *spec = find_option(table, when, option.name);
    if (spec == nullptr) return unknown_option(table, when, option.name, error);
    if (spec->type == EDGECORE_OPTION_FLOAT && option.type == EDGECORE_OPTION_INT) {
      option.value.d = static_cast<double>(option.value.i);
      option.type = EDGECORE_OPTION_FLOAT;
    }
    if (spec->type != option.type) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "The option '", option.name, "' of the backend ", table->backend_id,
                  " is of type ", type_name(spec->type), "; got ", type_name(option.type), ".");
    }
  }
  return {};
}

}  // namespace edgecore
