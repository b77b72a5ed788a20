// The checks that the stand-in for Arm's driver makes of a command stream: its payload, its regions, and the addresses
// that it accesses.
#ifndef EDGECORE_ETHOSU_CHECKS_H_
#define EDGECORE_ETHOSU_CHECKS_H_

#include "sentence.h"

namespace edgecore::ethosu {

struct Npu {
  uint32_t family;  // 55, 65 or 85
  uint32_t macs;    // multiply-accumulate units
};

// The memory that a command stream may use: region i starts at addresses[i] and has sizes[i] bytes.
struct Regions {
  const uint64_t *addresses;
  const size_t *sizes;
  int count;
};

// Checks that an NPU can run a payload. Sets `sentence` to a description of the payload, or to the error.
bool check_invocation(const Npu &npu, edgecore_bytes payload, const Regions &regions, Sentence &sentence);

// Checks that the operations of a stream access only the stream's regions, and counts the operations. Sets `sentence`
// to the error, if any.
bool check_commands(const Npu &npu, edgecore_bytes stream, const Regions &regions, uint64_t &operations,
                    Sentence &sentence);

template <typename... Pieces>
bool refuse(Sentence &sentence, const Pieces &...pieces) {
  (sentence << ... << pieces);
  return false;
}

inline uint32_t word_at(edgecore_bytes bytes, uint64_t index) {
  uint32_t word;
  memcpy(&word, bytes.data + 4 * index, sizeof(word));
  return word;
}

// Returns the name of a region from its number, which must be below kMaxRegions.
constexpr int kMaxRegions = 8;
inline const char *region_name(uint64_t region) {
  const char *const names[kMaxRegions] = {"weights",  "arena",    "fast scratch", "region 3",
                                          "region 4", "region 5", "region 6",     "region 7"};
  return names[region];
}

}  // namespace edgecore::ethosu

#endif  // EDGECORE_ETHOSU_CHECKS_H_
