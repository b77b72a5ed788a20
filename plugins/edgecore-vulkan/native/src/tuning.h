// Sizes of shaders that change their speed, but not their results: defaults, or the fastest ones on a device.
#ifndef EDGECORE_VULKAN_TUNING_H_
#define EDGECORE_VULKAN_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace edgecore::vulkan {

class ShaderDevice;

struct Tuning {
  // Number of threads in a workgroup of shaders whose neighbouring threads share little: few, so that small tensors
  // keep all cores of a CPU busy.
  uint32_t group_threads = 32;
  // Number of rows that a thread of gemm computes with READ_shuffle and long rows. 0: 14 or 16, whichever wastes fewer.
  uint32_t gemm_rows = 0;
  // Number of rows that a thread of gemm_tiled computes.
  uint32_t tiled_rows = 8;
};

// A member of Tuning and the values to try for it.
struct Choice {
  uint32_t Tuning::*member;
  std::vector<uint32_t> values;
};
const std::vector<Choice> &choices();

// to_bytes returns the content of a tuning's file. tuning_of parses it: none if a value is not among the values to try.
std::vector<uint8_t> to_bytes(const Tuning &tuning);
std::optional<Tuning> tuning_of(const std::vector<uint8_t> &bytes);

// Sets a device's tuning from the file for it and its driver in `folder`. If there is no file, measures layers with all
// values, which takes about a second, and stores the fastest tuning. An empty `folder` disables the file. Throws a
// Failure if the device fails; ignores errors of the file system.
void tune(ShaderDevice &device, const std::string &folder);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_TUNING_H_
