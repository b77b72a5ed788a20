#include "backends.h"

#include "edgecore/linked_backends.h"
#ifdef ETHOSU_FAST_SCRATCH
#include "edgecore_ethosu.h"
#endif

using edgecore::LoadedBackend;

namespace {

constexpr size_t kMaxBackends = 4;

edgecore_host services;
edgecore_scope of_process;
edgecore_scope of_program;
LoadedBackend backends[kMaxBackends];
size_t count;

#ifdef ETHOSU_FAST_SCRATCH
alignas(32) uint8_t fast_scratch[(ETHOSU_FAST_SCRATCH + 31) / 32 * 32];  // cache lines
#endif

}  // namespace

edgecore::Status open_backends(const edgecore::Program &program, edgecore::Span<const LoadedBackend> &opened,
                               edgecore::Error &error) {
#ifdef ETHOSU_FAST_SCRATCH
  edgecore_ethosu_set_fast_scratch(fast_scratch, sizeof(fast_scratch));
#endif
  services = edgecore::core_services();
  of_program.program = &program;
  edgecore_program_info info = {};
  info.header = edgecore::header_of<edgecore_program_info>();
  info.scope = &of_program;
  for (const edgecore_backend_fn *function = edgecore_linked_backends(); *function != nullptr; ++function) {
    if (count == kMaxBackends) {
      return edgecore::fail(error, EDGECORE_OUT_OF_RESOURCES, "This firmware has room for ", kMaxBackends,
                            " backends.");
    }
    const edgecore_backend *table = (*function)();
    EDGECORE_TRY(edgecore::check_backend(table, 0, "the firmware", error));
    LoadedBackend &backend = backends[count];
    backend = {table, nullptr, nullptr};
    int32_t code = table->driver_create(&services, &of_process, &backend.driver, &error);
    if (code != EDGECORE_OK) return edgecore::Status(code);
    ++count;
    code = table->program_open(backend.driver, &info, &backend.program, &error);
    if (code != EDGECORE_OK) return edgecore::Status(code);
  }
  opened = {backends, count};
  return {};
}

void close_backends() {
  for (; count > 0; --count) {
    LoadedBackend &backend = backends[count - 1];
    if (backend.program != nullptr) backend.table->program_close(backend.program);
    backend.table->driver_destroy(backend.driver);
  }
}
