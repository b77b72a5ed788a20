#include "constants.h"

#include <algorithm>
#include <cstring>

namespace edgecore::vulkan {

namespace {

float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  uint32_t bits = 0;
  float result = 0;
  if (exponent == 0) {
    result = static_cast<float>(mantissa) / 16777216.0f;  // denormals: mantissa * 2^-24
    std::memcpy(&bits, &result, 4);
  } else if (exponent == 31) {
    bits = 0x7f800000u | mantissa << 13;
  } else {
    bits = (exponent + 112) << 23 | mantissa << 13;
  }
  bits |= sign;
  std::memcpy(&result, &bits, 4);
  return result;
}

// Rounds a float to the bits of the nearest fp16 number; in a tie, to the even one.
uint16_t to_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity in fp16
  if (bits < 0x38800000u) {                                               // below 2^-14, the smallest normal fp16
    float magnitude = 0;
    std::memcpy(&magnitude, &bits, 4);
    const float shifted = magnitude + 0.5f;  // rounds: the last bit of 0.5f is 2^-24, fp16's smallest denormal number
    uint32_t rounded = 0;
    std::memcpy(&rounded, &shifted, 4);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((bits + 0xfffu + (bits >> 13 & 1u)) - 0x38000000u) >> 13);
}

}  // namespace

// Rounds the size up to whole vectors of four elements, so that shaders may read and write the last vector. Avoids
// sizes whose second byte is 0: llvmpipe (22.3) interprets this byte of a texel buffer's size as the number of mip
// levels of a texture, and compiles the shader again if the byte is 0.
uint64_t storage_bytes(Dtype dtype, int64_t elements) {
  const uint64_t bytes = (static_cast<uint64_t>(elements) * size_of(dtype) + 15) / 16 * 16;
  return (bytes >> 8 & 0xff) == 0 ? (bytes | 0xff) + 1 : bytes;
}

std::vector<float> floats_of(const Value &value, edgecore_bytes bytes) {
  std::vector<float> result(static_cast<size_t>(count(value.shape)));
  for (size_t i = 0; i < result.size(); ++i) {
    if (value.type == DataType::kFloat16) {
      uint16_t half = 0;
      std::memcpy(&half, bytes.data + 2 * i, 2);
      result[i] = from_half(half);
    } else if (value.type == DataType::kFloat64) {
      double number = 0;
      std::memcpy(&number, bytes.data + 8 * i, 8);
      result[i] = static_cast<float>(number);
    } else {
      std::memcpy(&result[i], bytes.data + 4 * i, 4);
    }
  }
  return result;
}

const float *floats_in(const Value &value, edgecore_bytes bytes) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data) % alignof(float) == 0;
  return value.type == DataType::kFloat32 && is_aligned ? reinterpret_cast<const float *>(bytes.data) : nullptr;
}

void store(const std::vector<float> &numbers, Dtype dtype, uint8_t *memory) {
  if (dtype == Dtype::kFloat32) {
    if (!numbers.empty()) std::memcpy(memory, numbers.data(), numbers.size() * 4);
    return;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t half = to_half(numbers[i]);
    std::memcpy(memory + 2 * i, &half, 2);
  }
}

void store_integers(const Value &value, edgecore_bytes bytes, uint8_t *memory) {
  const auto elements = static_cast<size_t>(count(value.shape));
  for (size_t i = 0; i < elements; ++i) {
    int32_t number = 0;
    switch (value.type) {
      case DataType::kBool:
        number = bytes.data[i] != 0 ? 1 : 0;
        break;
      case DataType::kUint8:
        number = bytes.data[i];
        break;
      case DataType::kInt8:
        number = static_cast<int8_t>(bytes.data[i]);
        break;
      case DataType::kInt64: {
        int64_t wide = 0;
        std::memcpy(&wide, bytes.data + 8 * i, 8);
        number = static_cast<int32_t>(std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX));
        break;
      }
      default:
        std::memcpy(&number, bytes.data + 4 * i, 4);
    }
    std::memcpy(memory + 4 * i, &number, 4);
  }
}

}  // namespace edgecore::vulkan
