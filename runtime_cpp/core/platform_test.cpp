// Tests the table of platform functions, and the log.
#include "core/platform.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "edgecore/host.h"
#include "edgecore/log.h"

namespace edgecore {
namespace {

std::vector<std::string> messages;
int inits = 0;
uint64_t ticks = 0;

void EDGECORE_CALL init() { ++inits; }
uint64_t EDGECORE_CALL current_ticks() { return ticks; }
void EDGECORE_CALL thirds(uint64_t *numerator, uint64_t *denominator) {
  *numerator = 10;
  *denominator = 3;
}
void EDGECORE_CALL keep(uint64_t timestamp, int32_t level, edgecore_str text) {
  messages.push_back(std::to_string(timestamp) + " " + std::to_string(level) + " " + std::string(text.data, text.size));
}
void EDGECORE_CALL stop() {
  const bool said = messages.size() == 1 && messages[0].find("index < size does not hold") != std::string::npos;
  exit(said ? 7 : 8);
}
uint8_t heap[64];
void *EDGECORE_CALL allocate(uint64_t size, uint64_t) { return size <= sizeof(heap) ? heap : nullptr; }
void EDGECORE_CALL deallocate(void *data) { EXPECT_EQ(data, heap); }

edgecore_platform recording() {
  edgecore_platform platform = {};
  platform.header = header_of<edgecore_platform>();
  platform.emit_log_message = keep;
  return platform;
}

// Restores the defaults at the end of each test.
class Platform : public testing::Test {
 protected:
  Platform() {
    messages.clear();
    inits = 0;
  }
  ~Platform() override {
    EXPECT_EQ(edgecore_register_platform(nullptr), EDGECORE_OK);
    edgecore_set_log_level(EDGECORE_LOG_WARNING);
  }
};

TEST_F(Platform, ReplacesTheFunctionsThatItHas) {
  EXPECT_EQ(platform_nanoseconds(), 0u);  // the core has no clock
  edgecore_platform platform = recording();
  platform.init = init;
  platform.current_ticks = current_ticks;
  ticks = 7;
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  EXPECT_EQ(inits, 1);
  EXPECT_EQ(platform_nanoseconds(), 7u);
  edgecore_log(EDGECORE_LOG_ERROR, {"text", 4});
  EXPECT_EQ(messages, std::vector<std::string>{"7 3 text"});
  EXPECT_FALSE(platform_has_heap());
}

TEST_F(Platform, TicksBecomeNanosecondsWithoutOverflow) {
  edgecore_platform platform = recording();
  platform.current_ticks = current_ticks;
  platform.ticks_to_ns_multiplier = thirds;
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  ticks = 4;
  EXPECT_EQ(platform_nanoseconds(), 13u);
  ticks = uint64_t{3} << 60;
  EXPECT_EQ(platform_nanoseconds(), uint64_t{10} << 60);
}

TEST_F(Platform, AStructOfAnOlderVersionHasFewerMembers) {
  edgecore_platform platform = recording();
  platform.current_ticks = current_ticks;
  platform.header.struct_size = offsetof(edgecore_platform, emit_log_message);
  ticks = 9;
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  EXPECT_EQ(platform_nanoseconds(), 9u);
  edgecore_log(EDGECORE_LOG_ERROR, {"text", 4});
  EXPECT_TRUE(messages.empty());  // struct_size does not cover the member, so it is not called
}

TEST_F(Platform, RefusesTablesThatItCannotUse) {
  edgecore_platform platform = recording();
  platform.header.struct_size = 4;
  EXPECT_EQ(edgecore_register_platform(&platform), EDGECORE_INVALID_ARGUMENT);
  platform = recording();
  platform.header.major = EDGECORE_ABI_MAJOR + 1;
  EXPECT_EQ(edgecore_register_platform(&platform), EDGECORE_INVALID_ARGUMENT);
  platform = recording();
  platform.allocate = allocate;
  EXPECT_EQ(edgecore_register_platform(&platform), EDGECORE_INVALID_ARGUMENT);
  edgecore_log(EDGECORE_LOG_ERROR, {"text", 4});
  EXPECT_TRUE(messages.empty());
}

TEST_F(Platform, MessagesBelowTheLevelAreDropped) {
  const edgecore_platform platform = recording();
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  EXPECT_EQ(edgecore_log_level(), EDGECORE_LOG_WARNING);
  int built = 0;
  const auto number = [&] { return ++built; };
  EDGECORE_LOG(EDGECORE_LOG_INFO, "number ", number());
  EXPECT_EQ(built, 0);  // a message below the log level is not built
  EDGECORE_LOG(EDGECORE_LOG_WARNING, "number ", number(), " of ", StringView("two"));
  edgecore_set_log_level(EDGECORE_LOG_DEBUG);
  EDGECORE_LOG(EDGECORE_LOG_DEBUG, "number ", number());
  edgecore_set_log_level(EDGECORE_LOG_OFF);
  EDGECORE_LOG(EDGECORE_LOG_ERROR, "number ", number());
  EXPECT_EQ(messages, (std::vector<std::string>{"0 2 number 1 of two", "0 0 number 2"}));
}

TEST_F(Platform, BackendsLogAndAllocateThroughIt) {
  edgecore_platform platform = recording();
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  edgecore_host host = core_services();
  host.log(nullptr, EDGECORE_LOG_WARNING, {"from a backend", 14});
  EXPECT_EQ(messages, std::vector<std::string>{"0 2 from a backend"});
  EXPECT_EQ(host.allocate, nullptr);  // no heap
  EXPECT_EQ(host.deallocate, nullptr);
  // Run in a child process: a registered heap that was used once cannot be replaced in the rest of this test program.
  EXPECT_EXIT(
      {
        platform.allocate = allocate;
        platform.free = deallocate;
        bool ok = edgecore_register_platform(&platform) == EDGECORE_OK;
        host = core_services();
        void *data = host.allocate(nullptr, 64, 16);
        ok = ok && data == heap && host.allocate(nullptr, 65, 16) == nullptr;
        host.deallocate(nullptr, data, 64, 16);
        ok = ok && edgecore_register_platform(&platform) == EDGECORE_OK;  // the same heap
        ok = ok && edgecore_register_platform(nullptr) == EDGECORE_INVALID_STATE;
        exit(ok ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Platform, AbortSaysWhy) {
  edgecore_platform platform = recording();
  platform.abort = stop;
  ASSERT_EQ(edgecore_register_platform(&platform), EDGECORE_OK);
  EXPECT_EXIT(platform_abort("index < size"), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace edgecore
