// libFuzzer target: loads any bytes as a blob with the delegate for a device, and runs accepted blobs with the stub of
// Arm's driver, which reads the command stream.
//
//   blob_fuzz CORPUS   the folder CORPUS should first contain blobs of compiled models
#include <cstdlib>
#include <cstring>
#include <memory>

#include "blob.h"
#include "session.h"

using namespace edgecore::ethosu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Copy the input to memory that is aligned to 16 bytes and has exactly the input's size, so that a sanitizer finds
  // reads past the end of the input.
  void *memory = nullptr;
  if (posix_memalign(&memory, 16, size) != 0) return 0;
  const std::unique_ptr<void, decltype(&std::free)> owner(memory, std::free);
  if (size != 0) std::memcpy(memory, data, size);
  const edgecore_bytes bytes = {static_cast<const uint8_t *>(memory), size};
  test::Session session(bytes);
  Blob blob = {};
  Problem problem;
  const bool is_good = read_blob(bytes, blob, problem);
  if (is_good != (session.error.code == EDGECORE_OK)) std::abort();
  if (!is_good || blob.arena_bytes > 1 << 20 || blob.inputs.count + blob.outputs.count > 16) return 0;
  std::vector<test::Bytes> arguments;
  std::vector<uint8_t> element_sizes;
  for (const ArenaTensors &tensors : {blob.inputs, blob.outputs}) {
    for (uint32_t i = 0; i < tensors.count; ++i) {
      arguments.emplace_back(tensors[i].bytes);
      element_sizes.push_back(static_cast<uint8_t>(tensors[i].element_size));
    }
  }
  const int32_t code = session.run(arguments, element_sizes);
  if (code != EDGECORE_OK && code != EDGECORE_ACCESS_FAILED) std::abort();  // no other code for a valid blob
  test::logged.clear();
  return 0;
}
