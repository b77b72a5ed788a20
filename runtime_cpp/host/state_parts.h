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

  // Returns how many bytes the header, or a part with this line and data, takes.
  static size_t header_bytes();
  static size_t part_bytes(const std::string &line, size_t data_bytes);

  // Adds a part. Returns the address to which the caller writes its data before the next call of a member.
  uint8_t *add(const std::string &line, size_t data_bytes);
  void finish();

 private:
  std::vector<uint8_t> &out_;
  uint64_t count_ = 0;
};

// Returns the checksum that the header of a saved state must have. `state` has at least header_bytes.
uint64_t state_checksum(Bytes state);
constexpr size_t kStateChecksumOffset = 8;  // of the checksum in the header

// Reads a saved state from its first to its last byte, and compares its checksum. Errors: INVALID_ARGUMENT.
Status read_parts(Bytes state, std::vector<StatePart> &parts, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_STATE_PARTS_H_
