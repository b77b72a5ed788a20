// Tests the whole delegate through its table of functions: resources that a program leaves on the device, and runs that
// end after execute has returned.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "edgecore/backend.h"
#include "test_support.h"

extern "C" const edgecore_backend *edgecore_backend_v0_vulkan(void);

namespace edgecore::vulkan {
namespace {

using test::AsDiscrete;
using test::BlobWriter;
using test::Bytes;
using test::Gate;
using test::Memory;
using test::Replaced;
using test::TestArguments;

constexpr uint32_t kWidth = 1000;

// One loaded program with one delegate, as a session of the host.
class Session {
 public:
  Session(edgecore_driver *driver, edgecore_scope &scope, Bytes blob, const std::vector<edgecore_option> &options)
      : blob_(std::move(blob)) {
    edgecore_program_info program = {backend::header<edgecore_program_info>(), &scope, {}};
    program.options = {options.data(), options.size(), sizeof(edgecore_option), 0};
    edgecore_delegate_info delegate = {};
    delegate.header = backend::header<edgecore_delegate_info>();
    delegate.scope = &scope;
    delegate.blob = test::view(blob_);
    const edgecore_state_set_info state = {backend::header<edgecore_state_set_info>(), &scope};
    code_ = table().program_open(driver, &program, &program_, &error_);
    if (code_ == EDGECORE_OK) code_ = table().delegate_load(program_, &delegate, &delegate_, &error_);
    if (code_ == EDGECORE_OK) code_ = table().state_set_create(program_, &state, &state_, &error_);
    if (code_ != EDGECORE_OK) return;
    const edgecore_instance_info instance = {backend::header<edgecore_instance_info>(), &scope, 0, 0, state_};
    code_ = table().instance_create(delegate_, &instance, &instance_, &error_);
  }
  ~Session() {
    if (instance_ != nullptr) table().instance_destroy(instance_);
    if (state_ != nullptr) table().state_set_destroy(state_);
    if (delegate_ != nullptr) table().delegate_destroy(delegate_);
    if (program_ != nullptr) table().program_close(program_);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  static const edgecore_backend &table() { return *edgecore_backend_v0_vulkan(); }

  int32_t prepare(TestArguments &arguments) {
    const std::vector<edgecore_value> &values = arguments.values();
    edgecore_prepared prepared = {};
    prepared.header = backend::header<edgecore_prepared>();
    return table().prepare(instance_, values.data(), values.size(), sizeof(edgecore_value), &prepared, &error_);
  }
  int32_t execute(TestArguments &arguments, std::promise<int32_t> *end = nullptr) {
    const std::vector<edgecore_value> &values = arguments.values();
    edgecore_execute_info info = {};
    info.header = backend::header<edgecore_execute_info>();
    if (end != nullptr) {
      info.completion = [](void *arg, int32_t code, edgecore_str) {
        static_cast<std::promise<int32_t> *>(arg)->set_value(code);
      };
      info.completion_arg = end;
    }
    return table().execute(instance_, &info, values.data(), values.size(), sizeof(edgecore_value), &error_);
  }
  uint32_t memory_kind() const {
    edgecore_buffer_requirement requirement = {};
    table().buffer_requirement(delegate_, 0, &requirement);
    return requirement.memory_kind;
  }
  int32_t code() const { return code_; }
  const std::string &message() const { return error_.text; }

 private:
  const Bytes blob_;  // outlives the delegate, which reads its constants
  edgecore_program *program_ = nullptr;
  edgecore_delegate *delegate_ = nullptr;
  edgecore_state_set *state_ = nullptr;
  edgecore_instance *instance_ = nullptr;
  edgecore_error error_;
  int32_t code_ = EDGECORE_OK;
};

edgecore_option option(const char *name, uint32_t type, int64_t value) {
  edgecore_option result = {};
  result.name = backend::to_str(name);
  result.type = type;
  result.value.i = value;
  return result;
}

// y = x + c + d on up to 4 rows, with a constant in the blob and one in the named data of the file.
Bytes sums() {
  BlobWriter blob;
  const uint32_t x = blob.tensor({4, kWidth}), c = blob.constant({kWidth}, std::vector<float>(kWidth, 10));
  const uint32_t d = blob.named_constant({kWidth}, "weights"), sum = blob.add(x, c, {4, kWidth});
  return blob.finish({x}, {blob.add(sum, d, {4, kWidth})});
}

// y = s + x, and s = y afterwards, for a mutable buffer s.
Bytes running_sum() {
  BlobWriter blob;
  const uint32_t x = blob.tensor({4, kWidth}), initial = blob.constant({4, kWidth}, std::vector<float>(4 * kWidth, 5));
  const uint32_t name = blob.text("sum"), s = blob.tensor({4, kWidth}), stored = blob.tensor({4, kWidth});
  blob.call("edgecore.state.default", {name, initial, s});
  const uint32_t y = blob.add(s, x, {4, kWidth});
  blob.call("edgecore.store.default", {s, y, stored});
  return blob.finish({x}, {y});
}

// A graph whose second operator does not exist.
Bytes unknown_operator() {
  BlobWriter blob;
  const uint32_t x = blob.tensor({4, kWidth}), c = blob.constant({kWidth}, std::vector<float>(kWidth, 10));
  const uint32_t y = blob.add(x, c, {4, kWidth}), z = blob.tensor({4, kWidth});
  blob.call("aten.none_such.default", {y, z});
  return blob.finish({x}, {z});
}

TestArguments arguments(int64_t rows = 4) {
  TestArguments result;
  result.add({rows, kWidth}, std::vector<float>(static_cast<size_t>(rows) * kWidth, 1));
  result.add({4, kWidth});
  return result;
}

class DeviceDelegate : public test::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    scope_.named["weights"] = test::bytes_of(std::vector<float>(kWidth, 100));
    ASSERT_EQ(Session::table().driver_create(test::host_table(), &driver_scope_, &driver_, nullptr), EDGECORE_OK);
    std::unique_ptr<AsDiscrete> discrete;
    if (GetParam() == Memory::kOwn) {
      open(sums());  // loads the functions of Vulkan; AsDiscrete then replaces one
      options_.push_back(option("gpu_shaders", EDGECORE_OPTION_BOOL, 1));  // selects a device that no other test uses
      discrete = std::make_unique<AsDiscrete>();
    }
    first_ = open(sums());  // keeps the device open
    ASSERT_EQ(Session::table().buffer_create(driver_, 16, 16, first_->memory_kind(), &buffer_, nullptr), EDGECORE_OK);
    ASSERT_EQ(buffer_->device->unified(), GetParam() == Memory::kShared);
  }
  void TearDown() override {
    if (buffer_ != nullptr) Session::table().buffer_destroy(buffer_);
    first_.reset();
    if (driver_ != nullptr) Session::table().driver_destroy(driver_);
  }

