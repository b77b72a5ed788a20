#include "hash.h"

#include <algorithm>
#include <cstring>

namespace edgecore::xnnpack {

namespace {

// An unsigned 128-bit number.
struct Wide {
  uint64_t low = 0, high = 0;
};

constexpr uint64_t kPrime = (1ull << 61) - 1;
constexpr size_t kBlockBytes = kBlockWords * sizeof(uint64_t);

// The pseudo-random number generator splitmix64, which makes the words of the hash key from the secret.
uint64_t next_random(uint64_t *state) {
  uint64_t word = *state += 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return word ^ word >> 31;
}

// Adds a * b to `sum`, modulo 2^128.
void add_product(Wide *sum, uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  using Number = unsigned __int128;
  const Number total = (static_cast<Number>(sum->high) << 64 | sum->low) + static_cast<Number>(a) * b;
  *sum = {static_cast<uint64_t>(total), static_cast<uint64_t>(total >> 64)};
#else  // 32-bit processors: multiply 32-bit halves; a product plus its carry is below 2^64
  const uint64_t a_low = static_cast<uint32_t>(a), a_high = a >> 32, b_low = static_cast<uint32_t>(b), b_high = b >> 32;
  const uint64_t lowest = a_low * b_low;
  const uint64_t middle = a_high * b_low + (lowest >> 32);
  const uint64_t other = a_low * b_high + static_cast<uint32_t>(middle);
  const uint64_t low = other << 32 | static_cast<uint32_t>(lowest);
  sum->low += low;
  sum->high += a_high * b_high + (middle >> 32) + (other >> 32) + (sum->low < low ? 1 : 0);
#endif
}

// Returns value * point + word modulo kPrime = 2^61 - 1: one step of Horner's rule for a polynomial. Requires value <
// kPrime, point < kPrime and word < 2^61. No division is needed: 2^61 is 1 modulo kPrime, so the upper bits of the
// 128-bit number are added to its lower 61 bits.
uint64_t horner(uint64_t value, uint64_t point, uint64_t word) {
  Wide product = {word, 0};
  add_product(&product, value, point);
  const uint64_t folded = (product.low & kPrime) + (product.low >> 61 | product.high << 3);
  return folded >= kPrime ? folded - kPrime : folded;
}

// Appends a 128-bit sum to the polynomial whose value so far is `value`. Splits the sum into three words of up to 60
// bits, because horner needs words below 2^61.
uint64_t fold(uint64_t value, uint64_t point, const Wide &sum) {
  value = horner(value, point, sum.low & (kPrime >> 1));
  value = horner(value, point, (sum.low >> 60 | sum.high << 4) & (kPrime >> 1));
  return horner(value, point, sum.high >> 56);
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
    const auto block_bytes = static_cast<size_t>(std::min<uint64_t>(remaining, kBlockBytes));
    const uint8_t *block = at;
    size_t words = kBlockWords;
    if (block_bytes < kBlockBytes) {  // pad the last block with zeros to a whole number of word pairs
      words = (block_bytes + 15) / 16 * 2;
      std::memset(padded, 0, words * sizeof(uint64_t));
      std::memcpy(padded, at, block_bytes);
      block = padded;
    }
    Wide first, second;
    for (size_t i = 0; i < words; i += 2) {
      const uint64_t low = load_word(block + 8 * i), high = load_word(block + 8 * i + 8);
      add_product(&first, low + words_[i], high + words_[i + 1]);
      add_product(&second, low + words_[i + 2], high + words_[i + 3]);
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
