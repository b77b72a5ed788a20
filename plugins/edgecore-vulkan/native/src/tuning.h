// Sizes of shaders that change how fast they are, and not what they compute: usual ones, or those that were the fastest
// on a device.
#ifndef EDGECORE_VULKAN_TUNING_H_
#define EDGECORE_VULKAN_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace edgecore::vulkan {

class ShaderDevice;

struct Tuning {
  // Threads of a workgroup of shaders in which neighbouring threads share little: few, so that small tensors keep all
  // cores of a processor busy.
  uint32_t group_threads = 32;
  // Rows that a thread of gemm computes with READ_shuffle and long rows. 0 is 14 or 16: what wastes fewer.
  uint32_t gemm_rows = 0;
  // Rows that a thread of gemm_tiled computes.
  uint32_t tiled_rows = 8;
};

// A member of Tuning with the values that are tried.
struct Choice {
  uint32_t Tuning::*member;
  std::vector<uint32_t> values;
};
const std::vector<Choice> &choices();

// The bytes of a tuning in a file, and the tuning of such bytes: none if a value is not one of those that are tried.
std::vector<uint8_t> to_bytes(const Tuning &tuning);
std::optional<Tuning> tuning_of(const std::vector<uint8_t> &bytes);

// Gives a device the tuning that is stored in a folder for it and its driver. If there is none, measures layers with
// all values, which takes about a second, and stores the fastest. Without a folder nothing is stored. Throws a Failure
// if the device fails; errors of the file system never fail.
void tune(ShaderDevice &device, const std::string &folder);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_TUNING_H_
