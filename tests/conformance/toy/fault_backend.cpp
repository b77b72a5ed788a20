// A small backend that does everything right, unless EDGECORE_TOY_FAULT names faults (comma-separated) for the tests of
// the conformance suite. It computes add, mul and relu of equal shapes, float32 and int32.
//
// Blob: "FLT1", u32 inputs, u32 count, then count times {u32 code, u32 left, u32 right, u32 output}. Values are
// numbered: inputs first, then one for each operation; `output` is the number of the output that it writes, or
// 0xffffffff.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "edgecore/backend.h"

namespace {

struct Op {
  uint32_t code, left, right, output;
};
constexpr uint32_t kNone = 0xffffffffu;
constexpr uint32_t kMost = 4096;

bool kernels(const char *name) {
  const char *given = getenv("EDGECORE_TOY_KERNELS");
  return given != nullptr && std::string(given) == name;
}

bool fault(const char *name) {
  const char *given = getenv("EDGECORE_TOY_FAULT");
  return given != nullptr && (std::string(",") + given + ",").find(std::string(",") + name + ",") != std::string::npos;
}

}  // namespace

struct edgecore_driver {
  const edgecore_host *host;
};
struct edgecore_program {
  const edgecore_host *host;
};
struct edgecore_delegate {
  const edgecore_host *host;
  uint32_t inputs = 0, outputs = 0;
  std::vector<Op> ops;
};
struct edgecore_instance {
  edgecore_delegate *delegate;
  edgecore_scope *scope;
  edgecore_memory_need need;
};

namespace {

constexpr edgecore_str str(const char *text) { return {text, __builtin_strlen(text)}; }

template <typename T>
edgecore_header header() {
  return {sizeof(T), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

void *wait_forever(void *) {
  for (;;) usleep(1000);
}

int32_t EDGECORE_CALL driver_create(const edgecore_host *host, edgecore_scope *, edgecore_driver **out,
                                    edgecore_error *) {
  *out = new edgecore_driver{host};
  return EDGECORE_OK;
}
void EDGECORE_CALL driver_destroy(edgecore_driver *driver) { delete driver; }
int32_t EDGECORE_CALL program_open(edgecore_driver *driver, const edgecore_program_info *, edgecore_program **out,
                                   edgecore_error *) {
  *out = new edgecore_program{driver->host};
  return EDGECORE_OK;
}
void EDGECORE_CALL program_close(edgecore_program *program) { delete program; }

int32_t EDGECORE_CALL delegate_load(edgecore_program *program, const edgecore_delegate_info *info,
                                    edgecore_delegate **out, edgecore_error *error) {
  const auto refuse = [&](const char *why) { return program->host->fail(error, EDGECORE_INVALID_PROGRAM, str(why)); };
  if (kernels("absent")) return refuse("this processor lacks the kernels of EDGECORE_TOY_KERNELS.");
  const uint8_t *data = info->blob.data;
  uint32_t head[2];
  if (info->blob.size < 12 || memcmp(data, "FLT1", 4) != 0) return refuse("the blob does not begin with FLT1.");
  memcpy(head, data + 4, 8);
  if (head[0] > kMost || head[1] > kMost || info->blob.size < 12 + uint64_t{head[1]} * sizeof(Op)) {
    return refuse("the blob has more operations than bytes.");
  }
  auto *delegate = new edgecore_delegate{program->host, head[0], 0, std::vector<Op>(head[1])};
  memcpy(static_cast<void *>(delegate->ops.data()), data + 12, head[1] * sizeof(Op));
  for (uint32_t i = 0; i < head[1] && !fault("unchecked-blob"); ++i) {
    const Op &op = delegate->ops[i];
    if (op.code > 2 || op.left >= head[0] + i || op.right >= head[0] + i ||
        (op.output != kNone && op.output != delegate->outputs)) {
      delete delegate;
      return refuse("the blob reads a value that is not computed yet.");
    }
    if (op.output != kNone) ++delegate->outputs;
  }
  if (fault("unchecked-blob")) {
    for (const Op &op : delegate->ops) delegate->outputs += op.output != kNone;
  }
  *out = delegate;
  static void *volatile lost;
  if (fault("leak")) lost = malloc(100);
  static int loads = 0;
  if (fault("rare-leak") && loads++ / 10 % 2 == 1) lost = malloc(1000);
  if (fault("descriptors")) open("/dev/null", O_RDONLY);
  return EDGECORE_OK;
}
void EDGECORE_CALL delegate_destroy(edgecore_delegate *delegate) { delete delegate; }
uint64_t EDGECORE_CALL argument_count(edgecore_delegate *delegate) { return delegate->inputs + delegate->outputs; }

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *) {
  *out = new edgecore_instance{delegate, info->scope, {}};
  if (fault("thread")) {
    pthread_t thread;
    pthread_create(&thread, nullptr, wait_forever, nullptr);
    pthread_detach(thread);
  }
  return EDGECORE_OK;
}
void EDGECORE_CALL instance_destroy(edgecore_instance *instance) { delete instance; }

const edgecore_tensor *argument(const edgecore_value *args, uint32_t stride, uint64_t index) {
  const auto *value = reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + index * stride);
  return value->tag == EDGECORE_TAG_TENSOR ? value->as.tensor : nullptr;
}

uint64_t elements(const edgecore_dl_tensor &tensor) {
  uint64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) count *= static_cast<uint64_t>(tensor.shape[i]);
  return count;
}

