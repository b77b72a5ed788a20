// The layout of packed weight matrices in a file. It is the same for all processors, so a mapped file is used in place.
//
// A matrix of `outputs` x `inputs` is divided into blocks of 16 outputs x 32 inputs. The blocks of the same 16 outputs
// are contiguous, in the order of their inputs. The values of an output in a block share one scale, a float16:
//  weight = (value - offset) * scale.
// Missing outputs of the last 16 have the scale 0, missing inputs of the last 32 the weight 0.
//
// The values of a block are in lines of 64 bytes, 4 bytes for each output. Line j has
//  4 bits: inputs 4j to 4j+3 in the low halves, inputs 16+4j to 16+4j+3 in the high halves; 4 lines, offset 8.
//  8 bits: inputs 4j to 4j+3; 8 lines, offset 128.
// So a 512-bit register holds a line, a 256-bit register half of a line (8 outputs), a 128-bit register a quarter of a
// line, and instructions that multiply 4 neighbouring bytes need no shuffle.
#ifndef EDGECORE_LLM_PACKED_H_
#define EDGECORE_LLM_PACKED_H_

#include <stdint.h>
#include <string.h>

namespace edgecore::llm {

constexpr int64_t kBlockOutputs = 16;
constexpr int64_t kGroup = 32;  // number of inputs in a block of packed weights
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
  int64_t groups;  // number of blocks for one output: inputs / 32, rounded up
  int bits;        // 4 or 8

  int64_t tiles() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
};

// Returns the exact value of a float16: a float32 with the same exponent and fraction bits, times 2^112, because the
// exponent biases differ by 112. Infinity and NaN have the maximum exponent instead.
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
