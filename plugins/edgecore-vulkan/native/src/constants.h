// Converts constants of the blob to the bytes of device tensors.
#ifndef EDGECORE_VULKAN_CONSTANTS_H_
#define EDGECORE_VULKAN_CONSTANTS_H_

#include <vector>

#include "blob.h"

namespace edgecore::vulkan {

// Returns the number of bytes to allocate for a tensor on the device, with padding after its elements.
uint64_t storage_bytes(Dtype dtype, int64_t elements);

// Returns the elements of a floating-point constant as floats.
std::vector<float> floats_of(const Value &value, edgecore_bytes bytes);
// Returns the address of a constant's elements if `bytes` has them as aligned floats, otherwise nullptr.
const float *floats_in(const Value &value, edgecore_bytes bytes);
// Writes numbers to `memory` as the elements of a float tensor, fp32 or fp16.
void store(const std::vector<float> &numbers, Dtype dtype, uint8_t *memory);
// Writes a constant of integers or booleans to `memory` as the elements of a tensor of 32-bit integers.
void store_integers(const Value &value, edgecore_bytes bytes, uint8_t *memory);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_CONSTANTS_H_