  std::unique_ptr<Session> open(const Bytes &blob, const std::vector<edgecore_option> &more = {}) {
    std::vector<edgecore_option> options = options_;
    options.insert(options.end(), more.begin(), more.end());
    auto session = std::make_unique<Session>(driver_, scope_, blob, options);
    EXPECT_EQ(session->code(), EDGECORE_OK) << session->message();
    return session;
  }

  // The device of the sessions, which is not the device of DeviceTest.
  Device &sessions_device() { return *buffer_->device; }

  // Loads, runs and closes a program 200 times. Expects that the device then uses as much memory as before.
  template <typename Round>
  void expect_no_leak(const Round &round) {
    const auto statistics = [&] {
      VmaTotalStatistics all = {};
      vmaCalculateStatistics(sessions_device().allocator(), &all);
      return all.total.statistics;
    };
    round();  // the allocator keeps a block, so run once before measuring
    const VmaStatistics before = statistics();
    for (int i = 0; i < 200; ++i) round();
    const VmaStatistics after = statistics();
    EXPECT_EQ(after.allocationCount, before.allocationCount);
    EXPECT_EQ(after.allocationBytes, before.allocationBytes);
    EXPECT_EQ(after.blockCount, before.blockCount);
    EXPECT_EQ(after.blockBytes, before.blockBytes);
  }

  edgecore_driver *driver() { return driver_; }
  edgecore_scope &scope() { return scope_; }
  const std::vector<edgecore_option> &options() const { return options_; }

