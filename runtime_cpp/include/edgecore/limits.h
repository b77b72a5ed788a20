#ifndef EDGECORE_LIMITS_H_
#define EDGECORE_LIMITS_H_

#include <stdint.h>

namespace edgecore {

// Upper bounds for the sizes in a file, so that a malformed file cannot exhaust memory or time. A file that exceeds a
// bound is refused with an error that names the bound.
struct Limits {
  uint64_t flatbuffer_bytes = uint64_t{1} << 30;  // maximum bytes of the file's flatbuffer tables
  uint32_t nesting = 64;                          // maximum depth of nested flatbuffer tables
  uint32_t tables = 4u << 20;                     // maximum number of flatbuffer tables in the file
  uint32_t methods = 1024;
  uint64_t items = uint64_t{1} << 26;  // maximum number of entries of all lists of indices, strings and shapes together
  uint32_t rank = 16;                  // maximum number of dims of a tensor; must be at most 255
  uint64_t tensor_bytes = uint64_t{1} << 40;
  uint64_t planned_bytes = uint64_t{1} << 36;  // maximum bytes of all arenas of one method
  // maximum number of instructions of a run, plus list entries that these instructions read
  uint64_t instructions = uint64_t{1} << 24;
};

}  // namespace edgecore

#endif  // EDGECORE_LIMITS_H_
