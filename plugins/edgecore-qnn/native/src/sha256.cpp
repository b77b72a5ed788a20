#include "sha256.h"

#include <cmath>
#include <cstring>

namespace edgecore_qnn {
namespace {

constexpr size_t kBlock = 64;
constexpr size_t kRounds = 64;
constexpr size_t kWords = 8;

struct Constants {
  std::array<uint32_t, kRounds> rounds;
  std::array<uint32_t, kWords> start;
};

// Computes the constants of FIPS 180-4: the first 32 bits of the fractions of the cube roots and square roots of the
// first primes. A double has 53 bits, of which at most 3 are for the integer part here.
Constants make_constants() {
  Constants result = {};
  const auto fraction = [](double root) { return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0); };
  size_t count = 0;
  for (uint32_t candidate = 2; count < kRounds; ++candidate) {
    bool is_prime = true;
    for (uint32_t d = 2; d * d <= candidate; ++d) is_prime = is_prime && candidate % d != 0;
    if (!is_prime) continue;
    result.rounds[count] = fraction(std::cbrt(static_cast<double>(candidate)));
    if (count < kWords) result.start[count] = fraction(std::sqrt(static_cast<double>(candidate)));
    ++count;
  }
  return result;
}

constexpr uint32_t rotate(uint32_t x, uint32_t bits) { return x >> bits | x << (32 - bits); }

void add_block(const Constants &constants, const uint8_t *block, std::array<uint32_t, kWords> &state) {
  std::array<uint32_t, kRounds> schedule = {};
  for (size_t i = 0; i < 16; ++i) {
    for (size_t byte = 0; byte < 4; ++byte) schedule[i] = schedule[i] << 8 | block[4 * i + byte];
  }
  for (size_t i = 16; i < kRounds; ++i) {
    const uint32_t early = schedule[i - 15], late = schedule[i - 2];
    schedule[i] = schedule[i - 16] + (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) + schedule[i - 7] +
                  (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < kRounds; ++i) {
    const uint32_t first =
        h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants.rounds[i] + schedule[i];
    const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, kWords> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < kWords; ++i) state[i] += added[i];
}

}  // namespace

Digest sha256(edgecore_bytes bytes) {
  static const Constants constants = make_constants();
  std::array<uint32_t, kWords> state = constants.start;
  uint64_t position = 0;
  for (; bytes.size - position >= kBlock; position += kBlock) add_block(constants, bytes.data + position, state);

  // The rest, a bit 1, zeros and the number of bits as a big-endian number of 64 bits, in one or two blocks.
  std::array<uint8_t, 2 *kBlock> end = {};
  const auto rest = static_cast<size_t>(bytes.size - position);
  if (rest != 0) std::memcpy(end.data(), bytes.data + position, rest);
  end[rest] = 0x80;
  const size_t size = rest + 9 <= kBlock ? kBlock : 2 * kBlock;
  for (size_t i = 0; i < 8; ++i) end[size - 1 - i] = static_cast<uint8_t>(bytes.size * 8 >> 8 * i);
  for (size_t at = 0; at < size; at += kBlock) add_block(constants, end.data() + at, state);

  Digest digest = {};
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

}  // namespace edgecore_qnn
