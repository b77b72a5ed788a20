// Tests runs that wait for a device while other threads use the method. A build with EDGECORE_SANITIZE=thread detects
// data races in these tests.
#include "host/execution_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "edgecore/module.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNoTimeout(0), kTimeout(10000);

// Builds the program y = 4 x with two delegates that return before their work is done (EDGECORE_PENDING).
std::vector<uint8_t> program(uint32_t flags) {
  NullBlob blob;
  blob.flags = kNullPending | flags;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  PteBuilder pte;
  pte.arenas = {64};
  const int32_t x = pte.add_tensor({2}), between = pte.add_planned({2}, {1, 0}), y = pte.add_tensor({2});
  const int32_t one = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  const int32_t two = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  pte.delegate(one, {x, between});
  pte.delegate(two, {between, y});
  pte.inputs = {x};
  pte.outputs = {y};
  return pte.finish();
}

// The tensors of one run: the input x, the output memory y, and `result`, a copy of y made when the run succeeded.
struct Call {
  std::vector<float> x, y, result;
};

struct Started {
  std::shared_ptr<Call> call;
  std::shared_ptr<Run> run;

  bool succeeded() const { return run->status().ok() && call->result == std::vector<float>(2, call->x[0] * 4); }
};

// A simulated device: a thread that completes the pending work of the null backend until this object is destroyed.
class Device {
 public:
  ~Device() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_{[this] {
    while (!stop_) {
      if (null_backend_drain() == 0) std::this_thread::yield();
    }
  }};
};

// Members are destroyed in reverse order. The lock must outlive the module: destroying a method waits for its device,
// which may still notify the pending run that the lock owns.
struct Opened {
  explicit Opened(uint32_t flags = 0) {
    static const edgecore_backend *const table = null_backend(0);
    const std::vector<uint8_t> bytes = program(flags);
    EXPECT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok() && module.add_backend(table, {}, error).ok() &&
                module.load_methods({}, error).ok())
        << std::string(error.text, error.size);
  }

  Started start(float value) {
    auto call = std::make_shared<Call>(Call{std::vector<float>(2, value), std::vector<float>(2), {}});
    Method &method = module.method(0);
    auto run = std::make_shared<Run>(method, [call](Error &) {
      call->result = call->y;
      return Status();
    });
    const int64_t shape = 2;
    TensorArgument argument;
    argument.data = call->x.data();
    argument.scalar_type = 6;
    argument.shape = {&shape, 1};
    Error why;
    const std::unique_lock<std::mutex> held = lock.acquire();
    EXPECT_TRUE(method.set_input(0, argument, why).ok() && method.set_output(0, call->y.data(), 8, why).ok())
        << std::string(why.text, why.size);
    lock.start(run);
    return {call, run};
  }

  ExecutionLock lock;
  Module module;
  Error error;
};

TEST(ExecutionLock, ARunContinuesWhenItsDeviceIsDone) {
  Opened opened;
  const Started started = opened.start(3);
  EXPECT_FALSE(opened.lock.wait(*started.run, kNoTimeout));
  EXPECT_EQ(null_backend_drain(), 1u);
  EXPECT_FALSE(opened.lock.wait(*started.run, milliseconds(1)));  // the run waits for the second delegate now
  EXPECT_EQ(null_backend_drain(), 1u);
  EXPECT_FALSE(started.run->finished());  // a run advances only when a caller waits for it
  EXPECT_TRUE(opened.lock.wait(*started.run, kNoTimeout));
  EXPECT_TRUE(started.succeeded());
  EXPECT_TRUE(opened.lock.wait(*started.run, kNoTimeout));
}

TEST(ExecutionLock, ARunFailsIfItsDeviceFails) {
  Opened opened(kNullFails);
  const Started started = opened.start(3);
  null_backend_drain();
  EXPECT_TRUE(opened.lock.wait(*started.run, kTimeout));
  EXPECT_EQ(started.run->status().code(), EDGECORE_INVALID_STATE);
  const Error &error = started.run->error();
  EXPECT_EQ(std::string(error.text, error.size),
            "Method 'forward', instruction 0, backend 'NullBackend': the device was lost.");
}

TEST(ExecutionLock, CallersShareAMethodWhileADeviceCompletes) {
  Opened opened;
  const Device device;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int run = 0; run < 60; ++run) {
        const Started started = opened.start(static_cast<float>(100 * thread + run));
        if (run % 3 == 0) continue;  // let the start of the next run finish this run
        while (!opened.lock.wait(*started.run, run % 3 == 1 ? kNoTimeout : kTimeout)) std::this_thread::yield();
        if (!started.succeeded()) ++wrong;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ExecutionLock, SeveralThreadsWaitForOneRun) {
  Opened opened;
  const Device device;
  for (int i = 0; i < 30; ++i) {
    const Started started = opened.start(static_cast<float>(i));
    std::thread other([&] { EXPECT_TRUE(opened.lock.wait(*started.run, kTimeout)); });
    EXPECT_TRUE(opened.lock.wait(*started.run, kTimeout));
    EXPECT_TRUE(started.succeeded());
    other.join();
  }
}

TEST(ExecutionLock, AcquiringTheLockFinishesThePendingRun) {
  Opened opened;
  const Device device;
  const Started started = opened.start(5);
  const std::unique_lock<std::mutex> held = opened.lock.acquire();
  EXPECT_TRUE(started.run->finished());
  EXPECT_TRUE(started.succeeded());
  EXPECT_FALSE(opened.module.method(0).pending());
}

TEST(ExecutionLock, AModuleCanBeDestroyedWhileItsDeviceWorks) {
  const Device device;
  for (int i = 0; i < 60; ++i) {
    Opened opened;
    (void)opened.start(1);
    if (i % 2 == 0) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace edgecore
