// Checks of the stand-in for Arm's driver: the payload of a command stream, its regions, and the addresses in it.
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

// Checks if an NPU can run a payload. `sentence` describes it then, or says what is wrong.
bool check_invocation(const Npu &npu, edgecore_bytes payload, const Regions &regions, Sentence &sentence);

// Checks that the operations of a stream lie within its regions, and counts them. `sentence` gets what is wrong.
bool check_commands(const Npu &npu, edgecore_bytes stream, const Regions &regions, uint64_t &operations,
                    Sentence &sentence);

// Appends pieces of text, and returns false.
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

// The name of a region, which has a number below kMaxRegions.
constexpr int kMaxRegions = 8;
inline const char *region_name(uint64_t region) {
  const char *const names[kMaxRegions] = {"weights",  "arena",    "fast scratch", "region 3",
                                          "region 4", "region 5", "region 6",     "region 7"};
  return names[region];
}

}  // namespace edgecore::ethosu

#endif  // EDGECORE_ETHOSU_CHECKS_H_
