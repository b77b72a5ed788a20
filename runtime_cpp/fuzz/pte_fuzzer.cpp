// Loads arbitrary bytes as a .pte file, once in place and once with a loader that copies each piece, then loads and
// runs its first methods with test kernels and a test backend (toy_kernels.h, null_backend.h).
#include "heap.h"
#include "mutate_file.h"
#include "pieces_loader.h"
#include "run_program.h"
#include "toy_kernels.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::pte_kind())

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const edgecore::FuzzFile file(data, size);
  const edgecore_kernel_library *libraries[] = {toy_kernels()};
  // -1 keeps a refused file out of libFuzzer's corpus, because the runtime would also refuse most mutations of that
  // file.
  edgecore::BufferDataLoader in_place(file.bytes());
  edgecore::PiecesLoader by_pieces(file.bytes());
  const bool loads = edgecore::run_program(in_place, {}, libraries);
  if (edgecore::run_program(by_pieces, {}, libraries) != loads) abort();
  return loads ? 0 : -1;
}
