// Reads arbitrary bytes as a saved state (a file with the mutable buffers of a session): first unchanged, then with a
// corrected checksum. If reading succeeds, the state must not change when it is written and read again.
#include <string.h>

#include "heap.h"
#include "host/state_parts.h"

namespace {

using namespace edgecore;

void read(Bytes state) {
  std::vector<StatePart> parts, again;
  Error error;
  const Status status = read_parts(state, parts, error);
  if (!status.ok()) {
    if (status.code() != EDGECORE_INVALID_ARGUMENT || error.size == 0) abort();
    return;
  }
  std::vector<uint8_t> written;
  StateWriter writer(written);
  for (const StatePart &part : parts) {
    uint8_t *to = writer.add(part.line, part.data.size());
    if (!part.data.empty()) memcpy(to, part.data.data(), part.data.size());
  }
  writer.finish();
  if (!read_parts({written.data(), written.size()}, again, error).ok() || again.size() != parts.size()) abort();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Bytes a = parts[i].data, b = again[i].data;
    if (parts[i].line != again[i].line || a.size() != b.size()) abort();
    if (!a.empty() && memcmp(a.data(), b.data(), a.size()) != 0) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const FuzzFile file(data, size);
  read(file.bytes());
  if (size < StateWriter::header_bytes()) return 0;
  std::vector<uint8_t> summed(data, data + size);
  const uint64_t sum = state_checksum({data, size});
  memcpy(summed.data() + kStateChecksumOffset, &sum, sizeof sum);
  const FuzzFile correct(summed.data(), size);
  read(correct.bytes());
  return 0;
}
