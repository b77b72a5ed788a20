// Tests that threads can run different methods of one program, and load and run several programs, at the same time. A
// build with EDGECORE_SANITIZE=thread detects data races in these tests.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "edgecore/make_tensor.h"
#include "edgecore/module.h"
#include "null_backend.h"
#include "tests/pte_builder.h"

namespace edgecore {
namespace {

constexpr int kSize = 4096;
constexpr int kMethods = 4;
constexpr int kRuns = 100;

struct Doubling {
  const float *from;
  float *to;
};

void EDGECORE_CALL double_range(void *arg, uint64_t begin, uint64_t end, uint32_t) {
  const auto &work = *static_cast<const Doubling *>(arg);
  for (uint64_t i = begin; i < end; ++i) work.to[i] = work.from[i] * 2;
}

// The kernel test::twice.out(Tensor x, *, Tensor out), which computes 2 x in parallel on the workers of the host.
int32_t EDGECORE_CALL twice(const edgecore_call *call) {
  const auto *args = static_cast<const edgecore_value *>(call->args);
  Doubling work = {static_cast<const float *>(args[0].as.tensor->dl.data),
                   static_cast<float *>(args[1].as.tensor->dl.data)};
  call->host->parallel_for(call->scope, kSize, 64, double_range, &work, 0);
  return EDGECORE_OK;
}

const edgecore_kernel_library *kernels() {
  static const edgecore_kernel kernel = {header_of<edgecore_kernel>(), {"test::twice", 11}, {"out", 3}, 0, twice};
  static const edgecore_kernel_library library = {
      header_of<edgecore_kernel_library>(), {"test", 4}, {"1", 1}, &kernel, 1, sizeof(edgecore_kernel), 0};
  return &library;
}

// Builds a program whose methods all compute y = 4 x with two kernels and a planned tensor between them, and share one
// constant.
std::vector<uint8_t> program() {
  PteBuilder pte;
  for (int i = 1; i < kMethods; ++i) pte.methods.push_back("forward" + std::to_string(i));
  pte.arenas = {kSize * sizeof(float)};
  const int32_t x = pte.add_tensor({kSize});
  const int32_t between = pte.add_planned({kSize}, {1, 0});
  const int32_t y = pte.add_tensor({kSize});
  const int32_t constant = pte.add_constant({kSize}, std::vector<float>(kSize, 0.5f));
  const int32_t z = pte.add_tensor({kSize});
  const int32_t op = pte.add_operator("test::twice", "out");
  pte.kernel(op, {x, between, between});
  pte.kernel(op, {between, y, y});
  pte.kernel(op, {constant, z, z});
  pte.inputs = {x};
  pte.outputs = {y, z};
  return pte.finish();
}

// null_backend() writes its table at each call, so threads must not call it at the same time.
const edgecore_backend *backend() {
  static const edgecore_backend *const table = null_backend(0);
  return table;
}

bool open(Module &module, const std::vector<uint8_t> &bytes, Error &error) {
  MethodOptions options;
  options.threads = 2;
  return module.open({bytes.data(), bytes.size()}, error).ok() && module.add_backend(backend(), {}, error).ok() &&
         module.add_kernels(kernels(), error).ok() && module.load_methods(options, error).ok();
}

// Runs method `index` with its own input. Returns the number of wrong results.
int wrong_runs(Module &module, size_t index) {
  Error error;
  Method &method = module.method(index);
  std::vector<float> x(kSize), y(kSize), z(kSize);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    const float value = static_cast<float>(index * 1000 + static_cast<size_t>(run));
    x.assign(kSize, value);
    const int64_t shape = kSize;
    TensorArgument argument;
    argument.data = x.data();
    argument.scalar_type = 6;
    argument.shape = {&shape, 1};
    const bool ran = method.set_input(0, argument, error).ok() &&
                     method.set_output(0, y.data(), kSize * sizeof(float), error).ok() &&
                     method.set_output(1, z.data(), kSize * sizeof(float), error).ok() && method.execute(error).ok();
    wrong += ran && y == std::vector<float>(kSize, value * 4) && z == std::vector<float>(kSize, 1) ? 0 : 1;
  }
  return wrong;
}

TEST(ModuleThreads, MethodsOfOneProgramRunSideBySide) {
  Module module;
  Error error;
  ASSERT_TRUE(open(module, program(), error)) << std::string(error.text, error.size);
  ASSERT_EQ(module.method_count(), static_cast<size_t>(kMethods));
  std::vector<int> wrong(kMethods, -1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kMethods; ++i) threads.emplace_back([&, i] { wrong[i] = wrong_runs(module, i); });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kMethods, 0));
}

// Several threads load programs at once: the thread pool and the backend's driver exist once per process, and the first
// thread creates them.
TEST(ModuleThreads, ProgramsAreLoadedAndRunSideBySide) {
  const std::vector<uint8_t> bytes = program();
  std::vector<int> wrong(kMethods, -1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kMethods; ++i) {
    threads.emplace_back([&, i] {
      Module module;
      Error error;
      if (open(module, bytes, error)) wrong[i] = wrong_runs(module, 0);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kMethods, 0));
}

// Sessions of one file whose first runs coincide load the method at the same time.
TEST(ModuleThreads, FirstRunsOfSessionsLoadSideBySide) {
  const std::vector<uint8_t> bytes = program();
  for (int round = 0; round < 20; ++round) {
    Module module;
    Module sessions[kMethods];
    Error error;
    ASSERT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok()) << std::string(error.text, error.size);
    ASSERT_TRUE(module.add_backend(backend(), {}, error).ok() && module.add_kernels(kernels(), error).ok());
    for (Module &session : sessions) ASSERT_TRUE(module.new_session(session, error).ok());
    std::vector<int> right(kMethods, 0);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kMethods; ++i) {
      threads.emplace_back([&, i] {
        Error failure;
        std::vector<Value> outputs;
        const std::vector<float> x(kSize, static_cast<float>(i));
        const bool ran = sessions[i].execute("forward", {make_tensor({kSize}, x)}, outputs, failure).ok();
        right[i] = ran && outputs[0].tensor().values<float>()[kSize - 1] == static_cast<float>(4 * i);
      });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(right, std::vector<int>(kMethods, 1));
  }
}

}  // namespace
}  // namespace edgecore
