// The format of a saved state: a header, and a part for each buffer, with a checksum over all bytes.
#ifndef EDGECORE_HOST_STATE_PARTS_H_
#define EDGECORE_HOST_STATE_PARTS_H_

#include <string>
#include <vector>

#include "edgecore/status.h"

namespace edgecore {

// One buffer of a saved state.
struct StatePart {
  std::string line;  // describes the buffer
  Bytes data;        // points into the saved state
};

// Writes a saved state to `out`: call add for each part, then finish.
class StateWriter {
 public:
  explicit StateWriter(std::vector<uint8_t> &out);

  // Return the size of the header, and of a part with this line and data.
  static size_t header_bytes();
  static size_t part_bytes(const std::string &line, size_t data_bytes);

  // Adds a part. Returns the address where the caller must write its data before the next call of a member.
  uint8_t *add(const std::string &line, size_t data_bytes);
  void finish();

 private:
  std::vector<uint8_t> &out_;
  uint64_t count_ = 0;
};

// Computes the checksum that belongs into the header of a saved state. `state` has at least header_bytes.
uint64_t state_checksum(Bytes state);
constexpr size_t kStateChecksumOffset = 8;  // offset of the checksum in the header

// Reads a complete saved state and verifies its checksum. Errors: INVALID_ARGUMENT.
Status read_parts(Bytes state, std::vector<StatePart> &parts, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_STATE_PARTS_H_
