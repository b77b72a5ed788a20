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
#include <string>

#include "edgecore/backend.hpp"

namespace {

using namespace edgecore::backend;

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

void *wait_forever(void *) {
  for (;;) usleep(1000);
}

struct Driver {
  explicit Driver(const Host &) {}
};

struct Program {
  Program(Driver &, const Host &, const Options &) {}
};

struct Delegate {
  Delegate(Program &, const Host &, const edgecore_delegate_info &info) {
    const auto refuse = [](const char *why) { fail(EDGECORE_INVALID_PROGRAM, "%s", why); };
    if (kernels("absent")) refuse("this processor lacks the kernels of EDGECORE_TOY_KERNELS.");
    const uint8_t *data = info.blob.data;
    uint32_t head[2];
    if (info.blob.size < 12 || memcmp(data, "FLT1", 4) != 0) refuse("the blob does not begin with FLT1.");
    memcpy(head, data + 4, 8);
    if (head[0] > kMost || head[1] > kMost || info.blob.size < 12 + uint64_t{head[1]} * sizeof(Op)) {
      refuse("the blob has more operations than bytes.");
    }
    inputs = head[0];
    ops.resize(head[1]);
    memcpy(static_cast<void *>(ops.data()), data + 12, head[1] * sizeof(Op));
    for (uint32_t i = 0; i < head[1]; ++i) {
      const Op &op = ops[i];
      const bool is_valid =
          op.code <= 2 && op.left < inputs + i && op.right < inputs + i && (op.output == kNone || op.output == outputs);
      if (!is_valid && !fault("unchecked-blob")) refuse("the blob reads a value that is not computed yet.");
      if (op.output != kNone) ++outputs;
    }
    static void *volatile lost;
    if (fault("leak")) lost = malloc(100);
    static int loads = 0;
    if (fault("rare-leak") && loads++ / 10 % 2 == 1) lost = malloc(1000);
    if (fault("descriptors")) open("/dev/null", O_RDONLY);
  }
  uint64_t argument_count() const noexcept { return inputs + outputs; }

  uint32_t inputs = 0, outputs = 0;
  std::vector<Op> ops;
};

uint64_t elements(const edgecore_dl_tensor &tensor) {
  uint64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) count *= static_cast<uint64_t>(tensor.shape[i]);
  return count;
}

bool same(const edgecore_dl_tensor &one, const edgecore_dl_tensor &two) {
  return one.ndim == two.ndim && one.dtype.code == two.dtype.code && one.dtype.bits == two.dtype.bits &&
         memcmp(one.shape, two.shape, static_cast<size_t>(one.ndim) * sizeof(int64_t)) == 0;
}

template <typename T>
void compute(uint32_t code, const T *left, const T *right, T *to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = code == 0 ? left[i] + right[i] : code == 1 ? left[i] * right[i] : left[i] > T(0) ? left[i] : T(0);
  }
}

class Instance {
 public:
  Instance(Delegate &delegate, const Host &) : delegate_(delegate) {
    if (!fault("thread")) return;
    pthread_t thread;
    pthread_create(&thread, nullptr, wait_forever, nullptr);
    pthread_detach(thread);
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    const std::vector<const edgecore_tensor *> values = shapes(args);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < delegate_.ops.size(); ++i) {
      if (delegate_.ops[i].output == kNone) bytes += 4 * elements(values[delegate_.inputs + i]->dl);
    }
    if (fault("memory")) bytes += 1 << 20;
    return {memory_need(EDGECORE_MEMORY_SCRATCH, bytes)};
  }

  void execute(const Arguments &args, const Memory &memory) {
    const std::vector<const edgecore_tensor *> values = shapes(args);
    if (fault("mapping")) mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::vector<void *> data;
    for (uint32_t i = 0; i < delegate_.inputs; ++i) data.push_back(values[i]->dl.data);
    auto *scratch = static_cast<uint8_t *>(memory[0]);
    for (uint32_t i = 0; i < delegate_.ops.size(); ++i) {
      const Op &op = delegate_.ops[i];
      const edgecore_dl_tensor &like = values[delegate_.inputs + i]->dl;
      const uint64_t count = elements(like);
      void *to = scratch;
      if (op.output == kNone) {
        scratch += 4 * count;
      } else {
        to = args.any_tensor(delegate_.inputs + op.output).dl.data;
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
  }

 private:
  // Returns for each value the tensor that has its shape: an input. Gives the outputs their shapes.
  std::vector<const edgecore_tensor *> shapes(const Arguments &args) const {
    std::vector<const edgecore_tensor *> values;
    for (uint32_t i = 0; i < delegate_.inputs; ++i) {
      const edgecore_tensor &tensor = args.any_tensor(i);
      const edgecore_dl_dtype dtype = tensor.dl.dtype;
      const bool half = fault("half") && dtype.code == EDGECORE_DL_FLOAT && dtype.bits == 16;
      if ((dtype.code != EDGECORE_DL_FLOAT && dtype.code != EDGECORE_DL_INT) || (dtype.bits != 32 && !half)) {
        fail(EDGECORE_INVALID_ARGUMENT, "an input is no float32 or int32 tensor.");
      }
      values.push_back(&tensor);
    }
    for (const Op &op : delegate_.ops) {
      const edgecore_dl_tensor &left = values[op.left]->dl;
      if (!same(left, values[op.right]->dl)) {
        fail(EDGECORE_INVALID_ARGUMENT, "the operands of an operation have different shapes.");
      }
      if (op.code == 2 && left.dtype.bits == 16) {
        fail(EDGECORE_INVALID_ARGUMENT, "relu has no kernel for float16.");
      }
      values.push_back(values[op.left]);
      if (op.output == kNone) continue;
      const uint64_t index = delegate_.inputs + op.output;
      const edgecore_dl_tensor &output = args.any_tensor(index).dl;
      if (output.ndim != left.ndim || output.dtype.code != left.dtype.code || output.dtype.bits != left.dtype.bits) {
        fail(EDGECORE_INVALID_ARGUMENT, "an output has another dtype or rank than its operation gives.");
      }
      args.resize(index, left.shape, left.ndim);
    }
    return values;
  }

  const Delegate &delegate_;
};

edgecore_backend make_fault_table() {
  const uint32_t threads = fault("thread") ? EDGECORE_OWN_THREADS : EDGECORE_NO_THREADS;
  edgecore_backend table = make_table<Driver, Program, Delegate, Instance>(
      {"FaultBackend", "edgecore-fault", "1.0", threads | EDGECORE_VALIDATES_BLOBS});
  if (fault("version")) table.header.major = 7;
  return table;
}

}  // namespace

#ifdef EXTRA_SYMBOL
extern "C" EDGECORE_EXPORT int edgecore_fault_version() { return 1; }
#endif

extern "C" EDGECORE_BACKEND(fault) {
  static const edgecore_backend table = make_fault_table();
  return &table;
}
