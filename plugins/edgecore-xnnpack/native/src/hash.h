// A keyed hash of contents: equal identities mean equal bytes, also for bytes that somebody chose who does not know the
// key. NH over blocks and a polynomial over their sums, twice (Black et al., "UMAC", 1999; Krovetz, "Message
// authentication on 64-bit architectures", 2006). About 10 GB/s, where SHA-256 without instructions of its own is
// slower than packing.
#ifndef EDGECORE_XNNPACK_HASH_H_
#define EDGECORE_XNNPACK_HASH_H_

#include <array>
#include <cstdint>

namespace edgecore::xnnpack {

struct Identity {
  uint64_t first = 0, second = 0;  // below 2^61
};

inline bool operator==(const Identity &a, const Identity &b) { return a.first == b.first && a.second == b.second; }

constexpr uint64_t kBlockWords = 512;

using Secret = std::array<uint64_t, 2>;

class HashKey {
 public:
  explicit HashKey(const Secret &secret);

  Identity Hash(const void *data, uint64_t bytes) const;

 private:
  std::array<uint64_t, kBlockWords + 2> words_;
  std::array<uint64_t, 2> points_;  // where the polynomials are evaluated
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_HASH_H_
