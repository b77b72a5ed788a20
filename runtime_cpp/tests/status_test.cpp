#include "edgecore/status.h"

#include <gtest/gtest.h>

#include <string>

#include "core/sha256.h"
#include "edgecore/allocator.h"

namespace edgecore {
namespace {

std::string text_of(const Error &error) { return std::string(error.text, error.size); }

TEST(Status, SentenceHoldsTextNumbersAndLists) {
  Error error;
  const int64_t shape[] = {1, 3, -1};
  const Status status = fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", size_t{2}, " has shape ",
                             Span<const int64_t>(shape), ", least ", INT64_MIN, ", most ", UINT64_MAX, ".");
  EXPECT_EQ(status.code(), 0x12);
  EXPECT_EQ(error.code, 0x12);
  EXPECT_EQ(text_of(error), "Input 2 has shape [1, 3, -1], least -9223372036854775808, most 18446744073709551615.");
}

TEST(Status, LongSentenceIsCut) {
  Error error;
  const std::string part(700, 'x');
  (void)fail(error, EDGECORE_INTERNAL, StringView(part.data(), part.size()), StringView(part.data(), part.size()));
  EXPECT_EQ(error.size, Error::kCapacity);
  EXPECT_EQ(text_of(error).substr(Error::kCapacity - 4), "x...");
}

TEST(Status, ControlCharactersOfAFileDoNotReachTheTerminal) {
  Error error;
  (void)fail(error, EDGECORE_INTERNAL, StringView("a\x1b[2J\nb"));
  EXPECT_EQ(text_of(error), "a?[2J?b");
}

TEST(Status, LongListIsShortened) {
  Error error;
  int64_t list[40] = {};
  (void)fail(error, EDGECORE_INTERNAL, Span<const int64_t>(list));
  EXPECT_EQ(text_of(error).substr(text_of(error).size() - 6), ", ...]");
}

TEST(BufferAllocator, AlignsCountsAndEnds) {
  alignas(64) uint8_t memory[256];
  BufferAllocator allocator{MutableBytes(memory)};
  EXPECT_EQ(allocator.allocate(3, 1), memory);
  EXPECT_EQ(allocator.allocate(8, 64), memory + 64);
  EXPECT_EQ(allocator.used(), 72u);
  EXPECT_EQ(allocator.allocate(185, 1), nullptr);
  EXPECT_NE(allocator.allocate(184, 1), nullptr);
  EXPECT_EQ(allocator.allocate(1, 1), nullptr);
  EXPECT_EQ(allocator.allocate(SIZE_MAX, 64), nullptr);
  allocator.reset();
  EXPECT_EQ(allocator.allocate(256, 1), memory);
  EXPECT_EQ(allocator.peak(), 256u);
}

// Digests of FIPS 180-4's examples.
TEST(Sha256, MatchesTheStandard) {
  const auto hex = [](const std::string &text) {
    uint8_t digest[32];
    sha256(Bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size()), digest);
    std::string out;
    for (const uint8_t byte : digest) {
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    }
    return out;
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace edgecore
