// Converts numbers to push constants, the 32-bit words of a dispatch.
#ifndef EDGECORE_VULKAN_OPS_PUSH_H_
#define EDGECORE_VULKAN_OPS_PUSH_H_

#include <cstdint>
#include <cstring>
#include <limits>

namespace edgecore::vulkan {

// Returns a number as the bits of a float; numbers beyond the range of float become infinite.
inline uint32_t bits_of(double value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kMax = std::numeric_limits<float>::max();
  const auto number = static_cast<float>(value > kMax ? kInfinity : value < -kMax ? -kInfinity : value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_PUSH_H_