bool same(const edgecore_dl_tensor &one, const edgecore_dl_tensor &two) {
  return one.ndim == two.ndim && one.dtype.code == two.dtype.code && one.dtype.bits == two.dtype.bits &&
         memcmp(one.shape, two.shape, static_cast<size_t>(one.ndim) * sizeof(int64_t)) == 0;
}

// Which argument has the shape of each value: an input.
int32_t shapes(const edgecore_instance *instance, const edgecore_value *args, uint32_t stride,
               std::vector<const edgecore_tensor *> &values, edgecore_error *error) {
  const edgecore_delegate &delegate = *instance->delegate;
  const auto refuse = [&](const char *why) { return delegate.host->fail(error, EDGECORE_INVALID_ARGUMENT, str(why)); };
  for (uint32_t i = 0; i < delegate.inputs; ++i) {
    const edgecore_tensor *tensor = argument(args, stride, i);
    const uint8_t code = tensor == nullptr ? 0xff : tensor->dl.dtype.code;
    const bool half = fault("half") && code == EDGECORE_DL_FLOAT && tensor->dl.dtype.bits == 16;
    if ((code != EDGECORE_DL_FLOAT && code != EDGECORE_DL_INT) || (tensor->dl.dtype.bits != 32 && !half)) {
      return refuse("an input is no float32 or int32 tensor.");
    }
    values.push_back(tensor);
  }
  for (const Op &op : delegate.ops) {
    const edgecore_tensor *left = values[op.left];
    if (!same(left->dl, values[op.right]->dl)) return refuse("the operands of an operation have different shapes.");
    if (op.code == 2 && left->dl.dtype.bits == 16) return refuse("relu has no kernel for float16.");
    values.push_back(left);
    if (op.output == kNone) continue;
    auto *output = const_cast<edgecore_tensor *>(argument(args, stride, delegate.inputs + op.output));
    if (output == nullptr || output->dl.ndim != left->dl.ndim || output->dl.dtype.code != left->dl.dtype.code ||
        output->dl.dtype.bits != left->dl.dtype.bits) {
      return refuse("an output has another dtype or rank than its operation gives.");
    }
    const int32_t status = delegate.host->resize(instance->scope, output, left->dl.shape, left->dl.ndim, error);
    if (status != EDGECORE_OK) return status;
  }
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t, uint32_t stride,
                              edgecore_prepared *out, edgecore_error *error) {
  std::vector<const edgecore_tensor *> values;
  const int32_t status = shapes(instance, args, stride, values, error);
  if (status != EDGECORE_OK) return status;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < instance->delegate->ops.size(); ++i) {
    if (instance->delegate->ops[i].output == kNone) bytes += 4 * elements(values[instance->delegate->inputs + i]->dl);
  }
  if (fault("memory")) bytes += 1 << 20;
  instance->need = {};
  instance->need.header = header<edgecore_memory_need>();
  instance->need.kind = EDGECORE_MEMORY_SCRATCH;
  instance->need.bytes = bytes;
  instance->need.alignment = 16;
  out->needs = &instance->need;
  out->need_count = 1;
  out->need_stride = sizeof(edgecore_memory_need);
  return EDGECORE_OK;
}

