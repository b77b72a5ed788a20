// Tests the checks of the stub of Arm's driver.
#include "checks.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "session.h"

namespace edgecore::ethosu {
namespace {

using test::Content;
using test::set;
using test::set_long;

struct Call {
  Npu npu = {55, 128};
  std::vector<uint32_t> payload = test::payload_of({});
  size_t bytes = 0;  // size of the payload; 0: the whole payload
  size_t moved = 0;  // bytes by which the payload is shifted in memory
  std::vector<uint64_t> addresses = {1024, 2048};
  std::vector<size_t> sizes = {64, 64};
};

// Returns the sentence of a call: the error, or the description of the payload.
std::string sentence_of(const Call &call) {
  std::vector<std::max_align_t> memory(call.payload.size() + 2);
  uint8_t *data = reinterpret_cast<uint8_t *>(memory.data()) + call.moved;
  const size_t all = call.payload.size() * sizeof(uint32_t);
  memcpy(data, call.payload.data(), all);
  const Regions regions = {call.addresses.data(), call.sizes.data(), static_cast<int>(call.addresses.size())};
  Sentence sentence;
  const bool accepted = check_invocation(call.npu, {data, call.bytes == 0 ? all : call.bytes}, regions, sentence);
  const std::string text(sentence.text().data, sentence.text().size);
  EXPECT_EQ(accepted, text.find(" accepts ") != std::string::npos);
  return text;
}

std::string refused(const Call &call) {
  const std::string text = sentence_of(call), start = " refuses a command stream: ";
  const size_t at = text.find(start);
  return at == std::string::npos ? "accepted" : text.substr(at + start.size());
}

Call with(const Content &content) {
  Call call;
  call.payload = test::payload_of(content);
  return call;
}

TEST(Stub, AcceptsAGoodCall) {
  EXPECT_EQ(sentence_of({}),
            "The stub of an ethos-u55-128 accepts a command stream of 2 operations; bytes: weights 64, arena 64.");
}

TEST(Stub, RefusesAStreamOfAnotherNpu) {
  Content content;
  for (const auto &[configuration, name] :
       {std::pair(0x1008u, "ethos-u55-256"), std::pair(0x10003008u, "ethos-u65-256"),
        std::pair(0x20000118u, "ethos-u85-256")}) {
    content.configuration = configuration;
    EXPECT_EQ(refused(with(content)), std::string("it was compiled for ") + name + ".");
  }
  content.configuration = 0x70001807;
  EXPECT_EQ(refused(with(content)), "it was compiled for the unknown product 7.");
}

TEST(Stub, RefusesAnotherArchitecture) {
  Content content;
  content.id = 0x20007000;
  EXPECT_EQ(refused(with(content)), "it was compiled for the architecture 2.0 instead of 1.0.");
  content.id = 0x10166001;
  EXPECT_EQ(refused(with(content)), "it was compiled for the architecture 1.1 instead of 1.0.");
  content = {};
  content.configuration = 0x1817;
  EXPECT_EQ(refused(with(content)), "its commands have the version 1 instead of 0.");
  content.configuration = 0x20000118;
  content.id = 0x20007000;
  Call u85 = with(content);
  EXPECT_EQ(refused(u85), "it was compiled for ethos-u85-256.");
  u85.npu = {85, 256};
  EXPECT_EQ(refused(u85), "accepted");
}

TEST(Stub, RefusesADamagedPayload) {
  Content content;
  content.magic = "COP2";
  EXPECT_EQ(refused(with(content)), "it does not start with COP1.");
  Call call;
  call.bytes = 6;
  EXPECT_EQ(refused(call), "its 6 bytes are no whole number of words.");
  call.bytes = 4;
  EXPECT_EQ(refused(call), "it has no commands.");
  call.bytes = 12;
  EXPECT_EQ(refused(call), "it ends within the action in word 1.");
  call.bytes = 4 * (call.payload.size() - 1);
  EXPECT_EQ(refused(call), "it ends within the action in word 7.");
  call = {};
  call.payload[4] = 4;
  EXPECT_EQ(refused(call), "word 4 is the unknown action 4.");
  call = {};
  call.payload[1] = call.payload[2] = call.payload[3] = 5;
  EXPECT_EQ(refused(call), "it does not say for which NPU it was compiled.");
}

TEST(Stub, RefusesWrongAddresses) {
  Call call;
  call.moved = 4;
  EXPECT_NE(refused(call).find(", which is no multiple of 16."), std::string::npos);
  call = {};
  call.addresses[1] = 2056;
  EXPECT_EQ(refused(call), "arena at the address 2056, which is no multiple of 16.");
  call.addresses[1] = 0;
  EXPECT_EQ(refused(call), "arena of 64 bytes without an address.");
  call.addresses[1] = 1024 + 48;
  EXPECT_EQ(refused(call), "arena and weights overlap.");
  call.addresses.pop_back();
  EXPECT_EQ(refused(call), "1 regions, and weights and arena are needed.");
}

TEST(Stub, RefusesRegionsThatAreTooSmall) {
  Call call;
  call.sizes[0] = 63;
  EXPECT_EQ(refused(call), "weights to byte 64 of the weights, which has 63 bytes.");
  call.sizes[0] = 64;
  call.sizes[1] = 16;
  EXPECT_EQ(refused(call), "output to byte 17 of the arena, which has 16 bytes.");
  call.sizes[1] = 32;
  EXPECT_EQ(refused(call), "destination of a copy to byte 64 of the arena, which has 32 bytes.");
}

TEST(Stub, RefusesCommandsOutsideOfTheRegions) {
  Content content;
  content.commands = {set(0x10f, 1), set_long(0x000, 1), 0, set(0x005, 0),
                      set(0x000, 0xffff)};  // an address of 33 bits
  EXPECT_EQ(refused(with(content)), "input to byte 4294967297 of the arena, which has 64 bytes.");
  content.commands = {set(0x18f, 5), set_long(0x080), 0, set(0x006, 0), set(0x000, 0xffff)};
  EXPECT_EQ(refused(with(content)), "second input in the region 5, which the call does not have.");
  content.commands = {set(0x10f, 1), set_long(0x000)};
  EXPECT_EQ(refused(with(content)), "its commands end within a command.");
  content.commands = {set(0x10f, 1)};
  EXPECT_EQ(refused(with(content)), "its commands have no end.");
}

TEST(Stub, AcceptsChainedOperationsOfAnEthosU85) {
  Content content;
  content.configuration = 0x20000118;
  content.id = 0x20007000;
  content.commands = {set(0x11f, 0), set_long(0x010), 1 << 14, set(0x114, 0x8041), set(0x002, 0), set(0x000, 0xffff)};
  Call call = with(content);
  call.npu = {85, 256};
  EXPECT_EQ(refused(call), "accepted");
  // For the other NPUs these bits of the precision are a rounding mode.
  content.configuration = 0x1807;
  content.id = 0x10066001;
  EXPECT_EQ(refused(with(content)), "output to byte 16385 of the weights, which has 64 bytes.");
}

TEST(Stub, AcceptsCopiesWithinTheNpu) {
  Content content;
  // Writes to a table inside of the NPU, whose address belongs to no region.
  content.commands = {set(0x130, 0),      set_long(0x030), 0,     set_long(0x032), 64,
                      set(0x131, 1 << 8), set_long(0x031), 45056, set(0x010, 0),   set(0x000, 0xffff)};
  EXPECT_EQ(refused(with(content)), "accepted");
}

}  // namespace
}  // namespace edgecore::ethosu
