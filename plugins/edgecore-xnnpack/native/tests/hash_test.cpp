// Tests the hash: contents that differ in any bit or in length have different hashes, and so do different keys.
#include "hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace edgecore::xnnpack {
namespace {

using Seen = std::set<std::pair<uint64_t, uint64_t>>;

bool add(Seen *seen, const Identity &identity) { return seen->emplace(identity.first, identity.second).second; }

TEST(Hash, TellsEveryBitApart) {
  const HashKey key({1, 2});
  std::vector<uint8_t> bytes(8 * kBlockWords + 100, 7);
  Seen seen;
  EXPECT_TRUE(add(&seen, key.hash(bytes.data(), bytes.size())));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    ASSERT_TRUE(add(&seen, key.hash(bytes.data(), bytes.size()))) << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  EXPECT_FALSE(add(&seen, key.hash(bytes.data(), bytes.size())));
}

TEST(Hash, TellsLengthsApart) {
  const HashKey key({1, 2});
  const std::vector<uint8_t> zeros(16 * kBlockWords + 1);
  Seen seen;
  for (size_t bytes = 0; bytes <= zeros.size(); ++bytes) ASSERT_TRUE(add(&seen, key.hash(zeros.data(), bytes)));
}

// Processors with and without 128-bit numbers must compute the same hashes; these were computed with 128-bit numbers.
TEST(Hash, IsTheSameOnAllProcessors) {
  const HashKey key({1, 2});
  std::vector<uint8_t> bytes(10001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 251 * 7);
  EXPECT_EQ(key.hash(bytes.data(), bytes.size()), (Identity{0xbef518dd9defa, 0x48b2c47318dec7}));
  std::fill(bytes.begin(), bytes.end(), uint8_t{0xFF});  // produces all carries
  EXPECT_EQ(key.hash(bytes.data(), bytes.size()), (Identity{0x1e9824143ac8601f, 0x7a675ca72aeeb5f}));
}

TEST(Hash, DependsOnBothWordsOfTheSecret) {
  const std::vector<uint8_t> bytes(1000, 1);
  Seen seen;
  for (const Secret &secret : {Secret{1, 2}, Secret{3, 2}, Secret{1, 3}}) {
    EXPECT_TRUE(add(&seen, HashKey(secret).hash(bytes.data(), bytes.size())));
  }
}

TEST(Hash, DoesNotDependOnAlignment) {
  const HashKey key({1, 2});
  std::vector<uint8_t> bytes(10001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 251);
  const std::vector<uint8_t> moved(bytes.begin() + 1, bytes.end());
  EXPECT_EQ(key.hash(bytes.data() + 1, moved.size()), key.hash(moved.data(), moved.size()));
}

}  // namespace
}  // namespace edgecore::xnnpack
