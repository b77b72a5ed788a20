// Reads the blob of a delegate: the blocks that Arm's driver needs on a device. src/edgecore_ethosu/blob.py describes
// the format. The delegates for host and device share this reader, so it uses no heap and no exceptions.
#ifndef EDGECORE_ETHOSU_BLOB_H_
#define EDGECORE_ETHOSU_BLOB_H_

#include "sentence.h"

namespace edgecore::ethosu {

// The reason why a function has returned false.
struct Problem {
  int32_t code = EDGECORE_OK;
  Sentence sentence;
};

// The place of an argument in the arena. `bytes` is a multiple of `element_size`.
struct ArenaTensor {
  uint32_t bytes;
  uint32_t element_size;  // bytes of an element: 1, 2, 4 or 8
  uint32_t offset;
};

// All inputs or all outputs of a command stream, in order.
struct ArenaTensors {
  const uint8_t *records;  // memory of a checked blob
  uint32_t count;

  ArenaTensor operator[](uint32_t index) const;
};

// The parts of a blob, which point into the memory of the blob.
struct Blob {
  edgecore_bytes commands;  // the command stream, for Arm's driver
  edgecore_bytes weights;
  uint32_t arena_bytes;
  ArenaTensors inputs;
  ArenaTensors outputs;
};

// Checks all numbers of a blob except those in the command stream. Returns false if the blob is damaged.
bool read_blob(edgecore_bytes bytes, Blob &blob, Problem &problem);

}  // namespace edgecore::ethosu

#endif  // EDGECORE_ETHOSU_BLOB_H_
