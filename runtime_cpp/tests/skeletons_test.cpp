// Runs the example backends of tests/native/skeletons, which are linked into one program through an array of backend
// tables.
#include <condition_variable>
#include <mutex>

#include "loaded.h"

extern "C" {
const edgecore_backend *EDGECORE_CALL edgecore_backend_v0_firmware(void);
const edgecore_backend *EDGECORE_CALL edgecore_backend_v0_gpu(void);
const edgecore_backend *EDGECORE_CALL edgecore_backend_v0_state(void);
const edgecore_backend *EDGECORE_CALL edgecore_backend_v0_vendor(void);
}

namespace edgecore {
namespace {

const edgecore_backend_fn kTables[] = {edgecore_backend_v0_firmware, edgecore_backend_v0_gpu,
                                       edgecore_backend_v0_state};

// Opens each backend of kTables as the runtime does for a loaded file: creates its driver (the device) and its program
// (the backend's part of the file).
class Session {
 public:
  Session() : host(core_services()) {
    for (const edgecore_backend_fn table : kTables) {
      LoadedBackend backend;
      backend.table = table();
      EXPECT_TRUE(check_backend(backend.table, backend.table->features, "here", error).ok()) << text_of(error);
      EXPECT_EQ(backend.table->driver_create(&host, &scope, &backend.driver, &error), EDGECORE_OK);
      edgecore_program_info info = {};
      info.header = header_of<edgecore_program_info>();
      info.scope = &scope;
      EXPECT_EQ(backend.table->program_open(backend.driver, &info, &backend.program, &error), EDGECORE_OK);
      backends.push_back(backend);
    }
  }
  ~Session() {
    for (const LoadedBackend &backend : backends) {
      backend.table->program_close(backend.program);
      backend.table->driver_destroy(backend.driver);
    }
  }

  edgecore_host host;
  edgecore_scope scope;
  Error error;
  std::vector<LoadedBackend> backends;
};

std::vector<uint8_t> blob(float factor) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&factor);
  return std::vector<uint8_t>(bytes, bytes + sizeof(factor));
}

// Blocks the calling thread until the run can continue, as an application with nothing else to do may.
class Waiter final : public Completion {
 public:
  void ready() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    fired_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return fired_; });
    fired_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool fired_ = false;
};

TEST(Skeletons, TwoBackendsOfOneProgramWorkOnOneModel) {
  const Session session;
  PteBuilder pte;
  pte.arenas = {512};
  const int32_t x = pte.add_tensor({3}), a = pte.add_planned({3}, {1, 0}), b = pte.add_planned({3}, {1, 256});
  const int32_t y = pte.add_tensor({3});
  pte.delegate(pte.add_delegate("GpuSkeleton", blob(2)), {x, a});
  pte.delegate(pte.add_delegate("GpuSkeleton", blob(5)), {a, b});
  pte.delegate(pte.add_delegate("FirmwareSkeleton", blob(10)), {b, y});
  pte.inputs = {x};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  loaded.config.backends = {session.backends.data(), session.backends.size()};
  loaded.config.devices = device_memory();
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> in = {1, 2, 3}, out(3);
  ASSERT_TRUE(loaded.set_floats(0, {3}, in) && loaded.set_floats_output(0, out));
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(out, (std::vector<float>{100, 200, 300}));
  for (int i = 0; i < 20; ++i) {
    out = {0, 0, 0};
    Waiter waiter;
    int waits = 0;
    Status status = loaded.method->start(waiter, loaded.error);
    for (; status.code() == EDGECORE_PENDING; ++waits) {
      waiter.wait();
      status = loaded.method->resume(loaded.error);
    }
    ASSERT_TRUE(status.ok()) << text_of(loaded.error);
    EXPECT_EQ(waits, 2);
    EXPECT_EQ(out, (std::vector<float>{100, 200, 300}));
  }
}

TEST(Skeletons, FirmwareSaysWhenItsPoolsAreFull) {
  const Session session;
  PteBuilder pte;
  const int32_t x = pte.add_tensor({3}), y = pte.add_tensor({3});
  for (int i = 0; i < 5; ++i) pte.delegate(pte.add_delegate("FirmwareSkeleton", blob(10)), {x, y});
  Loaded loaded(pte.finish());
  loaded.config.backends = {session.backends.data(), session.backends.size()};
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "the firmware was built for fewer delegates: raise ACME_DELEGATES.");
}

TEST(Skeletons, AStateSetIsKeptBetweenRuns) {
  const Session session;
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({4}), a = pte.add_planned({4}, {1, 0}), y = pte.add_tensor({4});
  pte.delegate(pte.add_delegate("StateSkeleton", blob(2)), {x, a});
  pte.delegate(pte.add_delegate("StateSkeleton", blob(10)), {a, y});
  pte.inputs = {x};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  loaded.config.backends = {session.backends.data(), session.backends.size()};
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "it keeps mutable buffers of the model, and the application has no StateStore");
  loaded.config.state = &loaded.state;
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> in = {1, 0, 0, 0}, out(4);
  ASSERT_TRUE(loaded.set_floats(0, {4}, in) && loaded.set_floats_output(0, out));
  for (const float expected : {20.f, 32.f}) {  // 10 * 2 * x; then the first delegate adds x, and the second 2 * x
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(out[0], expected);
  }
  ASSERT_TRUE(loaded.state.reset(loaded.error).ok());
  ASSERT_TRUE(loaded.execute());
  EXPECT_EQ(out[0], 20);
}

TEST(Skeletons, AMissingRuntimeIsNamedByProbe) {
  const edgecore_backend *table = edgecore_backend_v0_vendor();
  Error error;
  ASSERT_TRUE(check_backend(table, table->features, "here", error).ok()) << text_of(error);
  const edgecore_host host = core_services();
  edgecore_scope scope;
  EXPECT_EQ(table->probe(&host, &scope, &error), EDGECORE_NOT_FOUND);
  EXPECT_NE(text_of(error).find("the runtime libskeleton_runtime.so.2 is not installed"), std::string::npos);
}

}  // namespace
}  // namespace edgecore
