// The shape of a delegate for firmware: a table in read-only memory, handles from static pools, no heap, no threads, no
// C library, no start-up code. Its accelerator multiplies float32 by the factor that the blob holds.
//
// One context of execution uses it, as a microcontroller without an operating system has it: the pools take no lock.
#include "edgecore/backend.h"

// How many files, delegates and instances the firmware has room for.
#define ACME_PROGRAMS 1
#define ACME_DELEGATES 4

struct edgecore_driver {
  const edgecore_host *host;
};
struct edgecore_program {
  bool used;
};
struct edgecore_delegate {
  bool used;
  float factor;
};
// A delegate has one instance: a file is loaded once.
struct edgecore_instance {
  bool used;
  edgecore_scope *scope;
  float factor;
  edgecore_memory_need need;
};

namespace {

edgecore_driver driver;
edgecore_program programs[ACME_PROGRAMS];
edgecore_delegate delegates[ACME_DELEGATES];
edgecore_instance instances[ACME_DELEGATES];

template <size_t size>
constexpr edgecore_str str(const char (&text)[size]) {
  return {text, size - 1};
}

template <size_t size>
int32_t fail(edgecore_error *error, int32_t code, const char (&sentence)[size]) {
  return driver.host->fail(error, code, str(sentence));
}

template <typename Handle, size_t count>
int32_t take(Handle (&pool)[count], Handle **out, edgecore_error *error) {
  for (Handle &handle : pool) {
    if (handle.used) continue;
    handle = Handle();
    handle.used = true;
    *out = &handle;
    return EDGECORE_OK;
  }
  return fail(error, EDGECORE_OUT_OF_RESOURCES, "the firmware was built for fewer delegates: raise ACME_DELEGATES.");
}

int32_t EDGECORE_CALL driver_create(const edgecore_host *host, edgecore_scope *, edgecore_driver **out,
                                    edgecore_error *) {
  driver.host = host;  // here the accelerator is switched on
  *out = &driver;
  return EDGECORE_OK;
}
void EDGECORE_CALL driver_destroy(edgecore_driver *) {}

int32_t EDGECORE_CALL program_open(edgecore_driver *, const edgecore_program_info *, edgecore_program **out,
                                   edgecore_error *error) {
  return take(programs, out, error);
}
void EDGECORE_CALL program_close(edgecore_program *program) { program->used = false; }

int32_t EDGECORE_CALL delegate_load(edgecore_program *, const edgecore_delegate_info *info, edgecore_delegate **out,
                                    edgecore_error *error) {
  if (info->blob.size != sizeof(float)) return fail(error, EDGECORE_INVALID_PROGRAM, "the blob has not 4 bytes.");
  const int32_t code = take(delegates, out, error);
  if (code != EDGECORE_OK) return code;
  __builtin_memcpy(&(*out)->factor, info->blob.data, sizeof(float));
  return EDGECORE_OK;  // a blob with weights would stay borrowed, where it is in flash
}
void EDGECORE_CALL delegate_destroy(edgecore_delegate *delegate) { delegate->used = false; }

uint64_t EDGECORE_CALL argument_count(edgecore_delegate *) { return 2; }

void EDGECORE_CALL buffer_requirement(edgecore_delegate *, uint64_t, edgecore_buffer_requirement *out) {
  out->alignment = 16;  // the bus reads 16 bytes at a time
  out->granule = 16;
}

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *error) {
  const int32_t code = take(instances, out, error);
  if (code != EDGECORE_OK) return code;
  (*out)->scope = info->scope;
  (*out)->factor = delegate->factor;
  return EDGECORE_OK;
}
void EDGECORE_CALL instance_destroy(edgecore_instance *instance) { instance->used = false; }

const edgecore_value &argument(const edgecore_value *args, uint32_t stride, uint32_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + index * stride);
}

int32_t EDGECORE_CALL prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t, uint32_t stride,
                              edgecore_prepared *out, edgecore_error *error) {
  for (uint32_t i = 0; i < 2; ++i) {
    const edgecore_value &value = argument(args, stride, i);
    if (value.tag != EDGECORE_TAG_TENSOR || value.as.tensor->dl.dtype.code != EDGECORE_DL_FLOAT ||
        value.as.tensor->dl.dtype.bits != 32) {
      return fail(error, EDGECORE_INVALID_TYPE, "an argument is no float32 tensor.");
    }
  }
  const edgecore_dl_tensor &input = argument(args, stride, 0).as.tensor->dl;
  const int32_t code =
      driver.host->resize(instance->scope, argument(args, stride, 1).as.tensor, input.shape, input.ndim, error);
  if (code != EDGECORE_OK) return code;
  // The accelerator's descriptors: the host plans for them, the compiler has declared them.
  instance->need = {{sizeof(edgecore_memory_need), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                    EDGECORE_MEMORY_SCRATCH,
                    0,
                    64,
                    16,
                    {nullptr, 0}};
  out->needs = &instance->need;
  out->need_count = 1;
  out->need_stride = sizeof(edgecore_memory_need);
  return EDGECORE_OK;
}

float *data(const edgecore_value &value) {
  const edgecore_dl_tensor &dl = value.as.tensor->dl;
  return reinterpret_cast<float *>(static_cast<char *>(dl.data) + dl.byte_offset);
}

// Starts the accelerator and waits for its interrupt.
int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *info,
                              const edgecore_value *args, uint64_t, uint32_t stride, edgecore_error *error) {
  if (info->memory_count != 1) return fail(error, EDGECORE_INTERNAL, "there is no memory for descriptors.");
  const edgecore_dl_tensor &input = argument(args, stride, 0).as.tensor->dl;
  const float *from = data(argument(args, stride, 0));
  float *to = data(argument(args, stride, 1));
  uint64_t count = 1;
  for (int32_t d = 0; d < input.ndim; ++d) count *= static_cast<uint64_t>(input.shape[d]);
  for (uint64_t i = 0; i < count; ++i) to[i] = from[i] * instance->factor;
  return EDGECORE_OK;
}

constexpr edgecore_backend make_table() {
  edgecore_backend table = {};
  table.header = {sizeof(edgecore_backend), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  table.min_host_major = EDGECORE_ABI_MAJOR;
  table.min_host_minor = EDGECORE_ABI_MINOR;
  table.flags = EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS;
  table.backend_id = str("FirmwareSkeleton");
  table.distribution = str("edgecore-firmware-skeleton");
  table.version = str("1.0");
  table.driver_create = driver_create;
  table.driver_destroy = driver_destroy;
  table.program_open = program_open;
  table.program_close = program_close;
  table.delegate_load = delegate_load;
  table.delegate_destroy = delegate_destroy;
  table.argument_count = argument_count;
  table.buffer_requirement = buffer_requirement;
  table.instance_create = instance_create;
  table.instance_destroy = instance_destroy;
  table.prepare = prepare;
  table.execute = execute;
  return table;
}

constexpr edgecore_backend kTable = make_table();  // in flash

}  // namespace

extern "C" EDGECORE_BACKEND(firmware) { return &kTable; }
