// Reads arbitrary bytes as a .bpte file (a program together with test cases), and loads and runs the program in the
// file.
#include "edgecore/bundled.h"
#include "heap.h"
#include "mutate_file.h"
#include "run_program.h"
#include "toy_kernels.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::bpte_kind())

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  Error error;
  const Result<Bytes> program = bundled_program(file.bytes(), fuzz_limits(), error);
  const edgecore_kernel_library *libraries[] = {toy_kernels()};
  BufferDataLoader loader(*program);
  return program.ok() && run_program(loader, {}, libraries) ? 0 : -1;  // -1 keeps refused files out of the corpus
}
