// libFuzzer's custom mutator for files that hold a flatbuffer: .pte, .ptd, .bpte and the blobs of backends. A fixed
// share of the calls use libFuzzer's own mutator, which ignores the structure of the file. The other calls decode the
// file; change fields of its tables (mutate_tree.h), one word of the flatbuffer, or the data after the flatbuffer; and
// write a header with the new sizes.
#ifndef EDGECORE_FUZZ_MUTATE_FILE_H_
#define EDGECORE_FUZZ_MUTATE_FILE_H_

#include "mutate_tree.h"

namespace edgecore::fuzz {

struct Parts {
  File header;  // header of the file: between the flatbuffer's identifier and its tables, or before the flatbuffer
  File flat;
  File rest;  // the file's bytes after the flatbuffer: segments or constants
};

// How to mutate one kind of file, such as .pte.
struct Kind {
  const Schema &schema;
  // Splits a file into parts. Returns false if the sizes in the file's header are wrong. The flatbuffer may still be
  // damaged.
  bool (*split)(const File &file, Parts &parts);
  // Joins the parts to a file, with a header that states their sizes.
  File (*join)(const Parts &parts);
  // Mutates a file inside the file, such as the program in a .bpte. Returns false if there is no inner file. The
  // pointer may be NULL.
  bool (*mutate_inner)(Record &root, Parts &parts, Random &random) = nullptr;
};

// Implements LLVMFuzzerCustomMutator, which libFuzzer calls to mutate an input, for one kind of file.
size_t mutate_file(const Kind &kind, uint8_t *data, size_t size, size_t max_size, unsigned seed);
// Implements LLVMFuzzerCustomCrossOver (combines two inputs): copies tables of the second file into the first.
size_t cross_files(const Kind &kind, const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                   uint8_t *out, size_t max_size, unsigned seed);

const Kind &pte_kind();
const Kind &ptd_kind();
const Kind &bpte_kind();

// read_number reads a little-endian number at byte `at` of a file; write_number writes it there.
template <typename T>
T read_number(const File &file, size_t at);
void write_number(File &file, size_t at, uint64_t number, size_t size);

// Inserts a header after the first 8 bytes of a flatbuffer (root offset and identifier), as in .pte and .ptd files.
File with_header(const File &flat, const File &header);

}  // namespace edgecore::fuzz

// Defines the two mutation functions that libFuzzer looks up by name, for one kind of file.
#define EDGECORE_FUZZ_MUTATORS(kind)                                                                              \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {         \
    return edgecore::fuzz::mutate_file(kind, data, size, max_size, seed);                                         \
  }                                                                                                               \
  extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second,     \
                                              size_t second_size, uint8_t *out, size_t max_size, unsigned seed) { \
    return edgecore::fuzz::cross_files(kind, first, first_size, second, second_size, out, max_size, seed);        \
  }

#endif  // EDGECORE_FUZZ_MUTATE_FILE_H_