 private:
  edgecore_scope driver_scope_, scope_;
  std::vector<edgecore_option> options_;
  edgecore_driver *driver_ = nullptr;
  std::unique_ptr<Session> first_;
  edgecore_buffer *buffer_ = nullptr;
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceDelegate);

TEST_P(DeviceDelegate, ProgramsWithConstantsLeaveNoMemory) {
  const Bytes blob = sums();
  expect_no_leak([&] {
    const std::unique_ptr<Session> session = open(blob);
    for (const int64_t rows : {2, 4}) {
      TestArguments given = arguments(rows);
      ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
      ASSERT_EQ(session->execute(given), EDGECORE_OK) << session->message();
      ASSERT_EQ(given.floats(1)[static_cast<size_t>(rows) * kWidth - 1], 111);
    }
  });
}

TEST_P(DeviceDelegate, ProgramsWithStateLeaveNoMemory) {
  const Bytes blob = running_sum();
  expect_no_leak([&] {
    const std::unique_ptr<Session> session = open(blob);
    TestArguments given = arguments();
    ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
    for (const float expected : {6.0f, 7.0f}) {
      ASSERT_EQ(session->execute(given), EDGECORE_OK) << session->message();
      ASSERT_EQ(given.floats(1)[0], expected);
    }
  });
}

// The driver keeps one record for each number of a device.
TEST_P(DeviceDelegate, DevicesThatAreClosedLeaveTheirNumbers) {
  const uint32_t first = open(sums(), {option("timeout_ms", EDGECORE_OPTION_INT, 1000)})->memory_kind();
  for (const char *folder : {"first", "second", "third"}) {
    edgecore_option cache = option("pipeline_cache_folder", EDGECORE_OPTION_STRING, 0);
    const std::string path = ::testing::TempDir() + folder;
    cache.value.bytes = {reinterpret_cast<const uint8_t *>(path.data()), path.size()};
    EXPECT_LE(open(sums(), {cache})->memory_kind(), first + 1);
  }
}

TEST_P(DeviceDelegate, ProgramsThatAreRefusedLeaveNoMemory) {
  const Bytes blob = unknown_operator(), damaged(blob.begin(), blob.end() - 1);
  expect_no_leak([&] {
    const std::unique_ptr<Session> session = open(blob);
    TestArguments given = arguments();
    ASSERT_EQ(session->prepare(given), EDGECORE_NOT_SUPPORTED);
    const Session refused(driver(), scope(), damaged, options());
    ASSERT_EQ(refused.code(), EDGECORE_DELEGATE_INVALID_COMPATIBILITY);
  });
}

TEST_P(DeviceDelegate, RunsThatFailLeaveNoMemory) {
  const Bytes blob = running_sum();
  expect_no_leak([&] {
    const std::unique_ptr<Session> session = open(blob);
    TestArguments given = arguments();
    ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
    const Replaced<PFN_vkQueueSubmit> lost(
        sessions_device(), &VolkDeviceTable::vkQueueSubmit,
        [](VkQueue, uint32_t, const VkSubmitInfo *, VkFence) { return VK_ERROR_DEVICE_LOST; });
    ASSERT_EQ(session->execute(given), EDGECORE_ACCESS_FAILED);
  });
}

TEST_P(DeviceDelegate, RunsThatAreLateLeaveNoMemory) {
  const Bytes blob = sums();
  expect_no_leak([&] {
    const std::unique_ptr<Session> session = open(blob, {option("timeout_ms", EDGECORE_OPTION_INT, 1)});
    TestArguments given = arguments();
    ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
    Gate gate(sessions_device());
    ASSERT_EQ(session->execute(given), EDGECORE_ACCESS_FAILED);
    ASSERT_NE(session->message().find("did not finish in time"), std::string::npos) << session->message();
  });
}

TEST_P(DeviceDelegate, ProgramsThatAreClosedDuringARunLeaveNoMemory) {
  const Bytes blob = sums();
  expect_no_leak([&] {
    std::promise<int32_t> end;
    TestArguments given = arguments();
    {
      const std::unique_ptr<Session> session = open(blob);
      ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
      ASSERT_EQ(session->execute(given, &end), EDGECORE_PENDING);
    }
    std::future<int32_t> code = end.get_future();
    ASSERT_EQ(code.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    ASSERT_EQ(code.get(), EDGECORE_OK);
  });
}

TEST_P(DeviceDelegate, BuffersOfTheDeviceLeaveNoMemory) {
  const Bytes blob = sums();
  expect_no_leak([&] {
    edgecore_buffer *buffers[2] = {};
    {
      const std::unique_ptr<Session> session = open(blob);
      TestArguments given;
      for (edgecore_buffer *&buffer : buffers) {
        ASSERT_EQ(Session::table().buffer_create(driver(), 4 * 4 * kWidth + 512, 256, session->memory_kind(), &buffer,
                                                 nullptr),
                  EDGECORE_OK);
        given.add({4, kWidth}, buffer, 0);
      }
      ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
      ASSERT_EQ(session->execute(given), EDGECORE_OK) << session->message();
    }
    for (edgecore_buffer *buffer : buffers) Session::table().buffer_destroy(buffer);
  });
}

TEST_P(DeviceDelegate, PendingRunsEndAfterExecuteHasReturned) {
  TestArguments given[] = {arguments(), arguments(), arguments()};
  std::promise<int32_t> ends[3];
  std::future<int32_t> codes[3];
  const std::unique_ptr<Session> sessions[] = {open(sums()), open(sums()), open(sums())};
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(sessions[i]->prepare(given[i]), EDGECORE_OK) << sessions[i]->message();
    codes[i] = ends[i].get_future();
  }
  {
    Gate gate(sessions_device());
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(sessions[i]->execute(given[i], &ends[i]), EDGECORE_PENDING);
    for (const auto &code : codes) EXPECT_EQ(code.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    EXPECT_EQ(given[0].floats(1)[0], 0);
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(codes[i].get(), EDGECORE_OK);
    EXPECT_EQ(given[i].floats(1), std::vector<float>(4 * kWidth, 111));
  }
}

TEST_P(DeviceDelegate, APendingRunThatIsLateTellsTheCallerSo) {
  TestArguments given = arguments();
  const std::unique_ptr<Session> session = open(sums(), {option("timeout_ms", EDGECORE_OPTION_INT, 1)});
  ASSERT_EQ(session->prepare(given), EDGECORE_OK) << session->message();
  std::promise<int32_t> end;
  Gate gate(sessions_device());
  ASSERT_EQ(session->execute(given, &end), EDGECORE_PENDING);
  EXPECT_EQ(end.get_future().get(), EDGECORE_ACCESS_FAILED);
}

}  // namespace
}  // namespace edgecore::vulkan
