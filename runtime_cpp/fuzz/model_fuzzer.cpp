// Loads any bytes as a .pte file, then loads and runs its first methods with the operators of the runtime. The files to
// start from are compiled models (tests/fuzz/seeds.py).
#include "edgecore/kernels.h"
#include "heap.h"
#include "mutate_file.h"
#include "run_program.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::pte_kind())

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const edgecore::FuzzFile file(data, size);
  const edgecore_kernel_library *libraries[] = {edgecore_kernels_library()};
  // -1: libFuzzer does not add the input to the corpus. A file that is refused is no good start for other inputs.
  edgecore::BufferDataLoader loader(file.bytes());
  return edgecore::run_program(loader, {}, libraries) ? 0 : -1;
}
