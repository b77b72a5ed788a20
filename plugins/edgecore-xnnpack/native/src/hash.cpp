#include "hash.h"

#include <algorithm>
#include <cstring>

namespace edgecore::xnnpack {

namespace {

using Wide = unsigned __int128;

constexpr uint64_t kPrime = (1ull << 61) - 1;
constexpr uint64_t kBlockBytes = kBlockWords * sizeof(uint64_t);

// The pseudo-random number generator splitmix64, which expands the secret to the key.
uint64_t next_random(uint64_t *state) {
  uint64_t word = *state += 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return word ^ word >> 31;
}

// A step of Horner's rule: returns value * point + word modulo kPrime = 2^61 - 1, for value, point < kPrime and word <
// 2^61. Because 2^61 is 1 modulo kPrime, the upper bits of the 128-bit number are added to its lower 61 bits instead of
// a division.
uint64_t horner(uint64_t value, uint64_t point, uint64_t word) {
  const Wide product = static_cast<Wide>(value) * point + word;
  const uint64_t folded = static_cast<uint64_t>(product & kPrime) + static_cast<uint64_t>(product >> 61);
  return folded >= kPrime ? folded - kPrime : folded;
}

// Extends the polynomial `value` by a 128-bit sum, split into three words of up to 60 bits, because horner needs words
// below 2^61.
uint64_t fold(uint64_t value, uint64_t point, Wide sum) {
  value = horner(value, point, static_cast<uint64_t>(sum) & (kPrime >> 1));
  value = horner(value, point, static_cast<uint64_t>(sum >> 60) & (kPrime >> 1));
  return horner(value, point, static_cast<uint64_t>(sum >> 120));
}

uint64_t load_word(const uint8_t *at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

HashKey::HashKey(const Secret &secret) {
  uint64_t states[] = {secret[0], secret[1]};
  for (uint64_t &word : words_) word = next_random(&states[0]) ^ next_random(&states[1]);
  for (uint64_t &point : points_) point = (next_random(&states[0]) ^ next_random(&states[1])) % kPrime;
}

Identity HashKey::hash(const void *data, uint64_t bytes) const {
  const auto *at = static_cast<const uint8_t *>(data);
  Identity result;
  uint64_t remaining = bytes;
  while (remaining > 0) {
    uint8_t padded[kBlockBytes];
    const uint64_t block_bytes = std::min(remaining, kBlockBytes);
    const uint8_t *block = at;
    uint64_t words = kBlockWords;
    if (block_bytes < kBlockBytes) {  // the last block: padded with zeros to pairs of words
      words = (block_bytes + 15) / 16 * 2;
      std::memset(padded, 0, words * sizeof(uint64_t));
      std::memcpy(padded, at, block_bytes);
      block = padded;
    }
    Wide first = 0, second = 0;
    for (uint64_t i = 0; i < words; i += 2) {
      const uint64_t low = load_word(block + 8 * i), high = load_word(block + 8 * i + 8);
      first += static_cast<Wide>(low + words_[i]) * (high + words_[i + 1]);
      second += static_cast<Wide>(low + words_[i + 2]) * (high + words_[i + 3]);
    }
    result.first = fold(result.first, points_[0], first);
    result.second = fold(result.second, points_[1], second);
    at += block_bytes;
    remaining -= block_bytes;
  }
  result.first = horner(result.first, points_[0], bytes & kPrime);
  result.second = horner(result.second, points_[1], bytes & kPrime);
  return result;
}

}  // namespace edgecore::xnnpack
