// Reads any bytes as a .bpte file (a program together with test cases), and loads the program in it.
#include "edgecore/bundled.h"
#include "edgecore/program.h"
#include "heap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  FuzzAllocator memory;
  Error error;
  ProgramConfig config;
  config.allocator = &memory;
  config.limits.tables = 10000;
  config.limits.items = 100000;
  const Result<Bytes> program = bundled_program(file.bytes(), config.limits, error);
  if (program.ok()) (void)Program::load(*program, config, error);
  return 0;
}
