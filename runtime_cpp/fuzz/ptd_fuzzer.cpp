// Loads arbitrary bytes as a .ptd file, reads the data of all keys, and runs a program whose constants are in this
// file.
#include "edgecore/data.h"
#include "heap.h"
#include "mutate_file.h"
#include "pieces_loader.h"
#include "pte_builder.h"
#include "run_program.h"
#include "toy_kernels.h"

EDGECORE_FUZZ_MUTATORS(edgecore::fuzz::ptd_kind())

namespace {

// Returns a program that adds two constants, "weight" and "bias" of a .ptd file, to its input.
const edgecore::AlignedBytes &program() {
  using namespace edgecore;
  static const AlignedBytes bytes = [] {
    PteBuilder pte;
    TensorOptions weight, bias;
    weight.name = "weight";
    bias.name = "bias";
    weight.location = bias.location = fb::TensorDataLocation::EXTERNAL;
    const int32_t x = pte.add_tensor({2}), out = pte.add_tensor({2});
    const int32_t all = pte.add_tensor_list({x, pte.add_tensor({2}, weight), pte.add_tensor({2}, bias)});
    pte.kernel(pte.add_operator("test::sum", "out"), {all, out, out});
    pte.inputs = {x};
    pte.outputs = {out};
    return AlignedBytes(pte.finish());
  }();
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  FuzzAllocator memory;
  Error error;
  Limits limits;
  limits.tables = 10000;
  PiecesLoader loader(file.bytes());
  const Result<const DataFile *> loaded = DataFile::load(loader, "fuzz.ptd", &memory, limits, error);
  if (!loaded.ok()) return -1;  // -1 keeps a refused file out of libFuzzer's corpus
  uint64_t sum = 0;
  for (size_t i = 0; i < (*loaded)->count(); ++i) {
    NamedBytes entry;
    if (!(*loaded)->find((*loaded)->key(i), entry, error).ok()) abort();
    if (!entry.bytes.empty()) sum += entry.bytes[0] + entry.bytes[entry.bytes.size() - 1];
    for (const int32_t length : entry.sizes) sum += static_cast<uint64_t>(length);
    for (const uint8_t dim : entry.dim_order) sum += dim;
  }
  const DataFile *twice[] = {*loaded, *loaded};
  if (check_data_files(twice, error).ok() != ((*loaded)->count() == 0)) abort();
  volatile uint64_t sink = sum;
  (void)sink;
  const DataFile *files[] = {*loaded};
  const edgecore_kernel_library *libraries[] = {toy_kernels()};
  BufferDataLoader program_loader(program().view());
  run_program(program_loader, files, libraries);
  return 0;
}
