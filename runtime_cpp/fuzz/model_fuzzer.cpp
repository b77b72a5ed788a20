// Loads arbitrary bytes as a .pte file, then loads and runs its first methods with edgecore's own kernels. The fuzzer
// starts from compiled models (tests/fuzz/seeds.py).
#include "edgecore/kernels.h"
#include "heap.h"
#include "mutate_file.h"
#include "run_program.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::pte_kind())

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const edgecore::FuzzFile file(data, size);
  const edgecore_kernel_library *libraries[] = {edgecore_kernels_library()};
  // -1 keeps a refused file out of libFuzzer's corpus, because the runtime would also refuse most mutations of that
  // file.
  edgecore::BufferDataLoader loader(file.bytes());
  return edgecore::run_program(loader, {}, libraries) ? 0 : -1;
}