template <typename T>
void compute(uint32_t code, const T *left, const T *right, T *to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = code == 0 ? left[i] + right[i] : code == 1 ? left[i] * right[i] : left[i] > T(0) ? left[i] : T(0);
  }
}

int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *info,
                              const edgecore_value *args, uint64_t, uint32_t stride, edgecore_error *error) {
  const edgecore_delegate &delegate = *instance->delegate;
  std::vector<const edgecore_tensor *> values;
  const int32_t status = shapes(instance, args, stride, values, error);
  if (status != EDGECORE_OK) return status;
  if (fault("mapping")) mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<void *> data;
  for (uint32_t i = 0; i < delegate.inputs; ++i) data.push_back(values[i]->dl.data);
  auto *scratch = static_cast<uint8_t *>(info->memory_count == 0 ? nullptr : info->memory[0].data);
  for (uint32_t i = 0; i < delegate.ops.size(); ++i) {
    const Op &op = delegate.ops[i];
    const edgecore_dl_tensor &like = values[delegate.inputs + i]->dl;
    const uint64_t count = elements(like);
    void *to = scratch;
    if (op.output == kNone) {
      scratch += 4 * count;
    } else {
      to = argument(args, stride, delegate.inputs + op.output)->dl.data;
    }
    data.push_back(to);
    if (fault("hang") && op.code == 2 && count == 0) wait_forever(nullptr);
    if (fault("crash") && op.code == 2 && like.ndim == 1) abort();
    if (fault("overread") && count > 0) {
      volatile uint8_t beyond = static_cast<const volatile uint8_t *>(data[op.left])[4 * count];
      (void)beyond;
    }
    if (like.dtype.bits == 16) {
      memcpy(to, data[op.left], 2 * count);
    } else if (like.dtype.code == EDGECORE_DL_FLOAT) {
      compute(op.code, static_cast<const float *>(data[op.left]), static_cast<const float *>(data[op.right]),
              static_cast<float *>(to), count);
      const bool late = fault("last-row") || (fault("other-kernels") && kernels("other"));
      if (late && op.code == 2 && like.ndim > 1 && like.shape[0] >= 15 && like.shape[0] <= 17) {
        static_cast<float *>(to)[count - 1] += 1;
      }
    } else {
      compute(op.code, static_cast<const int32_t *>(data[op.left]), static_cast<const int32_t *>(data[op.right]),
              static_cast<int32_t *>(to), count);
      if (fault("wrong-int32") && op.code == 1 && count > 2) ++static_cast<int32_t *>(to)[2];
    }
  }
  return EDGECORE_OK;
}

edgecore_backend make_table() {
  edgecore_backend table = {};
  table.header = header<edgecore_backend>();
  if (fault("version")) table.header.major = 7;
  table.flags = (fault("thread") ? EDGECORE_OWN_THREADS : EDGECORE_NO_THREADS) | EDGECORE_VALIDATES_BLOBS;
  table.backend_id = str("FaultBackend");
  table.distribution = str("edgecore-fault");
  table.version = str("1.0");
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

#ifdef EXTRA_SYMBOL
extern "C" EDGECORE_EXPORT int edgecore_fault_version() { return 1; }
#endif

extern "C" EDGECORE_BACKEND(fault) {
  static const edgecore_backend table = make_table();
  return &table;
}
