// Loads any bytes as a .ptd file, looks up all of its keys and reads their data.
#include "edgecore/data.h"
#include "heap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  FuzzAllocator memory;
  Error error;
  Limits limits;
  limits.tables = 10000;
  const Result<const DataFile *> loaded = DataFile::load(file.bytes(), "fuzz.ptd", &memory, limits, error);
  if (!loaded.ok()) return 0;
  uint64_t sum = 0;
  for (size_t i = 0; i < (*loaded)->count(); ++i) {
    const NamedBytes entry = (*loaded)->find((*loaded)->key(i));
    if (entry.bytes.data() == nullptr) abort();
    if (!entry.bytes.empty()) sum += entry.bytes[0] + entry.bytes[entry.bytes.size() - 1];
    for (const int32_t length : entry.sizes) sum += static_cast<uint64_t>(length);
    for (const uint8_t dim : entry.dim_order) sum += dim;
  }
  const DataFile *twice[] = {*loaded, *loaded};
  if (check_data_files(twice, error).ok() != ((*loaded)->count() == 0)) abort();
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
