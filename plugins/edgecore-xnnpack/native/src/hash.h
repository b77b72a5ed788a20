// A keyed hash of byte arrays. Two arrays with the same hash are equal with overwhelming probability, even if an
// attacker who does not know the key chose them. The hash is NH over blocks and a polynomial over the block sums,
// computed twice (Black et al., "UMAC", 1999; Krovetz, "Message authentication on 64-bit architectures", 2006). It runs
// at about 10 GB/s; SHA-256 without special instructions is slower than packing the weights.
#ifndef EDGECORE_XNNPACK_HASH_H_
#define EDGECORE_XNNPACK_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace edgecore::xnnpack {

struct Identity {
  uint64_t first = 0, second = 0;  // below 2^61
};

inline bool operator==(const Identity &a, const Identity &b) { return a.first == b.first && a.second == b.second; }

constexpr size_t kBlockWords = 512;

using Secret = std::array<uint64_t, 2>;

class HashKey {
 public:
  explicit HashKey(const Secret &secret);

  Identity hash(const void *data, uint64_t bytes) const;

 private:
  std::array<uint64_t, kBlockWords + 2> words_;
  std::array<uint64_t, 2> points_;  // arguments at which the two polynomials are evaluated
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_HASH_H_
