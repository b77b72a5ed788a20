// Reads arbitrary bytes as a manifest, the JSON file with the path of a backend's library. If reading succeeds, the
// manifest must have all members that loading the library needs.
#include "heap.h"
#include "host/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  Manifest manifest;
  Error error;
  const StringView text(reinterpret_cast<const char *>(file.bytes().data()), size);
  const Status status = read_manifest("/folder/fuzz.json", text, manifest, error);
  if (!status.ok() && (status.code() != EDGECORE_INVALID_EXTERNAL_DATA || error.size == 0)) abort();
  const bool complete = !manifest.backend_id.empty() && manifest.library[0] == '/';
  if (status.ok() && (!complete || manifest.library.find('\0') != std::string::npos)) abort();
  return 0;
}
