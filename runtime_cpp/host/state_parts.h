// The format of a saved state: a header with a checksum of all other bytes, and a part for each mutable buffer.
#ifndef EDGECORE_HOST_STATE_PARTS_H_
#define EDGECORE_HOST_STATE_PARTS_H_

#include <string>
#include <vector>

#include "edgecore/status.h"

namespace edgecore {

// One mutable buffer in a saved state.
struct StatePart {
  std::string line;  // describes the buffer
  Bytes data;        // elements of the mutable buffer; points into the saved state
};

// Writes a saved state to `out`: call `add` for each part, then `finish`.
class StateWriter {
 public:
  explicit StateWriter(std::vector<uint8_t> &out);

  // Return the sizes in bytes of the header, and of a part with this line and this number of data bytes.
  static size_t header_bytes();
  static size_t part_bytes(const std::string &line, size_t data_bytes);

  // Adds a part. Returns the address to which the caller must write the part's data before it calls another member.
  uint8_t *add(const std::string &line, size_t data_bytes);
  void finish();

 private:
  std::vector<uint8_t> &out_;
  uint64_t count_ = 0;
};

// Computes the checksum for the header of a saved state. `state` must have at least header_bytes() bytes.
uint64_t state_checksum(Bytes state);
constexpr size_t kStateChecksumOffset = 8;  // position of the checksum in the header of a saved state, in bytes

// Splits a complete saved state into parts, and verifies its checksum. Errors: INVALID_ARGUMENT.
Status read_parts(Bytes state, std::vector<StatePart> &parts, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_STATE_PARTS_H_
