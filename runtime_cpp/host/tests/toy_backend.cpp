// A backend for tests of host layers: output = input + offset, float32, computed through parallel_for. It includes only
// the public headers, so that tests in Python can compile it too. -DTOY_MINOR=n makes it claim another interface
// version.
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "edgecore/backend.h"

#ifndef TOY_MINOR
#define TOY_MINOR EDGECORE_ABI_MINOR
#endif

struct edgecore_driver {
  const edgecore_host *host;
};
struct edgecore_program {
  const edgecore_host *host;
  float offset = 1;
  int64_t together = 1;
  bool logs = false;
};
struct edgecore_delegate {
  edgecore_program *program;
};
struct edgecore_instance {
  edgecore_program *program;
  edgecore_scope *scope;
};

namespace {

constexpr edgecore_str str(const char *text) { return {text, __builtin_strlen(text)}; }

template <typename T>
constexpr edgecore_header header() {
  return {sizeof(T), EDGECORE_ABI_MAJOR, TOY_MINOR};
}

const edgecore_option_spec kOptions[] = {
    {header<edgecore_option_spec>(), str("offset"), EDGECORE_OPTION_FLOAT, EDGECORE_OPTION_AT_LOAD, str("Added.")},
    {header<edgecore_option_spec>(), str("together"), EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD,
     str("execute returns when this many executions are running at the same time in the process.")},
    {header<edgecore_option_spec>(), str("log"), EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
     str("Each part of a loop logs a message, on its own thread.")}};

std::atomic<int64_t> under_way{0};

int32_t EDGECORE_CALL driver_create(const edgecore_host *host, edgecore_scope *scope, edgecore_driver **out,
                                    edgecore_error *) {
  host->log(scope, EDGECORE_LOG_INFO, str("toy driver created"));
  *out = new (std::nothrow) edgecore_driver{host};
  return EDGECORE_OK;
}
void EDGECORE_CALL driver_destroy(edgecore_driver *driver) { delete driver; }

int32_t EDGECORE_CALL program_open(edgecore_driver *driver, const edgecore_program_info *info, edgecore_program **out,
                                   edgecore_error *) {
  auto *program = new (std::nothrow) edgecore_program{driver->host};
  for (uint64_t i = 0; i < info->options.count; ++i) {
    const edgecore_option &option = info->options.items[i];
    if (option.type == EDGECORE_OPTION_FLOAT) program->offset = static_cast<float>(option.value.d);
    if (option.type == EDGECORE_OPTION_INT) program->together = option.value.i;
    if (option.type == EDGECORE_OPTION_BOOL) program->logs = option.value.i != 0;
  }
  *out = program;
  return EDGECORE_OK;
}
void EDGECORE_CALL program_close(edgecore_program *program) { delete program; }

int32_t EDGECORE_CALL delegate_load(edgecore_program *program, const edgecore_delegate_info *info,
                                    edgecore_delegate **out, edgecore_error *error) {
  if (info->blob.size != 4 || std::memcmp(info->blob.data, "toy1", 4) != 0) {
    return program->host->fail(error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, str("the blob is no toy1."));
  }
  *out = new (std::nothrow) edgecore_delegate{program};
  return EDGECORE_OK;
}
void EDGECORE_CALL delegate_destroy(edgecore_delegate *delegate) { delete delegate; }
uint64_t EDGECORE_CALL argument_count(edgecore_delegate *) { return 2; }

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *) {
  *out = new (std::nothrow) edgecore_instance{delegate->program, info->scope};
  return EDGECORE_OK;
}
void EDGECORE_CALL instance_destroy(edgecore_instance *instance) { delete instance; }

const edgecore_value &argument(const edgecore_value *args, uint32_t stride, uint64_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + index * stride);
}

int32_t EDGECORE_CALL prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t, uint32_t stride,
                              edgecore_prepared *out, edgecore_error *error) {
  const edgecore_tensor *input = argument(args, stride, 0).as.tensor;
  out->need_count = 0;
  return instance->program->host->resize(instance->scope, argument(args, stride, 1).as.tensor, input->dl.shape,
                                         input->dl.ndim, error);
}

int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *, const edgecore_value *args,
                              uint64_t, uint32_t stride, edgecore_error *error) {
  const edgecore_host *host = instance->program->host;
  const int64_t together = instance->program->together;
  // Executions that wait for no other execution take no ticket, so that executions that wait for each other have
  // consecutive tickets.
  const int64_t ticket = together > 1 ? ++under_way : 0;
  const int64_t awaited = (ticket + together - 1) / together * together;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (under_way.load() < awaited) {
    if (std::chrono::steady_clock::now() > deadline) {
      return host->fail(error, EDGECORE_INTERNAL, str("the others did not come."));
    }
    std::this_thread::yield();
  }
  struct Work {
    const float *from;
    float *to;
    float offset;
    const edgecore_host *host;
    edgecore_scope *scope;  // NULL: writes no messages
  };
  const edgecore_dl_tensor &from = argument(args, stride, 0).as.tensor->dl;
  Work work = {static_cast<const float *>(from.data),
               static_cast<float *>(argument(args, stride, 1).as.tensor->dl.data), instance->program->offset, host,
               instance->program->logs ? instance->scope : nullptr};
  uint64_t count = 1;
  for (int32_t i = 0; i < from.ndim; ++i) count *= static_cast<uint64_t>(from.shape[i]);
  host->parallel_for(
      instance->scope, count, 0,
      [](void *arg, uint64_t begin, uint64_t end, uint32_t) {
        const Work &part = *static_cast<const Work *>(arg);
        for (uint64_t i = begin; i < end; ++i) part.to[i] = part.from[i] + part.offset;
        if (part.scope != nullptr) part.host->log(part.scope, EDGECORE_LOG_INFO, str("toy part computed"));
      },
      &work, 0);
  return EDGECORE_OK;
}

edgecore_backend make_table() {
  edgecore_backend table = {};
  table.header = header<edgecore_backend>();
  table.flags = EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS;
#if defined(__SANITIZE_THREAD__)
  table.features = EDGECORE_FEATURE_TSAN;
#elif defined(__SANITIZE_ADDRESS__)
  table.features = EDGECORE_FEATURE_ASAN;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  table.features = EDGECORE_FEATURE_TSAN;
#elif __has_feature(address_sanitizer)
  table.features = EDGECORE_FEATURE_ASAN;
#endif
#endif
  table.backend_id = str("ToyBackend");
  table.distribution = str("edgecore-toy");
  table.version = str("1.0");
  table.options = kOptions;
  table.option_count = sizeof(kOptions) / sizeof(kOptions[0]);
  table.option_stride = sizeof(edgecore_option_spec);
  table.driver_create = driver_create;
  table.driver_destroy = driver_destroy;
  table.program_open = program_open;
  table.program_close = program_close;
  table.delegate_load = delegate_load;
  table.delegate_destroy = delegate_destroy;
  table.argument_count = argument_count;
  table.instance_create = instance_create;
  table.instance_destroy = instance_destroy;
  table.prepare = prepare;
  table.execute = execute;
  return table;
}

}  // namespace

extern "C" EDGECORE_BACKEND(toy) {
  static const edgecore_backend table = make_table();
  return &table;
}
