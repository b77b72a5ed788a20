// The layout of packed weight matrices in a file. It is the same for all processors, so a file is mapped and used as it
// is.
//
// A matrix of `outputs` x `inputs` is cut into blocks of 16 outputs x 32 inputs. The blocks of the same 16 outputs
// follow each other in the order of their inputs. The values of an output in a block share one scale, a float16:
//   weight = (value - offset) * scale.
// Outputs that are missing in the last 16, and inputs that are missing in the last 32, have the scale or the weight 0.
//
// The values of a block lie in lines of 64 bytes, 4 bytes for each output. Line j holds
//   4 bits: in the low halves the inputs 4j to 4j+3, in the high halves the inputs 16+4j to 16+4j+3; 4 lines, offset 8.
//   8 bits: the inputs 4j to 4j+3; 8 lines, offset 128.
// So a register of 512 bits takes a line, one of 256 bits the half of it (8 outputs), one of 128 bits a quarter, and
// the instructions for products of 4 neighbouring bytes need no shuffle.
#ifndef EDGECORE_LLM_PACKED_H_
#define EDGECORE_LLM_PACKED_H_

#include <stdint.h>
#include <string.h>

namespace edgecore::llm {

constexpr int64_t kBlockOutputs = 16;
constexpr int64_t kGroup = 32;  // inputs of a block
constexpr int64_t kLineBytes = 64;

struct Block4 {
  static constexpr int kBits = 4;
  static constexpr int32_t kOffset = 8;
  uint8_t lines[4][kLineBytes];
  uint16_t scales[kBlockOutputs];
};
static_assert(sizeof(Block4) == 288);

struct Block8 {
  static constexpr int kBits = 8;
  static constexpr int32_t kOffset = 128;
  uint8_t lines[8][kLineBytes];
  uint16_t scales[kBlockOutputs];
};
static_assert(sizeof(Block8) == 544);

struct PackedMatrix {
  const uint8_t *data;
  int64_t outputs;
  int64_t groups;  // blocks of an output: inputs / 32, rounded up
  int bits;        // 4 or 8

  int64_t tiles() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
};

// The value of a float16, exactly: as a float32 with the same bits of exponent and fraction, times 2^112, which is the
// difference of the exponents' biases. Infinities and NaNs get the largest exponent instead.
inline float float16_value(uint16_t bits) {
  const bool is_number = (bits & 0x7c00) != 0x7c00;
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7fff) << 13 | (is_number ? 0u : 0x7f800000u);
  float value;
  memcpy(&value, &shifted, sizeof(value));
  if (is_number) value *= 0x1p112f;
  return (bits & 0x8000) != 0 ? -value : value;
}
}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_PACKED_H_
