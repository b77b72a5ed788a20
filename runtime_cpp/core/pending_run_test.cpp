// Tests runs that wait for a device, and the calls that must fail while a run waits.
#include <thread>

#include "loaded.h"

namespace edgecore {
namespace {

// Builds a program of two delegates with a kernel between them: z = 2 * (10 * (2 * x)).
std::vector<uint8_t> program(const NullBlob &first, const NullBlob &second) {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({2}), a = pte.add_planned({2}, {1, 0}), b = pte.add_planned({2}, {1, 64});
  const int32_t z = pte.add_tensor({2}), ten = pte.add_int(10);
  const auto bytes = [](const NullBlob &blob) {
    const uint8_t *at = reinterpret_cast<const uint8_t *>(&blob);
    return std::vector<uint8_t>(at, at + sizeof(blob));
  };
  const int32_t one = pte.add_delegate("NullBackend", bytes(first)),
                two = pte.add_delegate("NullBackend", bytes(second));
  pte.delegate(one, {x, a});
  pte.kernel(pte.add_operator("test::scale", "out"), {a, ten, b, b});
  pte.delegate(two, {b, z});
  pte.inputs = {x};
  pte.outputs = {z};
  return pte.finish();
}

NullBlob pending(uint32_t flags = 0) {
  NullBlob blob;
  blob.flags = kNullPending | flags;
  blob.scratch_bytes = 64;
  blob.alignment = 256;  // forces staging copies of the arguments
  return blob;
}

class Ready final : public Completion {
 public:
  void ready() override { ++count; }
  int count = 0;
};

class PendingRunTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(null_backend_live_handles(), 0u); }

  bool load(Loaded &loaded) {
    return loaded.load_method() && loaded.set_floats(0, {2}, x_) && loaded.set_floats_output(0, z_);
  }

  std::vector<float> x_ = {1, 2}, z_ = std::vector<float>(2);
  Ready ready_;
};

TEST_F(PendingRunTest, ContinuesWhenTheDeviceIsDone) {
  Loaded loaded(program(pending(), pending()));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (int run = 1; run <= 2; ++run) {
    EXPECT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_PENDING);
    EXPECT_TRUE(loaded.method->pending());
    EXPECT_EQ(loaded.method->resume(loaded.error).code(), EDGECORE_PENDING);  // the device is not done yet
    EXPECT_EQ(null_backend_drain(), 1u);
    EXPECT_EQ(ready_.count, 2 * run - 1);
    EXPECT_EQ(loaded.method->resume(loaded.error).code(), EDGECORE_PENDING);  // the second delegate is pending now
    EXPECT_EQ(null_backend_drain(), 1u);
    EXPECT_TRUE(loaded.method->resume(loaded.error).ok()) << text_of(loaded.error);
    EXPECT_FALSE(loaded.method->pending());
    EXPECT_EQ(z_, (std::vector<float>{40, 80}));
    z_ = {0, 0};
  }
  EXPECT_EQ(loaded.method->resume(loaded.error).code(), EDGECORE_INVALID_STATE);
  EXPECT_SENTENCE(loaded, "has no pending run");
}

TEST_F(PendingRunTest, MayBeCompletedByAnotherThread) {
  Loaded loaded(program(pending(), NullBlob()));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  ASSERT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_PENDING);
  std::thread device([] { null_backend_drain(); });
  Status status(EDGECORE_PENDING);
  while (status.code() == EDGECORE_PENDING) status = loaded.method->resume(loaded.error);
  device.join();
  EXPECT_TRUE(status.ok()) << text_of(loaded.error);
  EXPECT_EQ(z_, (std::vector<float>{40, 80}));
}

TEST_F(PendingRunTest, MakesAllOtherCallsFail) {
  Loaded loaded(program(pending(), NullBlob()));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  ASSERT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_PENDING);
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_STATE);
  EXPECT_SENTENCE(loaded, "Method 'forward' has a pending run: it must end");
  EXPECT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_INVALID_STATE);
  std::vector<float> other(2);
  EXPECT_FALSE(loaded.set_floats(0, {2}, other));
  EXPECT_FALSE(loaded.set_floats_output(0, other));
  edgecore_option option = {};
  EXPECT_EQ(loaded.method->set_option("NullBackend", option, loaded.error).code(), EDGECORE_INVALID_STATE);
  null_backend_drain();
  EXPECT_TRUE(loaded.method->resume(loaded.error).ok()) << text_of(loaded.error);
  EXPECT_EQ(z_, (std::vector<float>{40, 80}));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
}

TEST_F(PendingRunTest, IsNotAllowedWithoutACompletion) {
  Loaded loaded(program(pending(), pending()));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(null_backend_drain(), 0u);
  EXPECT_EQ(z_, (std::vector<float>{40, 80}));
}

TEST_F(PendingRunTest, FailsIfTheDeviceFails) {
  Loaded loaded(program(pending(kNullFails), NullBlob()));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  ASSERT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_PENDING);
  null_backend_drain();
  EXPECT_EQ(loaded.method->resume(loaded.error).code(), EDGECORE_INVALID_STATE);
  EXPECT_SENTENCE(loaded, "Method 'forward', instruction 0, backend 'NullBackend': the device was lost.");
  EXPECT_FALSE(loaded.method->pending());
}

TEST_F(PendingRunTest, EndsWhenTheMethodIsDestroyed) {
  {
    Loaded loaded(program(pending(), NullBlob()));
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    ASSERT_EQ(loaded.method->start(ready_, loaded.error).code(), EDGECORE_PENDING);
  }
  EXPECT_EQ(null_backend_drain(), 0u);
  EXPECT_EQ(ready_.count, 0);
}

}  // namespace
}  // namespace edgecore
