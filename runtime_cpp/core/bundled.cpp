#include "edgecore/bundled.h"

#include <string.h>

#include "bundled_program_generated.h"
#include "core/schema.h"

namespace edgecore {

bool is_bundled(Bytes file) { return file.size() >= 8 && memcmp(file.data() + 4, "BP", 2) == 0; }

Result<Bytes> bundled_program(Bytes file, const Limits &limits, Error &error) {
  if (!is_bundled(file) || memcmp(file.data() + 4, "BP08", 4) != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "This is not a .bpte file with identifier BP08 at byte 4.");
  }
  flatbuffers::Verifier verifier(file.data(), file.size(), limits.nesting, limits.tables);
  if (!fb::bundled::VerifyBundledProgramBuffer(verifier)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The tables of this .bpte file (", static_cast<uint64_t>(file.size()),
                " bytes) are damaged or truncated, or exceed the limits nesting ", limits.nesting, " or tables ",
                limits.tables, ".");
  }
  const fb::bundled::BundledProgram &root = *fb::bundled::GetBundledProgram(file.data());
  const Bytes program = span_of(root.program());
  if (program.empty()) return fail(error, EDGECORE_INVALID_PROGRAM, "This .bpte file holds no program.");
  return program;
}

}  // namespace edgecore
