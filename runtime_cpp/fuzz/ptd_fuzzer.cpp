// Any bytes as a .ptd file: load it, look all of its names up and read their bytes.
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
    const NamedBytes found = (*loaded)->find((*loaded)->key(i));
    if (found.bytes.data() == nullptr) abort();
    if (!found.bytes.empty()) sum += found.bytes[0] + found.bytes[found.bytes.size() - 1];
    for (const int32_t length : found.sizes) sum += static_cast<uint64_t>(length);
    for (const uint8_t dim : found.dim_order) sum += dim;
  }
  const DataFile *twice[] = {*loaded, *loaded};
  if (check_data_files(twice, error).ok() != ((*loaded)->count() == 0)) abort();
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
