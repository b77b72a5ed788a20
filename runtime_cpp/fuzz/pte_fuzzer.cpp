// Loads any bytes as a .pte file, in place and piece by piece, then loads and runs its first methods with the kernels
// and the backend of the tests (toy_kernels.h, null_backend.h).
#include "heap.h"
#include "mutate_file.h"
#include "pieces_loader.h"
#include "run_program.h"
#include "toy_kernels.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::pte_kind())

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const edgecore::FuzzFile file(data, size);
  const edgecore_kernel_library *libraries[] = {toy_kernels()};
  // -1 keeps the input out of the corpus: a refused file is a poor start for other inputs.
  edgecore::BufferDataLoader in_place(file.bytes());
  edgecore::PiecesLoader by_pieces(file.bytes());
  const bool loads = edgecore::run_program(in_place, {}, libraries);
  if (edgecore::run_program(by_pieces, {}, libraries) != loads) abort();
  return loads ? 0 : -1;
}
