// The shape of a delegate that keeps a mutable buffer of the model, as one with a KV cache does. It computes y = factor
// * x + total for float32 [4], and then adds x to `total`, the buffer "total.N" of delegate N, which begins with zeros.
// The blob holds the factor.
#include <cstring>

#include "edgecore/backend.hpp"

namespace {

using namespace edgecore::backend;

constexpr int32_t kFloat = 6;  // number of the .pte's ScalarType
constexpr uint64_t kCount = 4;

struct Driver {
  explicit Driver(const Host &) {}
};

struct Program {
  Program(Driver &, const Host &, const Options &) {}
};

struct Delegate {
  Delegate(Program &, const Host &, const edgecore_delegate_info &info)
      : state_name("total." + std::to_string(info.delegate_index)) {
    if (info.blob.size != sizeof(factor)) damaged("it has not 4 bytes");
    std::memcpy(&factor, info.blob.data, sizeof(factor));
  }
  uint64_t argument_count() const noexcept { return 2; }
  std::string state_name;
  float factor;
};

struct Instance {
  Instance(Delegate &delegate, const Host &, const edgecore_instance_info &info)
      : factor(delegate.factor),
        total(static_cast<float *>(state_set<HostState>(info).add(delegate.state_name, kFloat, {kCount},
                                                                  kCount * sizeof(float), {nullptr, 0}))) {}

  std::vector<edgecore_memory_need> prepare(const Arguments &arguments) {
    const edgecore_dl_tensor &input = arguments.tensor(0, EDGECORE_DL_FLOAT, 32, 1).dl;
    arguments.tensor(1, EDGECORE_DL_FLOAT, 32, 1);
    if (input.shape[0] != kCount) fail(EDGECORE_INVALID_ARGUMENT, "argument 0 has not 4 elements");
    arguments.resize(1, input.shape, 1);
    return {};
  }
  void execute(const Arguments &arguments, const Memory &) {
    const float *from = arguments.data<float>(0);
    float *to = arguments.data<float>(1);
    for (uint64_t i = 0; i < kCount; ++i) {
      to[i] = factor * from[i] + total[i];
      total[i] += from[i];
    }
  }

  float factor;
  float *total;  // in the state set: instances of other methods may use it as well
};

}  // namespace

extern "C" EDGECORE_BACKEND(state) {
  static const edgecore_backend table = make_table<Driver, Program, Delegate, Instance, HostState>(
      {"StateSkeleton", "edgecore-state-skeleton", "1.0", EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS});
  return &table;
}
